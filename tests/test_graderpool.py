"""Grading in worker processes: same verdicts, bounded time and memory, nothing lost."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corewarding import graderpool
from corewarding.errors import EnvironmentProblem
from corewarding.graderpool import GraderPool
from corewarding.grading import decide, grade
from corewarding.voting import agreement, vote

# Passes every static guard, but its expansion has millions of terms.
SLOW = ("(a+b+c+d)^{60}", "(a+b+c+d+1)^{60}")
EASY = ("(a+b)^2", "a^2+2ab+b^2")


@pytest.fixture(scope="module")
def pool() -> Iterator[GraderPool]:
    with GraderPool(budget_s=20) as running:
        yield running


def _process_id(pool: GraderPool) -> int:
    process = pool._workers[0]._process
    assert process is not None
    return process.pid


def test_verdicts_come_in_order_and_equal_those_of_grading(pool: GraderPool) -> None:
    rows = [
        ("5", r"\boxed{5}"),
        (r"\{2,9\}", r"\boxed{2} and \boxed{9}"),
        ("see figure", r"\boxed{5}"),
        ("x+1", r"\boxed{1+x}"),
        ("x+1", r"\boxed{x-1}"),
        ("x+1", "no idea"),
        ("x+1", r"\boxed{1+x}"),
    ]
    assert pool.grade(rows) == [grade(gold=gold, response=text) for gold, text in rows]


def test_styles_stops_and_graders_are_passed_on(pool: GraderPool) -> None:
    row = ("142", "The answer is 142.0 Question: is the answer is 3?")
    stop = ("Question:",)
    assert pool.grade([row], style="lenient", stop=stop)[0].correct is True
    assert pool.grade([row], style="lenient", stop=stop, grader="string")[0].correct is False
    assert pool.correct([("11/4", "2 3/4")], grader="math-verify")[0].correct is False


def test_no_process_starts_while_numbers_decide() -> None:
    with GraderPool() as pool:
        pool.correct([("5", "5.0"), ("1/2", "0.5"), ("3", None), ("5", r"10^{10^{10}}")])
        assert pool._workers[0]._process is None


def test_a_tower_of_powers_is_wrong_within_the_budget_and_the_next_call_works() -> None:
    with GraderPool(budget_s=2) as pool:
        start = time.monotonic()
        verdict = pool.grade([("5", r"\boxed{10^{10^{10}}}")])[0]
        assert (verdict.correct, verdict.reason) == (False, "budget")
        assert time.monotonic() - start < 3
        assert pool.grade([("5", r"\boxed{5}")])[0].correct is True


def test_a_comparison_beyond_the_budget_is_undecided_and_the_batch_goes_on() -> None:
    assert decide(gold=SLOW[0], answer=SLOW[1]) is None
    with GraderPool(budget_s=5) as pool:
        pool.correct([EASY])  # the start is not part of the budget
        first = _process_id(pool)
        start = time.monotonic()
        verdicts = pool.correct([EASY, SLOW, ("x+2", "2+x")])
        assert [verdict.correct for verdict in verdicts] == [True, None, True]
        assert verdicts[1].reason == "timeout"
        assert time.monotonic() - start < 60
        assert _process_id(pool) != first


def test_memory_beyond_the_limit_is_undecided_and_the_worker_is_replaced() -> None:
    hungry = ("2^{9999}", r"\sin(3^{9000}-1)+\sqrt{x}+\int_0^1 y dy")
    with GraderPool(budget_s=20, memory_mb=1) as pool:
        assert pool.correct([hungry])[0].reason == "memory"
        assert pool._workers[0]._process is None


def test_a_worker_that_died_is_replaced() -> None:
    with GraderPool(budget_s=20) as pool:
        pool.correct([EASY])
        os.kill(_process_id(pool), signal.SIGKILL)
        time.sleep(0.2)
        verdicts = pool.correct([("x+3", "3+x"), ("x+4", "4+x")])
        assert [verdict.correct for verdict in verdicts].count(True) >= 1
        assert pool.correct([("x+5", "5+x")])[0].correct is True


def test_a_worker_killed_at_work_costs_one_verdict() -> None:
    with GraderPool(budget_s=20) as pool:
        pool.correct([EASY])
        timer = threading.Timer(1, os.kill, (_process_id(pool), signal.SIGKILL))
        timer.start()
        verdicts = pool.correct([SLOW, ("x+2", "2+x")])
        timer.join()
    assert [verdict.reason for verdict in verdicts] == ["crash", "equal_math"]


def test_equal_pairs_are_compared_once_and_kept(pool: GraderPool) -> None:
    pair = ("(a-b)^2", "a^2-2ab+b^2")
    start = time.monotonic()
    first = pool.correct([pair])
    once = time.monotonic() - start
    start = time.monotonic()
    assert pool.correct([pair] * 2000) == first * 2000
    assert time.monotonic() - start < max(1.0, 20 * once)
    assert sum(key[1:] == pair for key in pool._cache) == 1


def test_the_cache_is_bounded(pool: GraderPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graderpool, "_CACHE", 3)
    pairs = [(f"x+{k}", f"{k}+x") for k in range(20, 26)]
    assert all(verdict.correct for verdict in pool.correct(pairs))
    assert len(pool._cache) == 3


def test_several_workers_share_a_batch() -> None:
    pairs = [(f"x+{k}", f"{k}+x" if k % 3 else f"{k}-x") for k in range(80)]
    with GraderPool(workers=2, budget_s=20) as pool:
        verdicts = pool.correct(pairs)
        assert all(worker._process is not None for worker in pool._workers)
    assert [verdict.correct for verdict in verdicts] == [k % 3 != 0 for k in range(80)]


def test_threads_can_share_a_pool(pool: GraderPool) -> None:
    found: dict[int, bool | None] = {}

    def work(k: int) -> None:
        found[k] = pool.correct([(f"y+{k}", f"{k}+y")])[0].correct

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(1, 7), True)


def test_closing_ends_the_processes_and_a_later_call_starts_anew() -> None:
    pool = GraderPool(budget_s=20)
    assert pool.correct([EASY])[0].correct is True
    process = pool._workers[0]._process
    assert process is not None
    pool.close()
    assert process.poll() is not None
    with pool:
        assert pool.correct([("x+1", "1+x")])[0].correct is True


def test_a_worker_that_cannot_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graderpool, "_PROGRAM", "raise ImportError")
    with GraderPool() as pool, pytest.raises(EnvironmentProblem, match="import math_verify"):
        pool.correct([EASY])


@pytest.mark.parametrize("options", [{"workers": 0}, {"budget_s": 0}, {"memory_mb": 0}])
def test_senseless_bounds_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="GraderPool needs"):
        GraderPool(**options)


def test_equivalent_answers_share_a_class_and_win_the_vote(pool: GraderPool) -> None:
    answers = ["1/2", "0.5", r"\frac{1}{2}", "2", "2"]
    classes = pool.classes(answers)
    assert classes == ["1/2", "1/2", "1/2", "2", "2"]
    result = vote(classes)
    assert result.majority_ratio == 3 / 5
    assert agreement(classes, result).tolist() == [1, 1, 1, 0, 0]


def test_classes_depend_neither_on_order_nor_on_repetition(pool: GraderPool) -> None:
    answers = ["x=8", "8", "y=8", "(a+b)^2", "a^2+2ab+b^2", r"\sqrt{64}", "see figure", "9"]
    generator = random.Random(0)

    def partition(order: list[str]) -> set[frozenset[str]]:
        names = pool.classes(order)
        assert all(order.index(name) <= k for k, name in enumerate(names))
        return {
            frozenset(a for a, name in zip(order, names, strict=True) if name == chosen)
            for chosen in names
        }

    expected = partition(answers)
    assert frozenset({"(a+b)^2", "a^2+2ab+b^2"}) in expected
    for _ in range(5):
        order = answers + generator.choices(answers, k=4)
        generator.shuffle(order)
        assert partition(order) == expected


def test_classes_of_many_items_equal_those_of_each(pool: GraderPool) -> None:
    items = [["x+1", "1+x", "2"], [], ["0.5", r"\frac12"], [r"\sqrt{8}", r"2\sqrt2", "2"]]
    assert pool.classes_of_items(items) == [pool.classes(item) for item in items]


# --- the benchmarks' own golds, where the data is at hand ----------------------------------------

_DATA = os.environ.get("COREWARDING_DATA")
_SETS = ["gsm8k", "math500", "amc23", "amc83", "aime24", "aime25", "minerva_math", "olympiadbench"]
_needs_data = pytest.mark.skipif(_DATA is None, reason="COREWARDING_DATA names no data folder")


def _rows(name: str) -> list[tuple[str, str]]:
    lines = (Path(_DATA or "") / "eval" / f"{name}.jsonl").read_text().splitlines()
    return [(row["id"], row["answer"]) for row in map(json.loads, lines)]


@_needs_data
@pytest.mark.parametrize("name", _SETS)
def test_every_gold_of_a_benchmark_equals_itself_in_a_box(name: str, pool: GraderPool) -> None:
    rows = _rows(name)
    verdicts = pool.grade([(gold, f"so \\boxed{{{gold}}}.") for _, gold in rows])
    assert [rows[k] for k, verdict in enumerate(verdicts) if verdict.correct is not True] == []


# Answers that only equal text can match: no algebra reads them.
_TEXT_ONLY = {
    "minerva_math-27",  # a derivative with L_{\odot}
    "olympiadbench-1965",  # "where b is an arbitrary integer ..."
    "olympiadbench-2045",  # t(0,4], the source lost an \in
}


@_needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", ["math500", "minerva_math", "olympiadbench"])
def test_every_formula_of_a_benchmark_is_read_by_the_algebra(name: str, pool: GraderPool) -> None:
    rows = [row for row in _rows(name) if row[0] not in _TEXT_ONLY]
    unlike = [(gold, f"{gold}+0" if "=" not in gold else f"{gold}, 7777") for _, gold in rows]
    verdicts = pool.correct(unlike)
    unread = {"unreadable_gold", "timeout", "memory", "crash"}
    assert [rows[k] for k, verdict in enumerate(verdicts) if verdict.reason in unread] == []


_E_NOTATION = re.compile(r"[\d.]+e-?\d+")


@_needs_data
def test_minervas_e_notation_is_accepted_in_both_notations(pool: GraderPool) -> None:
    golds = [gold for _, gold in _rows("minerva_math") if _E_NOTATION.fullmatch(gold)]
    assert len(golds) == 58
    latex = ["{} \\times 10^{{{}}}".format(*gold.split("e")) for gold in golds]
    assert all(verdict.correct for verdict in pool.correct(list(zip(golds, latex, strict=True))))
