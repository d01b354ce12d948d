"""Every way to extend corewarding. A plug-in is a module with any of these three hooks.

Register the module under the entry-point group ``corewarding`` and mark each function with
`hookimpl`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pluggy

if TYPE_CHECKING:
    from corewarding.method import RewardMethod
    from corewarding.tokenstats import TokenStatistic

__all__ = ["GROUP", "RegisterMethod", "hookimpl"]

GROUP = "corewarding"

RegisterMethod: TypeAlias = "Callable[[type[RewardMethod]], None]"
"""What the hook `register_reward_methods` is handed."""

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@hookspec
def register_reward_methods(register: RegisterMethod) -> None:
    """Call ``register(MyMethod)`` for each reward method."""


@hookspec
def register_token_statistics(register: Callable[[TokenStatistic], None]) -> None:
    """Call ``register(TokenStatistic(name, compute))`` for each per-token statistic."""


@hookspec
def register_benchmarks(register: Callable[[Path], None]) -> None:
    """Call ``register(folder)`` for each folder of lm-eval task files."""
