"""The learning rate of each update."""

from __future__ import annotations

import math
from typing import Literal

__all__ = ["learning_rate"]


def learning_rate(
    *,
    step: int,
    total: int,
    peak: float,
    warmup: float,
    kind: Literal["cosine", "constant"],
) -> float:
    """Return the rate of 1-based update `step` of `total`.

    Linear from 0 over the first int(warmup·total) updates, so that with a warm-up update 1 has
    rate 0; then peak·½(1 + cos) to 0, or constant (paper.md 1.1 item 8).
    """
    ramp, done = int(warmup * total), step - 1
    if done < ramp:
        return peak * done / ramp
    if kind == "constant":
        return peak
    return peak * 0.5 * (1 + math.cos(math.pi * (done - ramp) / max(total - ramp, 1)))
