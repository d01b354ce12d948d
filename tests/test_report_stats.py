"""Intervals, paired tests and Holm's correction against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewarding.errors import UserError
from corewarding.report.stats import Resampler, holm, mcnemar, wilson


@pytest.fixture(scope="module")
def resampler():
    return Resampler(seed=1)


def test_holm_gives_the_published_values():
    # cases C87
    assert holm([0.01, 0.02, 0.03, 0.04]) == pytest.approx([0.04, 0.06, 0.06, 0.06])


def test_holm_keeps_the_order_and_ignores_missing_tests():
    adjusted = holm([0.5, math.nan, 0.001])
    assert adjusted[0] == 0.5
    assert math.isnan(adjusted[1])
    assert adjusted[2] == pytest.approx(0.002)


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_never_lowers_a_p_value_nor_exceeds_one(p_values):
    for p, adjusted in zip(p_values, holm(p_values), strict=True):
        assert p <= adjusted <= 1


def test_wilson_gives_the_published_interval():
    # cases C89: 9 of 30
    assert wilson(9, 30) == pytest.approx((0.167, 0.479), abs=5e-4)


def test_mcnemar_counts_only_questions_on_which_the_two_differ():
    # Two-sided binomial: 2 · (1 + 10 + 45) / 1024.
    assert mcnemar(wins=8, losses=2) == pytest.approx(112 / 1024)
    assert mcnemar(wins=0, losses=0) == 1.0


def test_a_single_run_of_single_samples_gets_wilsons_interval(resampler):
    values = np.array([[1.0] * 9 + [0.0] * 21])
    interval = resampler.interval(values, binary=True)
    assert (interval.value, interval.method) == (0.3, "Wilson")
    assert (interval.low, interval.high) == pytest.approx((0.167, 0.479), abs=5e-4)


def test_a_score_of_zero_has_an_interval_above_zero(resampler):
    interval = resampler.interval(np.zeros((2, 160)))
    assert interval.low == 0.0
    assert 0.01 < interval.high < 0.03


def test_seeds_are_resampled_as_a_whole(resampler):
    # Every question is alike, so a resample is 0.4, 0.5 or 0.6.
    interval = resampler.interval(np.array([[0.4] * 50, [0.6] * 50]))
    assert (interval.value, interval.low, interval.high) == pytest.approx((0.5, 0.4, 0.6))
    assert interval.method == "bootstrap over seeds and questions"


def test_three_seeds_are_averaged_never_maximised(resampler):
    # cases C82
    assert resampler.interval(np.array([[0.40], [0.44], [0.48]])).value == pytest.approx(0.44)


def test_one_seed_is_resampled_over_questions_with_the_known_error(resampler):
    values = np.random.default_rng(0).random((1, 400))
    interval = resampler.interval(values)
    width = 2 * 1.96 * values.std() / math.sqrt(400)
    assert interval.high - interval.low == pytest.approx(width, rel=0.05)
    assert interval.method == "bootstrap over questions"


def test_more_seeds_do_not_hide_that_the_questions_are_the_same(resampler):
    row = np.random.default_rng(0).random(400)
    one, four = resampler.interval(row[None]), resampler.interval(np.tile(row, (4, 1)))
    assert four.high - four.low == pytest.approx(one.high - one.low, rel=0.05)


def test_missing_cells_are_left_out_not_counted_as_wrong(resampler):
    values = np.array([[1.0, 0.5, np.nan], [np.nan, 0.5, 0.0]])
    assert resampler.interval(values).value == pytest.approx(0.5)


def test_no_data_is_no_number(resampler):
    assert math.isnan(resampler.interval(np.full((1, 3), np.nan)).value)


def test_pairing_sees_a_small_steady_gain_that_scores_alone_do_not(resampler):
    rng = np.random.default_rng(0)
    base = rng.random((2, 200)) * 0.9
    arm = base + rng.normal(0.02, 0.02, size=base.shape)
    gain = resampler.difference(arm, base)
    assert gain.value == pytest.approx(0.02, abs=0.005)
    assert gain.low > 0
    assert gain.p == pytest.approx(2 / 10_001)
    assert resampler.interval(arm).low < resampler.interval(base).high


def test_equal_results_differ_by_nothing(resampler):
    values = np.random.default_rng(0).random((2, 50))
    gap = resampler.difference(values, values)
    assert (gap.value, gap.low, gap.high, gap.p) == (0.0, 0.0, 0.0, 1.0)


def test_the_difference_turns_its_sign_with_the_arms(resampler):
    rng = np.random.default_rng(3)
    a, b = rng.random((1, 80)), rng.random((1, 80))
    forth, back = resampler.difference(a, b), resampler.difference(b, a)
    assert (forth.value, forth.low) == pytest.approx((-back.value, -back.high))
    assert forth.p == pytest.approx(back.p)


def test_single_samples_of_one_run_are_tested_by_mcnemar(resampler):
    a = np.array([[1.0] * 8 + [0.0] * 2 + [1.0] * 10])
    b = np.array([[0.0] * 8 + [1.0] * 2 + [1.0] * 10])
    gap = resampler.difference(a, b, binary=True)
    assert gap.value == pytest.approx(0.3)
    assert gap.p == pytest.approx(112 / 1024)
    assert gap.method == "exact McNemar"


def test_nothing_shared_is_refused(resampler):
    with pytest.raises(UserError, match="no shared question"):
        resampler.difference(np.array([[1.0, np.nan]]), np.array([[np.nan, 1.0]]))


def test_equal_seeds_give_equal_intervals_in_any_order():
    values = np.random.default_rng(0).random((2, 40))
    first, second = Resampler(seed=5), Resampler(seed=5)
    second.interval(np.random.default_rng(9).random((3, 17)))
    assert first.interval(values) == second.interval(values)
    assert Resampler(seed=6).interval(values) != first.interval(values)


def test_the_test_is_seldom_wrong_where_there_is_no_difference():
    rng, resampler = np.random.default_rng(0), Resampler(resamples=1_000)
    p_values = []
    for _ in range(300):
        p_values.append(resampler.difference(rng.random((1, 60)), rng.random((1, 60))).p)
    assert np.mean(np.array(p_values) < 0.05) < 0.1
