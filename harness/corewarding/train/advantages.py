"""Group-relative advantages in numpy, with abstentions; the same for every engine."""

from __future__ import annotations

from typing import Literal

import numpy as np

from corewarding.types import Floats

__all__ = ["EPSILON", "group_advantages"]

EPSILON = np.float32(1e-6)


def group_advantages(
    rewards: Floats, *, scale: Literal["group-std", "group-mean"] = "group-std"
) -> Floats:
    """Return advantages (G,) of one group's rewards (G,).

    A_i = (r_i − mean) / (std + 1e-6) with the unbiased standard deviation (paper.md 1.1 item 2);
    ``group-mean`` only centres (Dr. GRPO). NaN rewards abstain: they leave mean and deviation and
    their advantage is 0. Equal rewards give exactly 0. A group of one has mean 0 and deviation 1,
    as in the reference; one reward left among abstentions has no baseline and gives 0.
    """
    values = np.asarray(rewards, dtype=np.float32)
    valid = ~np.isnan(values)
    advantages = np.zeros_like(values)
    kept = values[valid]
    if values.size == 1 and kept.size == 1:
        alone: Floats = kept / (np.float32(1) + EPSILON) if scale == "group-std" else kept.copy()
        return alone
    if kept.size < 2 or kept.min() == kept.max():
        return advantages
    centred = kept - kept.mean(dtype=np.float32)
    if scale == "group-std":
        centred = centred / (kept.std(ddof=1, dtype=np.float32) + EPSILON)
    advantages[valid] = centred
    return advantages
