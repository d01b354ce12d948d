"""Log-probabilities of completions under a model, each prompt computed once for all its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from corewarding.backends.decode import left_padded

__all__ = ["Row", "micro_batches", "response_logprobs"]


@dataclass(frozen=True, slots=True)
class Row:
    """One completion as the loss sees it."""

    index: int
    """Place in the (mini-)batch."""
    group: int
    """Rows of one group share their prompt."""
    prompt: tuple[int, ...]
    response: tuple[int, ...]
    advantage: float
    weight: float


def micro_batches(rows: Sequence[Row], size: int) -> list[list[Row]]:
    """Split rows into batches of `size`, long ones together and groups unbroken where possible."""
    longest: dict[int, int] = {}
    for row in rows:
        length = len(row.prompt) + len(row.response)
        longest[row.group] = max(longest.get(row.group, 0), length)
    ordered = sorted(rows, key=lambda row: (-longest[row.group], row.group, row.index))
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def response_logprobs(
    model: PreTrainedModel, rows: Sequence[Row], *, pad: int, temperature: float, shared: bool
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities (N, T) of the rows' responses and the mask (N, T) of real tokens.

    Args:
        model: any causal LM; gradients flow if they are enabled.
        rows: N rows; those of one group next to each other.
        pad: id to pad with.
        temperature: divides the logits, as in sampling.
        shared: compute each distinct prompt once and let its rows attend to it. The result is
            the same; it needs a model whose cache simply holds all keys and values.
    """
    responses, mask = _right_padded([row.response for row in rows], pad, model.device)
    if shared:
        logits = _suffix_logits(model, rows, responses, mask, pad)
    else:
        logits = _full_logits(model, rows, responses, mask, pad)
    logits = logits.float() / temperature
    chosen = logits.gather(-1, responses[..., None])[..., 0]
    return chosen - logits.logsumexp(-1), mask


def _suffix_logits(
    model: PreTrainedModel, rows: Sequence[Row], responses: Tensor, mask: Tensor, pad: int
) -> Tensor:
    """Run the prompts without their last token, then every row from that token on."""
    groups = list(dict.fromkeys(row.group for row in rows))
    prompt_of = {row.group: row.prompt for row in rows}
    counts = torch.tensor([sum(row.group == g for row in rows) for g in groups])
    ids, prompt_mask = left_padded([prompt_of[g] for g in groups], pad, model.device)
    positions = (prompt_mask.cumsum(-1) - 1).clamp(min=0)
    which = torch.arange(len(groups)).repeat_interleave(counts).to(model.device)
    last = ids[which, -1:]
    start = positions[which, -1:]
    cache = None
    seen = prompt_mask[which, :-1]
    if ids.shape[1] > 1:
        cache = DynamicCache(config=model.config)
        model(
            input_ids=ids[:, :-1],
            attention_mask=prompt_mask[:, :-1],
            position_ids=positions[:, :-1],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache.batch_select_indices(which)
    inputs = torch.cat([last, responses[:, :-1]], dim=1)
    live = torch.cat([torch.ones_like(last), mask[:, :-1].long()], dim=1)
    logits: Tensor = model(
        input_ids=inputs,
        attention_mask=torch.cat([seen, live], dim=1),
        position_ids=start + torch.arange(inputs.shape[1], device=model.device),
        past_key_values=cache,
        use_cache=cache is not None,
    ).logits
    return logits


def _full_logits(
    model: PreTrainedModel, rows: Sequence[Row], responses: Tensor, mask: Tensor, pad: int
) -> Tensor:
    """Run prompt and response of every row together; keep the logits of response positions."""
    ids, prompt_mask = left_padded([row.prompt for row in rows], pad, model.device)
    attention = torch.cat([prompt_mask, mask.long()], dim=1)
    logits: Tensor = model(
        input_ids=torch.cat([ids, responses], dim=1),
        attention_mask=attention,
        position_ids=(attention.cumsum(-1) - 1).clamp(min=0),
        logits_to_keep=responses.shape[1] + 1,
        use_cache=False,
    ).logits
    return logits[:, :-1]


def _right_padded(
    rows: Sequence[Sequence[int]], pad: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    width = max(len(row) for row in rows)
    ids = torch.full((len(rows), width), pad, dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.bool)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row, dtype=torch.long)
        mask[index, : len(row)] = True
    return ids.to(device), mask.to(device)
