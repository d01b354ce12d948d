"""Write the report of a comparison: Markdown, one HTML file, tables, figures, sources."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from corewarding import resources
from corewarding.report import captions, confounds, figures, run_tables, sources, tables
from corewarding.report.curves import Curves
from corewarding.report.formats import Table, csv_text, latex, markdown, markdown_escape, slug
from corewarding.report.frame import Frame, read
from corewarding.report.scores import Headline, Scores
from corewarding.report.stats import Resampler
from corewarding.report.verdicts import Verdict, judge
from corewarding.rundir import write_atomic, write_json

__all__ = ["ReportResult", "write_report"]


@dataclass(frozen=True, slots=True)
class ReportResult:
    """Where a report lies, and what a terminal shows of it."""

    folder: Path
    markdown: Path
    html: Path
    headline: tuple[Headline, ...]
    verdicts: tuple[str, ...]
    """One sentence an arm."""
    holes: tuple[str, ...]
    """What is missing, and why."""


@dataclass(frozen=True, slots=True)
class _Content:
    """Everything that the templates lay out."""

    frame: Frame
    ks: tuple[int, ...]
    rows: list[Headline]
    verdicts: list[Verdict]
    confounds: list[confounds.Confound]
    tables: dict[str, Table]
    pictures: dict[str, figures.Picture]
    facts: tuple[tuple[str, str], ...]
    holes: tuple[str, ...]


def write_report(run_root: Path, out: Path, *, arms: Sequence[str] | None = None) -> ReportResult:
    """Write the report of the comparison in `run_root`, finished or not, to the folder `out`.

    Args:
        run_root: ``runs/<comparison>``.
        out: is made if needed; files of an earlier report are replaced.
        arms: only these; the untrained model is always there. None: all.

    Raises:
        DataError: `run_root` holds no comparison.
        UserError: an unknown arm.
    """
    frame = read(run_root, arms=arms)
    content = _compute(frame)
    out.mkdir(parents=True, exist_ok=True)
    for table in content.tables.values():
        write_atomic(out / "tables" / f"{slug(table.id)}.csv", csv_text(table))
        write_atomic(out / "tables" / f"{slug(table.id)}.tex", latex(table))
    (out / "figures").mkdir(exist_ok=True)
    for picture in content.pictures.values():
        (out / "figures" / f"{picture.id}.png").write_bytes(picture.png)
        write_atomic(out / "figures" / f"{picture.id}.svg", picture.svg)
    write_json(out / "sources.json", sources.trace(run_root, frame, content.tables.values()))
    write_json(out / "report.json", _machine_readable(content))
    write_atomic(out / "report.md", _render("report.md.j2", content))
    write_atomic(out / "report.html", _render("report.html.j2", content))
    return ReportResult(
        folder=out,
        markdown=out / "report.md",
        html=out / "report.html",
        headline=tuple(content.rows),
        verdicts=tuple(verdict.sentence for verdict in content.verdicts),
        holes=content.holes,
    )


def _compute(frame: Frame) -> _Content:
    scores, curves = Scores(frame, Resampler()), Curves(frame)
    ks = tuple(frame.comparison.eval.ladder())
    rows = scores.headline()
    found = confounds.find(frame)
    built = [
        *([tables.overview(scores, rows)] if len(frame.benchmarks) > 1 else []),
        *(tables.headline(scores, rows, b) for b in frame.benchmarks),
        *(tables.ladder(scores, b, ks) for b in frame.benchmarks),
        *(tables.failures(scores, b) for b in frame.benchmarks),
        run_tables.labels(frame, curves),
        run_tables.cost(frame),
        run_tables.confound_table(frame, found, confounds.reference_arm(frame)),
        run_tables.methods(frame),
        run_tables.run_list(frame),
        run_tables.versions(frame),
        tables.per_seed(scores),
    ]
    return _Content(
        frame=frame,
        ks=ks,
        rows=rows,
        verdicts=judge(frame, curves, rows),
        confounds=found,
        tables={table.id: table for table in built},
        pictures={picture.id: picture for picture in figures.draw(scores, curves, rows, ks)},
        facts=_facts(frame),
        holes=tuple(captions.holes(frame, frame.benchmarks)),
    )


def _facts(frame: Frame) -> tuple[tuple[str, str], ...]:
    """The header's lines: what was compared, on what, how."""
    c = frame.comparison
    data = c.data.train or "none"
    trained = [run for run in frame.runs.values() if run.trained]
    sizes = [str((run.record.get("data") or {}).get("questions", "")) for run in trained]
    questions = ", ".join(dict.fromkeys(size for size in sizes if size))
    size = f" ({questions} questions)" if questions else ""
    length = f"{c.train.steps} steps" if c.train.steps else f"{c.train.epochs} epochs"
    return (
        ("Model", c.model.path + (f" @ {c.model.revision}" if c.model.revision else "")),
        ("Training data", data + size),
        ("Prompt template", c.prompt),
        (
            "Training",
            f"{length} of {c.train.questions_per_step} questions × {c.rollout.n} rollouts, "
            f"temperature {c.rollout.temperature:g}, at most {c.rollout.max_new_tokens} tokens",
        ),
        (
            "Evaluation",
            f"n = {c.eval.n} samples a question, k = {', '.join(map(str, c.eval.ladder()))}, "
            f"temperature {c.eval.temperature:g}, top-p {c.eval.top_p:g}, at most "
            f"{c.eval.max_new_tokens} tokens, grader {c.eval.grader}",
        ),
        ("Benchmarks", ", ".join(frame.benchmarks)),
        ("Seeds", ", ".join(map(str, frame.seeds))),
    )


def _render(template: str, content: _Content) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.folder("reports") / "templates"),
        autoescape=template.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"md": markdown_escape, "table": markdown, "inline": _inline_svg}
    environment.filters |= {"slug": slug, "sortable": _sort_key}
    script = (resources.folder("reports") / "templates" / "sort.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(template).render(
        content=content,
        frame=content.frame,
        tables=content.tables,
        pictures=content.pictures,
        title=content.frame.comparison.title or content.frame.comparison.name,
        script=Markup(script),
        script_hash=digest,
        ink=figures.INK,
        grid=figures.GRID,
    )


def _inline_svg(picture: figures.Picture) -> Markup:
    """The SVG element alone, its ids made unique within a page, for HTML."""
    svg = picture.svg[picture.svg.index("<svg") :]
    svg = re.sub(r'\bid="', f'id="{picture.id}-', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\1{picture.id}-", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # matplotlib escaped all text when it wrote the file.
    return Markup(svg.replace("<svg ", '<svg role="img" ', 1))


def _sort_key(value: Any) -> str:
    """Value of a cell that the browser sorts by."""
    if isinstance(value, float) and math.isnan(value):
        return ""
    return "" if value is None else str(value)


def _machine_readable(content: _Content) -> dict[str, Any]:
    return {
        "schema": 1,
        "comparison": content.frame.comparison.model_dump(mode="json"),
        "arms": list(content.frame.arms),
        "seeds": list(content.frame.seeds),
        "benchmarks": list(content.frame.benchmarks),
        "k": list(content.ks),
        "headline": [_tree(row) for row in content.rows],
        "verdicts": [_tree(verdict) for verdict in content.verdicts],
        "confounds": [_tree(confound) for confound in content.confounds],
        "holes": [_tree(hole) for hole in content.frame.holes],
        "tables": {
            table.id: {
                "title": table.title,
                "columns": [part for column in table.columns for part in column.parts],
                "rows": [_values(table, row) for row in table.rows],
                "notes": list(table.notes),
            }
            for table in content.tables.values()
        },
    }


def _values(table: Table, row: tuple[Any, ...]) -> list[Any]:
    return [
        value
        for column, cell in zip(table.columns, row, strict=True)
        for value in (cell.values or (None,) * len(column.parts))
    ]


def _tree(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
