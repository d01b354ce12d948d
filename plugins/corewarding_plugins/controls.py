"""Control arms: rewards that carry no, or the wrong, information.

A method that does not beat these has shown nothing: on some base models random or format rewards
alone raise benchmark scores (Shao et al. 2025, Spurious Rewards).
"""

from __future__ import annotations

import hashlib

import numpy as np
from pydantic import Field

from corewarding import Needs, Options, RegisterMethod, RewardMethod, RolloutBatch, Scores, hookimpl

__all__ = ["Constant", "FormatOnly", "Inverted", "Random"]


class RandomOptions(Options):
    """Settings of `random`."""

    probability: float = Field(default=0.5, gt=0, lt=1)
    """Chance of reward 1."""


class Random(RewardMethod):
    """1 or 0 by the toss of a coin, independent of the text."""

    name = "random"
    options_type = RandomOptions
    options: RandomOptions

    def score(self, batch: RolloutBatch) -> Scores:
        """Toss once a rollout; the toss depends on the seed and the group, not on batch order."""
        scores = Scores()
        for group in batch.trained():
            key = f"{batch.seed}/{group.uid}/{group.view}".encode()
            seed = int.from_bytes(hashlib.sha256(key).digest()[:8], "big")
            tosses = np.random.default_rng(seed).random(len(group.rollouts))
            scores.set(group, (tosses < self.options.probability).astype(np.float32))
        return scores


class ConstantOptions(Options):
    """Settings of `constant`."""

    value: float = 1.0
    """The reward of every rollout."""


class Constant(RewardMethod):
    """The same reward for everything: no advantage, so only the KL term can move the model."""

    name = "constant"
    options_type = ConstantOptions
    options: ConstantOptions

    def score(self, batch: RolloutBatch) -> Scores:
        """Reward everything alike."""
        scores = Scores()
        for group in batch.trained():
            scores.set(group, [self.options.value] * len(group.rollouts))
        return scores


class FormatOnly(RewardMethod):
    """1 if an answer could be extracted and the completion ended by itself, whatever it says."""

    name = "format-only"

    def score(self, batch: RolloutBatch) -> Scores:
        """Look at the form only."""
        scores = Scores()
        for group in batch.trained():
            scores.set(group, [float(r.finished and r.answer is not None) for r in group.rollouts])
        return scores


class Inverted(RewardMethod):
    """1 for a wrong answer, 0 for a right or missing one: training against the gold."""

    name = "inverted"

    def needs(self) -> Needs:
        """Labels, to turn them round."""
        return Needs(labels=True)

    def score(self, batch: RolloutBatch) -> Scores:
        """Reward what the gold refutes."""
        scores = Scores()
        for item in batch:
            for group in item.policy.values():
                verdicts = [True if a is None else item.verdicts[a] for a in group.answers]
                scores.set(group, [float("nan") if v is None else float(not v) for v in verdicts])
        return scores


@hookimpl
def register_reward_methods(register: RegisterMethod) -> None:
    """Register the four controls."""
    for method in (Random, Constant, FormatOnly, Inverted):
        register(method)
