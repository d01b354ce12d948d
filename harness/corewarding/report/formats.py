"""A table, and how to write it as Markdown, CSV and LaTeX with foreign text made harmless."""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from dataclasses import dataclass

__all__ = [
    "HOLE",
    "Cell",
    "Column",
    "Source",
    "Table",
    "csv_text",
    "latex",
    "markdown",
    "markdown_escape",
    "slug",
    "tex_escape",
]

HOLE = "–"
"""Stands where a number should be and is not; the table's notes say why."""

Value = float | int | str | None


@dataclass(frozen=True, slots=True)
class Source:
    """Where the numbers of a cell come from; becomes an entry of ``sources.json``."""

    id: str
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    file: str
    """``samples`` (with their grades), ``metrics.jsonl`` or ``run.json``."""
    benchmark: str | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: what people read, and the numbers behind it."""

    text: str = HOLE
    detail: str = ""
    """Smaller second part: an interval, a p-value."""
    values: tuple[Value, ...] = ()
    """One a CSV part of the column; empty: a hole."""
    bold: bool = False
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and the names of the CSV columns that a cell's values go to."""

    label: str
    parts: tuple[str, ...]
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the report."""

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    """Footnote with the conditions, then the reasons of holes and warnings."""


def markdown(table: Table) -> str:
    """Write a table and its notes as GitHub Markdown."""
    head = " | ".join(markdown_escape(column.label) for column in table.columns)
    rule = " | ".join(":--" if column.is_text else "--:" for column in table.columns)
    lines = [f"| {head} |", f"| {rule} |"]
    for row in table.rows:
        lines.append(f"| {' | '.join(_markdown_cell(cell) for cell in row)} |")
    notes = [f"*{markdown_escape(note)}*" for note in table.notes]
    return "\n".join(lines) + "".join(f"\n\n{note}" for note in notes)


def csv_text(table: Table) -> str:
    """Write the numbers of a table as CSV; text that a spreadsheet would run is disarmed."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_disarm(part) for column in table.columns for part in column.parts])
    for row in table.rows:
        line: list[str] = []
        for column, cell in zip(table.columns, row, strict=True):
            values = cell.values or (None,) * len(column.parts)
            line += [_csv_value(value) for value in values]
        writer.writerow(line)
    return out.getvalue()


def latex(table: Table) -> str:
    r"""Write a table as a ``booktabs`` float for ``\input``; plain pdfLaTeX compiles it."""
    spec = "".join("l" if column.is_text else "r" for column in table.columns)
    lines = [
        r"% needs \usepackage{booktabs} in the preamble",
        r"\begin{table}[htbp]",
        r"\centering\small\setlength{\tabcolsep}{4pt}",
        rf"\caption{{{tex_escape(table.title)}}}",
        rf"\begin{{tabular}}{{@{{}}{spec}@{{}}}}",
        r"\toprule",
        " & ".join(tex_escape(column.label) for column in table.columns) + r" \\",
        r"\midrule",
        *(" & ".join(_tex_cell(cell) for cell in row) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if table.notes:
        notes = r" \\ ".join(tex_escape(note) for note in table.notes)
        lines.append(rf"\par\smallskip\parbox{{\linewidth}}{{\footnotesize {notes}}}")
    return "\n".join([*lines, r"\end{table}", ""])


def markdown_escape(text: str) -> str:
    """Make any text plain in Markdown, inside and outside of tables."""
    flat = "".join(" " if unicodedata.category(c).startswith("C") else c for c in text)
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]#|~!])", r"\\\1", flat)


def tex_escape(text: str) -> str:
    """Make any text plain in LaTeX; characters that pdfLaTeX lacks become their code points."""
    return "".join(_TEX.get(c) or _tex_other(c) for c in text)


def slug(text: str) -> str:
    """Turn any name into a file name; different names stay different."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "x"
    if plain == text and len(text) <= 80:
        return plain
    import hashlib

    return f"{plain[:60]}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:8]}"


_TEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": "'",
    "[": "{[}",
    "]": "{]}",
    "–": "--",
    "—": "---",
    "−": "$-$",
    "±": r"$\pm$",
    "≈": r"$\approx$",
    "Δ": r"$\Delta$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "→": r"$\to$",
    "…": r"\dots{}",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "†": r"\dag{}",
    "‡": r"\ddag{}",
    "’": "'",
    "\u00a0": "~",
    "\u202f": r"\,",
}


def _tex_other(character: str) -> str:
    if character.isascii():
        return character if character.isprintable() else " "
    if "À" <= character <= "ÿ" and character not in "ÐÞðþ÷":
        return character
    return f"[U+{ord(character):04X}]"


def _tex_cell(cell: Cell) -> str:
    text = tex_escape(cell.text)
    if cell.bold:
        text = rf"\textbf{{{text}}}"
    return text + (rf" {{\scriptsize {tex_escape(cell.detail)}}}" if cell.detail else "")


def _markdown_cell(cell: Cell) -> str:
    text = markdown_escape(cell.text)
    if cell.bold:
        text = f"**{text}**"
    return text + (f" {markdown_escape(cell.detail)}" if cell.detail else "")


def _csv_value(value: Value) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value) if isinstance(value, int) else _disarm(value)


def _disarm(text: str) -> str:
    """A leading apostrophe stops Excel and its kin from reading text as a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
