from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewarding.train.advantages import group_advantages

VECTORS = json.loads((Path(__file__).parent / "data/paper_test_vectors.json").read_text())


@pytest.mark.parametrize("case", VECTORS["grpo_advantage"])
def test_advantages_equal_the_reference(case):
    found = group_advantages(np.array(case["rewards"], np.float32))
    np.testing.assert_allclose(found, case["advantage"], atol=2e-6)


@pytest.mark.parametrize("value", [0.7, 0.1, -3.3, 0.0])
def test_equal_rewards_give_exactly_zero(value):
    assert not group_advantages(np.full(8, value, np.float32)).any()


def test_an_abstention_leaves_mean_and_deviation():
    with_nan = group_advantages(np.array([1, 0, np.nan, 1], np.float32))
    without = group_advantages(np.array([1, 0, 1], np.float32))
    np.testing.assert_array_equal(with_nan[[0, 1, 3]], without)
    assert with_nan[2] == 0


def test_centring_alone_keeps_the_scale():
    found = group_advantages(np.array([1, 0, np.nan, 1], np.float32), scale="group-mean")
    np.testing.assert_allclose(found, [1 / 3, -2 / 3, 0, 1 / 3], rtol=1e-6)


def test_one_reward_among_abstentions_has_no_baseline():
    assert not group_advantages(np.array([np.nan, 5, np.nan], np.float32)).any()


def test_all_abstaining_gives_zeros():
    assert not group_advantages(np.full(4, np.nan, np.float32)).any()


@given(
    st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=16),
    st.randoms(use_true_random=False),
)
def test_advantages_sum_to_zero_and_follow_their_rollouts(values, random):
    rewards = np.array(values, np.float32)
    found = group_advantages(rewards)
    assert abs(float(found.sum())) < 1e-2
    order = list(range(len(values)))
    random.shuffle(order)
    np.testing.assert_allclose(group_advantages(rewards[order]), found[order], atol=1e-4)
