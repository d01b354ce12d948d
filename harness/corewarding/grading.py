r"""Decide whether an answer equals the gold answer, and say why.

`extraction.extract` takes the answer out of a text; `correct` compares an answer that is already
taken out; `grade` does both. Three graders:

===========  ==================================================================================
math         spellings repaired (`repairs`), exact numbers, words, then math-verify; the default
math-verify  math-verify alone, both sides in ``\boxed{}``
string       the MATH string normalisation of the paper's own reward (`hendrycks`)
===========  ==================================================================================

A verdict of None means *could not be decided* (unreadable gold, time-out): count it apart, it is
neither right nor wrong. Variables are taken as positive: ``\sqrt{1/m}`` equals ``1/\sqrt{m}``.
Nothing here bounds the time of one comparison; `graderpool.GraderPool` does, in processes that it
can kill. math-verify's own time-outs are off, because they need the main thread's SIGALRM.
"""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import metadata
from typing import Any, Literal, get_args

from corewarding import repairs
from corewarding.errors import UserError
from corewarding.extraction import Extraction, Style, extract, option_letter
from corewarding.hendrycks import is_equiv
from corewarding.numerals import number

__all__ = [
    "Grader",
    "Verdict",
    "answer_for",
    "correct",
    "decide",
    "equivalent",
    "grade",
    "grader_version",
    "with_rule",
]

Grader = Literal["math", "math-verify", "string"]
_REVISION = 1  # raise it whenever a verdict of the math or string grader can change


@dataclass(frozen=True, slots=True)
class Verdict:
    """One comparison's outcome."""

    correct: bool | None
    """None: could not be decided."""
    reason: str
    """What decided: ``identical``, ``equal_number``, ``no_box``, ``budget``, ``timeout``, ..."""
    extracted: str | None = None
    """The answer that was compared; None if there was none."""
    rule: str = ""
    """The extraction rule that found it (`Extraction.rule`); empty if nothing was extracted."""


def correct(*, gold: str, answer: str | None, grader: Grader = "math") -> Verdict:
    """Compare an extracted answer with the gold answer.

    Raises:
        UserError: unknown grader.
    """
    verdict = decide(gold=gold, answer=answer, grader=grader)
    if verdict is None:
        assert answer is not None
        verdict = _algebra(gold, answer, grader)
    return replace(verdict, extracted=answer)


def grade(
    *,
    gold: str,
    response: str,
    style: Style = "boxed",
    grader: Grader = "math",
    stop: Sequence[str] = (),
) -> Verdict:
    """Extract the answer of a response and compare it with the gold answer.

    Without an answer the verdict's reason says why (``no_box``, ``unclosed_box``, ...).
    """
    extraction = extract(response, style=style, stop=stop)
    answer = answer_for(gold=gold, extraction=extraction, style=style)
    return with_rule(correct(gold=gold, answer=answer, grader=grader), extraction)


def equivalent(*, a: str, b: str) -> bool | None:
    """Return whether two answers, neither of them gold, mean the same; symmetric.

    None: could not be decided.
    """
    first, second = sorted((a, b))
    verdict = correct(gold=first, answer=second)
    return False if verdict.reason == "unreadable_gold" else verdict.correct


def grader_version(grader: Grader) -> str:
    """Name the grader with everything that can change its verdicts, for the run's record."""
    if grader == "string":
        return f"string {_REVISION}"
    library = f"math-verify {metadata.version('math-verify')}"
    return library if grader == "math-verify" else f"{grader} {_REVISION} ({library})"


def with_rule(verdict: Verdict, extraction: Extraction) -> Verdict:
    """Note in a verdict how its answer was found, or as its reason why there was none."""
    reason = extraction.rule if verdict.reason == "no_answer" else verdict.reason
    return replace(verdict, reason=reason, rule=extraction.rule)


def answer_for(*, gold: str, extraction: Extraction, style: Style) -> str | None:
    r"""Return the answer to hold against `gold`, given everything that was extracted.

    A gold collection of n elements takes the last n boxes, as in ``\boxed{2} and \boxed{9}``; a
    choice task's letter is spelled as the gold spells it.
    """
    answer = extraction.answer
    if answer is None or len(gold) > repairs.MAX_LENGTH:
        return answer
    if style == "choice" and option_letter(gold) == answer:
        return gold
    if extraction.rule != "several_boxes":
        return answer
    wanted = len(_elements(gold))
    if wanted < 2 or len(answer) > repairs.MAX_LENGTH or len(_elements(answer)) > 1:
        return answer
    boxes = list(dict.fromkeys((*extraction.earlier, answer)))
    return ", ".join(boxes[-wanted:])


def decide(*, gold: str, answer: str | None, grader: Grader = "math") -> Verdict | None:
    """Compare without computer algebra; None where only algebra can tell.

    Cheap (microseconds) and safe for any input, so callers try it before they use a process.
    """
    if grader not in get_args(Grader):
        raise UserError(f"unknown grader {grader!r}; graders: {', '.join(get_args(Grader))}")
    if grader == "string":
        if answer is None:
            return Verdict(False, "no_answer")
        same = is_equiv(gold, answer)
        return Verdict(same, "equal_text" if same else "different_text")
    if answer is not None and gold == answer and gold.strip():
        return Verdict(True, "identical")
    if len(gold) > repairs.MAX_LENGTH or not gold.strip():
        return Verdict(None, "unreadable_gold")
    if answer is not None and len(answer) > repairs.MAX_LENGTH:
        return Verdict(False, "too_long")
    if grader == "math":
        return _decide_math(gold, answer)
    if answer is None or not answer.strip():
        return Verdict(False, "no_answer")
    return _weigh(gold, answer)


# --- without algebra -----------------------------------------------------------------------------


def _decide_math(gold: str, answer: str | None) -> Verdict | None:
    tidy_gold, tidy_answer = repairs.tidy(gold), repairs.tidy(answer or "")
    if not tidy_answer:
        return Verdict(None, "unreadable_gold") if _prose(gold) else Verdict(False, "no_answer")
    if _compact(tidy_gold) == _compact(tidy_answer):
        return Verdict(True, "equal_text")
    left, right = number(tidy_gold), number(tidy_answer)
    if left is not None and right is not None:
        same = left.equals(right)
        return Verdict(same, "equal_number" if same else "different_number")
    assert answer is not None
    return (
        _decide_words(gold, answer)
        or _decide_ratio(tidy_gold, tidy_answer)
        or _decide_brackets(tidy_gold, tidy_answer)
        or _weigh(tidy_gold, tidy_answer)
    )


def _decide_words(gold: str, answer: str) -> Verdict | None:
    gold_is_word, answer_is_word = _word(gold), _word(answer)
    if gold_is_word or answer_is_word or _prose(gold):
        if repairs.plain_text(gold) == repairs.plain_text(answer):
            return Verdict(True, "equal_text")
        if _prose(gold):
            return Verdict(None, "unreadable_gold")
        return Verdict(False, "different_text")
    return None


def _decide_ratio(gold: str, answer: str) -> Verdict | None:
    """Compare clock times and ratios part by part: 3:15 is not a fifth."""
    left, right = _ratio(gold), _ratio(answer)
    if left is None and right is None:
        return None
    same = left is not None and right is not None and len(left) == len(right)
    if same and left and right:
        same = all(map(_same_part, left, right))
    return Verdict(same, "equal_ratio" if same else "different_ratio")


def _ratio(tidied: str) -> list[str] | None:
    if ":" not in tidied or any(mark in tidied for mark in ("=", "\\{", "\\to", "|", "<", ">")):
        return None
    parts = repairs.split_top_level(tidied, ":")
    return parts if len(parts) > 1 and all(parts) else None


_MERIDIEM = re.compile(r"(\d\d)\s*(?:\\text\{)?\s*([ap])\.?\s*m\.?\s*\}?", re.IGNORECASE)


def _same_part(left: str, right: str) -> bool:
    halves = [match[2].lower() for match in map(_MERIDIEM.fullmatch, (left, right)) if match]
    if len(set(halves)) > 1:  # a.m. against p.m.; one that is left out is not held against it
        return False
    first, second = number(_clock(left)), number(_clock(right))
    if first is None or second is None:
        return _compact(left) == _compact(right)
    return first.equals(second)


def _clock(part: str) -> str:
    """Take the minutes out of ``15 p.m.``."""
    match = _MERIDIEM.fullmatch(part)
    return match[1] if match else part


def _decide_brackets(gold: str, answer: str) -> Verdict | None:
    """Tell an ordered tuple from a set: (1,2) is not {1,2}."""
    kinds = {repairs.brackets(gold), repairs.brackets(answer)}
    if kinds == {"()", "\\{\\}"} and "," in gold and "," in answer:
        return Verdict(False, "different_brackets")
    return None


def _weigh(gold: str, answer: str) -> Verdict | None:
    if reason := repairs.too_heavy(answer):
        return Verdict(False, reason)
    # A loop such as 1+1+1+... would cost the whole budget and then count as undecided.
    if len(answer) > max(_LONG, 4 * len(gold)):
        return Verdict(False, "too_long")
    if reason := repairs.too_heavy(gold):
        return Verdict(None, reason)
    return None


_LONG = 400


def _elements(text: str) -> list[str]:
    tidied = repairs.tidy(text)
    if number(tidied) is not None:
        return [tidied]
    kind = repairs.brackets(tidied)
    if kind == "\\{\\}":
        tidied = tidied[2:-2]
    elif kind in ("()", "[]", "[)", "(]"):
        return [tidied]
    parts = repairs.split_top_level(tidied, ",")
    if len(parts) == 1 and "\\pm" in tidied:
        return [tidied, tidied]
    return parts


def _compact(tidied: str) -> str:
    return tidied.replace(" ", "")


@lru_cache(maxsize=16384)
def _word(text: str) -> bool:
    return repairs.is_word(text)


@lru_cache(maxsize=16384)
def _prose(gold: str) -> bool:
    return repairs.is_prose(gold)


# --- algebra -------------------------------------------------------------------------------------


def _algebra(gold: str, answer: str, grader: Grader) -> Verdict:
    bare = grader == "math-verify"
    if not bare:
        gold, answer = repairs.tidy(gold), repairs.tidy(answer)
    engine = _engine()
    wanted = engine.parse(gold, bare) or (not bare and engine.parse(_right_side(gold), bare))
    if not wanted:
        return Verdict(None, "unreadable_gold")
    given = engine.parse(answer, bare) or (not bare and engine.parse(_right_side(answer), bare))
    if not given:
        return Verdict(False, "unreadable_answer")
    if engine.verify(wanted, given, bare):
        return Verdict(True, "equal_math")
    if not bare and _equal_for_positive(wanted[0], given[0]):
        return Verdict(True, "equal_for_positive")
    return Verdict(False, "different")


def _right_side(tidied: str) -> str:
    r"""Drop a left side that math-verify may not read, as in ``m_{\max} = n^2``."""
    _, _, right = tidied.partition("=")
    return "" if "=" in right else right.strip()


@dataclass(frozen=True, slots=True)
class _Engine:
    parse: Callable[[str, bool], list[Any]]
    verify: Callable[[list[Any], list[Any], bool], bool]


@lru_cache(maxsize=1)
def _engine() -> _Engine:
    """Import math-verify (about a second) and wrap it with its time-outs off."""
    import math_verify

    for name in ("math_verify.parser", "math_verify.grader"):
        logging.getLogger(name).addFilter(_is_no_timeout_remark)
    defaults = math_verify.LatexExtractionConfig()
    strict = (
        math_verify.LatexExtractionConfig(
            try_extract_without_anchor=False,
            boxed_match_priority=0,
            # its unit patterns can swallow the rest of a list, and an upright e
            normalization_config=replace(defaults.normalization_config, units=False),
        ),
    )

    @lru_cache(maxsize=4096)
    def parse(text: str, bare: bool) -> list[Any]:
        if not text:
            return []
        boxed = f"\\boxed{{{text}}}"
        if bare:
            return list(math_verify.parse(boxed, parsing_timeout=None))
        return list(
            math_verify.parse(
                boxed,
                extraction_config=strict,
                fallback_mode="no_fallback",
                parsing_timeout=None,
            )
        )

    def verify(gold: list[Any], answer: list[Any], bare: bool) -> bool:
        return bool(
            math_verify.verify(gold, answer, allow_set_relation_comp=not bare, timeout_seconds=None)
        )

    return _Engine(parse, verify)


def _is_no_timeout_remark(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Timeout is disabled")


_POINTS = 3
_TOLERANCE = 1e-10


def _equal_for_positive(gold: Any, answer: Any) -> bool:
    """Compare two expressions in the same variables at fixed positive points."""
    import sympy

    if not isinstance(gold, sympy.Expr) or not isinstance(answer, sympy.Expr):
        return False
    symbols = sorted(gold.free_symbols, key=str)
    if not symbols or gold.free_symbols != answer.free_symbols:
        return False
    generator = random.Random(0)
    for _ in range(_POINTS):
        point = {symbol: sympy.Rational(generator.randint(100, 400), 127) for symbol in symbols}
        try:
            left, right = (complex(side.subs(point).evalf(25)) for side in (gold, answer))
        except (TypeError, ValueError, ArithmeticError, AttributeError):
            return False  # not a number there: an unknown function, a pole, a set
        if not abs(left - right) <= _TOLERANCE * max(abs(left), abs(right)):
            return False
    return True
