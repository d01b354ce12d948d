"""Real lm-eval on a scripted engine: every sample kept, graded apart, nothing drawn twice."""

from __future__ import annotations

import json

import pytest

from corewarding.config import Eval
from corewarding.errors import ConfigError, DataError
from corewarding.evaluate.grade import grade_samples
from corewarding.evaluate.run import sample
from corewarding.evaluate.suite import benchmarks, expand
from corewarding.graderpool import GraderPool
from corewarding.prompts import TEMPLATES
from corewarding.registry import Registry, Source, load_registry
from corewarding.rundir import read_json, read_jsonl
from corewarding.testing import ScriptedBackend


class Words:
    template = TEMPLATES["plain"]
    sha256 = "0"

    def __call__(self, question):
        return f"Q: {question}"


def settings(**changes):
    tree = {"suite": ["embedded_test"], "n": 3, "limit": 4, "max_new_tokens": 30}
    return Eval.model_validate({**tree, "temperature": 1.0, **changes})


def draw(folder, backend, **changes):
    return sample(
        lambda: backend,
        Words(),
        settings(**changes),
        model="m",
        seed=1,
        out=lambda name: folder / name,
        registry=load_registry(),
    )


@pytest.fixture
def backend():
    texts = ["\\boxed{1}", "no answer", "x" * 40]
    return ScriptedBackend(lambda prompt, index, actor: texts[index % 3])


@pytest.fixture
def drawn(tmp_path, backend):
    draw(tmp_path, backend)
    return tmp_path / "embedded_test"


def test_every_sample_is_kept_with_its_length_and_whether_it_was_cut(drawn, backend):
    header, *rows = read_jsonl(drawn / "samples.jsonl")
    assert len(rows) == 4 * 3
    assert [row["text"] for row in rows[:3]] == ["\\boxed{1}", "no answer", "x" * 30]
    assert [row["finished"] for row in rows[:3]] == [True, True, False]
    assert [row["tokens"] for row in rows[:3]] == [9, 9, 30]
    assert "gold" in rows[0]
    assert "gold" not in rows[1]
    assert (header["n"], header["temperature"], header["seed"]) == (3, 1.0, 1)
    assert len(backend.calls) == 1


def test_the_prompt_is_the_trainings_own(tmp_path):
    seen = []

    def answer(prompt, index, actor):
        seen.append(prompt)
        return "x"

    draw(tmp_path, ScriptedBackend(answer), limit=1, n=1)
    assert seen[0].startswith("Q: ")


def test_samples_made_under_the_same_settings_are_not_drawn_again(tmp_path, backend):
    draw(tmp_path, backend)
    before = (tmp_path / "embedded_test/samples.jsonl").read_bytes()
    draw(tmp_path, backend)
    assert len(backend.calls) == 1
    assert (tmp_path / "embedded_test/samples.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "changes",
    [{"temperature": 0.5}, {"max_new_tokens": 20}, {"n": 2}, {"limit": 3}, {"top_p": 0.9}],
)
def test_any_changed_setting_draws_anew(tmp_path, backend, changes):
    draw(tmp_path, backend)
    draw(tmp_path, backend, **changes)
    assert len(backend.calls) == 2


def test_grades_are_one_line_a_sample_with_class_and_reason(drawn):
    with GraderPool() as pool:
        grade_samples(drawn, style="boxed", grader="math", pool=pool)
    rows = list(read_jsonl(drawn / "grades.jsonl"))
    gold = next(r["gold"] for r in read_jsonl(drawn / "samples.jsonl") if "gold" in r)
    assert len(rows) == 12
    assert rows[0]["answer"] == "1"
    assert rows[0]["class"] == "1"
    assert rows[0]["correct"] is (gold == "1")
    assert rows[1]["answer"] is None
    assert rows[1]["correct"] is False
    assert "no_box" in rows[1]["reason"]
    meta = read_json(drawn / "grades.meta.json")
    assert sum(meta["counts"].values()) == 12
    assert meta["grader"] == "math"


def test_another_grader_keeps_the_old_grades_aside(drawn):
    with GraderPool() as pool:
        grade_samples(drawn, style="boxed", grader="math", pool=pool)
        stamp = (drawn / "grades.jsonl").stat().st_mtime_ns
        grade_samples(drawn, style="boxed", grader="math", pool=pool)
        assert (drawn / "grades.jsonl").stat().st_mtime_ns == stamp
        grade_samples(drawn, style="boxed", grader="string", pool=pool)
    assert (drawn / "grades.math.jsonl").exists()
    assert read_json(drawn / "grades.meta.json")["grader"] == "string"


def test_grading_needs_gold_answers(tmp_path):
    rows = [{"schema": 1}, {"doc": "a", "sample": 0, "text": "x", "tokens": 1, "finished": True}]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    with GraderPool() as pool, pytest.raises(DataError, match="no gold answer"):
        grade_samples(tmp_path, style="boxed", grader="math", pool=pool)


def test_shipped_benchmarks_are_found_and_expanded():
    known = benchmarks(load_registry())
    assert {"embedded_test", "embedded_test_hard", "gsm8k"} <= known.keys()
    assert known["gsm8k"].style == "number"
    assert expand(["gsm8k", "embedded_test", "gsm8k"], known) == ["gsm8k", "embedded_test"]
    with pytest.raises(ConfigError, match="Did you mean 'gsm8k'"):
        expand(["gsm8"], known)


def test_a_plugins_folder_adds_benchmarks_and_groups(tmp_path):
    (tmp_path / "mine.yaml").write_text("task: mine\nprocess_docs: !function a.b\n")
    (tmp_path / "both.yaml").write_text("group: both\ntask: [mine, gsm8k]\n")
    registry = Registry()
    registry.benchmark_folders.append((tmp_path, Source("p", "d", "1")))
    known = benchmarks(registry)
    assert known["mine"].source == Source("p", "d", "1")
    assert known["mine"].style == "boxed"
    assert expand(["both"], known) == ["mine", "gsm8k"]


def test_the_stock_scorer_takes_one_text_and_a_list():
    from corewarding.evaluate.tasks import process_boxed, process_number

    assert process_boxed({"answer": "7"}, ["\\boxed{7}"]) == {"correct": 1.0}
    assert process_number({"answer": "7"}, [["7", "it is 8"]]) == {"correct": 0.5}


def test_this_model_offers_no_likelihoods(backend):
    from corewarding.evaluate.lm import BackendLM

    model = BackendLM(backend, seed=0)
    with pytest.raises(TypeError):
        model.loglikelihood([])
    with pytest.raises(TypeError):
        model.loglikelihood_rolling([])
