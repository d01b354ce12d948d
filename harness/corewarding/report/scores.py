"""Scores of arms on benchmarks, their differences, and which arms cannot be told apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from corewarding.config import BASE_ARM
from corewarding.errors import UserError
from corewarding.evaluate.passk import avg_at_k, maj_at_k, pass_at_k
from corewarding.report import confounds
from corewarding.report.frame import Frame
from corewarding.report.stats import Difference, Interval, Matrix, Resampler, holm

__all__ = ["ALPHA", "Estimate", "Headline", "Paired", "Rates", "Scores"]

ALPHA = 0.05
"""Adjusted p-values below this are called a difference."""


@dataclass(slots=True)
class _Tally:
    """The graded samples of one question in one run."""

    classes: list[str | None]
    correct: list[bool]
    undecided: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """One score of one arm on one benchmark."""

    interval: Interval
    per_seed: dict[int, float]
    samples: tuple[int, int]
    """Fewest and most verdicts of a question."""
    verdicts: int
    right: int
    undecided: int
    questions: int
    left_out: int
    """Questions of a run that have fewer than k verdicts."""


@dataclass(frozen=True, slots=True)
class Paired:
    """How an arm differs from another on the questions that both answered."""

    difference: Difference
    adjusted: float
    """p-value after Holm's correction over the whole headline table."""
    seeds: tuple[int, ...]
    questions: int
    of: int
    """Questions that either has."""
    conditions: tuple[str, ...]
    """In what else, besides the reward, the two were measured differently."""

    @property
    def outcome(self) -> str:
        """``better``, ``worse`` or ``not separable``."""
        if self.adjusted < ALPHA:
            return "better" if self.difference.value > 0 else "worse"
        return "not separable"


@dataclass(frozen=True, slots=True)
class Headline:
    """One row of the headline table of one benchmark."""

    arm: str
    benchmark: str
    score: Estimate | None
    base: Paired | None
    truth: Paired | None
    best: bool
    tied: bool
    """Not separable from the best."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of an arm's samples on a benchmark that count as something else than right."""

    samples: int
    truncated: float
    """Of those whose end is known."""
    unanswered: float
    undecided: float
    on_finished: float
    """Share of right ones among the finished."""
    tokens: float
    """Mean length."""


class Scores:
    """Computes scores of a frame on demand; equal frames and seeds give equal numbers."""

    def __init__(self, frame: Frame, resampler: Resampler) -> None:
        self.frame = frame
        self._resampler = resampler
        self._tallies = _tally(frame)
        self._estimates: dict[tuple[str, str, str, int], Estimate | None] = {}
        self.refused: dict[str, None] = {}
        """Why comparisons of the headline could not be made, in order."""

    def n(self, benchmark: str) -> int:
        """Return the samples a question that headers promise, at most."""
        evaluations = [e for e in self.frame.evaluations.values() if e.benchmark == benchmark]
        return max((e.header.get("n") or 0 for e in evaluations), default=0)

    def estimate(self, arm: str, benchmark: str, metric: str, k: int = 1) -> Estimate | None:
        """Return one score, or None where there is no result.

        Args:
            arm: an arm.
            benchmark: a benchmark.
            metric: ``avg``, ``pass`` or ``maj``.
            k: of pass@k and maj@k; questions with fewer than k verdicts are left out.
        """
        key = (arm, benchmark, metric, k)
        if key not in self._estimates:
            self._estimates[key] = self._estimate(*key)
        return self._estimates[key]

    def _estimate(self, arm: str, benchmark: str, metric: str, k: int) -> Estimate | None:
        runs = self._runs(arm, benchmark)
        if not runs:
            return None
        docs = _union(runs.values())
        values = _matrix(runs, docs, _METRICS[metric], k)
        if np.isnan(values).all():
            return None
        tallies = [tally for run in runs.values() for tally in run.values()]
        counts = [len(tally.correct) for tally in tallies]
        binary = max(counts) == 1
        with_rows = zip(runs, values, strict=True)
        return Estimate(
            interval=self._resampler.interval(values, binary=binary),
            per_seed={s: float(np.nanmean(row)) for s, row in with_rows if not np.isnan(row).all()},
            samples=(min(counts), max(counts)),
            verdicts=sum(counts),
            right=sum(sum(tally.correct) for tally in tallies),
            undecided=sum(tally.undecided for tally in tallies),
            questions=len(docs),
            left_out=sum(count < k for count in counts),
        )

    def paired(self, arm: str, other: str, benchmark: str) -> Paired | None:
        """Compare two arms in avg@n on shared questions and seeds; p-value not yet adjusted.

        Returns None where one has no result.

        Raises:
            UserError: both have results and share no seed or no question.
        """
        ours, theirs = self._runs(arm, benchmark), self._runs(other, benchmark)
        if not ours or not theirs:
            return None
        seeds = tuple(seed for seed in ours if seed in theirs)
        docs = sorted({d for s in seeds for d in ours[s]} & {d for s in seeds for d in theirs[s]})
        if not docs:
            raise UserError(
                f"{arm} and {other} share no question and seed of {benchmark!r}; evaluate both "
                "with the same seeds and the same eval.limit"
            )
        ours, theirs = {s: ours[s] for s in seeds}, {s: theirs[s] for s in seeds}
        tallies = [
            tally for runs in (ours, theirs) for run in runs.values() for tally in run.values()
        ]
        difference = self._resampler.difference(
            _matrix(ours, docs, _average, 1),
            _matrix(theirs, docs, _average, 1),
            binary=all(len(tally.correct) <= 1 for tally in tallies),
        )
        return Paired(
            difference=difference,
            adjusted=difference.p,
            seeds=seeds,
            questions=len(docs),
            of=len(_union([*ours.values(), *theirs.values()])),
            conditions=tuple(confounds.conditions(self.frame, arm, other, benchmark)),
        )

    def headline(self) -> list[Headline]:
        """Return all rows of the headline tables, p-values adjusted over all of them."""
        truth = self.frame.supervised()
        rows = [
            Headline(
                arm=arm,
                benchmark=benchmark,
                score=self.estimate(arm, benchmark, "avg"),
                base=self._against(arm, BASE_ARM, benchmark),
                truth=self._against(arm, truth, benchmark) if arm != BASE_ARM else None,
                best=False,
                tied=False,
            )
            for benchmark in self.frame.benchmarks
            for arm in self.frame.arms
        ]
        return self._mark_best(_adjust(rows))

    def rates(self, arm: str, benchmark: str) -> Rates | None:
        """Return the shares of cut-off, unanswered and undecided samples."""
        table = self.frame.samples
        chosen = table[(table["arm"] == arm) & (table["benchmark"] == benchmark)]
        if chosen.empty:
            return None
        finished = chosen[chosen["finished"] == 1.0]
        return Rates(
            samples=len(chosen),
            truncated=1.0 - float(chosen["finished"].mean()),
            unanswered=1.0 - float(chosen["answered"].mean()),
            undecided=float(chosen["correct"].isna().mean()),
            on_finished=float(finished["correct"].mean()) if len(finished) else math.nan,
            tokens=float(chosen["tokens"].mean()),
        )

    def _against(self, arm: str, other: str | None, benchmark: str) -> Paired | None:
        if other is None or arm == other or other not in self.frame.arms:
            return None
        try:
            return self.paired(arm, other, benchmark)
        except UserError as error:
            self.refused[str(error)] = None
            return None

    def _mark_best(self, rows: list[Headline]) -> list[Headline]:
        marked = []
        for benchmark in self.frame.benchmarks:
            group = [row for row in rows if row.benchmark == benchmark]
            scored = [(row.score.interval.value, row.arm) for row in group if row.score]
            top = max((value for value, _ in scored), default=math.nan)
            best = next((arm for value, arm in scored if value == top), None)
            tests = [self._against(row.arm, best, benchmark) for row in group]
            p = holm([test.difference.p if test else math.nan for test in tests])
            for row, adjusted in zip(group, p, strict=True):
                is_best = row.score is not None and row.score.interval.value == top
                marked.append(replace(row, best=is_best, tied=adjusted >= ALPHA))
        return marked

    def _runs(self, arm: str, benchmark: str) -> dict[int, dict[str, _Tally]]:
        found = ((seed, self._tallies.get((arm, seed, benchmark))) for seed in self.frame.seeds)
        return {seed: tallies for seed, tallies in found if tallies}


def _tally(frame: Frame) -> dict[tuple[str, int, str], dict[str, _Tally]]:
    runs: dict[tuple[str, int, str], dict[str, _Tally]] = {}
    columns = ["arm", "seed", "benchmark", "doc", "class", "correct"]
    for arm, seed, benchmark, doc, name, correct in zip(
        *(frame.samples[column].tolist() for column in columns), strict=True
    ):
        run = runs.setdefault((arm, seed, benchmark), {})
        tally = run.setdefault(doc, _Tally([], []))
        if math.isnan(correct):
            tally.undecided += 1
        else:
            tally.classes.append(name if isinstance(name, str) else None)
            tally.correct.append(correct == 1.0)
    return runs


def _average(tally: _Tally, k: int) -> float:
    return avg_at_k(n=len(tally.correct), c=sum(tally.correct), k=k)


def _pass(tally: _Tally, k: int) -> float:
    return pass_at_k(n=len(tally.correct), c=sum(tally.correct), k=k)


def _majority(tally: _Tally, k: int) -> float:
    return maj_at_k(tally.classes, tally.correct, k=k)


_METRICS: dict[str, Callable[[_Tally, int], float]] = {
    "avg": _average,
    "pass": _pass,
    "maj": _majority,
}


def _matrix(
    runs: dict[int, dict[str, _Tally]],
    docs: Sequence[str],
    metric: Callable[[_Tally, int], float],
    k: int,
) -> Matrix:
    """Values (S, Q); NaN where a question has fewer than k verdicts."""

    def value(tally: _Tally | None) -> float:
        return math.nan if tally is None or len(tally.correct) < k else metric(tally, k)

    return np.array([[value(run.get(doc)) for doc in docs] for run in runs.values()])


def _union(runs: Iterable[dict[str, _Tally]]) -> list[str]:
    return sorted({doc for run in runs for doc in run})


def _adjust(rows: list[Headline]) -> list[Headline]:
    """Holm's correction over every test of the headline tables, both comparisons together."""
    tests = [test for row in rows for test in (row.base, row.truth)]
    adjusted = iter(holm([test.difference.p if test else math.nan for test in tests]))
    done = [test and replace(test, adjusted=p) for test, p in zip(tests, adjusted, strict=True)]
    pairs = zip(done[::2], done[1::2], strict=True)
    return [
        replace(row, base=base, truth=truth) for row, (base, truth) in zip(rows, pairs, strict=True)
    ]
