"""The embedded word problems are what they claim to be, checked without their own generator."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers
from transformers import PreTrainedTokenizerFast

from corewarding.embedded import Problem, Split, problems, supervised
from corewarding.embedded.tokenizer import build_tokenizer

_SPLITS: tuple[Split, ...] = get_args(Split)
_MORE = re.compile(r"\b(finds|buys|gets|wins|adds|brings|receives|collects)\b")
_LESS = re.compile(r"\b(loses|sells|donates|gives away|breaks|takes|throws out|removes)\b")
_TWICE = re.compile(r"\b(doubles|twice)\b")


def _read(question: str) -> tuple[int, tuple[str, ...]]:
    """Parse a question by its words: start number, then "+k", "-k" or "*2" for each fact."""
    first, *facts, asked = re.findall(r"[^.?]+[.?]", question)
    assert asked.endswith("?")
    start = re.findall(r"\d+", first)
    assert len(start) == 1
    operations = []
    for fact in facts:
        kinds = [bool(p.search(fact)) for p in (_MORE, _LESS, _TWICE)]
        assert sum(kinds) == 1, fact
        numbers = re.findall(r"\d+", fact)
        assert len(numbers) == (0 if kinds[2] else 1), fact
        operations.append("*2" if kinds[2] else ("+" if kinds[0] else "-") + numbers[0])
    return int(start[0]), tuple(operations)


def _values(start: int, operations: tuple[str, ...]) -> list[int]:
    values = [start]
    for operation in operations:
        amount = int(operation[1:])
        last = values[-1]
        values.append({"+": last + amount, "-": last - amount, "*": last * amount}[operation[0]])
    return values


def _sample(count: int = 150) -> list[Problem]:
    made = [p for s in _SPLITS for seed in (0, 1) for p in problems(s, seed=seed, count=count)]
    return [*made, *supervised(seed=0, start=0, count=2 * count)]


@cache
def _tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


@pytest.fixture(scope="module")
def sample() -> list[Problem]:
    return _sample()


def test_both_wordings_have_the_stated_answer(sample: list[Problem]) -> None:
    for problem in sample:
        assert str(_values(*_read(problem.original))[-1]) == problem.answer
        assert str(_values(*_read(problem.rephrased))[-1]) == problem.answer


def test_both_wordings_have_the_same_operations_in_the_same_order(sample: list[Problem]) -> None:
    for problem in sample:
        assert _read(problem.original) == _read(problem.rephrased)


def _names(question: str) -> set[str]:
    return set(re.findall(r"\b[A-Z][a-z]{2}\b", question)) - {"How", "The", "Now"}


def _item(question: str) -> str:
    return re.findall(r"\d ([a-z]+)", question)[0]


def test_the_rephrased_wording_takes_another_name_and_item(sample: list[Problem]) -> None:
    for problem in sample:
        (old,), (new,) = _names(problem.original), _names(problem.rephrased)
        assert old != new
        assert _item(problem.original) not in problem.rephrased.split()
        assert _item(problem.rephrased) not in problem.original.split()


def test_the_rephrased_wording_changes_the_phrase_of_every_sentence(sample: list[Problem]) -> None:
    for problem in sample:
        shapes = [
            [
                re.sub(rf"\d+|{_item(text)}|{next(iter(_names(text)))}", "_", sentence).strip()
                for sentence in re.findall(r"[^.?]+[.?]", text)
            ]
            for text in (problem.original, problem.rephrased)
        ]
        assert all(old != new for old, new in zip(*shapes, strict=True))


def test_every_value_is_between_0_and_99_and_numbers_are_in_their_ranges(
    sample: list[Problem],
) -> None:
    for problem in sample:
        start, operations = _read(problem.original)
        assert 5 <= start <= 60
        assert all(2 <= int(o[1:]) <= 9 for o in operations)
        assert all(0 <= v <= 99 for v in _values(start, operations))


def test_the_worked_solution_is_right_line_by_line(sample: list[Problem]) -> None:
    for problem in sample:
        start, operations = _read(problem.original)
        values = _values(start, operations)
        empty, *lines, box = problem.worked.split("\n")
        assert (empty, box) == ("", f"\\boxed{{{problem.answer}}}")
        assert len(lines) == len(operations)
        for line, before, operation, after in zip(
            lines, values, operations, values[1:], strict=False
        ):
            done = f"+{before}" if operation == "*2" else operation
            assert line == f"{before}{done}={after}"


def test_levels_are_those_of_the_split() -> None:
    for split in _SPLITS:
        made = problems(split, seed=2, count=200)
        assert {p.level for p in made} == ({4} if split == "test_hard" else {2, 3})
        assert all(p.level == len(_read(p.original)[1]) for p in made)
    assert {p.level for p in supervised(seed=2, start=0, count=200)} == {1, 2, 3, 4}


def test_no_operations_and_no_text_occur_in_two_streams_of_any_seeds() -> None:
    operations: dict[tuple[int, tuple[str, ...]], str] = {}
    texts: dict[str, str] = {}
    made = [(s, p) for s in _SPLITS for seed in range(3) for p in problems(s, seed=seed, count=300)]
    made += [
        ("supervised", p) for seed in (0, 4) for p in supervised(seed=seed, start=0, count=1500)
    ]
    for stream, problem in made:
        assert operations.setdefault(_read(problem.original), stream) == stream
        for text in (problem.original, problem.rephrased):
            assert texts.setdefault(text, stream) == stream


@given(st.sampled_from(_SPLITS), st.integers(0, 2**63), st.integers(1, 20), st.integers(0, 20))
@settings(max_examples=30, deadline=None)
def test_a_problem_depends_on_split_seed_and_index_only(
    split: Split, seed: int, count: int, more: int
) -> None:
    assert problems(split, seed=seed, count=count + more)[:count] == problems(
        split, seed=seed, count=count
    )


def test_the_supervised_stream_can_be_cut_anywhere() -> None:
    whole = supervised(seed=3, start=0, count=50)
    assert whole[17:40] == supervised(seed=3, start=17, count=23)


def test_seeds_and_indices_give_different_problems() -> None:
    texts = [p.original for seed in range(4) for p in problems("train", seed=seed, count=100)]
    assert len(set(texts)) > 0.99 * len(texts)
    uids = [p.uid for p in _sample(50)]
    assert len(set(uids)) == len(uids)


def test_phrases_are_uniform_in_the_splits_and_skewed_in_the_supervised_stream() -> None:
    def share(made: list[Problem]) -> float:
        first = Counter(p.original.split(" ")[1] for p in made)
        return first["has"] / len(made)

    assert 0.18 < share(problems("train", seed=0, count=800)) < 0.32  # one of four openings
    assert share(supervised(seed=0, start=0, count=800)) > 0.75


def _digest(seed_of_hash: str) -> str:
    code = (
        "from corewarding.embedded import problems, supervised\n"
        "import hashlib\n"
        "made = problems('test', seed=7, count=50) + supervised(seed=7, start=0, count=50)\n"
        "print(hashlib.sha256(repr(made).encode()).hexdigest())"
    )
    environment = os.environ | {"PYTHONHASHSEED": seed_of_hash, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_problems_are_the_same_in_every_process() -> None:
    assert _digest("1") == _digest("2")


def test_problems_and_tokenizer_are_those_of_this_recipe_version() -> None:
    """If this fails on purpose, raise RECIPE_VERSION in base.py and put the new digests here."""
    made = repr([*problems("test", seed=7, count=50), *supervised(seed=7, start=0, count=50)])
    vocabulary = sorted(_tokenizer().get_vocab().items())
    assert hashlib.sha256(made.encode()).hexdigest()[:16] == "79d15f0b948bc3b7"
    assert hashlib.sha256(repr(vocabulary).encode()).hexdigest()[:16] == "4171e3ca278459cc"


def test_questions_and_solutions_are_short(sample: list[Problem]) -> None:
    tokenizer = _tokenizer()
    for problem in sample:
        assert 10 <= len(tokenizer(problem.original)["input_ids"]) <= 48
        assert len(tokenizer(problem.worked)["input_ids"]) < 48  # + the end token


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_the_tokenizer_gives_any_text_back(text: str) -> None:
    tokenizer = _tokenizer()
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


def test_digits_and_the_opening_of_the_box_are_single_tokens() -> None:
    tokenizer = _tokenizer()
    for text in ("\n41-3=38\n\\boxed{38}", " 41 305", "x99y"):
        tokens = tokenizer.tokenize(text)
        digits = [token for token in tokens if re.search(r"\d", token)]
        assert len(digits) == sum(map(str.isdigit, text))
    assert tokenizer.tokenize("\\boxed{7}") == ["\\boxed{", "7", "}"]


def test_every_byte_is_in_the_vocabulary() -> None:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    assert len(alphabet) == 256
    assert set(alphabet) <= set(_tokenizer().get_vocab())


def test_every_word_of_a_problem_is_one_token(sample: list[Problem]) -> None:
    words = {w for p in sample for w in re.findall(r"^[A-Za-z]+| [A-Za-z]+", p.original)}
    assert len(words) > 60
    assert [word for word in words if len(_tokenizer().tokenize(word)) != 1] == []


def test_the_tokenizer_pads_on_the_left_and_adds_nothing() -> None:
    tokenizer = _tokenizer()
    short, long = tokenizer(["Gus", "Gus has 4"], padding=True)["input_ids"]
    assert short == [tokenizer.pad_token_id] * 2 + long[:1]
    assert tokenizer.eos_token_id not in (*short, *long, tokenizer.pad_token_id)


def test_the_tokenizer_is_built_the_same_every_time() -> None:
    built = [build_tokenizer().backend_tokenizer.to_str() for _ in range(2)]
    assert built[0] == built[1]
