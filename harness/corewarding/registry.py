"""Find reward methods, token statistics and benchmark folders in installed packages.

Every entry point of the group ``corewarding`` is loaded on its own: one that fails is listed
with its reason and disturbs nobody else; one that registers half and then fails leaves nothing.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pluggy

from corewarding import hookspecs
from corewarding.errors import PluginError
from corewarding.method import Options, RewardMethod
from corewarding.tokenstats import BUILTIN_STATISTICS, TokenStatistic

__all__ = ["Broken", "MethodEntry", "Registry", "Source", "load_registry"]

SKIP_VARIABLE = "COREWARDING_SKIP_PLUGINS"
_HOOKS = ("register_reward_methods", "register_token_statistics", "register_benchmarks")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a registered thing comes from."""

    plugin: str
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


@dataclass(frozen=True, slots=True)
class Broken:
    """A plug-in that could not be loaded, and why."""

    source: Source
    reason: str


@dataclass(frozen=True, slots=True)
class MethodEntry:
    """A reward method class with its origin."""

    method: type[RewardMethod]
    source: Source

    @property
    def qualified_name(self) -> str:
        """``distribution:name``; works also where the bare name is ambiguous."""
        return f"{self.source.distribution}:{self.method.name}"


@dataclass(slots=True)
class _Table:
    methods: list[MethodEntry] = field(default_factory=list)
    statistics: list[tuple[TokenStatistic, Source]] = field(default_factory=list)
    benchmarks: list[tuple[Path, Source]] = field(default_factory=list)


class Registry:
    """All that installed plug-ins registered; ask it by name."""

    def __init__(self) -> None:
        self.methods: dict[str, list[MethodEntry]] = {}
        self.statistics: dict[str, TokenStatistic] = {s.name: s for s in BUILTIN_STATISTICS}
        self.benchmark_folders: list[tuple[Path, Source]] = []
        self.broken: list[Broken] = []
        self._manager = pluggy.PluginManager(hookspecs.GROUP)
        self._manager.add_hookspecs(hookspecs)

    def method(self, name: str) -> MethodEntry:
        """Return the method called `name`, or ``distribution:name``.

        Raises:
            PluginError: unknown (with a suggestion), ambiguous (naming both packages) or broken.
        """
        distribution, _, bare = name.rpartition(":")
        entries = self.methods.get(bare, [])
        if distribution:
            entries = [e for e in entries if e.source.distribution == distribution]
        if len(entries) == 1:
            return entries[0]
        if entries:
            owners = " and ".join(str(e.source) for e in entries)
            names = " or ".join(e.qualified_name for e in entries)
            raise PluginError(f"method {name!r} is registered by {owners}; write {names}")
        for broken in self.broken:
            if bare in (broken.source.plugin, broken.source.distribution):
                raise PluginError(
                    f"method {name!r}: its plug-in {broken.source.plugin!r} "
                    f"({broken.source}) is broken: {broken.reason}"
                )
        raise PluginError(f"unknown method {name!r}{suggest(name, self.methods)}")

    def make(self, name: str, options: Mapping[str, Any]) -> RewardMethod:
        """Build the method `name` with validated options.

        Raises:
            PluginError: unknown method.
            pydantic.ValidationError: options that its own model refuses.
        """
        method = self.method(name).method
        return method(method.options_type.model_validate(dict(options)))

    def add(self, module: ModuleType, source: Source) -> None:
        """Load one plug-in module; on any fault record it as broken and keep nothing of it."""
        table = _Table()
        try:
            _check_hooks(module)
            self._manager.register(module, name=source.plugin)
            try:
                _call_hooks(self._manager, module, table, source)
                self._commit(table)
            except BaseException:
                self._manager.unregister(module)
                raise
        except Exception as error:
            self.broken.append(Broken(source, _reason(error)))

    def _commit(self, table: _Table) -> None:
        for statistic, source in table.statistics:
            known = self.statistics.get(statistic.name)
            if known is not None and known.compute is not statistic.compute:
                raise PluginError(
                    f"token statistic {statistic.name!r} of {source} exists already; rename it"
                )
        for entry in table.methods:
            entries = self.methods.setdefault(entry.method.name, [])
            # The same class found twice (wheel and source tree) is no clash.
            if all(e.method is not entry.method for e in entries):
                entries.append(entry)
        self.statistics.update({s.name: s for s, _ in table.statistics})
        self.benchmark_folders.extend(table.benchmarks)


def load_registry(
    entry_points: Iterable[importlib.metadata.EntryPoint] | None = None,
) -> Registry:
    """Load every installed plug-in, except those named in ``COREWARDING_SKIP_PLUGINS``."""
    registry = Registry()
    skipped = {name.strip() for name in os.environ.get(SKIP_VARIABLE, "").split(",")}
    points = importlib.metadata.entry_points(group=hookspecs.GROUP)
    seen: set[tuple[str, str]] = set()
    for point in sorted(points if entry_points is None else entry_points, key=lambda p: p.name):
        if point.name in skipped or (point.name, point.value) in seen:
            continue
        seen.add((point.name, point.value))
        source = Source(
            plugin=point.name,
            distribution=point.dist.name if point.dist else "unknown",
            version=point.dist.version if point.dist else "unknown",
        )
        try:
            module = point.load()
        except Exception as error:
            registry.broken.append(Broken(source, _reason(error)))
            continue
        registry.add(module, source)
    return registry


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the tail of an error message: the nearest names, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.6)
    if close:
        return ". Did you mean " + " or ".join(repr(c) for c in close) + "?"
    return f". Known: {', '.join(names)}" if names else ""


def _check_hooks(module: ModuleType) -> None:
    """Pluggy ignores unmarked, misspelt and over-argumented hooks silently; we do not."""
    if not isinstance(module, ModuleType):
        raise PluginError("the entry point must name a module, not an object in it")
    marked = False
    for name, value in vars(module).items():
        if not inspect.isfunction(value) or value.__module__ != module.__name__:
            continue
        is_marked = hookspecs.GROUP + "_impl" in vars(value)
        if name in _HOOKS and not is_marked:
            raise PluginError(f"{name} lacks the @corewarding.hookimpl marker")
        if is_marked and name not in _HOOKS:
            raise PluginError(f"unknown hook {name!r}{suggest(name, _HOOKS)}")
        if is_marked and list(inspect.signature(value).parameters) != ["register"]:
            raise PluginError(f"{name} must take exactly one argument, 'register'")
        marked = marked or is_marked
    if not marked:
        raise PluginError(f"no hook found; define one of {', '.join(_HOOKS)}")


def _call_hooks(
    manager: pluggy.PluginManager, module: ModuleType, table: _Table, source: Source
) -> None:
    callbacks: dict[str, Callable[[Any], None]] = {
        "register_reward_methods": lambda m: table.methods.append(
            MethodEntry(_checked_method(m), source)
        ),
        "register_token_statistics": lambda s: table.statistics.append(
            (_expect(s, TokenStatistic), source)
        ),
        "register_benchmarks": lambda p: table.benchmarks.append((_existing(Path(p)), source)),
    }
    others = [plugin for plugin in manager.get_plugins() if plugin is not module]
    for hook, callback in callbacks.items():
        manager.subset_hook_caller(hook, others)(register=callback)


def _checked_method(method: object) -> type[RewardMethod]:
    if not (isinstance(method, type) and issubclass(method, RewardMethod)):
        raise PluginError(f"register() wants a RewardMethod subclass, got {method!r}")
    if inspect.isabstract(method):
        raise PluginError(f"{method.__name__} does not define score()")
    name = vars(method).get("name")
    if not isinstance(name, str) or not name or ":" in name:
        raise PluginError(f"{method.__name__} needs a class attribute name without ':'")
    if not (isinstance(method.options_type, type) and issubclass(method.options_type, Options)):
        raise PluginError(f"{method.__name__}.options_type must be a subclass of Options")
    return method


def _expect(value: object, kind: type[_T]) -> _T:
    if not isinstance(value, kind):
        raise PluginError(f"register() wants a {kind.__name__}, got {value!r}")
    return value


def _existing(path: Path) -> Path:
    if not path.is_dir():
        raise PluginError(f"benchmark folder {path} does not exist")
    return path


def _reason(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no message'}"
