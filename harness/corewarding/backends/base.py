"""What a training engine must be able to do: eight verbs, and the values they exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from corewarding.types import Floats, Ints

__all__ = ["Actor", "Backend", "Sample", "Sampling", "TrainGroup"]

Actor = Literal["policy", "teacher"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How completions are drawn."""

    temperature: float = 1.0
    """0 means greedy."""
    top_p: float = 1.0
    max_new_tokens: int = 1024
    stop: tuple[str, ...] = ()
    """Strings that end a completion; the string itself is cut off the text."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion as the engine made it, before anybody looked for an answer in it."""

    text: str
    """Decoded without special tokens."""
    tokens: Ints  # (T,) including the end token if one was drawn
    finished: bool
    """True if an end token or stop string ended it, False if the token limit did."""
    stats: Mapping[str, Floats] = field(default_factory=dict)  # each (T,)


@dataclass(frozen=True, slots=True)
class TrainGroup:
    """One prompt's samples with their finished advantages."""

    prompt: str
    samples: tuple[Sample, ...]  # (G,)
    advantages: Floats  # (G,)
    mask: npt.NDArray[np.bool_]  # (G,) False: the sample abstained and leaves the loss


class Backend(Protocol):
    """A training engine. It owns the weights; the loop owns the order of things.

    Nothing here draws from hidden random state: every random choice follows from a `seed`
    argument, so that a resumed run repeats itself.
    """

    def rollout(
        self,
        prompts: Sequence[str],
        n: int,
        *,
        actor: Actor,
        sampling: Sampling,
        statistics: frozenset[str],
        seed: int,
    ) -> list[list[Sample]]:
        """Draw `n` completions of each prompt, in prompt order."""

    def update(self, groups: Sequence[TrainGroup], *, step: int, seed: int) -> dict[str, float]:
        """Make the optimiser step(s) of training step `step` (1-based).

        Returns:
            ``loss``, ``kl``, ``grad_norm``, ``learning_rate`` as the engine has them, and the
            counts ``trained_tokens`` and ``optimizer_steps``.
        """

    def blend(self, policy_weight: float) -> None:
        """Move the teacher towards the policy in float32 (see `corewarding.method.Teacher`)."""

    def save(self, path: Path) -> None:
        """Write policy, teacher and optimiser into the folder `path`."""

    def load(self, path: Path) -> None:
        """Take back what `save` wrote."""

    def export(self, path: Path) -> None:
        """Write a folder that transformers and vLLM can open."""

    def describe(self) -> dict[str, Any]:
        """Facts for the run record: device, dtype, parameters, attention, versions."""

    def close(self) -> None:
        """Free what the engine holds."""
