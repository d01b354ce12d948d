"""Test a reward method without a model: build batches by hand, or script a whole engine.

batch = make_batch([make_item("q1", policy=["4", "4", None, "5"], label="4")])
scores = MyMethod(MyMethod.options_type()).score(batch)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from corewarding.backends.base import Actor, Sample, Sampling, TrainGroup
from corewarding.rundir import read_json, write_json
from corewarding.types import Group, Item, Rollout, RolloutBatch

__all__ = ["ScriptedBackend", "make_batch", "make_group", "make_item", "make_sample"]

Answers = Sequence[str | None]


def make_group(
    uid: str,
    answers: Answers,
    *,
    view: str = "original",
    stats: Mapping[str, Sequence[Sequence[float]]] | None = None,
) -> Group:
    """Build a group whose rollouts say ``answers``; None: no answer, cut off.

    Args:
        uid: of the question.
        answers: canonical answers, (G,).
        view: which wording.
        stats: per statistic, per rollout, per token values; the lengths define the tokens.
    """
    rollouts = []
    for index, answer in enumerate(answers):
        text = "" if answer is None else f"so \\boxed{{{answer}}}"
        values = {name: np.asarray(rows[index], np.float32) for name, rows in (stats or {}).items()}
        length = len(next(iter(values.values()))) if values else len(text)
        rollouts.append(
            Rollout(
                text=text,
                tokens=np.arange(length, dtype=np.int64),
                answer=answer,
                raw_answer=answer,
                finished=answer is not None,
                stats=values,
            )
        )
    return Group(uid=uid, view=view, prompt=f"question {uid} ({view})", rollouts=tuple(rollouts))


def make_item(
    uid: str,
    *,
    policy: Answers | Mapping[str, Answers],
    teacher: Answers | Mapping[str, Answers] | None = None,
    votes: Answers | Mapping[str, Answers] | None = None,
    label: str | None = None,
    stats: Mapping[str, Sequence[Sequence[float]]] | None = None,
) -> Item:
    """Build a question; plain sequences of answers belong to the view ``original``."""
    groups = {
        kind: {
            view: make_group(uid, answers, view=view, stats=stats if kind == "policy" else None)
            for view, answers in _by_view(given).items()
        }
        for kind, given in (("policy", policy), ("teacher", teacher), ("votes", votes))
    }
    answers = {a for views in groups.values() for g in views.values() for a in g.answers if a}
    verdicts = {a: None if label is None else a == label for a in answers}
    return Item(uid=uid, label=label, verdicts=verdicts, **groups)


def make_batch(
    items: Sequence[Item], *, step: int = 1, total_steps: int = 10, seed: int = 0
) -> RolloutBatch:
    """Build a batch of items."""
    return RolloutBatch(items=tuple(items), step=step, total_steps=total_steps, seed=seed)


def make_sample(text: str, *, finished: bool = True) -> Sample:
    """Build what an engine returns for one completion: a token a character, entropy 0.5."""
    tokens = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32).astype(np.int64)
    entropy = np.full(len(tokens), 0.5, np.float32)
    return Sample(text=text, tokens=tokens, finished=finished, stats={"entropy": entropy})


class ScriptedBackend:
    """An engine without a model: completions come from a function, updates are recorded.

    Args:
        answer: (prompt, rollout index, actor) → the completion's text.
    """

    def __init__(self, answer: Callable[[str, int, Actor], str]) -> None:
        self._answer = answer
        self.updates: list[list[TrainGroup]] = []
        self.blends: list[float] = []
        self.calls: list[tuple[Actor, int, frozenset[str]]] = []

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
        """Answer from the script, cut to ``sampling.max_new_tokens`` characters."""
        self.calls.append((actor, n, statistics))
        limit = sampling.max_new_tokens
        texts = [[self._answer(prompt, i, actor) for i in range(n)] for prompt in prompts]
        return [[make_sample(t[:limit], finished=len(t) <= limit) for t in row] for row in texts]

    def update(self, groups: Sequence[TrainGroup], *, step: int, seed: int) -> dict[str, float]:
        """Record the groups."""
        self.updates.append(list(groups))
        return {"loss": 0.0, "trained_tokens": 0.0, "optimizer_steps": 1.0}

    def blend(self, policy_weight: float) -> None:
        """Record the weight."""
        self.blends.append(policy_weight)

    def save(self, path: Path) -> None:
        """Write the number of updates."""
        write_json(path / "scripted.json", {"updates": len(self.updates)})

    def load(self, path: Path) -> None:
        """Restore the number of updates."""
        self.updates = [[] for _ in range(read_json(path / "scripted.json")["updates"])]

    def export(self, path: Path) -> None:
        """Write an empty model folder."""
        path.mkdir(parents=True)

    def describe(self) -> dict[str, Any]:
        """Say what it is."""
        return {"engine": "scripted"}

    def close(self) -> None:
        """Hold nothing, free nothing."""


def _by_view(answers: Answers | Mapping[str, Answers] | None) -> Mapping[str, Answers]:
    if answers is None:
        return {}
    return answers if isinstance(answers, Mapping) else {"original": answers}
