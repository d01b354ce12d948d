"""Odd comparisons: few samples, undecided verdicts, unequal questions, other conditions."""

from __future__ import annotations

import csv
import math

import pytest
from madeup_runs import NOTHING, RIGHT, UNSURE, WRONG, Folder, fall, flat, marks, score, sentences

from corewarding.errors import UserError
from corewarding.report import confounds, tables
from corewarding.report.frame import read


def rows_of(report, table):
    with open(report.folder / "tables" / f"{table}.csv", encoding="utf-8") as handle:
        return {row["arm"]: row for row in csv.DictReader(handle)}


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


def test_little_signal_and_cut_off_training_are_told_in_words(tmp_path):
    folder = Folder(tmp_path, arms={"ground-truth": {}})
    folder.run("ground-truth")
    folder.metrics(
        "ground-truth",
        **{
            "hidden/accuracy": flat(0.02),
            "frac_reward_zero_std": flat(0.7),
            "completions/clipped_ratio": flat(0.97),
        },
    )
    folder.evaluation("ground-truth", marks(1, 2))
    verdict = sentences(folder)["ground-truth"]
    assert not verdict.no_signal
    assert "little signal: 70 % of groups had equal rewards" in verdict.sentence
    assert "97 % of training completions were cut off by the token limit" in verdict.sentence


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
