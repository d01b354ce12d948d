"""What counts as a response's answer (the strict style of the paper and the wider ones)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewarding.errors import UserError
from corewarding.extraction import Style, extract, option_letter, reference_answer

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "paper_test_vectors.json").read_text()
)
STYLES: tuple[Style, ...] = get_args(Style)


@pytest.mark.parametrize("case", VECTORS["extract"], ids=lambda case: case["text"])
def test_the_reference_style_extracts_what_the_papers_code_extracts(case: dict[str, str]) -> None:
    assert reference_answer(case["text"]) == case["answer"]
    raw = case["answer"]
    assert extract(case["text"], style="reference").answer == (raw if raw.strip() else None)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so we get \boxed{\frac{7}{\sqrt{3}}}.", r"\frac{7}{\sqrt{3}}"),
        (r"\boxed{\{x : x^{2} > 4\}}", r"\{x : x^{2} > 4\}"),
        (r"\boxed{\left\{\frac{1}{2},3\right\}} holds }", r"\left\{\frac{1}{2},3\right\}"),
        (r"\boxed{\begin{pmatrix}1\\{2}\end{pmatrix}}", r"\begin{pmatrix}1\\{2}\end{pmatrix}"),
        (r"The count is $\boxed 12$.", "12"),
        (r"The count is $\boxed \frac12$.", r"\frac12"),
        ("The count is \\boxed 12. Done", "12"),
        (r"The count is $\fbox{12}$.", "12"),
        (r"\boxed {12} done", "12"),
        (r"We find \boxed{18}. Checking again gives \boxed{18}.", "18"),
        (r"We find \boxed{\boxed{18}}.", "18"),
        (r"\\boxed{18}", "18"),
        (r"###Response \boxed{1} ###Response \boxed{2} ###Response \boxed{6}", "6"),
        (r"The other root has the opposite sign. $\boxed{-4}$ since $2-6$ is $-4$.", "-4"),
        (r"<think>\boxed{1}</think> I say \boxed{2}", "2"),
        (r"\boxed{1}</think> I say \boxed{2}", "2"),
        (r"I say \boxed{2}. Write answers in \boxed{}.", "2"),
        (r"ok \boxed{8} and then \boxed{5", "8"),
    ],
)  # fmt: skip
def test_the_boxed_style_takes_the_last_complete_box(text: str, answer: str) -> None:
    assert extract(text, style="boxed").answer == answer


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (r"Thus the area is \boxed{25", "unclosed_box"),
        (r"The answer is \boxed{\frac{2}{3", "unclosed_box"),
        (r"\boxed", "empty_box"),
        (r"\boxed{}", "empty_box"),
        (r"\boxed{ } or \boxed{...}", "empty_box"),
        ("no idea", "no_box"),
        ("", "no_box"),
        (r"<think>try \boxed{7}? no, maybe", "unfinished_thinking"),
        (r"<think>a</think><think>again \boxed{7}", "unfinished_thinking"),
    ],
)
@pytest.mark.parametrize("style", ["boxed", "lenient", "number"])
def test_without_an_answer_the_rule_says_why(text: str, rule: str, style: Style) -> None:
    found = extract(text, style=style)
    assert (found.answer, found.rule) == (None, rule)


@pytest.mark.parametrize("joint", [" and ", ", ", r"} and {$"])
def test_several_boxes_are_named_and_the_earlier_ones_kept(joint: str) -> None:
    found = extract(rf"The roots are \boxed{{2}}{joint}\boxed{{9}}.", style="boxed")
    assert (found.answer, found.rule, found.earlier) == ("9", "several_boxes", ("2",))


@pytest.mark.parametrize(
    ("text", "answer", "rule"),
    [
        ("**Final Answer: 31**", "31", "answer_is"),
        ("Final answer: **31**", "31", "answer_is"),
        ("**Final Answer**\n\n31", "31", "answer_is"),
        ("**Final Answer:** $31$", "31", "answer_is"),
        ("Answer: 42.", "42", "answer_is"),
        ("The answer is 42", "42", "answer_is"),
        ("the final answer is -3.5, because 7 is odd", "-3.5", "answer_is"),
        (r"The answer is $\frac{1}{2}$, as shown.", r"\frac{1}{2}", "answer_is"),
        ("The answer is:\n\n\\[x=3\\]\n", "x=3", "answer_is"),
        ("#### 63", "63", "hash_marks"),
        ("####63", "63", "hash_marks"),
        ("#### $63", "63", "hash_marks"),
        ("#### 63.00", "63.00", "hash_marks"),
        ("#### 63 apples", "63", "hash_marks"),
        ("#### Step 2\n#### 5" + " remark" * 300, "5", "hash_marks"),
        ("#### 5\n" + "remarks without digits\n" * 100, "5", "hash_marks"),
        ("The total is 64. (see step 3)", "64", "total_is"),
        ("so it is **17**.", "17", "bold"),
        (r"The answer is 3. No: \boxed{4}", "4", "boxed"),
    ],
)
def test_the_lenient_style_reads_phrases_and_marks(text: str, answer: str, rule: str) -> None:
    found = extract(text, style="lenient")
    assert (found.answer, found.rule) == (answer, rule)
    assert extract(text, style="number").answer == answer
    if rule != "boxed":
        assert extract(text, style="boxed").rule == "no_box"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The shop keeps 85 lamps, counting the broken ones...", "85"),
        ("85, of course.", "85"),
        ("It costs $1,234.50 ...", "1,234.50"),
        ("so 5-3=2 , $", "2"),
        ("It drops to -7.", "-7"),
        ("The total is 64. (see step 3)", "64"),
        ("The answer is 12 eggs in 3 boxes", "12"),
    ],
)
def test_the_number_style_falls_back_to_the_last_number(text: str, answer: str) -> None:
    assert extract(text, style="number").answer == answer


@pytest.mark.parametrize("text", ["...", ",", "$", "$ , ...", "- no -", "**", "Answer: ..."])
def test_punctuation_is_never_an_answer(text: str) -> None:
    for style in STYLES:
        assert extract(text, style=style).answer is None


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        (r"\boxed{\text{(C)}}", "C"),
        (r"\boxed{C: fourteen}", "C"),
        (r"\boxed{\mathbf{C}}", "C"),
        (r"\boxed{C) 14}", "C"),
        (r"\boxed{\textbf{(D)}\ 14}", "D"),
        (r"\boxed{c}", "C"),
        (r"Hence \boxed{\Delta G < 0}. **Answer: B**", "B"),
        (r"Hence \boxed{x+1}. The correct option is (b).", "B"),
        ("The answer is **(J)** because A is wrong.", "J"),
        ("(D)", "D"),
        ("<think>A? The answer is A.</think>Answer: E", "E"),
        (r"\boxed{fourteen}", None),
        (r"\boxed{14}", None),
        ("The answer is a number.", None),
        ("Choice is hard.", None),
    ],
)
def test_the_choice_style_finds_the_letter(text: str, letter: str | None) -> None:
    assert extract(text, style="choice").answer == letter


def test_an_option_letter_is_read_from_the_golds_spellings() -> None:
    assert [option_letter(gold) for gold in ("B", "(B)", r"\text{(B)}", "Both")] == [
        "B", "B", "B", None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so \\boxed{8}\nQuestion: what is 3+4?\n\\boxed{7}", "8"),
        ("#### 8\nQuestion: what is 3+4?\n#### 7", "8"),
        ("The answer is 8.\n\nProblem 2. The answer is 7.", "8"),
    ],
)
def test_the_text_ends_at_the_first_stop_string(text: str, answer: str) -> None:
    assert extract(text, style="lenient", stop=("Problem ", "Question:", "")).answer == answer


def test_an_unknown_style_is_a_user_error_that_lists_the_styles() -> None:
    with pytest.raises(UserError, match="number, choice"):
        extract("5", style="loose")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "(1+" * 20_000,
        "\\" * 200_000,
        "\\frac{" * 50_000,
        "\\boxed{" * 50_000,
        "\\boxed " * 50_000,
        "\\boxed" + " " * 300_000,
        "\\boxed{" * 20_000 + "}" * 20_000,
        "answer is " * 40_000,
        "answer" + " " * 300_000,
        "the total is $" * 30_000,
        "answer is **" * 30_000,
        "answer:" + "\n" * 300_000,
        "<think>" * 50_000,
        "$" * 300_000,
        "1," * 150_000,
        "9" * 300_000,
    ],
    ids=lambda text: text[:12],
)
def test_extraction_is_linear_on_degenerate_texts(text: str) -> None:
    for style in STYLES:
        start = time.process_time()
        extract(text, style=style)
        assert time.process_time() - start < 1.0


_PIECES = st.sampled_from(
    [
        "\\boxed",
        "{",
        "}",
        "\\fbox",
        " ",
        "$",
        "5",
        "answer is",
        "####",
        "**",
        "\n",
        "<think>",
        "</think>",
        "\\",
        "(C)",
        ",",
        ".",
        "total is",
        "\\text{",
        "−",
    ]
)


@given(st.one_of(st.text(), st.lists(_PIECES).map("".join)))
def test_extraction_never_raises_and_never_finds_a_blank(text: str) -> None:
    for style in STYLES:
        found = extract(text, style=style)
        assert found.rule
        assert found.answer is None or found.answer.strip()


@given(st.text(alphabet="ab{}\\ $", max_size=20).filter(lambda s: s.count("{") == s.count("}")))
def test_a_box_of_balanced_content_is_returned_by_the_reference_rule(content: str) -> None:
    depth, balanced = 0, True
    for char in content:
        depth += (char == "{") - (char == "}")
        balanced = balanced and depth >= 0
    if balanced:
        assert reference_answer(f"so \\boxed{{{content}}}.") == content
