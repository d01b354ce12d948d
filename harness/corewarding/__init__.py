"""The public API: what a reward plug-in imports."""

from __future__ import annotations

from corewarding.hookspecs import RegisterMethod, hookimpl
from corewarding.method import TRAINED_VIEWS, Needs, Options, RewardMethod, StepEnd, Teacher
from corewarding.tokenstats import TokenStatistic
from corewarding.types import Group, Item, Rollout, RolloutBatch, Scores
from corewarding.voting import Tie, Vote, agreement, vote

__all__ = [
    "TRAINED_VIEWS",
    "Group",
    "Item",
    "Needs",
    "Options",
    "RegisterMethod",
    "RewardMethod",
    "Rollout",
    "RolloutBatch",
    "Scores",
    "StepEnd",
    "Teacher",
    "Tie",
    "TokenStatistic",
    "Vote",
    "__version__",
    "agreement",
    "hookimpl",
    "vote",
]

__version__ = "0.1.0"
