from __future__ import annotations

import math

import numpy as np
import pytest

from corewarding.testing import make_batch, make_item
from corewarding.train.audit import audit, health

NAN = float("nan")
KEY = ("q", "original")


def rewards(*values):
    return {KEY: np.array(values, np.float32)}


def test_label_and_reward_accuracy_are_two_things():
    # Gold 7; the vote says 3: its label is wrong, yet 5 and 8 are rightly given 0.
    item = make_item("q", policy=["3", "3", "3", "5", "7", "8"], label="7")
    found = audit(make_batch([item]), rewards(1, 1, 1, 0, 0, 0), {KEY: "3"})
    assert found["pseudo/label_accuracy"] == 0
    assert found["pseudo/reward_accuracy"] == pytest.approx(2 / 6)
    assert found["pseudo/majority_ratio"] == pytest.approx(3 / 6)
    assert found["hidden/accuracy"] == pytest.approx(1 / 6)
    assert found["pseudo/tie_ratio"] == 0


def test_a_real_valued_reward_has_an_auc_and_no_accuracy():
    item = make_item("q", policy=["7", "7", "3", "5"], label="7")
    found = audit(make_batch([item]), rewards(0.9, 0.4, 0.4, 0.1), {})
    # Of the four right-wrong pairs three are ordered rightly and one is tied.
    assert found["pseudo/reward_auc"] == pytest.approx(3.5 / 4)
    assert math.isnan(found["pseudo/reward_accuracy"])
    assert math.isnan(found["pseudo/label_accuracy"])


def test_abstentions_and_ties_are_counted():
    item = make_item("q", policy=["3", "5"], label="7")
    found = audit(make_batch([item]), rewards(NAN, NAN), {})
    assert found["pseudo/abstain_ratio"] == 1
    assert found["pseudo/tie_ratio"] == 1


def test_without_gold_the_audit_is_undefined_not_zero():
    item = make_item("q", policy=["3", "3"])
    found = audit(make_batch([item]), rewards(1, 1), {KEY: "3"})
    assert math.isnan(found["hidden/accuracy"])
    assert math.isnan(found["pseudo/label_accuracy"])


def test_health_counts_dead_groups_lengths_and_the_commonest_answer():
    stats = {"entropy": [[0.2, 0.4], [0.6], []]}
    item = make_item("q", policy=["0", "0", None], stats=stats)
    found = health(make_batch([item]), rewards(1, 1, 1))
    assert found["frac_reward_zero_std"] == 1
    assert found["completions/top_answer_share"] == pytest.approx(2 / 3)
    assert found["completions/no_answer_ratio"] == pytest.approx(1 / 3)
    assert found["completions/clipped_ratio"] == pytest.approx(1 / 3)
    assert found["completions/mean_length"] == pytest.approx(1)
    assert found["entropy"] == pytest.approx(0.4)
    assert found["reward"] == 1


def test_health_of_silence_is_undefined_not_an_error():
    item = make_item("q", policy=[None, None], stats={"entropy": [[], []]})
    found = health(make_batch([item]), rewards(NAN, NAN))
    assert math.isnan(found["completions/top_answer_share"])
    assert math.isnan(found["entropy"])
    assert math.isnan(found["reward"])
