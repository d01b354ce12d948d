"""Build the tables of scores; every number is computed in `scores`, here it is only formatted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from corewarding.report.captions import MANY_CUT, footnote, holes, warnings
from corewarding.report.formats import Cell, Column, Source, Table
from corewarding.report.frame import Frame
from corewarding.report.scores import Estimate, Headline, Paired, Scores
from corewarding.report.stats import RESAMPLES
from corewarding.report.verdicts import number, p_value, signed

__all__ = ["failures", "headline", "ladder", "overview", "per_seed"]

_ARM = Column("arm", ("arm",), is_text=True)


def headline(scores: Scores, rows: Sequence[Headline], benchmark: str) -> Table:
    """Table of one benchmark: score, difference to the base, difference to the ground truth."""
    frame, n = scores.frame, scores.n(benchmark)
    truth = frame.supervised()
    own = [row for row in rows if row.benchmark == benchmark]
    columns = [
        _ARM,
        Column(f"avg@{n} (= pass@1)", ("avg", "avg_low", "avg_high", "best", "tied_with_best")),
        Column("Δ base", ("base_diff", "base_low", "base_high")),
        Column("p", ("base_p_holm", "base_p", "base_test")),
        Column("seeds", ("seeds",)),
    ]
    if truth is not None:
        label = f"Δ {frame.title(truth)}"
        columns[4:4] = [
            Column(label, ("truth_diff", "truth_low", "truth_high")),
            Column("p", ("truth_p_holm", "truth_p", "truth_test")),
        ]
    body = []
    for row in own:
        cells = [_arm(frame, row.arm), _score(row), *_paired(row, "base", row.base)]
        if truth is not None:
            cells += _paired(row, "truth", row.truth, truth)
        body.append((*cells, _seeds(frame, row)))
    notes = [
        footnote(frame, benchmark),
        "95 % intervals. Bold: highest score; ≈: not separable from it. Δ: paired difference on "
        "the same questions and seeds. p: Holm-adjusted over all tests of the headline tables; "
        f"before that a bootstrap gives no p below {2 / (RESAMPLES + 1):.4f}.",
        *warnings(frame, own),
        *(text for text in scores.refused if repr(benchmark) in text),
        *holes(frame, [benchmark]),
    ]
    title = f"Scores on {benchmark}"
    return Table(f"headline-{benchmark}", title, tuple(columns), tuple(body), tuple(notes))


def overview(scores: Scores, rows: Sequence[Headline]) -> Table:
    """Table of all arms on all benchmarks, scores only."""
    frame = scores.frame
    columns = [_ARM]
    for b in frame.benchmarks:
        parts = (b, f"{b}_low", f"{b}_high", f"{b}_best", f"{b}_tied_with_best")
        columns.append(Column(f"{b}, avg@{scores.n(b)}", parts))
    body = [
        (_arm(frame, arm), *(_score(row) for row in rows if row.arm == arm)) for arm in frame.arms
    ]
    notes = [*(footnote(frame, b) for b in frame.benchmarks), *holes(frame, frame.benchmarks)]
    return Table("overview", "Scores at a glance", tuple(columns), tuple(body), tuple(notes))


def ladder(scores: Scores, benchmark: str, ks: Sequence[int]) -> Table:
    """Table of pass@k and maj@k of one benchmark."""
    frame, n = scores.frame, scores.n(benchmark)
    wanted = [("pass", k) for k in ks] + [("maj", k) for k in ks if k > 1]
    columns = [
        Column(f"{m}@{k} (n={n})", (f"{m}@{k}", f"{m}@{k}_low", f"{m}@{k}_high")) for m, k in wanted
    ]
    body, notes = [], dict[str, None]()
    for arm in frame.arms:
        cells = [_arm(frame, arm)]
        for metric, k in wanted:
            estimate = scores.estimate(arm, benchmark, metric, k)
            cells.append(
                _estimate(estimate, f"ladder/{benchmark}/{arm}/{metric}@{k}", arm, benchmark)
            )
            if k > n:
                notes[f"k={k} needs at least {k} samples; {benchmark} has n = {n}."] = None
            elif estimate and estimate.left_out:
                notes[
                    f"{frame.title(arm)}, k={k}: {estimate.left_out} questions have fewer than {k} "
                    "verdicts and are left out."
                ] = None
        body.append(tuple(cells))
    about = (
        "pass@k: unbiased, at least one of k samples right; maj@k: the most common of k answers "
        "right, ties shared. 95 % intervals."
    )
    return Table(
        f"ladder-{benchmark}",
        f"pass@k and maj@k on {benchmark}",
        (_ARM, *columns),
        tuple(body),
        (footnote(frame, benchmark, ks), about, *notes, *holes(frame, [benchmark])),
    )


def failures(scores: Scores, benchmark: str) -> Table:
    """Table of samples that were cut off, had no answer or got no verdict."""
    frame = scores.frame
    columns = (
        _ARM,
        Column("samples", ("samples",)),
        Column("cut off", ("truncated",)),
        Column("no answer", ("no_answer",)),
        Column("undecided", ("undecided",)),
        Column("avg of finished", ("avg_finished",)),
        Column("mean tokens", ("mean_tokens",)),
    )
    body, notes = [], []
    for arm in frame.arms:
        rates = scores.rates(arm, benchmark)
        if rates is None:
            body.append((_arm(frame, arm), *[Cell()] * 6))
            continue
        where = f"failures/{benchmark}/{arm}"
        source = _source(scores, where, (arm,), benchmark)
        body.append(
            (
                _arm(frame, arm),
                Cell(f"{rates.samples:,}", values=(rates.samples,), source=source),
                *(
                    Cell(_share(value), values=(value,), source=source)
                    for value in (rates.truncated, rates.unanswered, rates.undecided)
                ),
                Cell(number(rates.on_finished), values=(rates.on_finished,), source=source),
                Cell(_plain(rates.tokens), values=(rates.tokens,), source=source),
            )
        )
        if rates.truncated > MANY_CUT:
            notes.append(
                f"Warning: {frame.title(arm)}: {_share(rates.truncated)} of the samples were cut "
                "off; its score says more about length than about answers. Raise "
                "eval.max_new_tokens."
            )
    return Table(
        f"failures-{benchmark}",
        f"Samples without a fair verdict on {benchmark}",
        columns,
        tuple(body),
        (footnote(frame, benchmark), *notes, *holes(frame, [benchmark])),
    )


def per_seed(scores: Scores) -> Table:
    """Table of every run: counts and scores, nothing averaged."""
    frame = scores.frame
    columns = (
        _ARM,
        Column("benchmark", ("benchmark",), is_text=True),
        Column("seed", ("seed",)),
        Column("questions", ("questions",)),
        Column("right / verdicts", ("right", "verdicts")),
        Column("undecided", ("undecided",)),
        Column("avg@n", ("avg",)),
        Column("pass@n", ("pass",)),
        Column("maj@n", ("maj",)),
    )
    body = tuple(
        row
        for benchmark in frame.benchmarks
        for arm in frame.arms
        for seed in frame.seeds
        for row in _seed_rows(scores, arm, benchmark, seed)
    )
    notes = (*(footnote(frame, b) for b in frame.benchmarks), *holes(frame, frame.benchmarks))
    return Table("per-seed", "Scores by seed", columns, body, notes)


def _seed_rows(scores: Scores, arm: str, benchmark: str, seed: int) -> Iterator[tuple[Cell, ...]]:
    frame = scores.frame
    names = (
        _arm(frame, arm),
        Cell(benchmark, values=(benchmark,)),
        Cell(str(seed), values=(seed,)),
    )
    table = frame.samples
    one = (table["arm"] == arm) & (table["seed"] == seed) & (table["benchmark"] == benchmark)
    chosen = table[one]
    if chosen.empty:
        yield (*names, *[Cell()] * 6)
        return
    n = scores.n(benchmark)
    source = Source(f"per-seed/{benchmark}/{arm}/{seed}", (arm,), (seed,), "samples", benchmark)
    verdicts = int(chosen["correct"].notna().sum())
    right, undecided = int(chosen["correct"].sum()), len(chosen) - verdicts
    questions = int(chosen["doc"].nunique())
    values = []
    for metric, k in (("avg", 1), ("pass", n), ("maj", n)):
        estimate = scores.estimate(arm, benchmark, metric, k)
        values.append(estimate.per_seed.get(seed, math.nan) if estimate else math.nan)
    yield (
        *names,
        Cell(str(questions), values=(questions,), source=source),
        Cell(f"{right:,} / {verdicts:,}", values=(right, verdicts), source=source),
        Cell(str(undecided), values=(undecided,), source=source),
        *(Cell(number(v), values=(v,), source=source) for v in values),
    )


def _arm(frame: Frame, arm: str) -> Cell:
    title = frame.title(arm)
    return Cell(title, values=(title,))


def _score(row: Headline) -> Cell:
    if row.score is None:
        return Cell()
    i = row.score.interval
    return Cell(
        text=("≈ " if row.tied and not row.best else "") + number(i.value),
        detail=f"[{number(i.low)}, {number(i.high)}]",
        values=(i.value, i.low, i.high, int(row.best), int(row.tied)),
        bold=row.best,
        source=Source(
            f"headline/{row.benchmark}/{row.arm}/avg",
            (row.arm,),
            tuple(row.score.per_seed),
            "samples",
            row.benchmark,
        ),
    )


def _paired(
    row: Headline, name: str, test: Paired | None, other: str = "base"
) -> tuple[Cell, Cell]:
    if test is None:
        return Cell(), Cell()
    d = test.difference
    where = f"headline/{row.benchmark}/{row.arm}/{name}"
    source = Source(where, (row.arm, other), test.seeds, "samples", row.benchmark)
    return (
        Cell(
            text=signed(d.value) + (" ‡" if test.conditions else ""),
            detail=f"[{signed(d.low)}, {signed(d.high)}]",
            values=(d.value, d.low, d.high),
            source=source,
        ),
        Cell(
            text=p_value(test.adjusted).removeprefix("= "),
            values=(test.adjusted, d.p, d.method),
            source=source,
        ),
    )


def _seeds(frame: Frame, row: Headline) -> Cell:
    have, all_ = len(row.score.per_seed) if row.score else 0, len(frame.seeds)
    return Cell(str(have) if have == all_ else f"{have} of {all_}", values=(have,))


def _estimate(estimate: Estimate | None, where: str, arm: str, benchmark: str) -> Cell:
    if estimate is None:
        return Cell()
    i = estimate.interval
    return Cell(
        text=number(i.value),
        detail=f"[{number(i.low)}, {number(i.high)}]",
        values=(i.value, i.low, i.high),
        source=Source(where, (arm,), tuple(estimate.per_seed), "samples", benchmark),
    )


def _source(scores: Scores, where: str, arms: tuple[str, ...], benchmark: str) -> Source:
    seeds = {e.seed for e in scores.frame.evaluations.values() if e.arm in arms}
    return Source(where, arms, tuple(sorted(seeds)), "samples", benchmark)


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


def _plain(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.0f}"
