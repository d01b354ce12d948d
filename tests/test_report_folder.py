"""Reports of made-up run folders, small enough that every number can be checked by hand."""

from __future__ import annotations

import base64
import csv
import hashlib
import json

import pytest
from madeup_runs import Outline

from corewarding.report.render import write_report


def rows_of(report, table):
    with open(report.folder / "tables" / f"{table}.csv", encoding="utf-8") as handle:
        return {row["arm"]: row for row in csv.DictReader(handle)}


def test_the_headline_table_holds_the_means_and_differences_worked_out_by_hand(report):
    rows = rows_of(report, "headline-quiz")
    # (0+1+2+4)/16 = 7/16 and (0+1+2+3)/16 = 6/16; twice 13/16; twice 1/16.
    assert float(rows["base"]["avg"]) == pytest.approx(13 / 32, abs=1e-6)
    assert float(rows["ground-truth"]["avg"]) == pytest.approx(13 / 16, abs=1e-6)
    assert float(rows["ground-truth"]["base_diff"]) == pytest.approx(13 / 32, abs=1e-6)
    assert float(rows["self-certainty"]["base_diff"]) == pytest.approx(-11 / 32, abs=1e-6)
    assert float(rows["self-certainty"]["truth_diff"]) == pytest.approx(-12 / 16, abs=1e-6)
    assert rows["base"]["base_diff"] == ""
    assert [row["best"] for row in rows.values()] == ["0", "1", "0"]


def test_p_values_are_adjusted_over_all_three_tests_of_the_table(report):
    rows = rows_of(report, "headline-quiz")
    raw = {
        (arm, name): float(rows[arm][f"{name}_p"])
        for arm, name in (
            ("ground-truth", "base"),
            ("self-certainty", "base"),
            ("self-certainty", "truth"),
        )
    }
    smallest = min(raw, key=lambda key: raw[key])
    adjusted = float(rows[smallest[0]][f"{smallest[1]}_p_holm"])
    assert adjusted == pytest.approx(min(1, 3 * raw[smallest]), rel=1e-4)


def test_the_ladder_holds_pass_and_maj_worked_out_by_hand(report):
    base = rows_of(report, "ladder-quiz")["base"]
    # pass@2 of 0, 1, 2, 3, 4 right of 4: 0, 1/2, 5/6, 1, 1.
    assert float(base["pass@2"]) == pytest.approx(2 * (0 + 1 / 2 + 5 / 6 + 1) / 8, abs=1e-6)
    assert float(base["pass@4"]) == pytest.approx(6 / 8, abs=1e-6)
    # maj@4: 0, 0, a tie, 1.
    assert float(base["maj@4"]) == pytest.approx(2 * (0 + 0 + 0.5 + 1) / 8, abs=1e-6)
    assert "pass@4 (n=4)" in report.markdown.read_text()


def test_every_number_can_be_traced_to_files_and_counts(report, toy):
    traced = json.loads((report.folder / "sources.json").read_text())
    cell = traced["cells"]["headline/quiz/base/avg"]
    assert cell["values"]["avg"] == pytest.approx(13 / 32)
    assert [run["run"] for run in cell["runs"]] == ["base/seed-0", "base/seed-1"]
    assert [(run["n"], run["c"]) for run in cell["runs"]] == [(16, 7), (16, 6)]
    for path, sha in traced["files"].items():
        assert hashlib.sha256((toy.root / path).read_bytes()).hexdigest() == sha
    with open(toy.root / cell["runs"][0]["files"][1], encoding="utf-8") as grades:
        assert sum(json.loads(line)["correct"] for line in grades) == 7


def test_all_score_cells_have_a_source(report):
    cells = json.loads((report.folder / "sources.json").read_text())["cells"]
    for arm in ("base", "ground-truth", "self-certainty"):
        assert f"ladder/quiz/{arm}/pass@4" in cells
        assert f"per-seed/quiz/{arm}/1" in cells
        assert f"failures/quiz/{arm}" in cells
    assert cells["labels/self-certainty/frac_reward_zero_std"]["runs"][0]["files"] == [
        "self-certainty/seed-0/metrics.jsonl"
    ]
    assert cells["cost/ground-truth/student_rollouts"]["values"] == {"student_rollouts": 320}


def test_a_collapse_is_told_with_its_step_and_its_signs(report):
    text = report.verdicts[2]
    assert text.startswith("self-certainty: collapsed in 2 of 2 seeds at step 13 and 13: ")
    assert "reward rose from 2.13 to 3.37 while hidden accuracy fell from a peak of 0.40" in text
    assert "entropy 1.20 → 0.20" in text
    assert "length 30.0 → 12.0" in text
    assert "share of the most common answer 0.10 → 0.90" in text


def test_verdicts_are_in_every_form_of_the_report(report):
    machine = json.loads((report.folder / "report.json").read_text())
    assert [v["sentence"] for v in machine["verdicts"]] == list(report.verdicts)
    assert machine["verdicts"][2]["training"] == "collapsed"
    assert "collapsed in 2 of 2 seeds" in report.markdown.read_text()
    assert "collapsed in 2 of 2 seeds" in report.html.read_text()


def test_every_table_and_figure_of_scores_names_its_conditions(report):
    text = report.markdown.read_text()
    for part in ("n = 4 samples", "seeds 0, 1", "temperature 0.8", "grader math 0.9"):
        assert text.count(part) >= 5, part
    for name in ("scores", "training", "collapse", "pass-at-k"):
        assert (report.folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (report.folder / "figures" / f"{name}.svg").read_text()


def test_the_page_loads_nothing_and_allows_its_own_script_only(report):
    text = report.html.read_text()
    outline = Outline(text)
    assert outline.loads == []
    assert "@import" not in text
    assert len(outline.scripts) == 1
    digest = base64.b64encode(hashlib.sha256(outline.scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert "prefers-color-scheme: dark" in text
    assert len(set(outline.ids)) == len(outline.ids)


def test_the_same_runs_give_the_same_report_byte_for_byte(report, toy, tmp_path):
    again = write_report(toy.root, tmp_path / "again")
    files = sorted(p.relative_to(report.folder) for p in report.folder.rglob("*") if p.is_file())
    assert len(files) > 20
    for file in files:
        assert (report.folder / file).read_bytes() == (again.folder / file).read_bytes(), file


def test_two_seeds_are_said_to_be_few(report):
    assert "2 seeds: resampling so few understates" in report.markdown.read_text()


def test_costs_are_those_of_the_run_records(report):
    row = rows_of(report, "cost")["ground-truth"]
    assert row["student_rollouts"] == "320"
    assert float(row["train_seconds"]) == 40
    assert float(row["train_cpu_seconds"]) == 28
    assert rows_of(report, "cost")["base"]["prompts"] == ""


def test_methods_are_listed_with_package_and_options_in_force(report):
    row = rows_of(report, "methods")["ground-truth"]
    assert row["package"] == "corewarding 0.1.0"
    assert row["options"] == "extra=3 (set), other=None"


def test_equal_settings_leave_the_confounds_empty(report):
    assert "Nothing was found in settings" in report.markdown.read_text()


# Holes.
