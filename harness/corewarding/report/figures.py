"""Draw the figures; one fixed colour, dash and marker an arm in all of them.

Figures are made through matplotlib's object interface: no window, no global figure.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox

from corewarding.config import BASE_ARM
from corewarding.report.captions import footnote, training_footnote
from corewarding.report.curves import Curves, smooth
from corewarding.report.frame import Frame
from corewarding.report.scores import Headline, Scores

__all__ = ["GRID", "INK", "Picture", "draw"]

Steps = npt.NDArray[np.int64]  # (T,)
Array = npt.NDArray[np.float64]

INK, GRID, BASE_COLOUR = "#1b1f24", "#d9dde2", "#7d8590"
# seaborn's "colorblind" without its grey (the untrained model's), the strongest first.
_ORDER = (0, 1, 2, 3, 4, 9, 5, 6, 8)
_DASHES = ((), (4, 1.5), (1, 1), (5, 1, 1, 1))
_MARKERS = "osD^vPXd<>"
_SHARE_REWARD = "reward, where it is within 0–1"
_TRAINING = (
    ("hidden/accuracy", "hidden accuracy"),
    ("reward", _SHARE_REWARD),
    ("reward", "other rewards, each in its own range"),
    ("pseudo/label_accuracy", "pseudo-label accuracy"),
    ("entropy", "token entropy"),
    ("completions/mean_length", "mean length, tokens"),
)
_COLLAPSE = (
    ("reward", "reward"),
    ("hidden/accuracy", "hidden accuracy"),
    ("entropy", "token entropy"),
    ("completions/mean_length", "mean length"),
    ("completions/top_answer_share", "most common answer"),
)
_SHARES = {"hidden/accuracy", "pseudo/label_accuracy", "completions/top_answer_share"}


@dataclass(frozen=True, slots=True)
class Picture:
    """A finished figure."""

    id: str
    title: str
    png: bytes
    svg: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Style:
    colour: str
    dash: tuple[float, ...]
    marker: str


def draw(
    scores: Scores, curves: Curves, rows: Sequence[Headline], ks: Sequence[int]
) -> list[Picture]:
    """Draw every figure that has something to show."""
    frame = scores.frame
    styles = _styles(frame)
    pictures = []
    with _theme():
        if any(row.score for row in rows):
            pictures.append(_scores(frame, rows, styles))
            pictures.append(_passk(scores, ks, styles))
        if not frame.steps.empty:
            pictures.append(_training(curves, styles))
            pictures.append(_collapse(curves, styles))
    return pictures


def _styles(frame: Frame) -> dict[str, _Style]:
    """By the order of the whole comparison, so that a report of fewer arms keeps the colours."""
    palette = sns.color_palette("colorblind").as_hex()
    styles = {BASE_ARM: _Style(BASE_COLOUR, (), "o")}
    names = dict.fromkeys([*frame.comparison.arms, *frame.arms])
    for index, arm in enumerate(name for name in names if name != BASE_ARM):
        styles[arm] = _Style(
            palette[_ORDER[index % len(_ORDER)]],
            _DASHES[index // len(_ORDER) % len(_DASHES)],
            _MARKERS[index % len(_MARKERS)],
        )
    return styles


def _scores(frame: Frame, rows: Sequence[Headline], styles: dict[str, _Style]) -> Picture:
    """Dots with intervals, one panel a benchmark."""
    arms = list(frame.arms)
    width, height = max(4.5, 3.6 * len(frame.benchmarks)), 1.5 + 0.32 * len(arms)
    figure = _figure(width, height)
    axes = figure.subplots(1, len(frame.benchmarks), squeeze=False, sharey=True)[0]
    for axis, benchmark in zip(axes, frame.benchmarks, strict=True):
        for row in rows:
            if row.benchmark != benchmark or row.score is None:
                continue
            y, style, i = arms.index(row.arm), styles[row.arm], row.score.interval
            axis.plot([i.low, i.high], [y, y], color=style.colour, lw=2, solid_capstyle="round")
            axis.plot(i.value, y, style.marker, color=style.colour, ms=6)
            if row.arm == BASE_ARM:
                axis.axvline(i.value, color=BASE_COLOUR, lw=0.8, ls=(0, (2, 2)), zorder=0)
        axis.set_title(benchmark)
        axis.set_xlabel("avg@n")
        axis.grid(axis="y", visible=False)
    axes[0].set_yticks(range(len(arms)), [frame.title(arm) for arm in arms])
    axes[0].set_ylim(len(arms) - 0.5, -0.5)
    notes = [footnote(frame, benchmark) for benchmark in frame.benchmarks]
    notes.append("Bars: 95 % intervals. Dashed: the untrained model.")
    return _finish(figure, "scores", "Scores with 95 % intervals", notes)


def _passk(scores: Scores, ks: Sequence[int], styles: dict[str, _Style]) -> Picture:
    """pass@k against k, one panel a benchmark, with the interval as a band."""
    frame = scores.frame
    figure = _figure(max(5.0, 4.2 * len(frame.benchmarks)), 4.2)
    axes = figure.subplots(1, len(frame.benchmarks), squeeze=False)[0]
    for axis, benchmark in zip(axes, frame.benchmarks, strict=True):
        for arm in frame.arms:
            found = [(k, scores.estimate(arm, benchmark, "pass", k)) for k in ks]
            points = [(k, e.interval) for k, e in found if e is not None]
            if not points:
                continue
            style, x = styles[arm], [k for k, _ in points]
            low, high = [i.low for _, i in points], [i.high for _, i in points]
            axis.fill_between(x, low, high, color=style.colour, alpha=0.12, lw=0)
            line = axis.plot(x, [i.value for _, i in points], color=style.colour, lw=1.6)[0]
            line.set_marker(style.marker)
            line.set_markersize(4)
            if style.dash:
                line.set_dashes(style.dash)
        axis.set_xscale("log", base=2)
        axis.set_xticks(list(ks), [str(k) for k in ks])
        axis.minorticks_off()
        axis.set_title(benchmark)
        axis.set_xlabel("k")
    axes[0].set_ylabel("pass@k")
    _legend(figure, frame, frame.arms, styles, markers=True)
    notes = [footnote(frame, benchmark, ks) for benchmark in frame.benchmarks]
    return _finish(figure, "pass-at-k", "pass@k with 95 % band", notes)


def _training(curves: Curves, styles: dict[str, _Style]) -> Picture:
    """One panel a metric, all arms in each: smoothed mean over seeds, band from least to most."""
    frame, arms = curves.frame, curves.frame.trained()
    figure = _figure(10.5, 6.2)
    axes = figure.subplots(2, 3, sharex=True)
    binary = [arm for arm in arms if _is_share(curves, arm)]
    others = [arm for arm in arms if arm not in binary]
    for axis, (metric, name) in zip(axes.ravel(), _TRAINING, strict=True):
        shown, scaled = arms, metric == "reward" and name != _SHARE_REWARD
        if metric == "reward":
            shown = others if scaled else binary
        for arm in shown:
            found = [(steps, smooth(values)) for _, steps, values in curves.each(arm, metric)]
            if found:
                _band(axis, *_over_seeds(found, scaled=scaled), styles[arm])
        _dress(axis, metric, name)
        if scaled or name == _SHARE_REWARD:
            axis.set_ylim(-0.03, 1.03)
    for axis in axes[-1]:
        axis.set_xlabel("step")
    _legend(figure, frame, arms, styles)
    notes = [training_footnote(frame), "Running means; line: mean over seeds; band: their range."]
    return _finish(figure, "training", "Training curves", notes)


def _collapse(curves: Curves, styles: dict[str, _Style]) -> Picture:
    """Small multiples: one row an arm, one column a sign of collapse, one line a seed."""
    frame, arms = curves.frame, curves.frame.trained()
    # A fixed layout: so many panels take the layout engine longer than everything else together.
    width, height = 11.0, 1.0 + 1.25 * len(arms)
    figure = _figure(width, height, layout=None)
    figure.subplots_adjust(
        left=2.0 / width,
        right=1 - 0.1 / width,
        bottom=0.55 / height,
        top=1 - 0.35 / height,
        wspace=0.28,
        hspace=0.25,
    )
    grid = figure.subplots(len(arms), len(_COLLAPSE), squeeze=False, sharex=True)
    for axis, (_, name) in zip(grid[0], _COLLAPSE, strict=True):
        axis.set_title(name)
    for row, arm in zip(grid, arms, strict=True):
        collapses = curves.collapse(arm)
        for axis, (metric, _) in zip(row, _COLLAPSE, strict=True):
            for seed, steps, values in curves.each(arm, metric):
                axis.plot(steps, values, color=styles[arm].colour, lw=0.5, alpha=0.3)
                axis.plot(steps, smooth(values), color=styles[arm].colour, lw=1.3)
                at = collapses[seed].step if seed in collapses else None
                if at is not None:
                    axis.axvline(at, color=INK, lw=0.8, ls=(0, (2, 2)))
            _dress(axis, metric)
            axis.yaxis.set_major_locator(MaxNLocator(3))
        middle = float(row[0].get_position().intervaly.mean())
        name = textwrap.fill(frame.title(arm), 20)
        figure.text(0.1 / width, middle, name, va="center", fontsize=8.5)
    for axis in grid[-1]:
        axis.set_xlabel("step")
    notes = [
        training_footnote(frame),
        "Thin: every step; thick: running mean; one line a seed. Dashed: step from which the "
        "smoothed hidden accuracy stays below half its peak.",
    ]
    return _finish(figure, "collapse", "Signs of collapse", notes)


def _is_share(curves: Curves, arm: str) -> bool:
    """Whether the mean reward of an arm stays within 0 … 1."""
    found = [values for _, _, values in curves.each(arm, "reward")]
    return all(np.nanmin(v) >= 0 and np.nanmax(v) <= 1 for v in found)


def _over_seeds(found: Sequence[tuple[Steps, Array]], *, scaled: bool) -> tuple[Steps, Array]:
    """Put curves of several seeds on the steps of all of them: (T,) and (S, T)."""
    steps = np.unique(np.concatenate([own for own, _ in found]))
    values = np.full((len(found), steps.size), np.nan)
    for row, (own, curve) in zip(values, found, strict=True):
        row[np.searchsorted(steps, own)] = curve
    known = ~np.isnan(values).all(axis=0)
    steps, values = steps[known], values[:, known]
    if scaled and values.size:
        low, high = np.nanmin(values), np.nanmax(values)
        values = (values - low) / (high - low or 1.0)
    return steps, values


def _band(axis: Axes, steps: Steps, values: Array, style: _Style) -> None:
    """Draw the mean of `values` (S, T) over a band from their least to their most."""
    if not steps.size:
        return
    least, most = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    axis.fill_between(steps, least, most, color=style.colour, alpha=0.15, lw=0)
    line = axis.plot(steps, np.nanmean(values, axis=0), color=style.colour, lw=1.4)[0]
    if style.dash:
        line.set_dashes(style.dash)


def _dress(axis: Axes, metric: str, name: str = "") -> None:
    if name:
        axis.set_title(name)
    if metric in _SHARES:
        axis.set_ylim(-0.03, 1.03)


def _legend(
    figure: Figure,
    frame: Frame,
    arms: Sequence[str],
    styles: dict[str, _Style],
    *,
    markers: bool = False,
) -> None:
    handles = []
    for arm in arms:
        style = styles[arm]
        line = Line2D([], [], color=style.colour, lw=2, label=frame.title(arm))
        if markers:
            line.set_marker(style.marker)
            line.set_markersize(5)
        if style.dash:
            line.set_dashes(style.dash)
        handles.append(line)
    figure.legend(
        handles=handles, loc="outside upper left", ncols=min(4, len(handles)), frameon=False
    )


def _figure(
    width: float, height: float, layout: Literal["constrained"] | None = "constrained"
) -> Figure:
    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def _theme() -> Iterator[None]:
    style = {
        **sns.axes_style("whitegrid"),
        "axes.edgecolor": GRID,
        "axes.labelcolor": INK,
        "axes.titlesize": 9,
        "axes.titlelocation": "left",
        "axes.titlecolor": INK,
        "axes.labelsize": 8.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "font.family": ["sans-serif"],
        "font.sans-serif": ["DejaVu Sans"],
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "legend.fontsize": 8.5,
        "svg.fonttype": "none",
        "svg.hashsalt": "corewarding",
        "text.color": INK,
        "text.parse_math": False,
        "xtick.color": INK,
        "xtick.labelsize": 8,
        "ytick.color": INK,
        "ytick.labelsize": 8,
    }
    with mpl.rc_context(style):
        yield


def _finish(figure: Figure, name: str, title: str, notes: Sequence[str]) -> Picture:
    """Save as SVG for the report, and as PNG with its footnote for slides and papers."""
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once: it costs more than drawing
    vector = io.StringIO()
    figure.savefig(vector, format="svg", metadata={"Date": None, "Title": title})
    width, height = figure.get_size_inches()
    lines = [line for note in notes for line in textwrap.wrap(note, int(width * 17))]
    figure.text(0.1 / width, 0, "\n".join(lines), va="top", fontsize=6.5, color="#57606a")
    raster = io.BytesIO()
    figure.savefig(
        raster,
        format="png",
        dpi=130,
        facecolor="white",
        bbox_inches=Bbox.from_extents(0, -0.12 * len(lines) - 0.1, width, height),
        metadata={"Software": None, "Title": title},
    )
    return Picture(name, title, raster.getvalue(), vector.getvalue(), tuple(notes))
