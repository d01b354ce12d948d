"""Layout of a run folder, atomic writes, and JSON Lines that survive a torn tail.

The format is documented in docs/run-folder.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import json
import logging
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from corewarding.errors import DataError, UserError

__all__ = [
    "RunDir",
    "append_jsonl",
    "file_sha256",
    "read_json",
    "read_jsonl",
    "remove_tree",
    "text_sha256",
    "truncate_jsonl",
    "write_atomic",
    "write_json",
]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunDir:
    """Paths of one run: ``runs/<comparison>/<arm>/seed-<s>``."""

    path: Path

    @classmethod
    def of(cls, root: Path, comparison: str, arm: str, seed: int) -> RunDir:
        """Return the folder of one run below `root`; does not create it."""
        return cls(root / comparison / arm / f"seed-{seed}")

    @property
    def record(self) -> Path:
        """``run.json``: identity, provenance, status."""
        return self.path / "run.json"

    @property
    def config(self) -> Path:
        """``config.yaml``: the settings of this run."""
        return self.path / "config.yaml"

    @property
    def metrics(self) -> Path:
        """``metrics.jsonl``: one line a training step."""
        return self.path / "metrics.jsonl"

    @property
    def timing(self) -> Path:
        """``timing.jsonl``: seconds by phase, one line a training step."""
        return self.path / "timing.jsonl"

    @property
    def model(self) -> Path:
        """The exported model's folder."""
        return self.path / "model"

    @property
    def log(self) -> Path:
        """``log.txt``."""
        return self.path / "log.txt"

    def rollouts(self, step: int) -> Path:
        """File with the texts and rewards of a step."""
        return self.path / "rollouts" / f"step-{step:06d}.jsonl.gz"

    def checkpoint(self, step: int) -> Path:
        """Folder of the checkpoint made after `step` steps."""
        return self.path / "checkpoints" / f"step-{step:06d}"

    def evaluation(self, checkpoint: str, benchmark: str) -> Path:
        """Folder with the samples and grades of one benchmark."""
        return self.path / "eval" / checkpoint / benchmark

    def latest_checkpoint(self) -> tuple[int, Path] | None:
        """Return (step, folder) of the newest complete checkpoint, or None."""
        found = [
            (int(folder.name.removeprefix("step-")), folder)
            for folder in sorted((self.path / "checkpoints").glob("step-*"))
            if (folder / "DONE").is_file() and folder.name.removeprefix("step-").isdigit()
        ]
        return found[-1] if found else None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process.

        Raises:
            UserError: another process holds it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / ".lock", "w", encoding="utf-8") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"{self.path} is in use by another process; wait for it or choose another "
                    "--runs folder"
                ) from None
            yield


def write_atomic(path: Path, text: str) -> None:
    """Replace the file `path` by `text`, all or nothing, durably."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "w", encoding="utf-8", errors="backslashreplace") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(temporary, path)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace the JSON file `path`, all or nothing."""
    write_atomic(path, json.dumps(_plain(value), indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        DataError: it is missing or not a JSON object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: expected a JSON object")
    return value


def append_jsonl(handle: IO[str], row: Mapping[str, Any]) -> None:
    """Write one line and flush it. NaN and infinities become null."""
    handle.write(json.dumps(_plain(row), ensure_ascii=True) + "\n")
    handle.flush()


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON Lines file (``.gz`` too); drop a torn last line with a warning.

    Raises:
        DataError: the file is missing, or a line that is not the last is not an object.
    """
    try:
        with _open_text(path) as handle:
            pending: tuple[int, str] | None = None
            for number, line in enumerate(handle, 1):
                if pending is not None:
                    raise DataError(f"{path}:{pending[0]}: not a JSON object: {pending[1][:80]!r}")
                try:
                    row = json.loads(line)
                except ValueError:
                    row = None
                if isinstance(row, dict) and line.endswith("\n"):
                    yield row
                elif line.strip():
                    pending = (number, line)
            if pending is not None:
                _log.warning("%s:%d: torn last line dropped", path, pending[0])
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None


def truncate_jsonl(path: Path, *, key: str, last: int) -> None:
    """Keep the rows whose integer `key` is at most `last`; what a resume does to its logs."""
    if path.exists():
        rows = [row for row in read_jsonl(path) if row[key] <= last]
        write_atomic(path, "".join(json.dumps(_plain(row)) + "\n" for row in rows))


def text_sha256(*parts: str) -> str:
    """Hash strings so that no two different sequences of them collide by concatenation."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", errors="surrogatepass")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    """Hash a file's bytes."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def remove_tree(path: Path) -> None:
    """Delete a folder if it exists."""
    shutil.rmtree(path, ignore_errors=True)


def _open_text(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return open(path, encoding="utf-8", newline="\n")


def _plain(value: Any) -> Any:
    """JSON has no NaN: undefined numbers become null, numpy scalars plain ones."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, int | str):
        return value
    number = float(value)
    return number if math.isfinite(number) else None
