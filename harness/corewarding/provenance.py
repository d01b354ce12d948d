"""What made a run: code, packages, hardware, methods. Goes into ``run.json``."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corewarding import config
from corewarding.method import RewardMethod
from corewarding.registry import Registry

__all__ = ["changed", "describe_methods", "git_state", "host", "utc_now", "versions"]

_PACKAGES = (
    "corewarding",
    "torch",
    "transformers",
    "tokenizers",
    "datasets",
    "lm_eval",
    "math-verify",
    "numpy",
    "scipy",
    "openrlhf",
    "vllm",
    "ray",
    "deepspeed",
)


def versions() -> dict[str, str]:
    """Return Python's version and that of each installed package that can change a result."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def git_state() -> dict[str, Any] | None:
    """Return commit and dirtiness of the checkout that the code runs from, or None."""
    here = Path(__file__).resolve().parent
    commit = _git(here, "rev-parse", "HEAD")
    # A wheel inside somebody else's repository is not a checkout of ours.
    tracked = _git(here, "ls-files", "--error-unmatch", Path(__file__).name)
    if commit is None or tracked is None:
        return None
    return {"commit": commit, "dirty": bool(_git(here, "status", "--porcelain", "-uno"))}


def host() -> dict[str, Any]:
    """Return what a reader needs to judge timings; no user or host name."""
    return {
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


def describe_methods(
    methods: Sequence[tuple[config.Reward, RewardMethod]], registry: Registry
) -> list[dict[str, Any]]:
    """Return name, origin, weight and options (as passed, and in force) of an arm's methods."""
    described = []
    for reward, method in methods:
        source = registry.method(reward.method).source
        described.append(
            {
                "name": reward.method,
                "distribution": source.distribution,
                "version": source.version,
                "weight": reward.weight,
                "normalize": reward.normalize,
                "options_passed": dict(reward.options),
                "options": method.options.model_dump(mode="json"),
            }
        )
    return described


def utc_now() -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")


def changed(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return ``key: old → new`` for every leaf in which two nested settings differ."""
    lines = []
    for key in sorted({*old, *new}):
        a, b = old.get(key), new.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            lines += changed(a, b, f"{prefix}{key}.")
        elif a != b:
            lines.append(f"{prefix}{key}: {a!r} → {b!r}")
    return lines


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        result = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
