"""Per-token statistics of the policy's distribution: self-certainty, entropy and yours.

A statistic maps logits (N, V), already divided by the sampling temperature, to one number for
each of the N positions. Engines call it in chunks, so it must treat positions one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BUILTIN_STATISTICS", "TokenStatistic", "entropy", "self_certainty"]


@dataclass(frozen=True, slots=True)
class TokenStatistic:
    """A named function from logits (N, V) to values (N,)."""

    name: str
    compute: Callable[[Tensor], Tensor]


def self_certainty(logits: Tensor) -> Tensor:
    """log-sum-exp minus mean logit: KL(uniform ‖ p) + log V (Intuitor; paper.md 1.4)."""
    return logits.logsumexp(-1) - logits.mean(-1)


def entropy(logits: Tensor) -> Tensor:
    """−Σ p log p over the full vocabulary, in nats (RENT; paper.md 1.4)."""
    logprobs = logits.log_softmax(-1)
    return -(logprobs.exp() * logprobs).sum(-1)


BUILTIN_STATISTICS = (
    TokenStatistic("entropy", entropy),
    TokenStatistic("self_certainty", self_certainty),
)
