"""Call the arm's methods on masked batches, check what they return, combine it, audit it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from corewarding import config
from corewarding.errors import MethodError
from corewarding.method import Needs, RewardMethod, StepEnd, Teacher
from corewarding.train.advantages import group_advantages
from corewarding.types import Floats, Group, Item, RolloutBatch, Scores

__all__ = ["MethodResult", "RewardEngine", "Rewards", "mask"]

_log = logging.getLogger(__name__)

MAX_ERROR_RATIO = 0.2
"""With ``on_error: abstain``: share of failed calls above which the run stops all the same."""
_CALLS_BEFORE_STOPPING = 5

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class MethodResult:
    """What one method said about one batch."""

    name: str
    scores: Scores
    seconds: float
    failed: bool


@dataclass(frozen=True, slots=True)
class Rewards:
    """The combined rewards of one batch and the parts they are made of."""

    combined: Mapping[_Key, Floats]  # each (G,); NaN: every method abstained
    targets: Mapping[_Key, str]
    parts: tuple[MethodResult, ...]
    metrics: Mapping[str, float] = field(default_factory=dict)


class RewardEngine:
    """An arm's weighted methods behind one call."""

    def __init__(self, methods: Sequence[tuple[config.Reward, RewardMethod]]) -> None:
        self.methods = list(methods)
        self._labels = _unique_names([reward.method for reward, _ in methods])
        self._calls = 0
        self._failures = [0] * len(self.methods)

    @property
    def needs(self) -> Needs:
        """What all methods together need."""
        needs = Needs()
        for _, method in self.methods:
            needs = needs | method.needs()
        return needs

    def score(self, batch: RolloutBatch) -> Rewards:
        """Reward every trained group of `batch`.

        Raises:
            MethodError: a method broke its contract, or failed under ``on_error: raise``.
        """
        self._calls += 1
        parts = tuple(self._call(index, batch) for index in range(len(self.methods)))
        combined: dict[_Key, Floats] = {}
        targets: dict[_Key, str] = {}
        for group in batch.trained():
            combined[group.key] = self._combine(group, parts)
            for part in parts:
                if group.key in part.scores.targets:
                    targets.setdefault(group.key, part.scores.targets[group.key])
        return Rewards(combined, targets, parts, _part_metrics(parts))

    def after_step(self, end: StepEnd, teacher: Teacher | None) -> None:
        """Tell every method that a step was made; only those that declared one get the teacher."""
        for _, method in self.methods:
            own = teacher if method.needs().teacher_views else None
            method.after_step(replace(end, teacher=own))

    def state_dict(self) -> dict[str, Any]:
        """State of all methods, for a checkpoint."""
        return {
            "calls": self._calls,
            "failures": self._failures,
            "methods": [method.state_dict() for _, method in self.methods],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self._calls = state["calls"]
        self._failures = list(state["failures"])
        for (_, method), saved in zip(self.methods, state["methods"], strict=True):
            method.load_state_dict(saved)

    def _call(self, index: int, batch: RolloutBatch) -> MethodResult:
        reward, method = self.methods[index]
        started = time.perf_counter()
        failed = False
        try:
            scores = method.score(mask(batch, method.needs()))
            if not isinstance(scores, Scores):
                raise MethodError(f"score() returned {type(scores).__name__}, not Scores")
        except Exception as error:
            if reward.on_error == "raise":
                place = f"method {reward.method!r}, step {batch.step}"
                raise MethodError(f"{place}: {type(error).__name__}: {error}") from error
            _log.warning("method %r failed at step %d", reward.method, batch.step, exc_info=True)
            failed, scores = True, _abstain(batch)
            self._failures[index] += 1
            self._stop_if_failing(index, batch.step)
        _check(reward.method, scores, batch)
        return MethodResult(self._labels[index], scores, time.perf_counter() - started, failed)

    def _stop_if_failing(self, index: int, step: int) -> None:
        ratio = self._failures[index] / self._calls
        if self._calls >= _CALLS_BEFORE_STOPPING and ratio > MAX_ERROR_RATIO:
            raise MethodError(
                f"method {self.methods[index][0].method!r} failed in {ratio:.0%} of "
                f"{self._calls} steps (limit {MAX_ERROR_RATIO:.0%}), last: {step}; see the log"
            )

    def _combine(self, group: Group, parts: Sequence[MethodResult]) -> Floats:
        """Σ wᵢ·rᵢ over the methods that did not abstain, per rollout; NaN if all did."""
        total = np.zeros(len(group.rollouts), dtype=np.float32)
        voiced = np.zeros(len(group.rollouts), dtype=bool)
        for (reward, _), part in zip(self.methods, parts, strict=True):
            values = part.scores.rewards[group.key]
            valid = ~np.isnan(values)
            if reward.normalize == "group":
                values = np.where(valid, group_advantages(values), np.nan).astype(np.float32)
            total[valid] += np.float32(reward.weight) * values[valid]
            voiced |= valid
        return np.where(voiced, total, np.float32(np.nan)).astype(np.float32)


def mask(batch: RolloutBatch, needs: Needs) -> RolloutBatch:
    """Return a copy without labels, teacher groups, votes and statistics not declared."""
    return replace(batch, items=tuple(_mask_item(item, needs) for item in batch))


def _mask_item(item: Item, needs: Needs) -> Item:
    return replace(
        item,
        policy={view: _mask_group(g, needs.statistics) for view, g in item.policy.items()},
        votes={view: _mask_group(g, frozenset()) for view, g in item.votes.items()}
        if needs.vote_rollouts
        else {},
        teacher={view: _mask_group(g, frozenset()) for view, g in item.teacher.items()}
        if needs.teacher_views
        else {},
        label=item.label if needs.labels else None,
        verdicts=item.verdicts if needs.labels else {},
    )


def _mask_group(group: Group, statistics: frozenset[str]) -> Group:
    rollouts = tuple(
        replace(r, stats={name: r.stats[name] for name in statistics}) for r in group.rollouts
    )
    return replace(group, rollouts=rollouts)


def _check(name: str, scores: Scores, batch: RolloutBatch) -> None:
    wanted = {group.key for group in batch.trained()}
    missing = sorted(wanted - scores.rewards.keys())
    if missing:
        uid, view = missing[0]
        raise MethodError(
            f"method {name!r} left {len(missing)} of {len(wanted)} groups without rewards, first "
            f"{uid!r} (view {view!r}); call scores.set for every group of batch.trained()"
        )
    foreign = sorted(scores.rewards.keys() - wanted)
    if foreign:
        raise MethodError(
            f"method {name!r} rewarded a group that is not trained: {foreign[0]}; "
            "teacher and voting groups take no reward"
        )
    for (uid, view), values in scores.rewards.items():
        if np.isinf(values).any():
            raise MethodError(
                f"method {name!r} gave an infinite reward to group {uid!r} (view {view!r}); "
                "use NaN to abstain"
            )


def _abstain(batch: RolloutBatch) -> Scores:
    scores = Scores()
    for group in batch.trained():
        scores.set(group, [float("nan")] * len(group.rollouts))
    return scores


def _part_metrics(parts: Sequence[MethodResult]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for part in parts:
        values = np.concatenate(list(part.scores.rewards.values()))
        voiced = values[~np.isnan(values)]
        metrics[f"rewards/{part.name}/mean"] = float(voiced.mean()) if voiced.size else np.nan
        metrics[f"rewards/{part.name}/std"] = float(voiced.std()) if voiced.size else np.nan
        metrics |= {f"method/{part.name}/{k}": float(v) for k, v in part.scores.metrics.items()}
    metrics["reward/error_ratio"] = float(np.mean([part.failed for part in parts]))
    return metrics


def _unique_names(names: Sequence[str]) -> list[str]:
    """Metric names of the methods; a method used twice in an arm gets a number."""
    return [
        name if names.count(name) == 1 else f"{name}#{names[: i + 1].count(name)}"
        for i, name in enumerate(names)
    ]
