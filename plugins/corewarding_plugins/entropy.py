"""Entropy: reward completions drawn from low-entropy distributions (RENT).

r_i = −(1/|y_i|) Σ_t H_t with H_t = −Σ_v p_tv log p_tv over the full vocabulary.
Left out: RENT's optional penalty of −7 for a missing answer, which the paper did not use.
Known failure: collapses to confident nonsense, in every run the paper shows.
"""

from __future__ import annotations

import numpy as np

from corewarding import Needs, RegisterMethod, RewardMethod, RolloutBatch, Scores, hookimpl

__all__ = ["Entropy"]


class Entropy(RewardMethod):
    """Minus the mean token entropy in nats; an empty completion abstains."""

    name = "entropy"

    def needs(self) -> Needs:
        """The statistic, per token."""
        return Needs(statistics=frozenset({"entropy"}))

    def score(self, batch: RolloutBatch) -> Scores:
        """Average over tokens."""
        scores = Scores()
        for group in batch.trained():
            values = [r.stats["entropy"] for r in group.rollouts]
            scores.set(group, [-float(np.mean(v)) if v.size else float("nan") for v in values])
        return scores


@hookimpl
def register_reward_methods(register: RegisterMethod) -> None:
    """Register the method."""
    register(Entropy)
