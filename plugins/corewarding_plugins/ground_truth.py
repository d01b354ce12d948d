"""Ground truth: reward 1 for an answer equal to the gold one (the supervised upper reference).

r_i = 1 if a(y_i) equals the gold answer, else 0 (paper, GT-Reward). An answer that the grader could
not decide abstains.
"""

from __future__ import annotations

from corewarding import Needs, RegisterMethod, RewardMethod, RolloutBatch, Scores, hookimpl

__all__ = ["GroundTruth"]


class GroundTruth(RewardMethod):
    """1 for a right answer, 0 for a wrong or missing one, abstain where undecided."""

    name = "ground-truth"

    def needs(self) -> Needs:
        """Labels, and nothing else."""
        return Needs(labels=True)

    def score(self, batch: RolloutBatch) -> Scores:
        """Look each answer's verdict up."""
        scores = Scores()
        for item in batch:
            for group in item.policy.values():
                verdicts = [a is not None and item.verdicts[a] for a in group.answers]
                rewards = [float("nan") if v is None else float(v) for v in verdicts]
                scores.set(group, rewards, target=item.label)
        return scores


@hookimpl
def register_reward_methods(register: RegisterMethod) -> None:
    """Register the method."""
    register(GroundTruth)
