"""Figures about a step that compare with the hidden gold or describe health; for the log only.

No method receives any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from corewarding.train.advantages import group_advantages
from corewarding.types import Floats, Group, Item, RolloutBatch
from corewarding.voting import vote

__all__ = ["audit", "health"]

_Key = tuple[str, str]
_Array = npt.NDArray[np.floating[Any]]


def audit(
    batch: RolloutBatch, rewards: Mapping[_Key, Floats], targets: Mapping[_Key, str]
) -> dict[str, float]:
    """Compare rewards and pseudo-labels with the hidden gold.

    * ``hidden/accuracy``: share of trained rollouts whose answer is right;
    * ``pseudo/label_accuracy``: share of pseudo-labels that are right (undecided ones left out);
    * ``pseudo/reward_accuracy``: share of rollouts whose reward equals the true 0/1 reward;
      defined for 0/1 rewards only;
    * ``pseudo/reward_auc``: chance that a right rollout was rewarded above a wrong one of its own
      group, ties counted half; defined for any reward;
    * ``pseudo/majority_ratio``: share of the most common answer within its group;
    * ``pseudo/tie_ratio``: share of groups with two most common answers;
    * ``pseudo/abstain_ratio``: share of rollouts without a reward.

    Undefined figures are NaN.
    """
    labels: list[bool] = []
    truths: list[float] = []
    given: list[float] = []
    aucs: list[float] = []
    for item in batch:
        for group in item.policy.values():
            truth = np.array([_truth(item, answer) for answer in group.answers])
            reward = rewards[group.key].astype(np.float64)
            truths.extend(truth)
            given.extend(reward)
            aucs.append(_auc(truth, reward))
            if group.key in targets and item.label is not None:
                right = _label_is_right(item, targets[group.key])
                labels += [] if right is None else [right]
    truth_array, reward_array = np.array(truths), np.array(given)
    votes = [vote(group.answers) for group in batch.trained()]
    return {
        "hidden/accuracy": _mean(truth_array),
        "pseudo/label_accuracy": _mean(np.array(labels, dtype=float)),
        "pseudo/reward_accuracy": _reward_accuracy(truth_array, reward_array),
        "pseudo/reward_auc": _mean(np.array(aucs)),
        "pseudo/majority_ratio": float(np.mean([v.majority_ratio for v in votes])),
        "pseudo/tie_ratio": float(np.mean([v.tied for v in votes])),
        "pseudo/abstain_ratio": float(np.isnan(reward_array).mean()),
    }


def health(batch: RolloutBatch, rewards: Mapping[_Key, Floats]) -> dict[str, float]:
    """Describe the step's completions and rewards: signs of life and of collapse."""
    groups = list(batch.trained())
    rollouts = [r for group in groups for r in group.rollouts]
    answers = [r.answer for r in rollouts]
    values = np.concatenate([rewards[group.key] for group in groups])
    entropies = [r.stats["entropy"] for r in rollouts if r.stats["entropy"].size]
    return {
        "reward": _mean(values),
        "reward_std": _mean(np.array([_std(rewards[g.key]) for g in groups])),
        "frac_reward_zero_std": _dead(groups, rewards),
        "reward/abstain_ratio": float(np.isnan(values).mean()),
        "completions/mean_length": float(np.mean([len(r.tokens) for r in rollouts])),
        "completions/clipped_ratio": float(np.mean([not r.finished for r in rollouts])),
        "completions/no_answer_ratio": float(np.mean([a is None for a in answers])),
        "completions/top_answer_share": _top_share(answers),
        "entropy": _mean(np.concatenate(entropies)) if entropies else float("nan"),
    }


def _truth(item: Item, answer: str | None) -> float:
    """1 right, 0 wrong or missing, NaN without a gold answer or undecided."""
    if item.label is None:
        return float("nan")
    verdict = False if answer is None else item.verdicts[answer]
    return float("nan") if verdict is None else float(verdict)


def _label_is_right(item: Item, target: str) -> bool | None:
    return True if target == item.label else item.verdicts.get(target)


def _reward_accuracy(truth: _Array, reward: _Array) -> float:
    known = ~np.isnan(truth) & ~np.isnan(reward)
    if not known.any() or not np.isin(reward[known], (0.0, 1.0)).all():
        return float("nan")
    return float((truth[known] == reward[known]).mean())


def _auc(truth: _Array, reward: _Array) -> float:
    known = ~np.isnan(reward)
    right, wrong = reward[known & (truth == 1)], reward[known & (truth == 0)]
    if not right.size or not wrong.size:
        return float("nan")
    difference = right[:, None] - wrong[None, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def _top_share(answers: Sequence[str | None]) -> float:
    counts = Counter(a for a in answers if a is not None)
    return counts.most_common(1)[0][1] / len(answers) if counts else float("nan")


def _dead(groups: Sequence[Group], rewards: Mapping[_Key, Floats]) -> float:
    return float(np.mean([not group_advantages(rewards[g.key]).any() for g in groups]))


def _std(values: _Array) -> float:
    kept = values[~np.isnan(values)]
    return float(kept.std(ddof=1)) if kept.size > 1 else float("nan")


def _mean(values: _Array) -> float:
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if kept.size else float("nan")
