"""The page a plug-in author reads: subclass `RewardMethod`, write `score`, declare `needs`.

    class Brevity(RewardMethod):
        name = "brevity"

        def score(self, batch: RolloutBatch) -> Scores:
            scores = Scores()
            for group in batch.trained():
                scores.set(group, [-len(r.tokens) for r in group.rollouts])
            return scores

What a method does not declare in `needs` is withheld from it: labels, teacher groups, voting
rollouts and token statistics are absent from the batch that it receives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from corewarding.types import RolloutBatch, Scores

__all__ = [
    "TRAINED_VIEWS",
    "KLReference",
    "Needs",
    "Options",
    "RewardMethod",
    "StepEnd",
    "Teacher",
]

TRAINED_VIEWS = "*"
"""In `Needs.teacher_views`: whichever views this run trains on."""

KLReference = Literal["initial", "teacher"]


class Options(BaseModel):
    """Settings of a method. Subclass it with typed fields; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True)
class Needs:
    """What a method must be given. Needs of an arm's methods are united with ``|``."""

    labels: bool = False
    """Gold answers are visible (`Item.label`, `Item.verdicts`)."""
    views: frozenset[str] = frozenset({"original"})
    """Wordings of the question that the policy answers and trains on."""
    teacher_views: frozenset[str] = frozenset()
    """Wordings that the teacher answers; `TRAINED_VIEWS` for whichever are trained."""
    statistics: frozenset[str] = frozenset()
    """Names of per-token statistics of the policy (`Rollout.stats`)."""
    min_rollouts: int = 1
    """Smallest group that makes sense."""
    vote_rollouts: int = 0
    """Further policy rollouts a prompt that vote and are never trained (`Item.votes`)."""
    kl_reference: KLReference = "initial"
    """What the KL term holds the policy to, unless ``train.kl.reference`` says otherwise."""

    def __or__(self, other: Needs) -> Needs:
        return Needs(
            labels=self.labels or other.labels,
            views=self.views | other.views,
            teacher_views=self.teacher_views | other.teacher_views,
            statistics=self.statistics | other.statistics,
            min_rollouts=max(self.min_rollouts, other.min_rollouts),
            vote_rollouts=max(self.vote_rollouts, other.vote_rollouts),
            kl_reference="teacher"
            if "teacher" in (self.kl_reference, other.kl_reference)
            else "initial",
        )


class Teacher(Protocol):
    """The slow copy of the policy that draws `Item.teacher`; kept in float32 by the engine."""

    def blend(self, policy_weight: float) -> None:
        """Move the teacher: θ̃ ← (1−w)·θ̃ + w·θ with w = `policy_weight` (1 − EMA decay)."""


@dataclass(frozen=True, slots=True)
class StepEnd:
    """What a method learns after an optimiser step."""

    step: int
    """1-based step that has just been made."""
    total_steps: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The engine's own figures (loss, kl, …); never an audit figure."""
    teacher: Teacher | None = None
    """Present if and only if this method declared `Needs.teacher_views`."""


class RewardMethod(ABC):
    """One way to reward rollouts. Subclass it, give it a `name`, write `score`."""

    name: ClassVar[str]
    """What configurations call it; lower case with hyphens."""
    options_type: ClassVar[type[Options]] = Options

    def __init__(self, options: Options) -> None:
        self.options = options

    def needs(self) -> Needs:
        """What this method must be given; may depend on its options."""
        return Needs()

    @abstractmethod
    def score(self, batch: RolloutBatch) -> Scores:
        """Reward every group of ``batch.trained()``.

        Must not change the batch and must depend on nothing but the batch, the options and the
        method's own state, so that a resumed run repeats itself.
        """

    def after_step(self, end: StepEnd) -> None:  # noqa: B027  (optional, not abstract)
        """Called after each optimiser step, for instance to move the teacher."""

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs to go on exactly: JSON values only."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Take back what `state_dict` gave."""
