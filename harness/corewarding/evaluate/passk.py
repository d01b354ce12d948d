"""Estimate pass@k, avg@k, pass^k and maj@k of one question from its n graded samples.

All of them are expectations over drawing k of the n samples without replacement, computed
exactly; nothing here is random.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import comb

import numpy as np

from corewarding.errors import UserError

__all__ = ["avg_at_k", "maj_at_k", "pass_at_k", "pass_hat_k"]


def pass_at_k(*, n: int, c: int, k: int) -> float:
    """Return the chance that at least one of k samples is right, given c right ones of n.

    The unbiased estimator 1 − C(n−c, k) / C(n, k) of Chen et al. 2021 (arXiv:2107.03374), in
    its product form: no overflow for any n.

    Raises:
        UserError: k > n (the data cannot tell), k < 1, or c is not in 0 … n.
    """
    _check(n=n, c=c, k=k)
    if n - c < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1, dtype=np.float64)))


def avg_at_k(*, n: int, c: int, k: int) -> float:
    """Return the expected share of right ones among k samples: c / n, which is pass@1.

    Raises:
        UserError: as `pass_at_k`.
    """
    _check(n=n, c=c, k=k)
    return c / n


def pass_hat_k(*, n: int, c: int, k: int) -> float:
    """Return the chance that all of k samples are right (pass^k): C(c, k) / C(n, k).

    Raises:
        UserError: as `pass_at_k`.
    """
    _check(n=n, c=c, k=k)
    if c < k:
        return 0.0
    return float(np.prod(np.arange(c - k + 1, c + 1) / np.arange(n - k + 1, n + 1)))


def maj_at_k(classes: Sequence[str | None], correct: Sequence[bool], *, k: int) -> float:
    """Return the chance that the most common answer among k samples is right.

    Equally common answers share the credit, so the order of samples has no influence. If no
    drawn sample has an answer, the vote is wrong.

    Args:
        classes: equivalence class of each sample's answer; None: no answer, does not vote.
        correct: verdict of each sample. Verdicts that differ within a class are averaged.
        k: how many samples vote.

    Raises:
        UserError: k > n or k < 1.
        ValueError: the two sequences differ in length.
    """
    votes: defaultdict[str, list[bool]] = defaultdict(list)
    silent = 0
    for name, verdict in zip(classes, correct, strict=True):
        if name is None:
            silent += 1
        else:
            votes[name].append(bool(verdict))
    _check(n=len(classes), c=0, k=k)
    ballot = sorted((len(v), sum(v)) for v in votes.values())
    return _plurality(tuple(ballot), silent, k)


@lru_cache(maxsize=65536)
def _plurality(ballot: tuple[tuple[int, int], ...], silent: int, k: int) -> float:
    """Exact `maj_at_k` from (votes, right ones) a class, by counting draws class by class."""
    counts = [count for count, _ in ballot]
    total = Fraction(0)
    for index, (count, right) in enumerate(ballot):
        if not right:
            continue
        others = tuple(counts[:index] + counts[index + 1 :])
        for drawn in range(1, min(count, k) + 1):
            shares = sum(
                (
                    Fraction(ways, 1 + ties)
                    for ties, ways in _rivals(others, silent, drawn, k - drawn)
                ),
                Fraction(0),
            )
            total += Fraction(right, count) * comb(count, drawn) * shares
    return float(total / comb(sum(counts) + silent, k))


@lru_cache(maxsize=65536)
def _rivals(
    others: tuple[int, ...], silent: int, most: int, left: int
) -> tuple[tuple[int, int], ...]:
    """Count the ways to draw `left` samples so that no class has more than `most`.

    Returns pairs (number of classes with exactly `most`, ways).
    """
    states = {(left, 0): 1}
    for count in others:
        following: defaultdict[tuple[int, int], int] = defaultdict(int)
        for (rest, ties), ways in states.items():
            for drawn in range(min(count, most, rest) + 1):
                following[rest - drawn, ties + (drawn == most)] += ways * comb(count, drawn)
        states = following
    summed: defaultdict[int, int] = defaultdict(int)
    for (rest, ties), ways in states.items():
        summed[ties] += ways * comb(silent, rest)
    return tuple(summed.items())


def _check(*, n: int, c: int, k: int) -> None:
    if k < 1:
        raise UserError(f"k={k}: k must be at least 1")
    if k > n:
        raise UserError(f"k={k} needs at least {k} samples, there are {n}; lower k or raise n")
    if not 0 <= c <= n:
        raise UserError(f"{c} right ones of {n} samples: expected 0 … {n}")
