"""Reports of made-up run folders, small enough that every number can be checked by hand."""

from __future__ import annotations

import base64
import csv
import hashlib
import html.parser
import json
import logging
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from corewarding import configfile
from corewarding.config import Comparison
from corewarding.errors import DataError, UserError
from corewarding.report import confounds, tables
from corewarding.report.curves import Curves
from corewarding.report.frame import read
from corewarding.report.render import write_report
from corewarding.report.scores import Scores
from corewarding.report.stats import Resampler
from corewarding.report.verdicts import judge

RIGHT, WRONG, UNSURE = "7", "8", "?"
NOTHING = None


class Folder:
    """Writes run folders in the format of docs/run-folder.md."""

    def __init__(self, root, *, arms, seeds=(0,), **changes):
        tree = {
            "name": "toy",
            "model": {"path": "tiny-model"},
            "data": {"train": "embedded"},
            "prompt": "plain",
            "train": {"steps": 20, "questions_per_step": 2},
            "eval": {"suite": ["quiz"], "n": 4},
            "arms": {name: {"rewards": [{"method": name}]} | extra for name, extra in arms.items()},
            "seeds": list(seeds),
        }
        self.root = root / "toy"
        self.comparison = Comparison.model_validate(tree | changes)
        self.root.mkdir(parents=True)
        (self.root / "comparison.yaml").write_text(configfile.dump(self.comparison))

    def run(self, arm, seed=0, **changes):
        folder = self.root / arm / f"seed-{seed}"
        folder.mkdir(parents=True)
        spec = configfile.resolve(self.comparison, arm=arm, seed=seed)
        (folder / "config.yaml").write_text(configfile.dump(spec))
        record = {
            "schema": 1,
            "identity": {"model": "m" * 64},
            "comparison": "toy",
            "arm": arm,
            "seed": seed,
            "status": "done",
            "error": None,
            "attempts": [{"started": "2026-01-01T00:00:00+00:00", "ended": None, "host": {}}],
            "git": {"commit": "c0ffee" * 6 + "c0ff", "dirty": False},
            "versions": {"python": "3.11.7", "torch": "2.13.0"},
            "model": {"path": "tiny-model", "sha256": "ab" * 32, "dtype": "float32"},
            "seconds": {"eval": 5.0, "grade": 1.0},
        }
        if spec.rewards:
            record |= {
                "steps_done": 20,
                "steps_total": 20,
                "methods": [
                    {
                        "name": spec.rewards[0].method,
                        "distribution": "corewarding",
                        "version": "0.1.0",
                        "weight": 1.0,
                        "normalize": "none",
                        "options_passed": {"extra": 3},
                        "options": {"extra": 3, "other": None},
                    }
                ],
                "data": {"train": "embedded", "sha256": "da" * 32, "questions": 40, "dropped": {}},
                "prompt": {"name": "plain", "sha256": "fe" * 32},
                "seconds": {"rollout": 30.0, "reward": 2.0, "update": 8.0, "eval": 5.0},
                "cpu_seconds": {"rollout": 20.0, "update": 8.0},
                "budget": {
                    "prompts": 40,
                    "student_rollouts": 320,
                    "vote_rollouts": 0,
                    "teacher_rollouts": 0,
                    "trained_tokens": 4000,
                    "generated_tokens": 4000,
                    "optimizer_steps": 20,
                },
            }
        (folder / "run.json").write_text(json.dumps(record | changes))
        return folder

    def metrics(self, arm, seed=0, *, steps=20, **curves):
        rows = [
            {"step": t + 1} | {name: curve(t / (steps - 1)) for name, curve in curves.items()}
            for t in range(steps)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (self.root / arm / f"seed-{seed}" / "metrics.jsonl").write_text(text)

    def evaluation(self, arm, answers, seed=0, benchmark="quiz", *, header=None, cut=(), meta=None):
        """`answers`: question → one answer a sample; `cut`: samples (doc, number) cut off."""
        folder = self.root / arm / f"seed-{seed}" / "eval" / "final" / benchmark
        folder.mkdir(parents=True)
        n = max(map(len, answers.values()))
        lines = [
            {
                "schema": 1,
                "benchmark": benchmark,
                "model": "m",
                "engine": "in-process",
                "n": n,
                "temperature": 0.8,
                "top_p": 1.0,
                "max_new_tokens": 48,
                "stop": [],
                "seed": seed,
                "prompt": "plain",
                "prompt_sha256": "fe" * 32,
                "questions": len(answers),
                "questions_sha256": "aa" * 32,
                "lm_eval_version": "0.4.13",
            }
            | (header or {})
        ]
        grades = []
        for doc, given in answers.items():
            for number, answer in enumerate(given):
                row = {"doc": doc, "sample": number, "prompt_sha256": "0" * 64}
                row |= {"question": "What?", "gold": RIGHT} if number == 0 else {}
                finished = (doc, number) not in cut
                lines.append(row | {"text": f"it is {answer}", "tokens": 10, "finished": finished})
                verdict = None if answer == UNSURE else answer == RIGHT
                grades.append(
                    {"doc": doc, "sample": number, "answer": answer, "class": answer}
                    | {"correct": verdict, "reason": "boxed"}
                )
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "samples.jsonl").write_text(text)
        (folder / "grades.jsonl").write_text("".join(json.dumps(g) + "\n" for g in grades))
        sha = hashlib.sha256(text.encode()).hexdigest()
        grader = {"grader": "math", "version": "0.9", "style": "boxed", "samples_sha256": sha}
        (folder / "grades.meta.json").write_text(json.dumps(grader | (meta or {})))
        return folder


def marks(*counts, n=4):
    """Answers of n samples a question, so many of them right."""
    return {f"q{i}": [RIGHT] * c + [WRONG] * (n - c) for i, c in enumerate(counts)}


def score(folder):
    frame = read(folder.root)
    return Scores(frame, Resampler(resamples=2000))


def sentences(folder):
    scores = score(folder)
    verdicts = judge(scores.frame, Curves(scores.frame), scores.headline())
    return {verdict.arm: verdict for verdict in verdicts}


def flat(level):
    return lambda x: level


def fall(start, end):
    return lambda x: start if x < 0.5 else end


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """Base, ground truth and a collapsing arm, two seeds, four questions of four samples."""
    folder = Folder(
        tmp_path_factory.mktemp("runs"),
        arms={"ground-truth": {}, "self-certainty": {}},
        seeds=(0, 1),
    )
    for seed, counts in ((0, (0, 1, 2, 4)), (1, (0, 1, 2, 3))):
        folder.run("base", seed)
        folder.evaluation("base", marks(*counts), seed)
    for seed, counts in ((0, (2, 3, 4, 4)), (1, (2, 3, 4, 4))):
        folder.run("ground-truth", seed)
        folder.metrics("ground-truth", seed, **{"hidden/accuracy": lambda x: 0.3 + 0.4 * x})
        folder.evaluation("ground-truth", marks(*counts), seed)
    for seed in (0, 1):
        folder.run("self-certainty", seed)
        folder.metrics(
            "self-certainty",
            seed,
            reward=lambda x: 2.1 + 1.3 * x,
            entropy=fall(1.2, 0.2),
            **{
                "hidden/accuracy": fall(0.4, 0.0),
                "pseudo/label_accuracy": flat(None),
                "completions/top_answer_share": fall(0.1, 0.9),
                "completions/mean_length": fall(30, 12),
                "frac_reward_zero_std": flat(0.25),
            },
        )
        folder.evaluation("self-certainty", marks(0, 0, 0, 1), seed)
    return folder


@pytest.fixture(scope="module")
def report(toy, tmp_path_factory):
    return write_report(toy.root, tmp_path_factory.mktemp("report") / "out")


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


class Outline(html.parser.HTMLParser):
    """Collects what a page would load, and the text of its scripts and tables."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.scripts, self.ids, self.tags, self._open = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._open.append(tag)
        for name, value in attrs:
            if name in {"src", "href", "xlink:href"} and not value.startswith("#"):
                self.loads.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        if self._open and self._open[-1] == "script":
            self.scripts.append(data)


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


def test_a_single_run_of_single_samples_uses_wilson_and_mcnemar_and_says_so(tmp_path):
    folder = Folder(tmp_path, arms={"entropy": {}}, eval={"suite": ["quiz"], "n": 1})
    for arm, counts in (("base", [0] * 8 + [1] * 22), ("entropy", [1] * 9 + [0] * 21)):
        folder.run(arm)
        folder.evaluation(arm, marks(*counts, n=1))
    scores = score(folder)
    rows = scores.headline()
    assert (rows[1].score.interval.low, rows[1].score.interval.high) == pytest.approx(
        (0.167, 0.479), abs=5e-4
    )
    # Right only with entropy: 8 questions; only with the base: 21.
    assert rows[1].base.difference.method == "exact McNemar"
    expected = 2 * sum(math.comb(29, i) for i in range(9)) / 2**29
    assert rows[1].base.difference.p == pytest.approx(expected)
    notes = tables.headline(scores, rows, "quiz").notes
    assert any(note.startswith("One seed:") for note in notes)
    assert "Intervals wider than 0.2 (30 questions): base, entropy." in notes


def test_undecided_samples_lower_n_and_are_told(tmp_path):
    folder = Folder(tmp_path, arms={"entropy": {}})
    folder.run("entropy")
    folder.evaluation(
        "entropy",
        {"q0": [RIGHT, RIGHT, WRONG, UNSURE], "q1": [WRONG] * 4, "q2": [UNSURE] * 4},
    )
    scores = score(folder)
    estimate = scores.estimate("entropy", "quiz", "avg")
    assert estimate.interval.value == pytest.approx((2 / 3 + 0) / 2)
    assert (estimate.verdicts, estimate.right, estimate.undecided) == (7, 2, 5)
    # pass@4: q0 has three verdicts, q2 none; only q1 is left.
    ladder = tables.ladder(scores, "quiz", [4])
    assert ladder.rows[1][1].values[0] == 0.0
    assert any("k=4: 2 questions have fewer than 4 verdicts" in note for note in ladder.notes)
    notes = tables.headline(scores, scores.headline(), "quiz").notes
    assert any("5 of 12 samples are undecided" in note for note in notes)


def test_more_k_than_samples_is_a_hole_never_a_number(tmp_path):
    folder = Folder(tmp_path, arms={"entropy": {}}, eval={"suite": ["quiz"], "n": 16})
    folder.run("entropy")
    folder.evaluation("entropy", marks(4, 4))
    ladder = tables.ladder(score(folder), "quiz", [1, 16])
    assert [cell.text for cell in ladder.rows[1]][1:] == ["1.000", "–", "–"]
    assert "k=16 needs at least 16 samples; quiz has n = 4." in ladder.notes


def test_only_shared_questions_are_compared_and_the_report_says_so(tmp_path):
    # cases C86
    folder = Folder(tmp_path, arms={"entropy": {}})
    for arm, first in (("base", 1), ("entropy", 2)):
        folder.run(arm)
        folder.evaluation(arm, {f"q{i}": [RIGHT, WRONG] for i in range(first, first + 10)})
    scores = score(folder)
    rows = scores.headline()
    assert (rows[1].base.questions, rows[1].base.of) == (9, 11)
    notes = tables.headline(scores, rows, "quiz").notes
    assert "entropy against the base: the 9 shared of 11 questions." in notes


def test_no_shared_question_is_refused_with_the_reason_below_the_table(tmp_path):
    folder = Folder(tmp_path, arms={"entropy": {}})
    for arm, name in (("base", "a"), ("entropy", "b")):
        folder.run(arm)
        folder.evaluation(arm, {name: [RIGHT]})
    scores = score(folder)
    with pytest.raises(UserError, match="share no question and seed of 'quiz'"):
        scores.paired("entropy", "base", "quiz")
    rows = scores.headline()
    assert rows[1].base is None
    notes = tables.headline(scores, rows, "quiz").notes
    assert any("share no question" in note for note in notes)


def test_cut_off_samples_have_their_own_column_and_a_warning(tmp_path):
    # cases C129: ten questions, four cut off, the other six right.
    folder = Folder(tmp_path, arms={"entropy": {}}, eval={"suite": ["quiz"], "n": 1})
    folder.run("entropy")
    answers = {f"q{i}": [RIGHT if i < 6 else NOTHING] for i in range(10)}
    folder.evaluation("entropy", answers, cut={(f"q{i}", 0) for i in range(6, 10)})
    scores = score(folder)
    table = tables.failures(scores, "quiz")
    assert scores.estimate("entropy", "quiz", "avg").interval.value == pytest.approx(0.6)
    assert [cell.text for cell in table.rows[1]][1:] == [
        "10",
        "40.0 %",
        "40.0 %",
        "0.0 %",
        "1.000",
        "10",
    ]
    assert any(note.startswith("Warning: entropy: 40.0 % of the samples") for note in table.notes)


def test_arms_not_separable_from_the_best_are_marked(tmp_path):
    folder = Folder(tmp_path, arms={"entropy": {}, "random": {}})
    for arm, counts in (
        ("base", [0] * 30),
        ("entropy", [2, 3] * 15),
        ("random", [3, 2] * 14 + [3, 3]),
    ):
        folder.run(arm)
        folder.evaluation(arm, marks(*counts))
    rows = {row.arm: row for row in score(folder).headline()}
    assert rows["random"].best
    assert rows["entropy"].tied
    assert not rows["base"].tied


# Confounds.


def test_other_settings_and_budgets_are_listed(tmp_path):
    arms = {"ground-truth": {}, "entropy": {"overrides": {"train.learning_rate": 1e-5}}}
    folder = Folder(tmp_path, arms=arms)
    folder.run("ground-truth")
    budget = {"student_rollouts": 640, "trained_tokens": 4100, "generated_tokens": 9000}
    folder.run("entropy", budget=budget, versions={"python": "3.12.1", "torch": "2.13.0"})
    found = {(c.kind, c.key): (c.value, c.reference) for c in confounds.find(read(folder.root))}
    assert found == {
        ("setting", "train.learning_rate"): ("1e-05", "3e-06"),
        ("budget", "student_rollouts"): ("640", "320"),
        ("budget", "generated_tokens"): ("9,000", "4,000"),
        ("provenance", "versions.python"): ("3.12.1", "3.11.7"),
    }


def test_a_base_measured_under_other_conditions_is_no_gain(tmp_path):
    # cases C130
    folder = Folder(tmp_path, arms={"entropy": {}})
    for arm, header, counts in (("base", {"max_new_tokens": 16}, 0), ("entropy", {}, 4)):
        folder.run(arm)
        folder.evaluation(arm, marks(*[counts] * 12), header=header)
    scores = score(folder)
    rows = scores.headline()
    assert rows[1].base.conditions == ("max_new_tokens: 48, base: 16",)
    table = tables.headline(scores, rows, "quiz")
    assert table.rows[1][2].text == "+1.000 ‡"
    assert any("under other conditions (max_new_tokens: 48" in note for note in table.notes)
    assert "under other conditions" in sentences(folder)["entropy"].sentence
    kinds = {(c.arm, c.kind, c.key) for c in confounds.find(scores.frame)}
    assert ("base", "evaluation", "quiz: max_new_tokens") in kinds


def test_another_grader_is_another_condition(tmp_path):
    folder = Folder(tmp_path, arms={"entropy": {}})
    for arm, grader in (("base", "string"), ("entropy", "math")):
        folder.run(arm)
        folder.evaluation(arm, marks(1, 2), meta={"grader": grader})
    assert confounds.conditions(read(folder.root), "entropy", "base", "quiz") == [
        "grader: math, base: string"
    ]


# Verdicts.


def test_arms_without_a_signal_are_told_in_words(tmp_path):
    folder = Folder(tmp_path, arms={"entropy": {}})
    folder.run("entropy")
    folder.metrics("entropy", frac_reward_zero_std=flat(0.96), **{"hidden/accuracy": flat(0.01)})
    verdict = sentences(folder)["entropy"]
    assert verdict.no_signal
    assert "no signal: 96 % of groups had equal rewards" in verdict.sentence


def test_few_steps_are_told_to_be_too_short(tmp_path):
    folder = Folder(tmp_path, arms={"entropy": {}})
    folder.run("entropy")
    folder.metrics("entropy", steps=3, **{"hidden/accuracy": fall(0.5, 0.0)})
    assert "training too short to tell" in sentences(folder)["entropy"].sentence


def test_metrics_that_are_all_null_are_told_to_be_unknown(tmp_path):
    folder = Folder(tmp_path, arms={"entropy": {}})
    folder.run("entropy")
    folder.metrics("entropy", reward=flat(None), **{"hidden/accuracy": flat(None)})
    assert "hidden accuracy unknown" in sentences(folder)["entropy"].sentence


def test_better_worse_and_not_separable_use_the_same_words_for_every_method(tmp_path):
    arms = ("ground-truth", "entropy", "random")
    folder = Folder(tmp_path, arms={arm: {} for arm in arms})
    counts = {"base": [1, 2], "ground-truth": [3, 4], "entropy": [0, 0], "random": [2, 1]}
    for arm, pair in counts.items():
        folder.run(arm)
        folder.evaluation(arm, marks(*pair * 15))
    found = sentences(folder)
    assert "better than the base on quiz (+0.500 [" in found["ground-truth"].sentence
    assert "worse than the base on quiz (−0.375 [" in found["entropy"].sentence
    assert "not separable from the base on quiz (±0.000 [" in found["random"].sentence
    assert found["random"].sentence.count("ground-truth") == 1
    assert found["random"].outcomes == {"quiz": "not separable"}


# Foreign text.

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
