"""What a reward method receives and returns: rollouts, groups, items, batches, scores.

T = tokens of one completion, G = rollouts of one prompt.

    RolloutBatch
    └── Item                      one question
        ├── policy[view]  Group   G rollouts that are trained
        ├── votes[view]   Group   further policy rollouts that only vote  (if declared)
        └── teacher[view] Group   the teacher's rollouts                  (if declared)
            └── Rollout           text, tokens, answer, per-token statistics
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from corewarding.errors import MethodError

__all__ = ["Floats", "Group", "Ints", "Item", "Rollout", "RolloutBatch", "Scores"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Rollout:
    """One completion of one prompt."""

    text: str
    tokens: Ints  # (T,)
    answer: str | None
    """Canonical answer: two equal answers of one item are the same string; None: no answer."""
    raw_answer: str | None
    """The answer as the text spells it."""
    finished: bool
    """False if the token limit cut the completion off."""
    stats: Mapping[str, Floats] = field(default_factory=dict)  # each (T,)
    """Per-token statistics of the policy; only those that the method declared."""


@dataclass(frozen=True, slots=True)
class Group:
    """All rollouts that one actor drew for one prompt."""

    uid: str
    """Identifies the question within the batch; drawn twice, it has two uids."""
    view: str
    """Which wording of the question was asked, for instance ``original`` or ``rephrased``."""
    prompt: str
    rollouts: tuple[Rollout, ...]  # (G,)

    @property
    def key(self) -> tuple[str, str]:
        """(uid, view): what `Scores` files rewards under."""
        return self.uid, self.view

    @property
    def answers(self) -> tuple[str | None, ...]:
        """Canonical answers in rollout order, (G,)."""
        return tuple(rollout.answer for rollout in self.rollouts)


@dataclass(frozen=True, slots=True)
class Item:
    """One question with everything that was drawn for it."""

    uid: str
    policy: Mapping[str, Group]  # by view; every one of them is trained
    votes: Mapping[str, Group] = field(default_factory=dict)
    """By view: more rollouts of the policy that are never trained (`Needs.vote_rollouts`)."""
    teacher: Mapping[str, Group] = field(default_factory=dict)
    """By view: rollouts of the teacher, never trained (`Needs.teacher_views`)."""
    label: str | None = None
    """The gold answer; None unless the method declared ``labels=True``."""
    verdicts: Mapping[str, bool | None] = field(default_factory=dict)
    """Canonical answer → equals the gold? None = undecided. Empty unless labels are declared."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of the training data; label columns only if labels are declared."""


@dataclass(frozen=True, slots=True)
class RolloutBatch:
    """The questions of one training step, as one method may see them."""

    items: tuple[Item, ...]
    step: int
    """1-based optimiser step that these rollouts feed."""
    total_steps: int
    seed: int
    """Differs from step to step and run to run; use it for anything random."""

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def trained(self) -> Iterator[Group]:
        """Every group that needs a reward: all policy groups of all items."""
        for item in self.items:
            yield from item.policy.values()


@dataclass(slots=True)
class Scores:
    """Rewards of one method for one batch; fill it with `set`, once for every trained group.

    NaN means *abstain*: the rollout leaves the group's mean, its standard deviation and the loss.
    """

    rewards: dict[tuple[str, str], Floats] = field(default_factory=dict)  # each (G,)
    targets: dict[tuple[str, str], str] = field(default_factory=dict)
    """Pseudo-labels by group, for the harness's audit against the hidden gold."""
    columns: dict[str, dict[tuple[str, str], Floats]] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    """Extra scalars for ``metrics.jsonl``, logged as ``method/<name>/<key>``."""

    def set(
        self,
        group: Group,
        rewards: Sequence[float] | npt.NDArray[np.floating[Any]],
        *,
        target: str | None = None,
    ) -> None:
        """Give `group` its rewards (G,) and, for a voting method, the answer they agree with.

        Raises:
            MethodError: wrong number of rewards, or the group was set before.
        """
        values = _row(rewards, group, "rewards")
        if group.key in self.rewards:
            raise MethodError(f"group {group.uid!r} (view {group.view!r}) was given rewards twice")
        self.rewards[group.key] = values
        if target is not None:
            self.targets[group.key] = target

    def log(
        self, group: Group, name: str, values: Sequence[float] | npt.NDArray[np.floating[Any]]
    ) -> None:
        """Store one more number per rollout (G,) beside the texts, as column `name`."""
        self.columns.setdefault(name, {})[group.key] = _row(values, group, f"column {name!r}")


def _row(
    values: Sequence[float] | npt.NDArray[np.floating[Any]], group: Group, what: str
) -> Floats:
    array = np.asarray(values, dtype=np.float32)
    if array.shape != (len(group.rollouts),):
        raise MethodError(
            f"{what} for group {group.uid!r} (view {group.view!r}): expected "
            f"{len(group.rollouts)} numbers, one a rollout, got shape {array.shape}"
        )
    return array
