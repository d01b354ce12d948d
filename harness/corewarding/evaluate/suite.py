"""Which benchmarks exist, found by reading task files without importing lm-eval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from corewarding import resources
from corewarding.errors import ConfigError
from corewarding.registry import Registry, Source, suggest

__all__ = ["Benchmark", "benchmarks", "expand", "folders"]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A task file, or a group of them."""

    name: str
    path: Path
    members: tuple[str, ...]
    """Names of the tasks of a group; empty for a task."""
    metadata: Mapping[str, Any]
    source: Source | None
    """None: shipped with corewarding."""

    @property
    def style(self) -> str:
        """How answers are extracted from completions (`corewarding.extraction.Style`)."""
        return str(self.metadata.get("style", "boxed"))


class _TagBlindLoader(yaml.SafeLoader):
    """Reads ``!function x.y`` as the string ``x.y``."""


_TagBlindLoader.add_multi_constructor("!", lambda loader, suffix, node: str(node.value))


def folders(registry: Registry) -> list[tuple[Path, Source | None]]:
    """Return the shipped folder of task files and those of plug-ins."""
    return [(resources.folder("benchmarks"), None), *registry.benchmark_folders]


def benchmarks(registry: Registry) -> dict[str, Benchmark]:
    """Return all benchmarks and groups by name."""
    found: dict[str, Benchmark] = {}
    for folder, source in folders(registry):
        for path in sorted(folder.glob("*.yaml")):
            tree = yaml.load(path.read_text(encoding="utf-8"), Loader=_TagBlindLoader)
            if "group" in tree:
                name, members = str(tree["group"]), tuple(map(str, tree["task"]))
            else:
                name, members = str(tree["task"]), ()
            found[name] = Benchmark(name, path, members, tree.get("metadata") or {}, source)
    return found


def expand(names: Sequence[str], known: Mapping[str, Benchmark]) -> list[str]:
    """Return task names with groups replaced by their members, each once, in order.

    Raises:
        ConfigError: a name that no task file has.
    """
    tasks: list[str] = []
    for name in names:
        if name not in known:
            raise ConfigError(f"unknown benchmark {name!r}{suggest(name, known)}")
        tasks += known[name].members or (name,)
    return list(dict.fromkeys(tasks))
