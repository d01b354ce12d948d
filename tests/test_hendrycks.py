"""The MATH string comparison that the paper's ground-truth reward uses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewarding.hendrycks import is_equiv

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "paper_test_vectors.json").read_text()
)


@pytest.mark.parametrize(
    "case", VECTORS["is_equiv_hendrycks"], ids=lambda case: f"{case['a']}~{case['b']}"
)
def test_it_agrees_with_the_reference_function(case: dict[str, Any]) -> None:
    assert is_equiv(case["a"], case["b"]) is case["equal"]
    assert is_equiv(case["b"], case["a"]) is case["equal"]


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (r"\frac12", r"\frac{1}{2}", True),
        (r"\frac1{72}", r"\frac{1}{72}", True),
        (r"\tfrac{3}{4}", "3/4", True),
        (r"\frac", r"\frac", True),
        (r"k = 7", "7", True),
        (r"abc=7", "7", False),
        (r"2 \text{ ft} 3 \text{ in}", r"2 \text{ ft} 3 \text{ in}", True),
        (r"2 \text{ ft} 3 \text{ in}", "2", False),
        (r"1 .5", "1 0.5", True),
        ("03/4", "3/4", False),
        ("a/b", r"\frac{a}{b}", False),
        (None, None, True),
        (None, "", False),
    ],
)
def test_further_spellings(a: str | None, b: str | None, equal: bool) -> None:
    assert is_equiv(a, b) is equal


@given(st.text(), st.text(alphabet="\\frac sqrt{}0123/.=%$"))
def test_it_is_reflexive_symmetric_and_never_raises(a: str, b: str) -> None:
    assert is_equiv(a, a)
    assert is_equiv(a, b) == is_equiv(b, a)
