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
"""Keys and values of one sampling call stay below this; larger requests go in parts."""


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
        drawn: dict[int, list[Sample]] = {}
        for part in _parts(model, ids, n, sampling.max_new_tokens):
            completions = complete(
                model,
                [ids[index] for index in part],
                uniforms[part].flatten(0, 1),
                sampling=sampling,
                end_ids=self._end_ids,
                pad=self.pad,
                statistics={name: self._statistics[name].compute for name in sorted(statistics)},
                stop=self._stop_check(sampling.stop),
            )
            samples = self._samples(completions, sampling.stop)
            drawn |= {p: samples[i * n : (i + 1) * n] for i, p in enumerate(part)}
        return [drawn[index] for index in range(len(prompts))]

    def encode(self, prompt: str) -> list[int]:
        """Return token ids, with one begin-of-text token even if the template wrote it already."""
        bos = self._tokenizer.bos_token
        add = not (bos and prompt.startswith(bos))
        ids: list[int] = self._tokenizer(prompt, add_special_tokens=add)["input_ids"]
        return ids

    def _stop_check(self, stop: tuple[str, ...]) -> Callable[[list[int]], bool] | None:
        if not stop:
            return None
        # A token is at least one character of the stop string, or ends inside it.
        reach = max(map(len, stop)) + 4

        def check(tokens: list[int]) -> bool:
            tail = str(self._tokenizer.decode(tokens[-reach:], skip_special_tokens=True))
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


def _parts(
    model: PreTrainedModel, ids: Sequence[Sequence[int]], n: int, new_tokens: int
) -> list[list[int]]:
    """Prompts in parts whose cache fits, by length, so that little is padded."""
    settings = model.config.get_text_config()
    heads = getattr(settings, "num_key_value_heads", None) or settings.num_attention_heads
    size = getattr(settings, "head_dim", None) or (
        settings.hidden_size // settings.num_attention_heads
    )
    per_token = 2 * settings.num_hidden_layers * heads * size * model.dtype.itemsize
    order = sorted(range(len(ids)), key=lambda index: (-len(ids[index]), index))
    parts: list[list[int]] = []
    for index in order:
        width = len(ids[parts[-1][0]]) + new_tokens if parts else 0
        if not parts or (len(parts[-1]) + 1) * n * width * per_token > _CACHE_BYTES:
            parts.append([])
        parts[-1].append(index)
    return parts


def _cut(text: str, stop: tuple[str, ...]) -> str:
    for mark in stop:
        text = text.partition(mark)[0]
    return text
