"""What is unfinished, damaged or missing appears in a report as a hole with its reason."""

from __future__ import annotations

import csv
import logging
import shutil

import pytest
from madeup_runs import Folder, flat, marks, score

from corewarding.errors import UserError
from corewarding.report import tables
from corewarding.report.frame import read
from corewarding.report.render import write_report


def rows_of(report, table):
    with open(report.folder / "tables" / f"{table}.csv", encoding="utf-8") as handle:
        return {row["arm"]: row for row in csv.DictReader(handle)}


def test_a_comparison_that_has_not_begun_gives_a_report_of_holes(tmp_path):
    folder = Folder(tmp_path, arms={"ground-truth": {}})
    result = write_report(folder.root, tmp_path / "out")
    assert result.holes == ("base, ground-truth, seed 0: not started.",)
    assert result.verdicts == ("base: no result yet.", "ground-truth: no result yet.")
    assert "| base | – |" in result.markdown.read_text()


def test_failed_unfinished_and_unevaluated_runs_are_holes_with_reasons(tmp_path):
    folder = Folder(tmp_path, arms={a: {} for a in ("ground-truth", "entropy", "random")})
    folder.run("base")
    folder.evaluation("base", marks(1, 2))
    folder.run("ground-truth", status="failed", error="RunError: out of memory")
    folder.run("entropy", status="training")
    folder.metrics("entropy", steps=7, reward=flat(0.5))
    folder.run("random")
    result = write_report(folder.root, tmp_path / "out")
    assert result.holes == (
        "ground-truth, seed 0: failed: RunError: out of memory.",
        "entropy, seed 0: unfinished (status: training, 7 of 20 steps done).",
        "random, seed 0, quiz: not evaluated yet.",
    )
    assert "| ground-truth | – | – | – |" in result.markdown.read_text()
    assert "out of memory" in result.html.read_text()
    assert r"RunError: out of memory" in (result.folder / "tables/headline-quiz.tex").read_text()


def test_a_missing_seed_is_shown_beside_the_mean_of_the_others(tmp_path):
    folder = Folder(tmp_path, arms={"entropy": {}}, seeds=(0, 1))
    for seed in (0, 1):
        folder.run("base", seed)
        folder.evaluation("base", marks(1, 2), seed)
    folder.run("entropy", 0)
    folder.evaluation("entropy", marks(2, 2), 0)
    scores = score(folder)
    row = scores.headline()[1]
    assert row.score.per_seed == {0: 0.5}
    assert (row.base.seeds, row.base.difference.value) == ((0,), pytest.approx(1 / 8))
    cells = tables.headline(scores, scores.headline(), "quiz").rows[1]
    assert cells[-1].text == "1 of 2"


def test_samples_without_grades_and_stale_grades_are_not_used(tmp_path):
    folder = Folder(tmp_path, arms={"entropy": {}})
    folder.run("base")
    (folder.evaluation("base", marks(1)) / "grades.meta.json").unlink()
    folder.run("entropy")
    folder.evaluation("entropy", marks(1), meta={"samples_sha256": "0" * 64})
    frame = read(folder.root)
    assert frame.samples.empty
    assert [hole.reason for hole in frame.holes] == [
        "sampled but not graded yet",
        "the grades were made from other samples; grade again",
    ]


def test_a_torn_last_line_costs_that_line_and_is_told(tmp_path, caplog):
    folder = Folder(tmp_path, arms={"entropy": {}})
    folder.run("entropy")
    folder.metrics("entropy", reward=flat(1.0))
    with open(folder.root / "entropy/seed-0/metrics.jsonl", "a") as handle:
        handle.write('{"step": 21, "rew')
    grades = folder.evaluation("entropy", marks(4, 4)) / "grades.jsonl"
    grades.write_text(grades.read_text()[:-20])
    with caplog.at_level(logging.WARNING):
        scores = score(folder)
    assert caplog.text.count("torn last line dropped") == 2
    assert scores.frame.steps["step"].max() == 20
    assert "1 of 8 samples without a verdict; counted as undecided" in [
        hole.reason for hole in scores.frame.holes
    ]
    assert scores.estimate("entropy", "quiz", "avg").verdicts == 7


def test_a_damaged_record_is_a_hole_and_names_no_folder_above_the_comparison(tmp_path):
    folder = Folder(tmp_path, arms={"entropy": {}})
    (folder.run("entropy") / "run.json").write_text("{")
    hole = read(folder.root).holes[-1]
    assert hole.reason.startswith("entropy/seed-0/run.json: not readable as JSON")


def test_a_damaged_line_within_the_metrics_is_a_hole(tmp_path):
    folder = Folder(tmp_path, arms={"entropy": {}})
    (folder.run("entropy") / "metrics.jsonl").write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    assert any("metrics.jsonl:2" in hole.reason for hole in read(folder.root).holes)


def test_runs_of_an_arm_that_left_the_comparison_file_are_kept(tmp_path):
    folder = Folder(tmp_path, arms={"entropy": {}})
    shutil.copytree(folder.run("entropy"), folder.root / "removed" / "seed-0")
    assert read(folder.root).arms == ("base", "entropy", "removed")


def test_a_folder_without_a_comparison_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"comparison\.yaml"):
        write_report(tmp_path, tmp_path / "out")


def test_an_unknown_arm_is_refused_with_a_suggestion(toy):
    with pytest.raises(UserError, match="unknown arm 'self-certanty'; did you mean 'self-certain"):
        read(toy.root, arms=["self-certanty"])


def test_chosen_arms_come_with_the_base(toy):
    assert read(toy.root, arms=["self-certainty"]).arms == ("base", "self-certainty")


# Statistics over folders.
