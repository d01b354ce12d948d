"""Turn prompts into samples with any causal LM: tokenise, cut into parts that fit, decode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from corewarding.backends.base import Sample, Sampling
from corewarding.backends.decode import Completion, complete
from corewarding.tokenstats import TokenStatistic

__all__ = ["Sampler"]

_CACHE_BYTES = 2**30
"""Keys and values of one sampling call stay below this (if one row does); the rest waits."""


class Sampler:
    """Draws completions from models that share one tokenizer.

    Args:
        tokenizer: of the model.
        end_ids: tokens that end a completion.
        statistics: per-token statistics by name.
    """

    def __init__(
        self, tokenizer: Any, end_ids: frozenset[int], statistics: Mapping[str, TokenStatistic]
    ) -> None:
        self._tokenizer = tokenizer
        self._end_ids = end_ids
        self._statistics = statistics
        self.pad = int(tokenizer.pad_token_id or 0)
        begin = tokenizer.bos_token_id
        added = begin is not None and tokenizer("")["input_ids"][:1] == [begin]
        self._begin: list[int] = [begin] if added else []

    def draw(
        self,
        model: PreTrainedModel,
        prompts: Sequence[str],
        n: int,
        *,
        sampling: Sampling,
        statistics: frozenset[str],
        seed: int,
    ) -> list[list[Sample]]:
        """Draw `n` completions of each prompt; prompts of like length are sampled together."""
        model.eval()
        ids = [self.encode(prompt) for prompt in prompts]
        generator = torch.Generator().manual_seed(seed)
        uniforms = torch.rand(
            (len(prompts), n, sampling.max_new_tokens), generator=generator, dtype=torch.float64
        )
        drawn: list[list[Sample]] = [[] for _ in prompts]
        widths = [len(row) + sampling.max_new_tokens for row in ids]
        for part, some in _parts(widths, n, _bytes_per_token(model)):
            completions = complete(
                model,
                [ids[index] for index in part],
                uniforms[part, some].flatten(0, 1),
                sampling=sampling,
                end_ids=self._end_ids,
                pad=self.pad,
                statistics={name: self._statistics[name].compute for name in sorted(statistics)},
                stop=self._stop_check(sampling.stop),
            )
            samples = self._samples(completions, sampling.stop)
            share = len(samples) // len(part)
            for place, index in enumerate(part):
                drawn[index] += samples[place * share : (place + 1) * share]
        return drawn

    def encode(self, prompt: str) -> list[int]:
        """Return token ids: one begin-of-text token where the tokenizer wants it, no end token.

        A template may have written the begin-of-text token already; it is not doubled.
        """
        ids: list[int] = self._tokenizer(prompt, add_special_tokens=False)["input_ids"]
        return ids if ids[:1] == self._begin else self._begin + ids

    def _stop_check(self, stop: tuple[str, ...]) -> Callable[[list[int]], bool] | None:
        if not stop:
            return None
        # A token may be as little as one byte; 4 more cover a character cut at the front.
        reach = max(len(text.encode()) for text in stop) + 4

        def check(tokens: list[int]) -> bool:
            tail = str(
                self._tokenizer.decode(
                    tokens[-reach:], skip_special_tokens=True, clean_up_tokenization_spaces=False
                )
            )
            return any(text in tail for text in stop)

        return check

    def _samples(self, completions: Sequence[Completion], stop: tuple[str, ...]) -> list[Sample]:
        texts = self._tokenizer.batch_decode(
            [c.tokens for c in completions],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        return [
            Sample(
                text=_cut(text, stop),
                tokens=np.array(completion.tokens, dtype=np.int64),
                finished=completion.finished,
                stats={k: np.array(v, dtype=np.float32) for k, v in completion.stats.items()},
            )
            for text, completion in zip(texts, completions, strict=True)
        ]


def _parts(widths: Sequence[int], n: int, per_token: int) -> list[tuple[list[int], slice]]:
    """Split P·n rows into parts whose cache fits; a prompt that is too large alone is divided.

    Args:
        widths: tokens of prompt and completion together, at most, of each prompt.
        n: completions a prompt.
        per_token: bytes of cache.

    Returns:
        Prompts, of like length so that little is padded, and which of their n completions.
    """
    order = sorted(range(len(widths)), key=lambda index: (-widths[index], index))
    parts = []
    while order:
        rows = max(1, _CACHE_BYTES // (widths[order[0]] * per_token))
        count = max(1, rows // n)
        parts += [(order[:count], slice(start, start + rows)) for start in range(0, n, rows)]
        order = order[count:]
    return parts


def _bytes_per_token(model: PreTrainedModel) -> int:
    settings = model.config.get_text_config()
    heads = getattr(settings, "num_key_value_heads", None) or settings.num_attention_heads
    size = getattr(settings, "head_dim", None) or (
        settings.hidden_size // settings.num_attention_heads
    )
    return int(2 * settings.num_hidden_layers * heads * size * model.dtype.itemsize)


def _cut(text: str, stop: tuple[str, ...]) -> str:
    for mark in stop:
        text = text.partition(mark)[0]
    return text
