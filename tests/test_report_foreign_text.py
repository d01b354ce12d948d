"""Titles, errors and names that try to be code stay text in every format."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from madeup_runs import Folder, Outline, fall, flat, marks

from corewarding.errors import DataError, UserError
from corewarding.report.frame import read
from corewarding.report.render import write_report

EVIL = "<script>alert(1)</script> | \\input{/etc/passwd} $x^2$ `a` {{ 7*7 }} %"


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    root = tmp_path_factory.mktemp("evil")
    arms = {"ground-truth": {"title": EVIL}, "entropy": {"title": "=cmd('calc')!A1"}}
    folder = Folder(root, arms=arms, title=EVIL)
    for arm in ("base", "ground-truth", "entropy"):
        folder.run(arm, status="failed", error=EVIL)
        folder.evaluation(arm, marks(1, 2), header={"prompt": EVIL})
        if arm != "base":
            folder.metrics(arm, reward=flat(0.5), **{"hidden/accuracy": fall(0.5, 0)})
    folder.evaluation("base", marks(1, 2), benchmark="<img src=x> |$%")
    return write_report(folder.root, root / "out")


def test_foreign_text_runs_no_script_and_opens_no_tag(evil):
    text = evil.html.read_text()
    outline = Outline(text)
    assert outline.tags.count("script") == 1
    assert "img" not in outline.tags
    assert "&lt;script&gt;alert(1)" in text
    assert "{{ 7*7 }}" in text
    for figure in (evil.folder / "figures").glob("*.svg"):
        assert "<script" not in figure.read_text()


def test_foreign_text_keeps_markdown_tables_whole(evil):
    text = evil.markdown.read_text()
    assert "<script" not in text
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block


def test_foreign_text_is_no_formula_in_csv(evil):
    for path in (evil.folder / "tables").glob("*.csv"):
        with open(path, encoding="utf-8") as handle:
            for row in csv.reader(handle):
                for value in row:
                    assert not value.startswith("="), path


def test_foreign_text_is_no_command_in_latex(evil):
    for path in (evil.folder / "tables").glob("*.tex"):
        assert "\\input{" not in path.read_text(), path
        assert "<script" not in path.read_text(), path


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_tables_compile(evil, report, tmp_path):
    paths = [*(evil.folder / "tables").glob("*.tex"), *(report.folder / "tables").glob("*.tex")]
    for index, path in enumerate(paths):
        shutil.copy(path, tmp_path / f"t{index}.tex")
    inputs = "\n".join(f"\\input{{t{index}}}\\clearpage" for index in range(len(paths)))
    (tmp_path / "all.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs}\n"
        f"\\begin{{document}}\n{inputs}\n\\end{{document}}\n"
    )
    command = ["pdflatex", "-no-shell-escape", "-halt-on-error", "all.tex"]
    result = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert result.returncode == 0, result.stdout[-1500:].decode(errors="replace")
    assert Path(tmp_path / "all.pdf").stat().st_size > 10_000


def test_no_error_but_a_user_error_reaches_the_reader_of_a_wrong_folder(tmp_path):
    (tmp_path / "comparison.yaml").write_text("name: [")
    with pytest.raises(UserError):
        read(tmp_path)
    assert issubclass(DataError, UserError)
