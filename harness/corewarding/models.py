"""Find the model a run starts from, and fingerprint it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from corewarding import config
from corewarding.errors import DataError
from corewarding.rundir import file_sha256

__all__ = ["EMBEDDED", "fingerprint", "resolve"]

EMBEDDED = "embedded"
"""`config.Model.path` of the built-in tiny model; every seed has its own base."""


def resolve(
    model: config.Model, *, seed: int, progress: Callable[[int, float], None] | None = None
) -> str:
    """Return a folder or Hub id that transformers opens; trains the embedded base if need be.

    Args:
        model: what the configuration says.
        seed: of the embedded base.
        progress: called with step and loss while an embedded base is trained.

    Raises:
        DataError: the path looks like a local folder and is not there.
    """
    if model.path == EMBEDDED:
        from corewarding.embedded.base import base_model

        return str(base_model(seed, on_progress=progress))
    path = Path(model.path).expanduser()
    if path.is_dir():
        return str(path)
    if path.is_absolute() or model.path.startswith((".", "~")) or model.path.count("/") > 1:
        raise DataError(f"model.path: {model.path!r} is not a folder")
    return model.path


def fingerprint(path: str, model: config.Model) -> str:
    """Return a hash of a local model's files, or the Hub id with its revision."""
    folder = Path(path)
    if not folder.is_dir():
        return f"{path}@{model.revision or 'main'}"
    digest = hashlib.sha256()
    for file in sorted(
        [*folder.glob("*.safetensors"), *folder.glob("*.json"), *folder.glob("*.bin")]
    ):
        digest.update(f"{file.name}:{file_sha256(file)}\n".encode())
    return digest.hexdigest()
