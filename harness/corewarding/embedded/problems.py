r"""Make word problems in two wordings, with the answer known and the worked solution written out.

A problem is a start number (5 to 60) and *level* facts: add or subtract 2 to 9, or double; every
running value lies in 0 to 99. "Gus has 41 cups. Gus loses 3. How many are left?" is worked as
"\n41-3=38\n\boxed{38}". The rephrased wording keeps start, facts and order, and takes another
name, another item and another phrase for every sentence, so it has the same answer by construction.

Splits are disjoint for every pair of seeds: the SHA-256 of start and facts alone ("41-3*2") decides
which split a problem may occur in, and a text determines its start and facts. Two seeds' questions
of one split may coincide.

Draws use only `random.Random(str).random()`, the one sequence Python promises never to change.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["Problem", "Split", "problems", "supervised"]

Split = Literal["train", "dev", "test", "test_hard"]
_Stream = Literal["train", "dev", "test", "test_hard", "supervised"]

_LEVELS: Final[dict[_Stream, tuple[int, ...]]] = {
    "train": (2, 3),
    "dev": (2, 3),
    "test": (2, 3),
    "test_hard": (4,),
    "supervised": (1, 2, 3, 3, 4),
}
# Residues mod 10 of the hash. "test" and "test_hard" may share one: they differ in level.
_RESIDUES: Final[dict[_Stream, frozenset[int]]] = {
    "train": frozenset({6, 7}),
    "dev": frozenset({8}),
    "test": frozenset({9}),
    "test_hard": frozenset({9}),
    "supervised": frozenset({0, 1, 2, 3, 4, 5}),
}
_DOUBLE: Final = 0  # a fact is +k, -k, or this
_DOUBLE_SHARE: Final = 0.1
_MAX_VALUE: Final = 99
_ZIPF_EXPONENT: Final = 3.0

_NAMES: Final = ("Gus", "Ann", "Bob", "Eva", "Ivy", "Jim", "Kim", "Leo", "Mia", "Ned", "Pam", "Sam")
_ITEMS: Final = (
    *("cups", "pens", "coins", "cards", "books", "shells"),
    *("beads", "stamps", "hats", "keys", "stones", "rings"),
)
_OPENINGS: Final = (
    "{name} has {number} {item}.",
    "{name} owns {number} {item}.",
    "{name} starts with {number} {item}.",
    "There are {number} {item} in the box of {name}.",
)
_ADDITIONS: Final = (
    "{name} finds {number}.",
    "{name} buys {number} more.",
    "{name} gets {number}.",
    "{name} wins {number}.",
    "{name} adds {number}.",
    "A friend brings {number}.",
    "{name} receives {number} more.",
    "{name} collects {number}.",
)
_SUBTRACTIONS: Final = (
    "{name} loses {number}.",
    "{name} sells {number}.",
    "{name} donates {number}.",
    "{name} gives away {number}.",
    "{name} breaks {number}.",
    "A friend takes {number}.",
    "{name} throws out {number}.",
    "{name} removes {number}.",
)
_DOUBLINGS: Final = (
    "{name} doubles the number of {item}.",
    "The number of {item} doubles.",
    "Now there are twice as many.",
    "{name} ends up with twice as many.",
)
_QUESTIONS: Final = (
    "How many are left?",
    "How many does {name} have now?",
    "How many {item} are there now?",
    "What is the final number of {item}?",
    "How many {item} in total?",
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Read one question in both wordings, its answer, and a worked solution that ends in a box."""

    uid: str
    original: str
    rephrased: str
    answer: str  # decimal digits
    worked: str  # one line per fact, then the box; begins with a newline
    level: int  # number of facts


@dataclass(frozen=True, slots=True)
class _Wording:
    """Which phrase each part of a question takes."""

    name: int
    item: int
    opening: int
    facts: tuple[int, ...]
    question: int


def problems(split: Split, *, seed: int, count: int) -> list[Problem]:
    """Return the first `count` problems of a split; problem i depends on (split, seed, i) only.

    Phrases are drawn uniformly. Levels are 2 and 3, for `test_hard` 4.
    """
    return [_problem(split, seed=seed, index=i, zipf=0.0) for i in range(count)]


def supervised(*, seed: int, start: int, count: int) -> list[Problem]:
    """Return problems `start` to `start + count - 1` of the endless stream for base training.

    Levels are drawn from 1, 2, 3, 3, 4. Phrase number r is drawn with weight r**-3, so some phrases
    are rare here and common in the splits. No problem of this stream is in any split.
    """
    return [
        _problem("supervised", seed=seed, index=i, zipf=_ZIPF_EXPONENT)
        for i in range(start, start + count)
    ]


def _problem(stream: _Stream, *, seed: int, index: int, zipf: float) -> Problem:
    uid = f"{stream}-{seed}-{index}"
    rng = random.Random(uid)
    level = _LEVELS[stream][_below(rng, len(_LEVELS[stream]))]
    start, facts = _operations(rng, stream=stream, level=level)
    original = _wording(rng, facts, zipf=zipf, other_than=None)
    rephrased = _wording(rng, facts, zipf=zipf, other_than=original)
    values = _values(start, facts)
    lines = [
        f"{before}+{before}={after}" if fact == _DOUBLE else f"{before}{fact:+d}={after}"
        for before, fact, after in zip(values, facts, values[1:], strict=False)
    ]
    return Problem(
        uid=uid,
        original=_render(start, facts, original),
        rephrased=_render(start, facts, rephrased),
        answer=str(values[-1]),
        worked="\n" + "\n".join([*lines, f"\\boxed{{{values[-1]}}}"]),
        level=level,
    )


def _below(rng: random.Random, bound: int) -> int:
    return int(rng.random() * bound)


def _operations(rng: random.Random, *, stream: _Stream, level: int) -> tuple[int, tuple[int, ...]]:
    """Draw start and facts until they belong to the stream and stay within the range."""
    while True:
        start = 5 + _below(rng, 56)
        facts = tuple(_fact(rng) for _ in range(level))
        in_range = all(0 <= value <= _MAX_VALUE for value in _values(start, facts))
        if in_range and _residue(start, facts) in _RESIDUES[stream]:
            return start, facts


def _fact(rng: random.Random) -> int:
    if rng.random() < _DOUBLE_SHARE:
        return _DOUBLE
    amount = 2 + _below(rng, 8)
    return amount if rng.random() < 0.5 else -amount


def _values(start: int, facts: tuple[int, ...]) -> list[int]:
    values = [start]
    for fact in facts:
        values.append(values[-1] * 2 if fact == _DOUBLE else values[-1] + fact)
    return values


def _residue(start: int, facts: tuple[int, ...]) -> int:
    expression = str(start) + "".join("*2" if f == _DOUBLE else f"{f:+d}" for f in facts)
    return int.from_bytes(hashlib.sha256(expression.encode()).digest()[:8], "big") % 10


def _phrases(fact: int) -> tuple[str, ...]:
    if fact == _DOUBLE:
        return _DOUBLINGS
    return _ADDITIONS if fact > 0 else _SUBTRACTIONS


def _wording(
    rng: random.Random, facts: tuple[int, ...], *, zipf: float, other_than: _Wording | None
) -> _Wording:
    """Draw a wording that differs in every part from `other_than`."""

    def pick(size: int, exponent: float, taken: Callable[[_Wording], int]) -> int:
        old = None if other_than is None else taken(other_than)
        weights = [0.0 if i == old else (i + 1) ** -exponent for i in range(size)]
        return _weighted(rng, weights)

    def pick_fact(position: int, fact: int) -> int:
        return pick(len(_phrases(fact)), zipf, lambda wording: wording.facts[position])

    return _Wording(
        name=pick(len(_NAMES), 0.0, lambda wording: wording.name),
        item=pick(len(_ITEMS), 0.0, lambda wording: wording.item),
        opening=pick(len(_OPENINGS), zipf, lambda wording: wording.opening),
        facts=tuple(pick_fact(position, fact) for position, fact in enumerate(facts)),
        question=pick(len(_QUESTIONS), zipf, lambda wording: wording.question),
    )


def _weighted(rng: random.Random, weights: list[float]) -> int:
    point = rng.random() * sum(weights)
    for i, weight in enumerate(weights):
        if point < weight:
            return i
        point -= weight
    return max(i for i, weight in enumerate(weights) if weight)  # rounding at the very end


def _render(start: int, facts: tuple[int, ...], wording: _Wording) -> str:
    name, item = _NAMES[wording.name], _ITEMS[wording.item]
    sentences = [_OPENINGS[wording.opening].format(name=name, number=start, item=item)]
    for fact, phrase in zip(facts, wording.facts, strict=True):
        sentences.append(_phrases(fact)[phrase].format(name=name, number=abs(fact), item=item))
    sentences.append(_QUESTIONS[wording.question].format(name=name, item=item))
    return " ".join(sentences)
