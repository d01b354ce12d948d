"""Smoothing and collapse of training curves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from corewarding.report.curves import detect_collapse, smooth


def judge(values):
    return detect_collapse(np.arange(1, len(values) + 1), np.array(values, dtype=float))


def test_short_runs_are_smoothed_over_five_steps():
    curve = smooth(np.array([0, 1, 2, 3, 4, 5], dtype=float))
    assert np.isnan(curve[:4]).all()
    assert curve[4:].tolist() == [2.0, 3.0]


def test_long_runs_are_smoothed_over_ten_steps():
    curve = smooth(np.arange(60, dtype=float))
    assert np.isnan(curve[:9]).all()
    assert curve[9] == 4.5


def test_missing_steps_are_left_out_of_the_mean():
    assert smooth(np.array([1.0, np.nan, 3.0, np.nan, 5.0]))[4] == 3.0


def test_a_collapse_is_dated_to_where_the_curve_stays_below_half_its_peak():
    # Means of five: 0.4 until step 20, then 0.32, 0.24, 0.16, … at steps 21, 22, 23.
    found = judge([0.4] * 20 + [0.0] * 20)
    assert found.state == "collapsed"
    assert found.step == 23
    assert (found.start, found.peak, found.last) == pytest.approx((0.4, 0.4, 0.0))


def test_a_dip_that_recovers_is_no_collapse():
    assert judge([0.4] * 15 + [0.0] * 8 + [0.4] * 15).state == "held"


def test_a_second_fall_is_dated_to_the_last_one():
    found = judge([0.4] * 10 + [0.0] * 6 + [0.4] * 10 + [0.0] * 10)
    assert found.step == 29


def test_a_slow_decay_above_half_the_peak_is_called_declined():
    assert judge(np.linspace(0.6, 0.35, 40)).state == "declined"


def test_losing_a_gain_but_not_the_start_is_no_collapse():
    assert judge([0.1] * 10 + [0.6] * 10 + [0.15] * 10).state == "declined"


def test_a_fall_within_the_noise_is_not_called_anything():
    assert judge([0.04] * 10 + [0.0] * 10).state == "held"


def test_a_rising_curve_holds():
    assert judge(np.linspace(0.1, 0.9, 30)).state == "held"


def test_few_steps_are_too_short_to_tell():
    assert judge([0.5, 0.5, 0.0, 0.0]).state == "too short to tell"


def test_unknown_accuracy_says_unknown():
    assert judge([math.nan] * 30).state == "unknown"


def test_null_steps_within_a_curve_do_not_hide_a_collapse():
    values = [0.4, math.nan] * 15 + [0.0, math.nan] * 15
    assert judge(values).state == "collapsed"
