from __future__ import annotations

import numpy as np
import pytest

from corewarding import Needs, Options, RewardMethod, Scores, StepEnd
from corewarding.config import Reward
from corewarding.errors import MethodError
from corewarding.testing import make_batch, make_item
from corewarding.train.rewards import RewardEngine, mask

NAN = float("nan")


class Scripted(RewardMethod):
    """Returns given rewards; remembers what it saw."""

    name = "scripted"

    def __init__(self, rewards=(1.0, 0.0), needs=None, error=None):
        super().__init__(Options())
        self.rewards, self._needs, self.error = rewards, needs or Needs(), error
        self.seen, self.ends, self.count = [], [], 0

    def needs(self):
        return self._needs

    def score(self, batch):
        self.count += 1
        self.seen.append(batch)
        if self.error:
            raise self.error
        scores = Scores()
        for group in batch.trained():
            scores.set(group, self.rewards)
        return scores

    def after_step(self, end):
        self.ends.append(end)

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def engine(*methods, **kwargs):
    return RewardEngine([(Reward(method="scripted", **kwargs), m) for m in methods])


def full_item():
    return make_item(
        "q",
        policy=["1", "2"],
        teacher=["1", "1"],
        votes=["2", "2"],
        label="1",
        stats={"entropy": [[0.1], [0.2]], "margin": [[1.0], [2.0]]},
    )


def test_what_is_not_declared_is_withheld():
    (item,) = mask(make_batch([full_item()]), Needs())
    assert item.label is None
    assert not item.verdicts
    assert not item.teacher
    assert not item.votes
    assert item.policy["original"].rollouts[0].stats == {}


def test_what_is_declared_is_given_and_nothing_more():
    needs = Needs(
        labels=True,
        teacher_views=frozenset({"*"}),
        vote_rollouts=2,
        statistics=frozenset({"margin"}),
    )
    (item,) = mask(make_batch([full_item()]), needs)
    assert item.label == "1"
    assert item.teacher["original"].answers == ("1", "1")
    assert item.votes["original"].answers == ("2", "2")
    assert list(item.policy["original"].rollouts[0].stats) == ["margin"]


def test_a_colleagues_needs_do_not_leak():
    free, supervised = Scripted(), Scripted(needs=Needs(labels=True))
    engine(free, supervised).score(make_batch([full_item()]))
    assert free.seen[0].items[0].label is None
    assert supervised.seen[0].items[0].label == "1"


def test_weighted_sum_over_those_who_did_not_abstain():
    first, second = Scripted([1.0, NAN]), Scripted([NAN, NAN])
    rewards = RewardEngine(
        [(Reward(method="a", weight=2.0), first), (Reward(method="b"), second)]
    ).score(make_batch([make_item("q", policy=["1", "2"])]))
    np.testing.assert_array_equal(
        rewards.combined["q", "original"], np.array([2.0, NAN], np.float32)
    )


def test_group_normalisation_comes_before_the_weight():
    rewards = engine(Scripted([10.0, 0.0]), weight=0.5, normalize="group").score(
        make_batch([make_item("q", policy=["1", "2"])])
    )
    np.testing.assert_allclose(rewards.combined["q", "original"], [0.353553, -0.353553], rtol=1e-4)


class Wrong(Scripted):
    def __init__(self, make):
        super().__init__()
        self.make = make

    def score(self, batch):
        return self.make(batch)


def unset(batch):
    return Scores()


def foreign(batch):
    scores = Scores()
    for group in batch.trained():
        scores.set(group, [1.0, 1.0])
    scores.rewards["other", "original"] = np.ones(2, np.float32)
    return scores


def infinite(batch):
    scores = Scores()
    for group in batch.trained():
        scores.set(group, [1.0, float("inf")])
    return scores


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (unset, "left 1 of 1 groups without rewards"),
        (foreign, "not trained"),
        (infinite, "infinite reward"),
        (lambda batch: [1.0, 0.0], "returned list, not Scores"),
        (lambda batch: Scores().set(next(batch.trained()), [1.0]), "expected 2 numbers"),
    ],
)
def test_a_broken_contract_names_the_method(make, text):
    with pytest.raises(MethodError, match="scripted") as caught:
        engine(Wrong(make)).score(make_batch([make_item("q", policy=["1", "2"])]))
    assert text in str(caught.value)


def test_an_exception_stops_the_run_and_names_method_and_step():
    with pytest.raises(MethodError, match=r"'scripted', step 4: ValueError: boom"):
        engine(Scripted(error=ValueError("boom"))).score(
            make_batch([make_item("q", policy=["1", "2"])], step=4)
        )


def test_an_exception_can_abstain_until_too_many_fail():
    method = Scripted(error=ValueError("boom"))
    rewards = engine(method, on_error="abstain")
    batch = make_batch([make_item("q", policy=["1", "2"])])
    for _ in range(4):
        result = rewards.score(batch)
        assert np.isnan(result.combined["q", "original"]).all()
        assert result.metrics["reward/error_ratio"] == 1.0
    with pytest.raises(MethodError, match="failed in 100% of 5 steps"):
        rewards.score(batch)
    assert method.count == 5  # never called twice for one batch


def test_only_a_method_that_declared_a_teacher_is_given_one():
    with_teacher, without = Scripted(needs=Needs(teacher_views=frozenset({"*"}))), Scripted()
    teacher = object()
    engine(with_teacher, without).after_step(StepEnd(step=1, total_steps=2), teacher)
    assert with_teacher.ends[0].teacher is teacher
    assert without.ends[0].teacher is None


def test_state_goes_there_and_back():
    method, other = Scripted(), Scripted()
    first, second = engine(method), engine(other)
    first.score(make_batch([make_item("q", policy=["1", "2"])]))
    second.load_state_dict(first.state_dict())
    assert other.count == 1


def test_metrics_are_named_by_method_and_numbered_where_one_occurs_twice():
    metrics = (
        engine(Scripted(), Scripted([2.0, NAN]))
        .score(make_batch([make_item("q", policy=["1", "2"])]))
        .metrics
    )
    assert metrics["rewards/scripted#1/mean"] == 0.5
    assert metrics["rewards/scripted#2/mean"] == 2.0
    assert metrics["rewards/scripted#2/std"] == 0.0


def test_needs_are_united():
    united = engine(
        Scripted(needs=Needs(labels=True, min_rollouts=2)),
        Scripted(needs=Needs(views=frozenset({"rephrased"}), kl_reference="teacher")),
    ).needs
    assert united == Needs(
        labels=True,
        min_rollouts=2,
        views=frozenset({"original", "rephrased"}),
        kl_reference="teacher",
    )
