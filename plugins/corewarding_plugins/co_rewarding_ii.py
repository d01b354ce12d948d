"""Co-rewarding-II: the policy is rewarded by the vote of a slow teacher (paper eq. 8-11).

r_i = 1 if a(y_i) == vote(a(ỹ_1), …, a(ỹ_G)), else 0, with ỹ drawn from the teacher θ̃ on the same
prompt. Before the teacher's rollouts of step k = 1…K the teacher moves,

    θ̃ ← (1 − τ(k))·θ̃ + τ(k)·θ_k,    τ(k) = a₁ + ½(a₀ − a₁)(1 + cos(π(k − 1)/K)),

and it is also the KL reference. τ is the *policy's* weight (1 − EMA decay): the reference's script
has a₀ = 0.01, a₁ = 1e-5, the paper's text a₁ = 1e-4.
"""

from __future__ import annotations

import math

from pydantic import Field

from corewarding import (
    TRAINED_VIEWS,
    Needs,
    Options,
    RegisterMethod,
    RewardMethod,
    RolloutBatch,
    Scores,
    StepEnd,
    Tie,
    agreement,
    hookimpl,
    vote,
)

__all__ = ["CoRewardingII", "policy_weight"]


class CoRewardingIIOptions(Options):
    """Settings of `co-rewarding-ii`."""

    tie: Tie = "abstain"
    """abstain: no reward; first: the answer met first (the reference); seeded; split."""
    policy_weight_start: float = Field(default=0.01, ge=0, le=1)
    """a₀: weight of the policy in the teacher's first move (EMA decay 0.99)."""
    policy_weight_end: float = Field(default=1e-5, ge=0, le=1)
    """a₁: weight of the policy towards the end (EMA decay 0.99999)."""


class CoRewardingII(RewardMethod):
    """1 for agreeing with the vote of the EMA teacher, else 0."""

    name = "co-rewarding-ii"
    options_type = CoRewardingIIOptions
    options: CoRewardingIIOptions

    def needs(self) -> Needs:
        """A teacher that answers what is trained, and the KL term held to it."""
        return Needs(
            teacher_views=frozenset({TRAINED_VIEWS}), min_rollouts=2, kl_reference="teacher"
        )

    def score(self, batch: RolloutBatch) -> Scores:
        """Vote among the teacher's answers."""
        scores = Scores()
        for item in batch:
            for view, group in item.policy.items():
                result = vote(item.teacher[view].answers, tie=self.options.tie, seed=batch.seed)
                scores.set(group, agreement(group.answers, result), target=result.label)
        return scores

    def after_step(self, end: StepEnd) -> None:
        """Move the teacher as the next step's beginning asks for.

        Blending after step k is the reference's blend before the teacher's rollouts of step k+1;
        its first blend does nothing, since both models start equal.
        """
        if end.teacher is not None and end.step < end.total_steps:
            options = self.options
            end.teacher.blend(
                policy_weight(
                    end.step + 1,
                    end.total_steps,
                    start=options.policy_weight_start,
                    end=options.policy_weight_end,
                )
            )


def policy_weight(step: int, total_steps: int, *, start: float, end: float) -> float:
    """Return τ(k) for k = `step` (1-based) of K = `total_steps`."""
    return end + 0.5 * (start - end) * (1 + math.cos(math.pi * (step - 1) / total_steps))


@hookimpl
def register_reward_methods(register: RegisterMethod) -> None:
    """Register the method."""
    register(CoRewardingII)
