"""Every error corewarding raises on purpose, and the exit code it ends a command with.

    CorewardingError
    ├── UserError            2   the request cannot be done as written
    │   ├── ConfigError      2   a configuration file or ``--set`` value is wrong
    │   ├── NeedsError       2   a method needs something the run does not offer
    │   ├── PluginError      2   a plug-in is missing, broken or ambiguous
    │   └── DataError        2   a data set or a samples file cannot be used
    ├── EnvironmentProblem   3   a package, a GPU or a service is missing
    └── RunError             1   a run started and failed
        └── MethodError      1   a reward method broke its contract

A `UserError` or `EnvironmentProblem` is printed without a traceback: its text names the
place, the value and the remedy.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "ConfigError",
    "CorewardingError",
    "DataError",
    "EnvironmentProblem",
    "MethodError",
    "NeedsError",
    "PluginError",
    "RunError",
    "UserError",
]


class CorewardingError(Exception):
    """Base of all errors raised on purpose; `exit_code` is what the command ends with."""

    exit_code: ClassVar[int] = 1


class UserError(CorewardingError):
    """The request cannot be done as written; the message says how to change it."""

    exit_code: ClassVar[int] = 2


class ConfigError(UserError):
    """One or more configuration problems, all of them listed."""


class NeedsError(UserError):
    """Reward methods need things that the run does not offer; all of them listed."""


class PluginError(UserError):
    """A plug-in is missing, broken, or two of them claim one name."""


class DataError(UserError):
    """A data set, samples file or run folder cannot be read as what it should be."""


class EnvironmentProblem(CorewardingError):
    """Something the machine lacks: an optional package, a GPU, a reachable service."""

    exit_code: ClassVar[int] = 3


class RunError(CorewardingError):
    """A run started and could not go on; what was checkpointed is kept."""


class MethodError(RunError):
    """A reward method broke its contract (wrong length, non-finite, group left unset)."""
