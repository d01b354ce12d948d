"""Find the data folders that ship with the package, in a checkout and in a wheel alike."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from corewarding.errors import EnvironmentProblem

__all__ = ["folder"]

_PACKAGE = Path(__file__).resolve().parent


def folder(kind: Literal["benchmarks", "configs", "reports"]) -> Path:
    """Return the folder `kind`: inside the wheel, or beside ``harness/`` in a checkout.

    Raises:
        EnvironmentProblem: it is in neither place; names both.
    """
    installed = _PACKAGE / "_data" / kind
    if installed.is_dir():
        return installed
    checkout = _PACKAGE.parent.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / kind).is_dir():
        return checkout / kind
    raise EnvironmentProblem(
        f"the folder {kind!r} is missing: looked at {installed} and {checkout / kind}; "
        "reinstall corewarding"
    )
