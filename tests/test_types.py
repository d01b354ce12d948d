from __future__ import annotations

import numpy as np
import pytest

from corewarding import Scores
from corewarding.errors import MethodError
from corewarding.testing import make_batch, make_group, make_item


def test_trained_yields_every_policy_group_and_no_other():
    item = make_item(
        "q", policy={"original": ["1"], "rephrased": ["2"]}, teacher=["3"], votes=["4"]
    )
    assert [g.key for g in make_batch([item]).trained()] == [("q", "original"), ("q", "rephrased")]


def test_scores_are_filed_under_uid_and_view_as_float32():
    scores = Scores()
    group = make_group("q", ["1", "2"])
    scores.set(group, [1, 0], target="1")
    assert scores.rewards[group.key].dtype == np.float32
    assert scores.targets == {("q", "original"): "1"}


@pytest.mark.parametrize("rewards", [[1.0], [1.0, 0.0, 0.0], [[1.0, 0.0]], 1.0])
def test_a_wrong_number_of_rewards_names_group_and_counts(rewards):
    with pytest.raises(MethodError, match=r"'q' \(view 'original'\): expected 2 numbers"):
        Scores().set(make_group("q", ["1", "2"]), rewards)


def test_a_group_cannot_be_rewarded_twice():
    scores, group = Scores(), make_group("q", ["1"])
    scores.set(group, [1])
    with pytest.raises(MethodError, match="twice"):
        scores.set(group, [1])


def test_logged_columns_have_one_value_a_rollout():
    scores, group = Scores(), make_group("q", ["1", "2"])
    scores.log(group, "length", [3, 4])
    assert scores.columns["length"][group.key].tolist() == [3, 4]
    with pytest.raises(MethodError, match="column 'length'"):
        scores.log(group, "length", [3])
