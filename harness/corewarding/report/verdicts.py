"""Say in plain words what became of each arm: against the base, the truth, and in training.

The wording is the same for every method; only numbers choose it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from corewarding.config import BASE_ARM
from corewarding.report.curves import Collapse, Curves
from corewarding.report.frame import Frame
from corewarding.report.scores import Headline, Paired

__all__ = ["Verdict", "judge", "number", "p_value", "signed"]

NO_SIGNAL = 0.9
"""From this share of groups with equal rewards, averaged over training, hardly a gradient was left:
such groups have zero advantage."""

LITTLE_SIGNAL = 0.5
"""From this share on, most groups taught nothing."""

MOSTLY_CUT_OFF = 0.5
"""Share of training completions cut off by the token limit that deserves a word."""

# Signs that go with a collapse: metric, name, smallest change worth a word, as share of the larger.
_SIGNS = (
    ("entropy", "entropy", 0.25),
    ("completions/mean_length", "length", 0.25),
    ("completions/top_answer_share", "share of the most common answer", 0.25),
    ("completions/clipped_ratio", "share of cut-off completions", 0.25),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one arm."""

    arm: str
    outcomes: dict[str, str]
    """Benchmark → ``better``, ``worse`` or ``not separable`` (than the base), or ``unknown``."""
    training: str
    """``collapsed``, ``declined``, ``held``, ``too short to tell``, ``unknown``, ``mixed``, or
    ``untrained``."""
    no_signal: bool
    sentence: str


def judge(frame: Frame, curves: Curves, rows: Sequence[Headline]) -> list[Verdict]:
    """Return one verdict an arm, in the order of the tables."""
    verdicts = []
    for arm in frame.arms:
        own = [row for row in rows if row.arm == arm]
        collapses = curves.collapse(arm)
        dead = curves.level(arm, "frac_reward_zero_std")
        no_signal = dead is not None and dead.mean >= NO_SIGNAL
        parts = [*_training(arm, curves, collapses), *_signal(arm, curves)]
        parts += _scores(frame, arm, own)
        states = {c.state for c in collapses.values()}
        training = states.pop() if len(states) == 1 else "mixed" if states else "untrained"
        verdicts.append(
            Verdict(
                arm=arm,
                outcomes={r.benchmark: r.base.outcome if r.base else "unknown" for r in own},
                training=training,
                no_signal=no_signal,
                sentence=f"{frame.title(arm)}: {'; '.join(parts)}.",
            )
        )
    return verdicts


def number(value: float) -> str:
    """Format a score with three decimals; NaN is a dash."""
    return "–" if math.isnan(value) else f"{value:.3f}"


def signed(value: float) -> str:
    """Format a difference with its sign (a true minus) and three decimals."""
    text = f"{value:+.3f}"
    return "±0.000" if float(text) == 0 else text.replace("-", "−")


def p_value(p: float) -> str:
    """Format a p-value as ``= 0.012`` or ``< 0.001``."""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def percent(value: float) -> str:
    """Format a share in percent."""
    return f"{100 * value:.0f} %"


def _scores(frame: Frame, arm: str, rows: Sequence[Headline]) -> Iterator[str]:
    truth = frame.supervised()
    if not any(row.score for row in rows):
        yield "no result yet"
        return
    if arm == BASE_ARM:
        yield f"the untrained model, {' and '.join(_level(row) for row in rows if row.score)}"
        return
    for row in rows:
        if row.score is None:
            yield f"no result on {row.benchmark} yet"
            continue
        clause = _against_base(row, row.base)
        if truth is not None and arm != truth:
            clause += f", {_against_truth(frame.title(truth), row.truth)}"
        yield clause


def _level(row: Headline) -> str:
    assert row.score is not None
    i = row.score.interval
    return f"{number(i.value)} [{number(i.low)}, {number(i.high)}] on {row.benchmark}"


def _against_base(row: Headline, test: Paired | None) -> str:
    if test is None:
        score = row.score.interval.value if row.score else math.nan
        return f"{number(score)} on {row.benchmark}, not comparable with the base yet"
    relation = {"better": "better than", "worse": "worse than"}.get(
        test.outcome, "not separable from"
    )
    return f"{relation} the base on {row.benchmark} ({_figures(test)}){_note(test)}"


def _against_truth(title: str, test: Paired | None) -> str:
    if test is None:
        return f"not comparable with {title} yet"
    relation = {"better": "better than", "worse": "worse than"}.get(
        test.outcome, "not separable from"
    )
    return f"{relation} {title} ({_figures(test)}){_note(test)}"


def _figures(test: Paired) -> str:
    d = test.difference
    return f"{signed(d.value)} [{signed(d.low)}, {signed(d.high)}], p {p_value(test.adjusted)}"


def _note(test: Paired) -> str:
    if not test.conditions:
        return ""
    return f" – measured under other conditions ({'; '.join(test.conditions)})"


def _signal(arm: str, curves: Curves) -> Iterator[str]:
    """What kept the rewards from teaching much, if anything did."""
    dead = curves.level(arm, "frac_reward_zero_std")
    if dead is not None and dead.mean >= LITTLE_SIGNAL:
        how_much = "no signal" if dead.mean >= NO_SIGNAL else "little signal"
        yield (
            f"{how_much}: {percent(dead.mean)} of groups had equal rewards "
            f"(first tenth of training {percent(dead.first)}, last {percent(dead.last)})"
        )
    cut = curves.level(arm, "completions/clipped_ratio")
    if cut is not None and cut.mean >= MOSTLY_CUT_OFF:
        yield f"{percent(cut.mean)} of training completions were cut off by the token limit"


def _training(arm: str, curves: Curves, collapses: dict[int, Collapse]) -> Iterator[str]:
    if not collapses:
        return
    total = len(collapses)
    for state in ("collapsed", "declined"):
        hit = {seed: c for seed, c in collapses.items() if c.state == state}
        if not hit:
            continue
        where = "" if total == 1 else f" in {len(hit)} of {total} seeds"
        peak = _mean([c.peak for c in hit.values()])
        last = _mean([c.last for c in hit.values()])
        if state == "declined":
            yield f"hidden accuracy declined{where}, from a peak of {peak:.2f} to {last:.2f}"
            continue
        steps = " and ".join(str(c.step) for c in hit.values())
        yield (
            f"collapsed{where} at step {steps}: {_reward(arm, curves, hit)}hidden accuracy fell "
            f"from a peak of {peak:.2f} to {last:.2f}{_signs(arm, curves, hit)}"
        )
    if all(c.state == "too short to tell" for c in collapses.values()):
        yield "training too short to tell whether it holds"
    if all(c.state == "unknown" for c in collapses.values()):
        yield "hidden accuracy unknown, so a collapse would not show"


def _reward(arm: str, curves: Curves, seeds: Collection[int]) -> str:
    level = curves.level(arm, "reward", seeds)
    if level is None:
        return ""
    verb = "rose" if level.last > level.first else "fell" if level.last < level.first else "stayed"
    return f"reward {verb} from {_short(level.first)} to {_short(level.last)} while "


def _signs(arm: str, curves: Curves, seeds: Collection[int]) -> str:
    found = []
    for metric, name, least in _SIGNS:
        level = curves.level(arm, metric, seeds)
        if level is None:
            continue
        larger = max(abs(level.first), abs(level.last))
        if larger and abs(level.last - level.first) >= least * larger:
            found.append(f"{name} {_short(level.first)} → {_short(level.last)}")
    return f" ({', '.join(found)})" if found else ""


def _short(value: float) -> str:
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f}".replace("-", "−")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
