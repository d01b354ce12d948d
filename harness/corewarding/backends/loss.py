"""The GRPO loss, token by token, as the reference really optimises it (paper.md 1.1)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

__all__ = ["k3", "row_weights", "surrogate"]

LossMean = Literal["token", "sequence", "max-tokens"]


def surrogate(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    *,
    clip: float,
    dual_clip: float | None,
) -> Tensor:
    """Return the clipped policy loss of every token.

    L = max(−A·ρ, −A·clip(ρ, 1−ε, 1+ε)) with ρ = exp(logp − old_logp); for A < 0 additionally
    L = min(L, −c·A) (dual clip).

    Args:
        logp: (N, T), with gradient.
        old_logp: (N, T) under the policy that sampled.
        advantages: (N,).
        clip: ε.
        dual_clip: c, or None for none.
    """
    ratio = torch.exp(logp - old_logp)
    advantage = advantages[:, None]
    loss = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(1 - clip, 1 + clip))
    if dual_clip is None:
        return loss
    return torch.where(advantage < 0, torch.minimum(loss, -dual_clip * advantage), loss)


def k3(logp: Tensor, reference_logp: Tensor) -> Tensor:
    """Return the k3 estimate of KL(policy ‖ reference) for every token.

    k3 = e^d − d − 1 with d = reference_logp − logp clamped to ±20, the value clamped to ±10.
    """
    d = (reference_logp - logp).clamp(-20, 20)
    return (d.exp() - d - 1).clamp(-10, 10)


def row_weights(lengths: Tensor, *, mean: LossMean, max_new_tokens: int) -> Tensor:
    """Return w (N,) such that the batch's loss is Σ_i w_i Σ_t L_it.

    As every row carries its own weight, the split into micro-batches does not matter.

    Args:
        lengths: tokens of each row of the whole (mini-)batch (N,), rows that are skipped for
            want of a gradient included.
        mean: ``token``: 1/Σ lengths; ``sequence``: 1/(N·length); ``max-tokens``: 1/(N·limit).
        max_new_tokens: the limit.
    """
    lengths = lengths.to(torch.float32)
    if mean == "token":
        return torch.full_like(lengths, 1.0) / lengths.sum().clamp(min=1)
    if mean == "sequence":
        return 1.0 / (len(lengths) * lengths.clamp(min=1))
    return torch.full_like(lengths, 1.0 / (len(lengths) * max_new_tokens))
