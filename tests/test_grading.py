"""Which answers equal the gold answer, which do not, and which cannot be decided."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corewarding import grading, repairs
from corewarding.errors import UserError
from corewarding.grading import Grader, correct, decide, equivalent, grade, grader_version

M = r"\begin{pmatrix}1&0\\2&3\end{pmatrix}"

# (gold, answer, equal); numbers in comments refer to the collection of odd inputs
EQUIVALENCE = [
    # mixed numbers
    (r"\frac{11}{4}", r"2\frac{3}{4}", True),
    (r"\frac{11}{4}", "2 3/4", True),
    ("2 3/4", r"\frac{11}{4}", True),
    ("-2.75", r"-2\frac{3}{4}", True),
    (r"\frac{5}{2}", "2½", True),
    ("(2 1/2, 3)", r"(\frac52, 3)", True),
    (r"\frac{11}{4}", "2 1/4", False),
    (r"\frac{3}{2}", r"2\cdot\frac{3}{4}", True),
    # thousands separators
    ("12450", "12,450", True),
    ("12450", r"12\,450", True),
    ("12450", "12{,}450", True),
    ("12450", r"12,\!450", True),
    ("12450", "12 450", True),
    ("1234567.5", "1,234,567.5", True),
    ("11,\\! 111,\\! 100", "11111100", True),
    (r"\{12,450\}", "12450", False),
    ("12450", "(12,450)", False),
    ("12450", "12,45", False),
    # currency, leading zeros, text around numbers
    ("37", r"\$37.00", True),
    ("37", r"\text{\$37}", True),
    ("37", "€37", True),
    ("37", "37 dollars", True),
    ("37", r"\$37.50", False),
    ("047", "47", True),
    ("47", "047", True),
    ("0", "000", True),
    ("-7", "-007", True),
    ("47", "470", False),
    ("17", r"\text{17}", True),
    ("17", r"\mathbf{17}", True),
    ("0.5", r"\text{1/2}", True),
    ("17", r"\text{71}", False),
    ("3000000", r"\$3\text{ million}", True),
    ("3", "3 million", False),
    # units
    ("45", r"45\text{ cm}^2", True),
    ("45", r"45\ \mathrm{cm}^2", True),
    ("45", r"45\text{ m}/\text{s}", True),
    ("45", "45 square inches", True),
    ("60", r"60^\circ", True),
    ("60", r"60^{\circ}", True),
    (r"9\pi", r"9\pi \text{ m}^2", True),
    (r"8\sqrt{3} \text { square inches}", r"8\sqrt3", True),
    ("45", r"54\text{ cm}^2", False),
    ("12", "12xy", False),
    ("7", r"7 \text{ cm or } 8 \text{ cm}", False),
    # roots without braces
    ("9", r"3\sqrt(9)", True),
    ("3", r"3\sqrt(9)", False),
    ("4", r"4\sqrt(2)", False),
    (r"2\sqrt[3]{5}", r"2\sqrt[3](5)", True),
    ("5", "sqrt(25)", True),
    # upright e
    (r"2+\frac{1}{e}", r"2-\frac{1}{\mathrm e}", False),
    (r"2+\frac{1}{e}", r"2+\frac{1}{\mathrm e}", True),
    (r"2+\frac{1}{e}", r"2+\frac{1}{\mathrm{e}}", True),
    (r"2-\frac{1}{e}", r"2+\frac{1}{\text{e}}", False),
    ("e^2", r"-\mathrm{e}^{2}", False),
    # x = value
    ("8", "x=8", True),
    ("x=8", "8", True),
    ("y=8", "x=8", False),
    ("x=8", "x = 9", False),
    (r"\frac12", r"k=\frac{2}{4}", True),
    (r"m_{\max}=n^2-n", "n(n-1)", True),
    # sets, lists, tuples, intervals
    (r"\{4,1,7\}", r"\{1,4,7\}", True),
    (r"\left\{4,1,7\right\}", "7, 4, 1", True),
    (r"\{4,1,7\}", r"\{1,4\}", False),
    ("(4,1)", "(1,4)", False),
    ("(4,1)", r"\{4,1\}", False),
    (r"\{4,1\}", "(1,4)", False),
    ("[2,5)", "(2,5]", False),
    ("(2,5)", "2<x<5", True),
    ("x \\in [-2,7]", r"-2\le x\le 7", True),
    ("(1,2),(3,4)", "(3,4),(1,2)", True),
    ("(1,2),(3,4)", "(2,1),(3,4)", False),
    # parts of a several-part answer
    (r"13 \text{ and } 21", "21", False),
    (r"13 \text{ and } 21", "21, 13", True),
    (r"13 \text{ and } 21", r"\text{21 and 13}", True),
    ("x=1 or x=2", "1", False),
    (r"1 \pm \sqrt{19}", r"1+\sqrt{19}", False),
    (r"1 \pm \sqrt{19}", r"1-\sqrt{19}, 1+\sqrt{19}", True),
    # Unicode
    ("-6", "−6", True),
    (r"4\pi", "4π", True),
    (r"\frac12", "½", True),
    (r"2\sqrt5", "2√5", True),
    ("90", "90°", True),
    ("2^5", "2⁵", True),
    ("x^{-2}", "x⁻²", True),
    ("6000", "6 × 10³", True),
    (r"(-\infty, 3]", "(−∞, 3]", True),
    (r"\frac{\sqrt{2}}{2}", "√2/2", True),
    ("6", "−6", False),
    ("2^5", "2⁴", False),
    # matrices
    (M, M.replace("pmatrix", "bmatrix"), True),
    (M, r"\begin{pmatrix}1&2\\0&3\end{pmatrix}", False),
    (M, r"\begin{pmatrix}1&0\\2&\frac{6}{2}\end{pmatrix}", True),
    # fractions
    (r"\frac{3}{8}", r"\frac38", True),
    (r"\frac{3}{8}", r"\dfrac{3}{8}", True),
    (r"\frac{3}{8}", "3/8", True),
    (r"\frac{3}{8}", "6/16", True),
    (r"\frac{3}{8}", "0.375", True),
    (r"\frac{3}{8}", "0.38", False),
    (r"-\frac23", r"\frac{-2}{3}", True),
    (r"-\frac23", r"\frac{2}{-3}", True),
    (r"-\frac23", r"\frac23", False),
    (r"\frac13", "0.333333", True),
    (r"\frac13", "0.3333", False),
    ("2", "1.9999999", False),
    ("-1./3", r"-\frac{1}{3}", True),
    # clock times and ratios
    ("3:15", "3{:}15", True),
    ("3:15", "0.2", False),
    ("3:15", "03:15", True),
    ("3:15", "3:15 p.m.", True),
    ("3:15 a.m.", r"3:15\text{ p.m.}", False),
    ("1:2", "1/2", False),
    (r"1:\sqrt{2}", r"1 : \sqrt{2}", True),
    ("2:3:4", "2:3", False),
    # scientific notation
    (r"3\times10^{8}", "3e8", True),
    (r"3\times10^{8}", r"3\cdot 10^8", True),
    ("4.5e33", r"4.5 \times 10^{33}", True),
    ("1e-5", "0.00001", True),
    ("1.77E-6", "1.77 × 10⁻⁶", True),
    ("4.5e33", r"4.49\times10^{33}", False),
    ("3e8", "3e9", False),
    # variables are positive
    (r"\frac{1}{\sqrt{m}}", r"\sqrt{1/m}", True),
    (r"\frac{1}{\sqrt{m}}", r"-\sqrt{1/m}", False),
    (r"\frac{a}{b}", r"\sqrt{\frac{a^2}{b^2}}", True),
    (r"\frac{a}{b}", r"\sqrt{\frac{b^2}{a^2}}", False),
    # percent, bases
    (r"10\%", "10", True),
    (r"10\%", "0.1", True),
    ("62.5%", r"\frac{5}{8}", True),
    (r"10\%", r"0.1\%", False),
    ("52_8", "52_{8}", True),
    ("52_8", "52", True),
    ("52_8", "52_9", False),
    # words
    (r"\text{even}", "Even", True),
    (r"\text{even}", "odd", False),
    ("east", "seat", False),
    (r"\text{(C)}", "C", True),
    ("C", r"\text{(C)}", True),
    ("no solution", r"\text{No solution.}", True),
    ("no solution", "3", False),
    ("3", r"\text{three}", False),
    ("xy", "yx", True),
    ("p - q", "-q+p", True),
    # equations and functions
    ("y = 2x + 3", "2x - y + 3 = 0", True),
    ("f(x)=2x", "2x", True),
    (r"\frac{n(n+1)}{2}", r"\frac{n^2+n}{2}", True),
    (r"\frac{1}{3} E_{1}+\frac{2}{3} E_{2}", r"\frac23", False),
    ("np.arcsin(10/13)", r"\arcsin\frac{10}{13}", True),
]  # fmt: skip


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
