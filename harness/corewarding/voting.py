"""Elect a pseudo-label from a group's answers, and reward agreement with it.

The paper's rule counts raw strings and lets the answer met first win a tie (paper.md 1.3); that
is ``tie="first"``. The default abstains, because the order of rollouts carries no information.
Answers are compared as strings: hand in canonical answers (`GraderPool.classes`) to vote by
mathematical equality.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from corewarding.errors import UserError

__all__ = ["Tie", "Vote", "agreement", "vote"]

Tie = Literal["abstain", "first", "seeded", "split"]


@dataclass(frozen=True, slots=True)
class Vote:
    """The outcome of one vote."""

    winners: tuple[str, ...]
    """One label; several under an unresolved tie (``abstain``, ``split``); () if nobody voted."""
    votes: int
    """Votes of the winner (of each winner under a tie)."""
    voters: int
    """Answers that took part: neither None nor blank."""
    size: int
    """All answers of the group."""
    tie: Tie = "abstain"
    """The rule that was applied."""

    @property
    def label(self) -> str | None:
        """The pseudo-label; None if nobody voted or the tie was not resolved."""
        return self.winners[0] if len(self.winners) == 1 else None

    @property
    def tied(self) -> bool:
        """Whether a tie was left unresolved."""
        return len(self.winners) > 1

    @property
    def majority_ratio(self) -> float:
        """Share of the whole group that voted for the winner; 0 for an empty group."""
        return self.votes / self.size if self.size else 0.0


def vote(answers: Sequence[str | None], *, tie: Tie = "abstain", seed: int = 0) -> Vote:
    """Elect the most frequent answer; None and blank answers do not vote.

    Args:
        answers: one answer a rollout, (G,), compared as strings.
        tie: ``abstain`` keeps every tied answer and gives no label; ``split`` too, but shares the
            reward among them; ``first`` takes the one met first; ``seeded`` draws one in a way
            that depends on `seed` and on the tied answers, not on their order.
        seed: only for ``seeded``.

    Raises:
        UserError: `tie` is not one of the four rules.
    """
    if tie not in get_args(Tie):
        raise UserError(f"unknown tie rule {tie!r}; rules: {', '.join(get_args(Tie))}")
    counts = Counter(answer for answer in answers if answer is not None and answer.strip())
    voters = counts.total()
    if not voters:
        return Vote((), 0, 0, len(answers), tie)
    most = max(counts.values())
    tied = [answer for answer, count in counts.items() if count == most]
    if tie == "first":
        winners = tied[:1]
    elif tie == "seeded":
        winners = [_draw(sorted(tied), seed)]
    else:
        winners = sorted(tied)
    return Vote(tuple(winners), most, voters, len(answers), tie)


def agreement(answers: Sequence[str | None], result: Vote) -> npt.NDArray[np.float32]:
    """Return one reward per answer, (G,): 1 where it equals the elected label, else 0.

    Nobody voted: all 0 (paper.md 1.3). Unresolved tie: all NaN under ``abstain`` (the group
    leaves the loss); under ``split`` each of the k tied answers gets 1/k.
    `answers` need not be the ones that voted: Co-rewarding hands in the other view's.
    """
    if result.tied and result.tie != "split":
        return np.full(len(answers), np.nan, dtype=np.float32)
    share = 1.0 / max(1, len(result.winners))
    winners = frozenset(result.winners)
    return np.array([share if answer in winners else 0.0 for answer in answers], dtype=np.float32)


def _draw(candidates: Sequence[str], seed: int) -> str:
    digest = hashlib.sha256(json.dumps([seed, *candidates]).encode()).digest()
    return candidates[int.from_bytes(digest[:8], "big") % len(candidates)]
