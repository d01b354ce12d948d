"""Save and find what a resume needs; a checkpoint without its DONE file does not exist."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from corewarding.backends.base import Backend
from corewarding.rundir import RunDir, read_json, remove_tree, truncate_jsonl, write_json

__all__ = ["restore", "save"]


def save(run: RunDir, backend: Backend, state: dict[str, Any], *, step: int) -> None:
    """Write the checkpoint of `step`; once it is complete, delete the older ones."""
    folder = run.checkpoint(step)
    remove_tree(folder)
    folder.mkdir(parents=True)
    backend.save(folder)
    write_json(folder / "methods.json", state)
    _sync(folder)
    (folder / "DONE").touch()
    _sync(folder)
    for other in folder.parent.iterdir():
        if other != folder:
            remove_tree(other)


def restore(run: RunDir) -> tuple[int, Path | None, dict[str, Any]]:
    """Find the newest complete checkpoint and cut the logs back to it.

    Returns:
        Steps done, the checkpoint's folder, the methods' state; (0, None, {}) for a fresh start.
    """
    latest = run.latest_checkpoint()
    step, folder = latest if latest else (0, None)
    for log in (run.metrics, run.timing):
        truncate_jsonl(log, key="step", last=step)
    for path in (run.path / "rollouts").glob("step-*.jsonl.gz"):
        if int(path.name.split(".")[0].removeprefix("step-")) > step:
            path.unlink()
    return step, folder, read_json(folder / "methods.json") if folder else {}


def _sync(folder: Path) -> None:
    """Push every file of the folder, and its directory entry, to the disk."""
    for path in [*folder.iterdir(), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
