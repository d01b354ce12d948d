"""Intervals and tests for question-by-question results; numbers in, numbers out.

All results of one arm on one benchmark are a matrix (S, Q): seeds × questions, NaN where nothing
is known. Every arm answers the same questions under every seed, so seeds and questions are
resampled independently of each other (crossed, not nested): a hard question stays hard in all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from corewarding.errors import UserError

__all__ = [
    "CONFIDENCE",
    "RESAMPLES",
    "Difference",
    "Interval",
    "Matrix",
    "Resampler",
    "holm",
    "mcnemar",
    "wilson",
]

Matrix = npt.NDArray[np.float64]  # (S, Q)

CONFIDENCE = 0.95
RESAMPLES = 10_000
_CHUNK = 1_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % interval."""

    value: float
    low: float
    high: float
    method: str
    """``bootstrap over seeds and questions``, ``bootstrap over questions`` or ``Wilson``."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A paired difference with its 95 % interval and two-sided p-value."""

    value: float
    low: float
    high: float
    p: float
    method: str
    """What the p-value is from: ``paired bootstrap`` or ``exact McNemar``."""


@dataclass(slots=True)
class Resampler:
    """Draws seeds and questions anew; the same draws for every arm, so that results compare.

    Args:
        seed: of the draws; equal seeds give equal intervals.
        resamples: how many.
    """

    seed: int = 0
    resamples: int = RESAMPLES
    _drawn: dict[tuple[int, int], tuple[Matrix, npt.NDArray[np.uint8]]] = field(
        default_factory=dict
    )

    def interval(self, values: Matrix, *, binary: bool = False) -> Interval:
        """Return the mean of `values` (S, Q) with a percentile bootstrap interval.

        Seeds are resampled as a whole, questions within them. One seed: questions only. Wilson's
        interval instead where the bootstrap knows nothing: a single run of single right-or-wrong
        samples (`binary`), or values that are all 0 or all 1.
        """
        known = values[~np.isnan(values)]
        if not known.size:
            return Interval(math.nan, math.nan, math.nan, "no data")
        mean = float(known.mean())
        single = values.shape[0] == 1 and binary
        if single or ((known == known[0]).all() and known[0] in (0.0, 1.0)):
            # Samples of one question are no independent trials: count questions.
            trials = int((~np.isnan(values)).any(axis=0).sum())
            low, high = wilson(round(mean * trials), trials)
            return Interval(mean, low, high, "Wilson")
        low, high = self._percentiles(values)
        over = "questions" if values.shape[0] == 1 else "seeds and questions"
        return Interval(mean, low, high, f"bootstrap over {over}")

    def difference(self, a: Matrix, b: Matrix, *, binary: bool = False) -> Difference:
        """Compare `a` with `b` (S, Q), same seeds and questions in both, NaN where not shared.

        The p-value is twice the smaller share of resampled differences on either side of 0; for
        a single run of single samples (`binary`) it is McNemar's exact one.

        Raises:
            UserError: they share no question.
        """
        gap = a - b
        known = gap[~np.isnan(gap)]
        if not known.size:
            raise UserError("no shared question; evaluate both on the same benchmark and seeds")
        mean = float(known.mean())
        low, high = self._percentiles(gap)
        if binary and gap.shape[0] == 1:
            p = mcnemar(wins=int((known > 0).sum()), losses=int((known < 0).sum()))
            return Difference(mean, low, high, p, "exact McNemar")
        means = self._means(gap)
        below, above = int((means <= 0).sum()), int((means >= 0).sum())
        p = min(1.0, 2 * (min(below, above) + 1) / (means.size + 1))
        return Difference(mean, low, high, p, "paired bootstrap")

    def _percentiles(self, values: Matrix) -> tuple[float, float]:
        tail = (1 - CONFIDENCE) / 2
        low, high = np.quantile(self._means(values), [tail, 1 - tail])
        return float(low), float(high)

    def _means(self, values: Matrix) -> Matrix:
        """Mean of each resample, (B,)."""
        present = ~np.isnan(values)
        filled = np.where(present, values, 0.0)
        means = []
        for seeds, questions in self._weights(*values.shape):
            total = (questions @ filled.T * seeds).sum(axis=1)
            count = (questions @ present.T.astype(np.float64) * seeds).sum(axis=1)
            means.append(total[count > 0] / count[count > 0])
        return np.concatenate(means)

    def _weights(self, n_seeds: int, n_questions: int) -> Iterator[tuple[Matrix, Matrix]]:
        """How often each seed (B, S) and each question (B, Q) is drawn, in chunks of B."""
        shape = (n_seeds, n_questions)
        if shape not in self._drawn:
            rng = np.random.default_rng([self.seed, *shape])
            seeds = _counts(rng, self.resamples, n_seeds).astype(np.float64)
            self._drawn[shape] = seeds, _counts(rng, self.resamples, n_questions)
        seeds, questions = self._drawn[shape]
        for start in range(0, self.resamples, _CHUNK):
            part = slice(start, start + _CHUNK)
            yield seeds[part], questions[part].astype(np.float64)


def wilson(right: int, trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % score interval of a share (Wilson 1927)."""
    from scipy.stats import binomtest

    interval = binomtest(right, trials).proportion_ci(CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)


def mcnemar(*, wins: int, losses: int) -> float:
    """Return McNemar's exact two-sided p-value from the questions on which two runs differ."""
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for many comparisons (Holm 1979); NaN stays and does not count."""
    known = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    adjusted = [math.nan] * len(p_values)
    floor = 0.0
    for rank, (p, index) in enumerate(known):
        floor = max(floor, min(1.0, p * (len(known) - rank)))
        adjusted[index] = floor
    return adjusted


def _counts(rng: np.random.Generator, resamples: int, size: int) -> npt.NDArray[Any]:
    """Multinomial counts (B, size) of `size` draws with replacement."""
    counts = np.empty((resamples, size), dtype=np.uint8)
    for start in range(0, resamples, _CHUNK):
        rows = min(_CHUNK, resamples - start)
        drawn = rng.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
        flat = np.bincount(drawn.ravel(), minlength=rows * size)
        counts[start : start + rows] = flat.reshape(rows, size)
    return counts
