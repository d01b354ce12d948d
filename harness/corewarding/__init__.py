"""The public API: what a reward plug-in imports."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

# Names are loaded on first use: every command imports this package, and most need no numpy.
_HOMES = {
    "hookspecs": ("RegisterMethod", "hookimpl"),
    "method": ("TRAINED_VIEWS", "Needs", "Options", "RewardMethod", "StepEnd", "Teacher"),
    "tokenstats": ("TokenStatistic",),
    "types": ("Group", "Item", "Rollout", "RolloutBatch", "Scores"),
    "voting": ("Tie", "Vote", "agreement", "vote"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"corewarding.{module}"), name)
    raise AttributeError(f"module 'corewarding' has no attribute {name!r}")
