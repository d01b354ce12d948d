"""Self-certainty: reward completions whose tokens were chosen from peaked distributions (Intuitor).

r_i = (1/|y_i|) Σ_t (log Σ_v exp z_tv − mean_v z_tv) = mean over tokens of KL(U ‖ p_t) + log |V|.
The constant drops out in the group's normalisation. Known failure: rewards rise while answers go
wrong.
"""

from __future__ import annotations

import numpy as np

from corewarding import Needs, RegisterMethod, RewardMethod, RolloutBatch, Scores, hookimpl

__all__ = ["SelfCertainty"]


class SelfCertainty(RewardMethod):
    """Mean self-certainty over the completion's tokens; an empty completion abstains."""

    name = "self-certainty"

    def needs(self) -> Needs:
        """The statistic, per token."""
        return Needs(statistics=frozenset({"self_certainty"}))

    def score(self, batch: RolloutBatch) -> Scores:
        """Average over tokens."""
        scores = Scores()
        for group in batch.trained():
            values = [r.stats["self_certainty"] for r in group.rollouts]
            scores.set(group, [float(np.mean(v)) if v.size else float("nan") for v in values])
        return scores


@hookimpl
def register_reward_methods(register: RegisterMethod) -> None:
    """Register the method."""
    register(SelfCertainty)
