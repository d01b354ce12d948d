"""Sample from any causal LM of transformers: one prefill a prompt, finished rows dropped.

Row r draws its t-th token with the uniform number u[r, t], drawn beforehand: how rows are chunked
and when finished ones leave the batch cannot change a completion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel

from corewarding.backends.base import Sampling
from corewarding.backends.cache import sampling_cache

__all__ = ["Completion", "StopCheck", "complete", "left_padded"]

StopCheck = Callable[[list[int]], bool]
"""Tells from a row's tokens so far whether a stop string has been written."""

_KEEP = 0.75
"""Finished rows leave the batch once fewer than this share are still writing."""


@dataclass(slots=True)
class Completion:
    """Tokens and statistics of one row."""

    tokens: list[int] = field(default_factory=list)
    finished: bool = False
    stats: dict[str, list[float]] = field(default_factory=dict)


def left_padded(
    rows: Sequence[Sequence[int]], pad: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return token ids and attention mask, (N, L) each, padded on the left."""
    width = max(len(row) for row in rows)
    ids = torch.full((len(rows), width), pad, dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for index, row in enumerate(rows):
        ids[index, width - len(row) :] = torch.tensor(row, dtype=torch.long)
        mask[index, width - len(row) :] = 1
    return ids.to(device), mask.to(device)


@torch.inference_mode()
def complete(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    uniforms: Tensor,
    *,
    sampling: Sampling,
    end_ids: frozenset[int],
    pad: int,
    statistics: Mapping[str, Callable[[Tensor], Tensor]],
    stop: StopCheck | None = None,
) -> list[Completion]:
    """Draw n completions of each prompt.

    Args:
        model: in evaluation mode.
        prompts: token ids of P prompts.
        uniforms: (P·n, max_new_tokens) numbers in [0, 1), prompt by prompt.
        sampling: temperature (0: greedy), top_p and the token limit.
        end_ids: tokens that end a completion; the end token is kept.
        pad: id to pad with.
        statistics: functions of logits (N, V) already divided by the temperature.
        stop: see `StopCheck`.

    Returns:
        P·n completions, prompt by prompt.
    """
    n = len(uniforms) // len(prompts)
    device = model.device
    ids, mask = left_padded(prompts, pad, device)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    cache = sampling_cache(model)
    output = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    state = _State(
        cache=cache,
        mask=mask.repeat_interleave(n, 0),
        position=positions[:, -1].repeat_interleave(n, 0),
        rows=torch.arange(len(uniforms), device=device),
    )
    cache.batch_repeat_interleave(n)
    logits = output.logits[:, -1].repeat_interleave(n, 0)
    done = [Completion(stats={name: [] for name in statistics}) for _ in range(len(uniforms))]
    ends = torch.tensor(sorted(end_ids), device=device)
    uniforms = uniforms.to(device)
    for step in range(sampling.max_new_tokens):
        scaled = logits.float() / (sampling.temperature or 1.0)
        tokens = _draw(scaled, uniforms[state.rows, step], sampling)
        values = {name: function(scaled).tolist() for name, function in statistics.items()}
        alive = _record(done, state.rows.tolist(), tokens, values, ends, stop)
        if not any(alive) or step + 1 == sampling.max_new_tokens:
            break
        if sum(alive) < _KEEP * len(alive):
            tokens = state.keep(alive, tokens)
        logits = state.advance(model, tokens)
    return done


@dataclass(slots=True)
class _State:
    """What moves from token to token: cache, mask, positions, and who the rows are."""

    cache: Cache
    mask: Tensor  # (N, L + t)
    position: Tensor  # (N,)
    rows: Tensor  # (N,) index of each row among all completions

    def keep(self, alive: list[bool], tokens: Tensor) -> Tensor:
        kept = torch.tensor([i for i, lives in enumerate(alive) if lives], device=tokens.device)
        self.cache.batch_select_indices(kept)
        self.mask, self.position = self.mask[kept], self.position[kept]
        self.rows = self.rows[kept]
        return tokens[kept]

    def advance(self, model: PreTrainedModel, tokens: Tensor) -> Tensor:
        """Feed one token a row; return the next logits (N, V)."""
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(tokens), 1)], dim=1)
        self.position = self.position + 1
        output: Any = model(
            input_ids=tokens[:, None],
            attention_mask=self.mask,
            position_ids=self.position[:, None],
            past_key_values=self.cache,
            use_cache=True,
        )
        logits: Tensor = output.logits[:, -1]
        return logits


def _record(
    done: list[Completion],
    rows: list[int],
    tokens: Tensor,
    values: Mapping[str, list[float]],
    ends: Tensor,
    stop: StopCheck | None,
) -> list[bool]:
    """Append each live row's token and statistics; tell which rows go on."""
    ended = torch.isin(tokens, ends).tolist()
    alive = []
    for index, (row, token) in enumerate(zip(rows, tokens.tolist(), strict=True)):
        completion = done[row]
        if completion.finished:  # waiting to be dropped from the batch
            alive.append(False)
            continue
        completion.tokens.append(token)
        for name, column in values.items():
            completion.stats[name].append(column[index])
        completion.finished = ended[index] or (stop is not None and stop(completion.tokens))
        alive.append(not completion.finished)
    return alive


def _draw(logits: Tensor, uniform: Tensor, sampling: Sampling) -> Tensor:
    """Draw one token a row by inverting the distribution function at `uniform` (N,)."""
    if sampling.temperature == 0:
        return logits.argmax(-1)
    probabilities = logits.softmax(-1)
    if sampling.top_p < 1:
        probabilities = _nucleus(probabilities, sampling.top_p)
    # float64: rounding must not reach tokens in the tail of a large vocabulary.
    cumulative = probabilities.double().cumsum(-1)
    threshold = (uniform.double() * cumulative[:, -1])[:, None]
    drawn = torch.searchsorted(cumulative, threshold, right=True)[:, 0]
    return drawn.clamp(max=logits.shape[-1] - 1)


def _nucleus(probabilities: Tensor, top_p: float) -> Tensor:
    """Zero all but the smallest set of tokens whose probability reaches `top_p`."""
    ordered, order = probabilities.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    kept = torch.where(before < top_p, ordered, 0)
    return torch.zeros_like(probabilities).scatter(-1, order, kept)
