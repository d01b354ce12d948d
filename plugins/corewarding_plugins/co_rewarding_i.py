"""Co-rewarding-I: each wording of a question is rewarded by the vote of the other (paper eq. 6-7).

x:  r_i = 1 if a(y_i)  == vote(a(y'_1), …, a(y'_G)), else 0
x': r_i = 1 if a(y'_i) == vote(a(y_1),  …, a(y_G)),  else 0
where x' is the rephrased question. Both views are trained, each in its own advantage group.
With ``twin_view: repeat`` the same question is asked twice: a control for what rephrasing adds.
"""

from __future__ import annotations

from corewarding import (
    Needs,
    Options,
    RegisterMethod,
    RewardMethod,
    RolloutBatch,
    Scores,
    Tie,
    agreement,
    hookimpl,
    vote,
)

__all__ = ["CoRewardingI"]


class CoRewardingIOptions(Options):
    """Settings of `co-rewarding-i`."""

    tie: Tie = "abstain"
    """abstain: no reward; first: the answer met first (the reference); seeded; split."""
    twin_view: str = "rephrased"
    """The wording paired with ``original``."""


class CoRewardingI(RewardMethod):
    """1 for agreeing with the vote over the question's other wording, else 0."""

    name = "co-rewarding-i"
    options_type = CoRewardingIOptions
    options: CoRewardingIOptions

    def needs(self) -> Needs:
        """Both wordings, and groups worth voting in."""
        return Needs(views=frozenset({"original", self.options.twin_view}), min_rollouts=2)

    def score(self, batch: RolloutBatch) -> Scores:
        """Cross the votes."""
        scores = Scores()
        for item in batch:
            pair = (item.policy["original"], item.policy[self.options.twin_view])
            for group, other in (pair, pair[::-1]):
                result = vote(other.answers, tie=self.options.tie, seed=batch.seed)
                scores.set(group, agreement(group.answers, result), target=result.label)
        return scores


@hookimpl
def register_reward_methods(register: RegisterMethod) -> None:
    """Register the method."""
    register(CoRewardingI)
