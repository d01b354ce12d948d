"""Footnotes: under which conditions the numbers were made, what is missing, what to beware of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from corewarding.report.frame import Frame
from corewarding.report.scores import Headline

__all__ = ["MANY_CUT", "footnote", "holes", "training_footnote", "warnings"]

MANY_CUT = 0.05
"""Warn above this share of cut-off samples: a low score then says little about the answers."""
WIDE = 0.2
"""Warn of intervals wider than this: 20 points."""
FEW_SEEDS = 5
"""Below this many seeds, resampling them understates how much a new seed would differ."""


def footnote(frame: Frame, benchmark: str, ks: Sequence[int] = ()) -> str:
    """Say with which n, k, seeds, temperature, grader and template a benchmark was measured."""
    found = [e for e in frame.evaluations.values() if e.benchmark == benchmark]
    if not found:
        return f"{benchmark}: no evaluation is there yet."
    headers, graders = [e.header for e in found], [e.grader for e in found]
    parts = [
        f"{benchmark}: {_several(headers, 'questions')} questions",
        f"n = {_several(headers, 'n')} samples a question",
        *([f"k = {', '.join(map(str, ks))}"] if ks else []),
        f"seeds {', '.join(str(s) for s in sorted({e.seed for e in found}))}",
        f"temperature {_several(headers, 'temperature')}",
        f"top-p {_several(headers, 'top_p')}",
        f"at most {_several(headers, 'max_new_tokens')} tokens",
        f"grader {_grader(graders)}",
        f"template {_several(headers, 'prompt')}",
    ]
    return f"{'; '.join(parts)}."


def training_footnote(frame: Frame) -> str:
    """Say under which settings the training figures were made."""
    settings = [run.settings for run in frame.runs.values() if run.trained]
    if not settings:
        return "No arm has been trained yet."
    rollouts = [s.get("rollout") or {} for s in settings]
    seeds = sorted({run.seed for run in frame.runs.values() if run.trained})
    return (
        f"Training: n = {_several(rollouts, 'n')} rollouts a prompt; "
        f"seeds {', '.join(map(str, seeds))}; "
        f"temperature {_several(rollouts, 'temperature')}; "
        f"at most {_several(rollouts, 'max_new_tokens')} tokens; "
        f"answers compared as {_several([s.get('data') or {} for s in settings], 'equality')}; "
        f"template {_several(settings, 'prompt')}."
    )


def holes(frame: Frame, benchmarks: Iterable[str] = ()) -> Iterator[str]:
    """Yield why something is missing: whole runs, and the given benchmarks of runs."""
    wanted = {None, *benchmarks}
    grouped: dict[tuple[int, str | None, str], list[str]] = {}
    for hole in frame.holes:
        if hole.benchmark in wanted:
            key = (hole.seed, hole.benchmark, hole.reason)
            grouped.setdefault(key, []).append(frame.title(hole.arm))
    for (seed, benchmark, reason), titles in grouped.items():
        where = f", {benchmark}" if benchmark else ""
        yield f"{', '.join(titles)}, seed {seed}{where}: {reason}."


def warnings(frame: Frame, rows: Sequence[Headline]) -> Iterator[str]:
    """Yield what a reader of a headline table must know before believing it."""
    scored = [row for row in rows if row.score is not None]
    seeds = max((len(row.score.per_seed) for row in scored if row.score), default=0)
    if seeds == 1:
        yield (
            "One seed: intervals and p-values cover the choice of questions only, not what another "
            "training seed would give."
        )
    elif 1 < seeds < FEW_SEEDS:
        yield (
            f"{seeds} seeds: resampling so few understates how much another seed would differ; "
            "see the scores by seed."
        )
    found = [(frame.title(row.arm), row.score) for row in scored if row.score]
    wide = [title for title, s in found if s.interval.high - s.interval.low > WIDE]
    if wide:
        questions = min(score.questions for _, score in found)
        yield f"Intervals wider than {WIDE:g} ({questions} questions): {', '.join(wide)}."
    wilson = [title for title, score in found if score.interval.method == "Wilson"]
    if wilson:
        yield f"Wilson's interval, a bootstrap having nothing to resample: {', '.join(wilson)}."
    for row, (title, score) in zip(scored, found, strict=True):
        if score.undecided:
            yield (
                f"{title}: {score.undecided} of {score.undecided + score.verdicts} samples are "
                "undecided and left out; n is lower there."
            )
        for name, test in (("the base", row.base), ("the ground truth", row.truth)):
            if test and test.conditions:
                yield (
                    f"‡ {title} and {name} were measured under other conditions "
                    f"({'; '.join(test.conditions)}): the difference is no gain of the method."
                )
            if test and test.questions < test.of:
                yield (
                    f"{title} against {name}: the {test.questions} shared of {test.of} questions."
                )


def _grader(rows: Sequence[Any]) -> str:
    """Name and version; once where the version begins with the name."""
    name, version = _several(rows, "grader"), _several(rows, "version")
    return version if version.startswith(name) else f"{name} {version}"


def _several(rows: Sequence[Any], key: str) -> str:
    """The one value of a key, or all of them."""
    values = dict.fromkeys(str(row.get(key, "–")) for row in rows)
    return next(iter(values)) if len(values) == 1 else f"{' or '.join(values)} (differs)"
