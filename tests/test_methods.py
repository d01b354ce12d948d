"""The built-in methods against the paper's vectors and worked examples."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from corewarding import StepEnd
from corewarding.registry import load_registry
from corewarding.testing import make_batch, make_item
from corewarding.train.advantages import group_advantages
from corewarding.train.rewards import mask

VECTORS = json.loads((Path(__file__).parent / "data/paper_test_vectors.json").read_text())
NAN = float("nan")


@pytest.fixture(scope="module")
def registry():
    return load_registry()


def blank_to_none(answers):
    return [answer if answer.strip() else None for answer in answers]


def score(registry, name, items, options=None, **kwargs):
    method = registry.make(name, options or {})
    return method.score(mask(make_batch(items, **kwargs), method.needs()))


def test_ten_methods_are_registered_each_by_this_distribution(registry):
    assert sorted(registry.methods) == [
        "co-rewarding-i",
        "co-rewarding-ii",
        "constant",
        "entropy",
        "format-only",
        "ground-truth",
        "inverted",
        "majority-vote",
        "random",
        "self-certainty",
    ]
    assert {e.source.distribution for v in registry.methods.values() for e in v} == {"corewarding"}
    assert registry.broken == []


@pytest.mark.parametrize("case", VECTORS["vote"])
def test_majority_vote_rewards_as_the_reference_with_its_tie_rule(registry, case):
    item = make_item("q", policy=blank_to_none(case["answers"]))
    scores = score(registry, "majority-vote", [item], {"tie": "first"})
    assert scores.rewards["q", "original"].tolist() == case["rewards_own_vote"]
    assert scores.targets.get(("q", "original"), "") == case["label"]


def test_an_unresolved_tie_abstains_by_default(registry):
    scores = score(registry, "majority-vote", [make_item("q", policy=["3", "5", "5", "3"])])
    assert np.isnan(scores.rewards["q", "original"]).all()
    assert scores.targets == {}


def test_extra_votes_vote_and_are_not_rewarded(registry):
    item = make_item("q", policy=["1", "2"], votes=["2", "2", "1"])
    scores = score(registry, "majority-vote", [item], {"extra_votes": 3})
    assert scores.rewards["q", "original"].tolist() == [0, 1]
    assert registry.make("majority-vote", {"extra_votes": 3}).needs().vote_rollouts == 3


def test_co_rewarding_i_worked_example(registry):
    case = VECTORS["co_rewarding_I_example"]
    item = make_item(
        "q",
        policy={
            "original": blank_to_none(case["answers_original"]),
            "rephrased": blank_to_none(case["answers_rephrased"]),
        },
    )
    scores = score(registry, "co-rewarding-i", [item])
    for view in ("original", "rephrased"):
        rewards = scores.rewards["q", view]
        assert scores.targets["q", view] == case[f"label_for_{view}"]
        assert rewards.tolist() == case[f"reward_{view}"]
        np.testing.assert_allclose(group_advantages(rewards), case[f"advantage_{view}"], atol=1e-6)


def test_co_rewarding_i_takes_another_twin(registry):
    item = make_item("q", policy={"original": ["1", "1", "2"], "repeat": ["2", "2", "1"]})
    scores = score(registry, "co-rewarding-i", [item], {"twin_view": "repeat"})
    assert scores.rewards["q", "original"].tolist() == [0, 0, 1]
    assert scores.rewards["q", "repeat"].tolist() == [0, 0, 1]


@pytest.mark.parametrize("key", ["co_rewarding_II_example", "co_rewarding_II_no_label_example"])
def test_co_rewarding_ii_worked_examples(registry, key):
    case = VECTORS[key]
    item = make_item(
        "q",
        policy=blank_to_none(case["student_answers"]),
        teacher=blank_to_none(case["teacher_answers"]),
    )
    scores = score(registry, "co-rewarding-ii", [item])
    rewards = scores.rewards["q", "original"]
    assert scores.targets.get(("q", "original"), "") == case["label"]
    assert rewards.tolist() == case["reward_student"]
    np.testing.assert_allclose(group_advantages(rewards), case["advantage_student"], atol=1e-6)


class Recorder:
    def __init__(self):
        self.weights = []

    def blend(self, policy_weight):
        self.weights.append(policy_weight)


@pytest.mark.parametrize(
    ("series", "end"), [("code_defaults", 1e-5), ("paper_text_end_1e-4", 1e-4)]
)
def test_teacher_schedule_equals_the_reference_in_order_and_value(registry, series, end):
    cases = VECTORS["ema_policy_weight"][series]
    for total in {case["K"] for case in cases}:
        method = registry.make("co-rewarding-ii", {"policy_weight_end": end})
        teacher = Recorder()
        for step in range(1, total + 1):
            method.after_step(StepEnd(step=step, total_steps=total, teacher=teacher))
        # The blend after step k is the reference's before the rollouts of step k + 1.
        assert len(teacher.weights) == total - 1
        for case in (c for c in cases if c["K"] == total and c["k"] > 1):
            assert teacher.weights[case["k"] - 2] == pytest.approx(case["tau"], abs=1e-9)


@pytest.mark.parametrize("case", VECTORS["ema_policy_weight"]["product_of_1_minus_tau"])
def test_share_of_the_first_model_left_in_the_teacher(case):
    from corewarding_plugins.co_rewarding_ii import policy_weight

    left = math.prod(
        1 - policy_weight(k, case["K"], start=0.01, end=case["tau_end"])
        for k in range(1, case["K"] + 1)
    )
    assert left == pytest.approx(case["value"], abs=1e-6)


def test_confidence_rewards_are_token_means(registry):
    stats = {"self_certainty": [[1.0, 3.0], []], "entropy": [[0.5, 1.5], []]}
    item = make_item("q", policy=["1", "2"], stats=stats)
    certain = score(registry, "self-certainty", [item]).rewards["q", "original"]
    entropy = score(registry, "entropy", [item]).rewards["q", "original"]
    np.testing.assert_array_equal(certain, np.array([2.0, NAN], np.float32))
    np.testing.assert_array_equal(entropy, np.array([-1.0, NAN], np.float32))


@pytest.mark.parametrize("case", VECTORS["token_confidence"])
def test_token_statistics_of_known_distributions(case):
    import torch

    from corewarding.tokenstats import entropy, self_certainty

    logits = torch.tensor([case["logits"]])
    size = len(case["logits"])
    certain = float(self_certainty(logits))
    assert certain == pytest.approx(case["self_certainty_lse_minus_mean"], abs=1e-5)
    assert certain - math.log(size) == pytest.approx(case["kl_uniform_to_p"], abs=1e-5)
    assert float(entropy(logits)) == pytest.approx(case["entropy"], abs=1e-5)


def test_ground_truth_and_inverted_are_opposites_where_an_answer_is_decided(registry):
    item = make_item("q", policy=["4", "5", None], label="4")
    assert score(registry, "ground-truth", [item]).rewards["q", "original"].tolist() == [1, 0, 0]
    assert score(registry, "inverted", [item]).rewards["q", "original"].tolist() == [0, 1, 0]


def test_supervised_methods_abstain_where_the_grader_could_not_decide(registry):
    item = make_item("q", policy=["4"], label=None)
    for name in ("ground-truth", "inverted"):
        assert np.isnan(score(registry, name, [item]).rewards["q", "original"]).all()


def test_random_is_a_function_of_seed_and_group_not_of_order(registry):
    items = [make_item(f"q{i}", policy=["1"] * 8) for i in range(20)]
    first = score(registry, "random", items, seed=3).rewards
    again = score(registry, "random", items[::-1], seed=3).rewards
    other = score(registry, "random", items, seed=4).rewards
    assert all((first[k] == again[k]).all() for k in first)
    assert any((first[k] != other[k]).any() for k in first)
    assert 0.35 < np.concatenate(list(first.values())).mean() < 0.65


def test_constant_and_format_only(registry):
    item = make_item("q", policy=["1", None])
    assert score(registry, "constant", [item]).rewards["q", "original"].tolist() == [1, 1]
    assert score(registry, "format-only", [item]).rewards["q", "original"].tolist() == [1, 0]
