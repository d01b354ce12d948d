"""Summarise a training curve: smoothing, first and last level, collapse."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from corewarding.report.frame import Frame

__all__ = ["Collapse", "Curves", "Level", "detect_collapse", "smooth"]

Array = npt.NDArray[np.float64]

TOO_SHORT = 10
"""Steps below which nothing is said about collapse: fewer than two windows."""
WINDOW_SHORT, WINDOW_LONG, LONG_RUN = 5, 10, 50
"""Steps of the running mean, for runs below and from 50 steps. A batch of 64 rollouts at 30 %
right has a standard error of 6 points; 5 to 10 steps bring it below 3."""
COLLAPSE_SHARE = 0.5
"""Collapsed: the last level is below this share of the peak. Half the peak separates the published
runs: collapsing ones end at 0–5 % after a peak of 50–80 %, slow decays stay above half."""
DECLINE_SHARE = 0.8
"""Declined, not collapsed: the last level is below this share of the peak."""
SMALLEST_DROP = 0.05
"""A fall of less than 5 points is within the noise of a smoothed curve; never called anything."""
ENDS = 0.1
"""First and last tenth of training stand for its start and its end."""

State = Literal["collapsed", "declined", "held", "too short to tell", "unknown"]


@dataclass(frozen=True, slots=True)
class Collapse:
    """What became of the hidden accuracy of one run."""

    state: State
    start: float = math.nan
    peak: float = math.nan
    last: float = math.nan
    step: int | None = None
    """First step from which the smoothed curve stays below half its peak."""


@dataclass(frozen=True, slots=True)
class Level:
    """Mean of a metric over the first and the last tenth of training, over all seeds."""

    first: float
    last: float
    mean: float


def smooth(values: Array) -> Array:
    """Return the running mean of the last 5 (short runs) or 10 values (T,).

    NaN before the first full window, so that a lucky first batch is no peak; NaN values within
    a window are left out.
    """
    window = WINDOW_LONG if values.size >= LONG_RUN else WINDOW_SHORT
    if values.size < window:
        return np.full(values.size, np.nan)
    known = ~np.isnan(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    total, count = sums[window:] - sums[:-window], counts[window:] - counts[:-window]
    means = np.divide(total, count, out=np.full(total.size, np.nan), where=count > 0)
    return np.concatenate([np.full(window - 1, np.nan), means])


def detect_collapse(steps: npt.NDArray[np.int64], accuracy: Array) -> Collapse:
    """Judge the hidden accuracy (T,) of one run at `steps` (T,)."""
    known = ~np.isnan(accuracy)
    if not known.any():
        return Collapse("unknown")
    steps, accuracy = steps[known], accuracy[known]
    if accuracy.size < TOO_SHORT:
        return Collapse("too short to tell", float(accuracy[0]), float(accuracy.max()))
    curve = smooth(accuracy)
    steps, curve = steps[~np.isnan(curve)], curve[~np.isnan(curve)]
    start, peak, last = float(curve[0]), float(curve.max()), float(curve[-1])
    if peak - last < SMALLEST_DROP or last >= DECLINE_SHARE * peak:
        return Collapse("held", start, peak, last)
    if last >= COLLAPSE_SHARE * peak or last >= start:
        return Collapse("declined", start, peak, last)
    above = np.flatnonzero(curve >= COLLAPSE_SHARE * peak)
    return Collapse("collapsed", start, peak, last, int(steps[above[-1] + 1]))


class Curves:
    """Training curves by arm, seed and metric."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._curves: dict[tuple[str, int, str], tuple[npt.NDArray[np.int64], Array]] = {}
        ordered = frame.steps.sort_values("step", kind="stable")
        for key, part in ordered.groupby(["arm", "seed", "metric"], sort=False):
            arm, seed, metric = _key(key)
            self._curves[arm, seed, metric] = (
                part["step"].to_numpy(dtype=np.int64),
                part["value"].to_numpy(dtype=np.float64),
            )

    def get(self, arm: str, seed: int, metric: str) -> tuple[npt.NDArray[np.int64], Array] | None:
        """Return steps (T,) and values (T,), or None if the metric was never logged."""
        return self._curves.get((arm, seed, metric))

    def each(self, arm: str, metric: str) -> Iterator[tuple[int, npt.NDArray[np.int64], Array]]:
        """Yield seed, steps and values of the seeds in which the metric has a number."""
        for seed in self.frame.seeds:
            curve = self.get(arm, seed, metric)
            if curve is not None and not np.isnan(curve[1]).all():
                yield seed, *curve

    def level(self, arm: str, metric: str, seeds: Collection[int] | None = None) -> Level | None:
        """Return the start, end and mean of a metric, averaged over `seeds` (None: all)."""
        rows = []
        for seed, _, values in self.each(arm, metric):
            if seeds is not None and seed not in seeds:
                continue
            known = values[~np.isnan(values)]
            tenth = max(1, round(ENDS * known.size))
            rows.append((known[:tenth].mean(), known[-tenth:].mean(), known.mean()))
        if not rows:
            return None
        first, last, mean = np.array(rows).mean(axis=0)
        return Level(float(first), float(last), float(mean))

    def collapse(self, arm: str) -> dict[int, Collapse]:
        """Judge every seed of an arm that has steps."""
        found = {}
        for seed in self.frame.seeds:
            curve = self.get(arm, seed, "hidden/accuracy")
            if curve is not None:
                found[seed] = detect_collapse(*curve)
        return found


def _key(key: Any) -> tuple[str, int, str]:
    arm, seed, metric = key
    return str(arm), int(seed), str(metric)
