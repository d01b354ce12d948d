"""Majority vote: reward agreement with the policy's own most frequent answer (SRT, TTRL).

r_i = 1 if a(y_i) == vote(a(y_1), …, a(y_G)), else 0. Answers that are missing do not vote; if none
votes, all rewards are 0. With `extra_votes` the policy draws further rollouts that only vote.
Left out: soft votes and confidence weighting.
"""

from __future__ import annotations

from pydantic import Field

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

__all__ = ["MajorityVote"]


class MajorityVoteOptions(Options):
    """Settings of `majority-vote`."""

    tie: Tie = "abstain"
    """abstain: no reward; first: the answer met first (the reference); seeded; split."""
    extra_votes: int = Field(default=0, ge=0)
    """Voting-only rollouts a prompt, added to the trained ones: 8 match Co-rewarding-II's cost."""


class MajorityVote(RewardMethod):
    """1 for agreeing with the group's own vote, else 0."""

    name = "majority-vote"
    options_type = MajorityVoteOptions
    options: MajorityVoteOptions

    def needs(self) -> Needs:
        """A group worth voting in."""
        return Needs(min_rollouts=2, vote_rollouts=self.options.extra_votes)

    def score(self, batch: RolloutBatch) -> Scores:
        """Vote within each group."""
        scores = Scores()
        for item in batch:
            for view, group in item.policy.items():
                voters = group.answers
                if view in item.votes:
                    voters += item.votes[view].answers
                result = vote(voters, tie=self.options.tie, seed=batch.seed)
                scores.set(group, agreement(group.answers, result), target=result.label)
        return scores


@hookimpl
def register_reward_methods(register: RegisterMethod) -> None:
    """Register the method."""
    register(MajorityVote)
