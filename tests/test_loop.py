"""The loop on a scripted engine: order of events, resume, what reaches the update."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from corewarding import config, data
from corewarding.config import RunSpec
from corewarding.graderpool import GraderPool
from corewarding.registry import load_registry
from corewarding.rundir import RunDir, read_jsonl
from corewarding.testing import ScriptedBackend
from corewarding.train.checks import build_methods, check_needs
from corewarding.train.collect import Collector
from corewarding.train.loop import Trainer
from corewarding.train.rewards import RewardEngine


def spec(rewards, **changes):
    tree = {
        "comparison": "c",
        "arm": "a",
        "seed": 0,
        "rewards": rewards,
        "model": {"path": "none"},
        "data": {"train": "embedded", "limit": 4, "views": ["original", "rephrased"]},
        "prompt": "plain",
        "rollout": {"n": 4, "max_new_tokens": 40},
        "train": {"steps": 4, "questions_per_step": 2, "save_every": 2},
        "eval": {"suite": ["embedded_test"]},
    }
    for section, values in changes.items():
        tree[section] = {**tree[section], **values}
    return RunSpec.model_validate(tree)


class Words:
    """A prompter without a tokenizer."""

    sha256 = "0"

    def __call__(self, question):
        return question


def answer_by_index(prompt, index, actor):
    """Two of four say 1, the teacher says 2 throughout."""
    return "\\boxed{2}" if actor == "teacher" or index > 1 else "\\boxed{1}"


def trainer(tmp_path, settings, answer=answer_by_index, store=10):
    registry = load_registry()
    engine = RewardEngine(build_methods(settings, registry))
    dataset = data.load(settings.data, views=["original", "rephrased"], seed=settings.seed)
    check_needs(settings, engine, dataset, registry)
    backend = ScriptedBackend(answer)
    collector = Collector(settings, engine.needs, backend, Words(), GraderPool(), 4)
    run = RunDir(tmp_path)
    run.path.mkdir(exist_ok=True)
    return Trainer(settings, run, dataset, backend, engine, collector, 4, store), backend


def quiet(done, total, row):
    pass


def test_co_rewarding_ii_asks_student_then_teacher_then_updates_then_blends(tmp_path):
    made, backend = trainer(tmp_path, spec([{"method": "co-rewarding-ii"}]))
    assert made.train(quiet) == 0
    assert backend.calls[:2] == [
        ("policy", 4, frozenset({"entropy"})),
        ("teacher", 4, frozenset()),
    ]
    assert len(backend.calls) == 8
    assert len(backend.updates) == 4
    assert len(backend.blends) == 3
    # Two questions in two views, four samples each, those saying 2 above those saying 1.
    groups = backend.updates[0]
    assert len(groups) == 4
    assert all((g.advantages[:2] < 0).all() and (g.advantages[2:] > 0).all() for g in groups)
    assert all(g.mask.all() for g in groups)


def test_voting_only_rollouts_are_drawn_counted_and_not_trained(tmp_path):
    rewards = [{"method": "majority-vote", "options": {"extra_votes": 3}}]
    made, backend = trainer(tmp_path, spec(rewards))
    made.train(quiet)
    assert backend.calls[:2] == [("policy", 4, frozenset({"entropy"})), ("policy", 3, frozenset())]
    assert all(len(g.samples) == 4 for g in backend.updates[0])
    row = next(read_jsonl(tmp_path / "metrics.jsonl"))
    assert (row["rollouts/policy"], row["rollouts/votes"], row["rollouts/teacher"]) == (16, 12, 0)


def test_a_tie_abstains_and_leaves_the_update(tmp_path):
    made, backend = trainer(tmp_path, spec([{"method": "majority-vote"}]))
    made.train(quiet)
    assert not any(g.mask.any() for g in backend.updates[0])
    row = next(read_jsonl(tmp_path / "metrics.jsonl"))
    assert row["reward"] is None
    assert row["pseudo/abstain_ratio"] == 1
    assert row["pseudo/tie_ratio"] == 1


def test_every_method_logs_the_audit(tmp_path):
    for index, name in enumerate(sorted(load_registry().methods)):
        if name == "self-certainty":
            continue  # its statistic needs a real engine
        made, _ = trainer(tmp_path / str(index), spec([{"method": name}]))
        made.train(quiet)
        for row in read_jsonl(tmp_path / str(index) / "metrics.jsonl"):
            assert {
                "pseudo/label_accuracy",
                "pseudo/reward_accuracy",
                "pseudo/majority_ratio",
                "pseudo/abstain_ratio",
                "hidden/accuracy",
            } <= row.keys()


def test_a_resumed_run_goes_on_after_its_last_checkpoint_and_cuts_its_logs(tmp_path):
    settings = spec([{"method": "majority-vote", "options": {"tie": "first"}}])
    whole, _ = trainer(tmp_path / "whole", settings)
    whole.train(quiet)

    broken, _ = trainer(tmp_path / "broken", settings, store=1)

    def stop(done, total, row):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken.train(stop)
    again, backend = trainer(tmp_path / "broken", settings, store=1)
    assert again.train(quiet) == 2
    assert len(backend.updates) == 4  # two restored, two made
    read = lambda name: (tmp_path / name / "metrics.jsonl").read_text()  # noqa: E731
    assert read("whole") == read("broken")


def test_stored_rollouts_hold_every_methods_reward(tmp_path):
    rewards = [
        {"method": "majority-vote", "weight": 0.5, "options": {"tie": "first"}},
        {"method": "format-only"},
    ]
    made, _ = trainer(tmp_path, spec(rewards))
    made.train(quiet)
    with gzip.open(tmp_path / "rollouts/step-000001.jsonl.gz", "rt") as handle:
        rows = [json.loads(line) for line in handle]
    assert len(rows) == 16
    assert rows[0]["rewards"] == {"majority-vote": 1.0, "format-only": 1.0}
    assert rows[0]["reward"] == 1.5
    assert rows[0]["target"] == "1"
    assert rows[2]["reward"] == 1.0
    assert isinstance(rows[0]["correct"], bool)


def test_math_equality_unites_spellings_before_the_vote(tmp_path):
    texts = ["\\boxed{1/2}", "\\boxed{0.5}", "\\boxed{3}", "\\boxed{\\frac{1}{2}}"]

    def answer(prompt, index, actor):
        return texts[index]

    string, string_backend = trainer(
        tmp_path / "string",
        spec([{"method": "majority-vote", "options": {"tie": "first"}}]),
        answer,
    )
    string.train(quiet)
    math, math_backend = trainer(
        tmp_path / "math",
        spec([{"method": "majority-vote"}], data={"equality": "math"}),
        answer,
    )
    math.train(quiet)
    positive = lambda backend: (backend.updates[0][0].advantages > 0).tolist()  # noqa: E731
    assert positive(string_backend) == [True, False, False, False]
    assert positive(math_backend) == [True, True, False, True]


def test_the_gold_answers_spelling_never_becomes_a_class_name(tmp_path):
    settings = spec([{"method": "majority-vote"}], data={"equality": "math"})
    made, _ = trainer(tmp_path, settings)
    question = data.Question("q", {"original": "Q", "rephrased": "R"}, "0.50")
    texts = iter(["\\boxed{1/2}", "\\boxed{2/4}"] * 100)
    collector = Collector(
        settings,
        made.engine.needs,
        ScriptedBackend(lambda *_: next(texts)),
        Words(),
        GraderPool(),
        4,
    )
    (item,) = collector.collect([question], step=1).batch
    assert set(item.policy["original"].answers) == {"1/2"}
    assert item.verdicts == {"1/2": True}


def test_abstentions_of_one_method_keep_the_other(tmp_path):
    rewards = [{"method": "majority-vote"}, {"method": "constant"}]
    made, backend = trainer(tmp_path, spec(rewards))
    made.train(quiet)
    assert all(g.mask.all() for g in backend.updates[0])
    assert not any(np.any(g.advantages) for g in backend.updates[0])


@pytest.mark.parametrize(
    ("rewards", "changes", "text"),
    [
        ([{"method": "majority-vot"}], {}, "Did you mean 'majority-vote'?"),
        ([{"method": "majority-vote", "options": {"ties": 1}}], {}, "unknown option 'ties'"),
        ([{"method": "majority-vote", "options": {"tie": "x"}}], {}, "got 'x'"),
        (
            [{"method": "co-rewarding-ii"}, {"method": "co-rewarding-ii"}],
            {},
            "would both move the one teacher",
        ),
        (
            [{"method": "constant"}],
            {"train": {"kl": {"coef": 0.1, "reference": "teacher"}}},
            "no method of the arm has one",
        ),
        ([{"method": "majority-vote"}], {"rollout": {"n": 1}}, "need at least 2"),
    ],
)
def test_needs_that_cannot_be_met_are_named_with_a_remedy(tmp_path, rewards, changes, text):
    from corewarding.errors import NeedsError

    with pytest.raises(NeedsError) as caught:
        trainer(tmp_path, spec(rewards, **changes))
    assert text in str(caught.value)


def test_all_unmet_needs_come_at_once(tmp_path):
    from corewarding.errors import NeedsError

    settings = spec(
        [{"method": "co-rewarding-i", "options": {"twin_view": "french"}}], rollout={"n": 1}
    )
    registry = load_registry()
    engine = RewardEngine(build_methods(settings, registry))
    dataset = data.load(settings.data, views=["original"], seed=0)
    with pytest.raises(NeedsError) as caught:
        check_needs(settings, engine, dataset, registry)
    assert len(str(caught.value).splitlines()) == 2
    assert "view 'french' is missing" in str(caught.value)


def test_a_statistic_nobody_offers_is_refused(tmp_path):
    from corewarding import Needs, Options, RewardMethod
    from corewarding.errors import NeedsError

    class Margin(RewardMethod):
        name = "margin"

        def needs(self):
            return Needs(statistics=frozenset({"entropie"}), labels=True)

        def score(self, batch):
            raise AssertionError("never called")

    settings = spec([])
    engine = RewardEngine([(config.Reward(method="margin"), Margin(Options()))])
    question = data.Question("q", {"original": "Q", "rephrased": "R"}, None)
    dataset = data.Dataset("d", (question,), "0")
    with pytest.raises(NeedsError, match="Did you mean 'entropy'") as caught:
        check_needs(settings, engine, dataset, load_registry())
    assert "has no answers" in str(caught.value)
