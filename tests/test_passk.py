"""pass@k, avg@k, pass^k, maj@k against hand-computed and brute-force values."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewarding.errors import UserError
from corewarding.evaluate.passk import avg_at_k, maj_at_k, pass_at_k, pass_hat_k


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (4, 1, 2, 0.5),
        (5, 2, 3, 0.9),
        (10, 3, 5, 0.916667),
        (16, 0, 8, 0.0),
        (16, 9, 8, 1.0),
        (1, 1, 1, 1.0),
        (4, 1, 4, 1.0),
        (8, 1, 2, 0.25),
    ],
)
def test_pass_at_k_gives_the_published_values(n, c, k, expected):
    assert pass_at_k(n=n, c=c, k=k) == pytest.approx(expected, abs=1e-6)


def test_pass_at_k_is_accurate_for_very_many_samples():
    assert pass_at_k(n=200_000, c=1, k=50_000) == pytest.approx(0.25, abs=1e-12)
    assert pass_at_k(n=100_000, c=1, k=1) == pytest.approx(1e-5, abs=1e-15)
    assert pass_at_k(n=5_000, c=2_500, k=2_500) == pytest.approx(1.0)


@pytest.mark.parametrize("c", [0, 3])
def test_more_draws_than_samples_are_refused_whatever_was_right(c):
    for estimate in (pass_at_k, avg_at_k, pass_hat_k):
        with pytest.raises(UserError, match="k=4 needs at least 4 samples, there are 3"):
            estimate(n=3, c=c, k=4)
    with pytest.raises(UserError, match="k=4 needs at least 4 samples"):
        maj_at_k(["a"] * 3, [bool(c)] * 3, k=4)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 1, 0)])
def test_impossible_counts_are_refused(n, c, k):
    with pytest.raises(UserError):
        pass_at_k(n=n, c=c, k=k)


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), st.data())
def test_estimates_equal_the_mean_over_all_subsets(counts, data):
    n, c = counts
    k = data.draw(st.integers(1, n))
    samples = [True] * c + [False] * (n - c)
    draws = list(itertools.combinations(samples, k))
    for estimate, reduce in (
        (pass_at_k, any),
        (pass_hat_k, all),
        (avg_at_k, lambda draw: sum(draw) / k),
    ):
        mean = sum(map(reduce, draws)) / len(draws)
        assert estimate(n=n, c=c, k=k) == pytest.approx(mean, abs=1e-12)


def test_the_vote_can_be_right_where_single_samples_are_mostly_wrong():
    classes = ["7", "7", "1", "2", "3"]
    assert maj_at_k(classes, [c == "7" for c in classes], k=5) == 1.0


def test_tied_answers_share_the_credit_in_any_order():
    for classes in (["a", "a", "b", "b"], ["b", "a", "b", "a"]):
        assert maj_at_k(classes, [c == "a" for c in classes], k=4) == 0.5


def test_missing_answers_do_not_vote():
    assert maj_at_k([None, None, None, "7"], [False, False, False, True], k=4) == 1.0
    assert maj_at_k([None, None], [False, False], k=2) == 0.0
    # One of the two samples is drawn: the silent one gives a wrong vote.
    assert maj_at_k([None, "7"], [False, True], k=1) == 0.5


def test_a_vote_of_one_is_the_average():
    classes = ["a", "b", "a", None, "c"]
    correct = [c == "a" for c in classes]
    assert maj_at_k(classes, correct, k=1) == pytest.approx(2 / 5)


def test_single_samples_and_vote_move_apart():
    # cases C88: avg@3 and maj@3 stay, pass@3 halves.
    before = [["A", "A", "B"], ["A", "B", "B"]]
    after = [["A", "A", "A"], ["B", "B", "B"]]
    for groups, at_least_one in ((before, 1.0), (after, 0.5)):
        marks = [[c == "A" for c in group] for group in groups]
        assert sum(maj_at_k(g, m, k=3) for g, m in zip(groups, marks, strict=True)) / 2 == 0.5
        assert sum(pass_at_k(n=3, c=sum(m), k=3) for m in marks) / 2 == at_least_one


@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=7), st.data())
def test_the_vote_equals_the_mean_over_all_subsets(classes, data):
    k = data.draw(st.integers(1, len(classes)))
    correct = [c == "a" for c in classes]
    credits = []
    for draw in itertools.combinations(classes, k):
        counts = Counter(c for c in draw if c is not None)
        top = [c for c in counts if counts[c] == max(counts.values())]
        credits.append(("a" in top) / len(top) if top else 0.0)
    expected = sum(credits) / len(credits)
    assert maj_at_k(classes, correct, k=k) == pytest.approx(expected, abs=1e-12)


def test_votes_among_many_samples_are_exact_and_quick():
    classes = [f"c{i % 20}" for i in range(64)]
    correct = [c == "c0" for c in classes]
    # c0 … c3 have four votes each, the rest three: a full vote is a tie of four.
    assert maj_at_k(classes, correct, k=64) == 0.25
    assert 0 < maj_at_k(classes, correct, k=32) < 0.25
