"""A key-value cache with room to grow: appending a token writes it, instead of copying all."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

__all__ = ["keeps_everything", "sampling_cache"]

_ROOM = 32
"""Tokens of spare room at least; a quarter of the length where that is more."""


def sampling_cache(model: PreTrainedModel) -> Cache:
    """Return an empty cache for sampling without gradients."""
    if not keeps_everything(model):
        return DynamicCache(config=model.config)
    layers = model.config.get_text_config().num_hidden_layers
    return Cache(layers=[_GrowingLayer() for _ in range(layers)])


def keeps_everything(model: PreTrainedModel) -> bool:
    """Tell whether every layer of the model attends to all keys and values before."""
    settings = model.config.get_text_config()
    kinds = set(getattr(settings, "layer_types", None) or ["full_attention"])
    return kinds == {"full_attention"} and not getattr(settings, "sliding_window", None)


class _GrowingLayer(DynamicLayer):
    """Keys and values, (N, heads, length, size), as views of larger buffers."""

    keys: Tensor
    values: Tensor

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # transformers' own
        self._key_buffer: Tensor | None = None
        self._value_buffer: Tensor | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        length = self.get_seq_length()
        end = length + key_states.shape[-2]
        self._key_buffer = _with_room(self._key_buffer, self.keys, key_states, length, end)
        self._value_buffer = _with_room(self._value_buffer, self.values, value_states, length, end)
        self._key_buffer[..., length:end, :] = key_states
        self._value_buffer[..., length:end, :] = value_states
        self.keys = self._key_buffer[..., :end, :]
        self.values = self._value_buffer[..., :end, :]
        return self.keys, self.values

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)
        self._key_buffer = self._value_buffer = None

    def batch_select_indices(self, indices: Tensor) -> None:
        super().batch_select_indices(indices)
        self._key_buffer = self._value_buffer = None


def _with_room(buffer: Tensor | None, held: Tensor, new: Tensor, length: int, end: int) -> Tensor:
    if buffer is not None and buffer.shape[-2] >= end:
        return buffer
    rows, heads, _, size = new.shape
    larger = new.new_empty((rows, heads, end + max(_ROOM, end // 4), size))
    if length:
        larger[..., :length, :] = held
    return larger
