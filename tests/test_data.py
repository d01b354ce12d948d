from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from corewarding import config, data
from corewarding.errors import DataError, EnvironmentProblem


@pytest.fixture
def write(tmp_path):
    def write(*rows):
        path = tmp_path / "set.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return config.Data(train=str(path))

    return write


def load(settings, views=("original",), seed=0):
    return data.load(settings, views=views, seed=seed)


def test_embedded_questions_have_both_wordings_and_one_answer():
    dataset = load(config.Data(train="embedded", limit=5), ["original", "rephrased"])
    assert len(dataset.questions) == 5
    for question in dataset.questions:
        assert question.views["original"] != question.views["rephrased"]
        assert question.views["repeat"] == question.views["original"]
        assert question.label is not None


def test_a_seed_has_its_own_embedded_pool_and_it_is_repeatable():
    settings = config.Data(train="embedded", limit=5)
    assert load(settings).sha256 == load(settings).sha256
    assert load(settings).sha256 != load(settings, seed=1).sha256


def test_a_file_gives_ids_labels_and_views(write):
    settings = write(
        {"id": "a", "question": "Q1", "answer": 7, "rephrased": "R1"},
        {"question": "Q2", "answer": " 8 ", "views": {"rephrased": "R2"}},
        {"question": "Q3", "answer": ""},
    )
    questions = load(settings).questions
    assert [q.uid for q in questions] == ["a", "1", "2"]
    assert [q.label for q in questions] == ["7", "8", None]
    assert questions[1].views["rephrased"] == "R2"


def test_questions_without_a_wanted_view_are_dropped_and_counted(write):
    settings = write({"question": "Q1", "rephrased": "R1"}, {"question": "Q2", "rephrased": None})
    dataset = load(settings, ["original", "rephrased"])
    assert [q.uid for q in dataset.questions] == ["0"]
    assert dataset.dropped == {"no rephrased view": 1}


def test_a_view_that_no_question_has_is_an_error_with_a_remedy(write):
    with pytest.raises(DataError, match=r"view 'rephrased' is missing.*add a column"):
        load(write({"question": "Q"}), ["original", "rephrased"])


def test_an_unknown_set_gets_a_suggestion():
    with pytest.raises(DataError, match="Did you mean 'embedded'"):
        load(config.Data(train="embeded"))
    with pytest.raises(DataError, match=r"data\.train is missing"):
        load(config.Data())


def test_an_empty_or_malformed_file_is_named(write, tmp_path):
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(DataError, match="holds no question"):
        load(config.Data(train=str(tmp_path / "empty.jsonl")))
    with pytest.raises(DataError, match=r"set\.jsonl:1: the key 'question'"):
        load(write({"q": 1}))
    with pytest.raises(DataError, match="no such file"):
        load(config.Data(train=str(tmp_path / "none.jsonl")))


def test_long_prompts_are_filtered_and_counted(write):
    dataset = load(write({"question": "short"}, {"question": "long"}))
    kept = data.keep_within(dataset, {"0": 3, "1": 9}, 5)
    assert [q.uid for q in kept.questions] == ["0"]
    assert kept.dropped == {"prompt over 5 tokens": 1}
    assert kept.sha256 != dataset.sha256
    with pytest.raises(DataError, match="max_prompt_tokens=2"):
        data.keep_within(dataset, {"0": 3, "1": 9}, 2)


@pytest.mark.parametrize(("tail", "steps"), [("drop", 3), ("keep", 4)])
def test_every_epoch_visits_every_question_once(write, tail, steps):
    dataset = load(write(*({"question": f"Q{i}"} for i in range(7))))
    assert data.steps_per_epoch(7, 2, tail) == steps
    for epoch in range(3):
        seen = [
            q.uid
            for step in range(epoch * steps + 1, (epoch + 1) * steps + 1)
            for q in data.batch(dataset, step=step, size=2, tail=tail, seed=0)
        ]
        assert len(seen) == len(set(seen)) == (6 if tail == "drop" else 7)


def test_order_is_a_function_of_seed_and_step(write):
    dataset = load(write(*({"question": f"Q{i}"} for i in range(40))))

    def order(seed):
        return [
            q.uid
            for step in (1, 2)
            for q in data.batch(dataset, step=step, size=20, tail="drop", seed=seed)
        ]

    assert order(0) == order(0)
    assert order(0) != order(1)


def test_too_few_questions_for_one_batch_say_what_to_do():
    with pytest.raises(DataError, match=r"lower it or set data\.tail: keep"):
        data.steps_per_epoch(3, 8, "drop")


def test_labels_are_text():
    assert [data.as_label(v) for v in (7, "7", 7.5, None, " ", True)] == [
        "7",
        "7",
        "7.5",
        None,
        None,
        None,
    ]
    assert data.gsm8k_answer("two and two\n#### 4 ") == "4"
    assert data.gsm8k_answer("4") == "4"


def test_the_hub_out_of_reach_says_how_to_work_offline(monkeypatch):
    monkeypatch.delenv(data.DATA_VARIABLE, raising=False)

    def unreachable(*args, **kwargs):
        raise ConnectionError("Couldn't reach 'openai/gsm8k' on the Hub")

    monkeypatch.setattr("datasets.load_dataset", unreachable)
    with pytest.raises(EnvironmentProblem, match="Offline: point COREWARDING_DATA at a folder"):
        load(config.Data(train="gsm8k-train"))


def test_hub_rows_become_questions(monkeypatch):
    monkeypatch.delenv(data.DATA_VARIABLE, raising=False)
    rows = [{"question": "How many?", "answer": "so 1+1=2\n#### 2"}]
    monkeypatch.setattr("datasets.load_dataset", lambda *args, **kwargs: rows)
    (question,) = load(config.Data(train="gsm8k-train")).questions
    assert (question.views["original"], question.label) == ("How many?", "2")


def test_a_data_folder_without_the_file_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv(data.DATA_VARIABLE, str(tmp_path))
    with pytest.raises(DataError, match="unset it to use the Hub"):
        load(config.Data(train="gsm8k-train"))


@pytest.mark.skipif(not os.environ.get(data.DATA_VARIABLE), reason="COREWARDING_DATA is not set")
def test_the_real_training_set_has_its_known_size():
    dataset = load(config.Data(train="gsm8k-train"))
    assert len(dataset.questions) == 7473
    assert all(question.label for question in dataset.questions)
    assert Path(os.environ[data.DATA_VARIABLE]).is_dir()
