"""Which answers equal the gold answer, which do not, and which cannot be decided."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
from grading_cases import EQUIVALENCE
from hypothesis import given, settings
from hypothesis import strategies as st

from corewarding import grading, repairs
from corewarding.errors import UserError
from corewarding.grading import Grader, correct, decide, equivalent, grade, grader_version


@pytest.mark.parametrize(("gold", "answer", "equal"), EQUIVALENCE)
def test_the_math_grader_decides(gold: str, answer: str, equal: bool) -> None:
    assert correct(gold=gold, answer=answer).correct is equal
    assert grade(gold=gold, response=f"Hence \\boxed{{{answer}}}.").correct is equal


@pytest.mark.parametrize("gold", sorted({gold for gold, _, equal in EQUIVALENCE if equal}))
def test_every_gold_equals_itself_under_added_blanks(gold: str) -> None:
    assert correct(gold=gold, answer=f" {gold} ").correct is True


@pytest.mark.parametrize(
    "gold",
    [
        "see figure",
        "Answers may vary",
        "refer to the graph",
        "N/A",
        "None",
        "diagram",
        "",
        " ",
        "?",
        "not given",
        r"\text{see solution}",
        "f(x)=ax, where a is arbitrary",
    ],
)
@pytest.mark.parametrize("answer", ["3", "x", r"\text{see}"])
def test_a_gold_that_is_no_answer_gives_no_verdict(gold: str, answer: str) -> None:
    assert correct(gold=gold, answer=answer).correct is None
    assert correct(gold=gold, answer=answer).reason == "unreadable_gold"


def test_a_gold_that_algebra_cannot_read_gives_no_verdict() -> None:
    assert correct(gold="t(0,4]", answer="(0,4]").reason == "unreadable_gold"
    assert correct(gold="t(0,4]", answer="t(0, 4]").correct is True


def test_prose_still_matches_equal_text() -> None:
    assert correct(gold="see figure", answer=r"\text{See figure.}").correct is True


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ("no idea", "no_box"),
        (r"\boxed{25", "unclosed_box"),
        (r"\boxed{ }", "empty_box"),
        (r"<think>\boxed{25}", "unfinished_thinking"),
        ("(1+" * 20000, "no_box"),
    ],
)
def test_a_response_without_an_answer_is_wrong_and_says_why(response: str, reason: str) -> None:
    verdict = grade(gold="25", response=response)
    assert (verdict.correct, verdict.reason, verdict.extracted) == (False, reason, None)


def test_the_extraction_mode_decides_whether_bold_text_counts() -> None:
    for response in ("**Final Answer: 31**", "Final answer: **31**"):
        lenient = grade(gold="31", response=response, style="lenient")
        assert (lenient.correct, lenient.extracted, lenient.rule) == (True, "31", "answer_is")
        assert grade(gold="31", response=response).reason == "no_box"


def test_a_collection_may_be_spread_over_several_boxes() -> None:
    response = r"From \boxed{7} follow the roots \boxed{2} and \boxed{9}."
    for gold in (r"\{2,9\}", "9, 2", r"2 \text{ and } 9"):
        assert grade(gold=gold, response=response).correct is True
    last = grade(gold="9", response=response)
    assert (last.correct, last.rule) == (True, "several_boxes")
    assert grade(gold="2", response=response).correct is False
    assert grade(gold="(2,9)", response=response).correct is False
    assert grade(gold=r"\{2,9\}", response=r"\boxed{2} or \boxed{2, 9}").correct is True


@pytest.mark.parametrize(
    ("gold", "response", "equal"),
    [
        ("C", r"\boxed{\text{(C)}}", True),
        ("C", r"\boxed{C: fourteen}", True),
        (r"\text{(C)}", r"\boxed{\mathbf{C}}", True),
        ("C", r"\boxed{C) 14}", True),
        ("C", r"\boxed{fourteen}", False),
        ("C", r"\boxed{D}", False),
        ("B", r"Hence \boxed{\Delta G < 0}. **Answer: B**", True),
    ],
)
def test_a_choice_task_compares_letters(gold: str, response: str, equal: bool) -> None:
    assert grade(gold=gold, response=response, style="choice").correct is equal


def test_the_text_is_cut_at_stop_strings_before_grading() -> None:
    response = "\\boxed{8}\nQuestion: what is 3+4?\n\\boxed{7}"
    assert grade(gold="8", response=response, stop=["Question:"]).correct is True
    assert grade(gold="8", response=response).correct is False


def test_an_extracted_answer_is_not_extracted_again() -> None:
    assert correct(gold="5", answer="5").correct is True
    assert correct(gold="5", answer=r"\frac{10}{2}").correct is True


def test_positional_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="positional"):
        grade("8", "x=8")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        correct("8", "x=8")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "answer",
    [
        r"10^{10^{10}}",
        r"9^{9^{9^9}}",
        "10^(10^10)",
        "10**10**10",
        "2^{2^{2^{2^{2^2}}}}",
        "10¹⁰⁰⁰⁰⁰",
        "(10^{10})!",
        "99999!",
        "((20!)!)!",
        r"\sum_{k=1}^{100000} 1/k",
        "1e99999",
        r"(1+x)^{100000}",
        r"\binom{100000}{50000}",
        "2^" * 500,
    ],
)
def test_what_nobody_should_evaluate_is_wrong_at_once(answer: str) -> None:
    verdict = decide(gold="5", answer=answer)
    assert verdict is not None
    assert (verdict.correct, verdict.reason) == (False, "budget")


@pytest.mark.parametrize("gold", [r"10^{10^{10}}", "1+99999!"])
def test_a_gold_nobody_should_evaluate_gives_no_verdict_but_equals_itself(gold: str) -> None:
    assert correct(gold=gold, answer="5").correct is None
    assert correct(gold=gold, answer=gold.replace("1", "1 ", 1)).correct is True


@pytest.mark.parametrize(
    "answer", ["2^{2^{3}}", "2019!", "2^{1009}", "10^{100}", "(n-k)!", "x^{12}"]
)
def test_what_is_merely_large_is_evaluated(answer: str) -> None:
    assert repairs.too_heavy(answer) is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("(1+" * 20000, "too_long"),
        ("\\" * 200000, "too_long"),
        ("7" * 2001, "too_long"),
        ("(" * 100 + "5" + ")" * 100, "too_deep"),
        (r"\frac{" * 300, "too_deep"),
        ("{" * 900, "too_deep"),
        ("\\" * 1999, "too_long"),
        ("1+" * 250, "too_long"),
        ("1+" * 100, None),
        ("$" * 1999, "no_answer"),
    ],
)
def test_degenerate_answers_are_wrong_without_algebra(answer: str, reason: str | None) -> None:
    verdict = decide(gold="5", answer=answer)
    assert (verdict.reason if verdict else None) == reason


def test_grading_works_in_a_thread_and_leaves_alarms_alone() -> None:
    found: list[Any] = []
    previous = signal.setitimer(signal.ITIMER_REAL, 300)
    try:
        thread = threading.Thread(
            target=lambda: found.extend(
                correct(gold="(a+b)^2", answer="a^2+2ab+b^2", grader=grader)
                for grader in ("math", "math-verify")
            )
        )
        thread.start()
        thread.join()
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, *previous)
    assert [verdict.correct for verdict in found] == [True, True]


@pytest.mark.parametrize(
    ("grader", "gold", "answer", "equal"),
    [
        ("string", "0.5", r"\frac{1}{2}", True),
        ("string", "142", "142.0", False),
        ("string", "5", None, False),
        ("math-verify", "142", "142.0", True),
        ("math-verify", r"3\sqrt{13}", "3", False),
        ("math-verify", r"\frac{11}{4}", "2 3/4", False),  # read as 5/4: why `math` repairs
    ],
)
def test_the_other_graders_keep_their_own_rules(
    grader: Grader, gold: str, answer: str | None, equal: bool
) -> None:
    assert correct(gold=gold, answer=answer, grader=grader).correct is equal


def test_an_unknown_grader_is_a_user_error_that_lists_the_graders() -> None:
    with pytest.raises(UserError, match="math-verify, string"):
        correct(gold="5", answer="5", grader="exact")  # type: ignore[arg-type]


def test_versions_name_the_library_where_it_takes_part() -> None:
    assert "(math-verify " in grader_version("math")
    assert grader_version("math-verify").startswith("math-verify ")
    assert "math-verify" not in grader_version("string")


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (r"\frac12", "0.5", True),
        ("x+1", "1+x", True),
        ("1<x<2", "(1,2)", True),
        ("2", "3", False),
        ("see figure", "3", False),
        ("10^{10^{10}}", "10^{10^{11}}", None),
    ],
)
def test_equivalence_is_symmetric(a: str, b: str, same: bool | None) -> None:
    assert equivalent(a=a, b=b) is equivalent(a=b, b=a)
    assert bool(equivalent(a=a, b=b)) is bool(same)


@settings(max_examples=60, deadline=None)
@given(st.integers(-999, 999), st.integers(-999, 999), st.sampled_from(["", ".0", "x="]))
def test_the_fast_path_agrees_with_math_verify_on_integers(a: int, b: int, mark: str) -> None:
    answer = f"{mark}{b}" if mark.endswith("=") else f"{b}{mark}"
    for gold in (str(a), str(b)):
        fast = decide(gold=gold, answer=answer)
        assert fast is not None
        assert fast.correct is correct(gold=gold, answer=answer, grader="math-verify").correct


@given(st.fractions(max_denominator=10**6))
def test_a_fraction_equals_its_other_spellings(value: Any) -> None:
    top, bottom = value.numerator, value.denominator
    for spelling in (f"\\frac{{{top}}}{{{bottom}}}", f"\\dfrac{{{2 * top}}}{{{2 * bottom}}}"):
        verdict = decide(gold=f"{top}/{bottom}", answer=spelling)
        assert verdict is not None
        assert verdict.correct is True


@settings(max_examples=300)
@given(
    st.text(alphabet=r"\{}()[]^_!/*+-=.,:$%0123456789 xeE√½²°frac", max_size=60),
    st.one_of(st.text(), st.text(alphabet=r"\{}()[]^_!/*+-=.,:$%019 xe", max_size=60)),
)
def test_deciding_without_algebra_never_raises(gold: str, answer: str) -> None:
    for pair in ((gold, answer), (answer, gold), (gold, gold)):
        decide(gold=pair[0], answer=pair[1])
    assert repairs.tidy(repairs.tidy(answer[:2000])) is not None


def test_math_verify_is_imported_only_when_algebra_is_needed() -> None:
    program = (
        "import sys; from corewarding.grading import grade;"
        r"grade(gold='1/2', response=r'\boxed{0.5}'); assert 'sympy' not in sys.modules"
    )
    path = os.pathsep.join(filter(None, sys.path))
    subprocess.run(
        [sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": path}
    )


def test_the_public_names_are_sorted() -> None:
    assert sorted(grading.__all__) == grading.__all__
