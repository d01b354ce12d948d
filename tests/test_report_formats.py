"""Tables as Markdown, CSV and LaTeX: numbers exact, foreign text harmless."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewarding.report.formats import (
    HOLE,
    Cell,
    Column,
    Table,
    csv_text,
    latex,
    markdown,
    markdown_escape,
    slug,
    tex_escape,
)

EVIL = r"<script>x</script>|\input{/etc/passwd}$\write18{id}$%&_#^~"


def table(*rows, notes=()):
    columns = (
        Column("arm", ("arm",), is_text=True),
        Column("avg@8", ("avg", "low", "high")),
    )
    return Table("t", "A title", columns, rows, notes)


SCORE = Cell("0.500", "[0.400, 0.600]", (0.5, 0.4, 0.6), bold=True)


def test_markdown_marks_the_best_and_keeps_the_interval_beside_it():
    lines = markdown(table((Cell("a", values=("a",)), SCORE))).splitlines()
    assert lines[0] == "| arm | avg@8 |"
    assert lines[1] == "| :-- | --: |"
    assert lines[2] == r"| a | **0.500** \[0.400, 0.600\] |"


def test_markdown_text_can_neither_end_a_cell_nor_open_a_tag():
    row = markdown(table((Cell(EVIL, values=(EVIL,)), SCORE))).splitlines()[2]
    assert "<" not in row
    assert row.replace(r"\|", "").count("|") == 3


def test_a_line_break_does_not_end_a_table_row():
    assert len(markdown(table((Cell("a\nb"), SCORE))).splitlines()) == 3


def test_csv_has_one_column_a_number_and_empty_holes():
    text = csv_text(table((Cell("a", values=("a",)), SCORE), (Cell("b", values=("b",)), Cell())))
    assert list(csv.reader(io.StringIO(text))) == [
        ["arm", "avg", "low", "high"],
        ["a", "0.5", "0.4", "0.6"],
        ["b", "", "", ""],
    ]


@pytest.mark.parametrize("text", ["=cmd()", "+1", "-1+1", "@x", "\tx"])
def test_csv_text_is_no_formula(text):
    rows = list(csv.reader(io.StringIO(csv_text(table((Cell(text, values=(text,)), SCORE))))))
    assert rows[1][0] == "'" + text


def test_negative_numbers_stay_numbers_in_csv():
    cell = Cell("−0.1", values=(-0.1, -0.2, 0.0))
    rows = list(csv.reader(io.StringIO(csv_text(table((Cell("a", values=("a",)), cell))))))
    assert rows[1][1:] == ["-0.1", "-0.2", "0"]


def test_latex_is_a_booktabs_table_with_its_notes():
    text = latex(table((Cell("a_b"), SCORE), notes=("n = 8 & more",)))
    assert [line for line in text.splitlines() if line.startswith(("\\toprule", "\\bottomrule"))]
    assert r"a\_b & \textbf{0.500} {\scriptsize {[}0.400, 0.600{]}} \\" in text
    assert r"n = 8 \& more" in text


@given(st.text())
def test_escaped_latex_holds_no_command_of_the_text(text):
    escaped = tex_escape(text)
    assert tex_escape(r"\input{x}") == r"\textbackslash{}input\{x\}"
    assert all(c.isascii() or "À" <= c <= "ÿ" for c in escaped)
    assert "%" not in escaped.replace(r"\%", "")


@given(st.text())
def test_escaped_markdown_holds_no_raw_mark(text):
    escaped = markdown_escape(text)
    assert "<" not in escaped
    assert "\n" not in escaped
    assert "|" not in escaped.replace("\\\\", "").replace("\\|", "")


@given(st.text(min_size=1), st.text(min_size=1))
def test_file_names_are_safe_and_keep_names_apart(one, other):
    assert slug(one) not in {"", ".", ".."}
    assert "/" not in slug(one)
    assert (slug(one) == slug(other)) == (one == other)


def test_a_hole_is_a_dash():
    assert markdown(table((Cell("a"), Cell()))).splitlines()[2] == f"| a | {HOLE} |"
