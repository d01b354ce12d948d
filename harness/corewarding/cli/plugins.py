"""``plugins``: what is installed, from which package, needing what."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corewarding.cli.options import Json, print_json

if TYPE_CHECKING:
    from corewarding.registry import MethodEntry, Registry

__all__ = ["plugins"]


def plugins(
    name: Annotated[str | None, typer.Argument(help="One method, in full.")] = None,
    as_json: Json = False,
) -> None:
    """List reward methods, token statistics and benchmarks with their package and version."""
    from corewarding.registry import load_registry

    registry = load_registry()
    if name is not None:
        _print_method(registry.method(name), registry, as_json)
        return
    listing = _listing(registry)
    if as_json:
        print_json(listing)
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(file=sys.stdout)
    table = Table("method", "package", "needs", "options", title="reward methods")
    for row in listing["methods"]:
        options = ", ".join(f"{k}={v['default']}" for k, v in row["options"].items())
        table.add_row(row["name"], row["package"], row["needs"] or "–", options or "–")
    console.print(table)
    console.print("token statistics: " + ", ".join(listing["statistics"]))
    table = Table("benchmark", "style", "about", title="benchmarks")
    for row in listing["benchmarks"]:
        table.add_row(row["name"], row["style"], row["about"])
    console.print(table)
    for row in listing["broken"]:
        console.print(f"broken: {row['plugin']} ({row['package']}): {row['reason']}", style="red")


def _listing(registry: Registry) -> dict[str, Any]:
    from corewarding.evaluate.suite import benchmarks

    entries = [entry for found in registry.methods.values() for entry in found]
    return {
        "methods": [_row(entry, registry) for entry in sorted(entries, key=_by_name)],
        "statistics": sorted(registry.statistics),
        "benchmarks": [
            {
                "name": b.name,
                "style": "group" if b.members else b.style,
                "about": ", ".join(b.members) or str(b.metadata.get("about", "")),
                "package": str(b.source) if b.source else "corewarding",
            }
            for b in sorted(benchmarks(registry).values(), key=lambda b: b.name)
        ],
        "broken": [
            {"plugin": b.source.plugin, "package": str(b.source), "reason": b.reason}
            for b in registry.broken
        ],
    }


def _by_name(entry: MethodEntry) -> str:
    return entry.method.name


def _row(entry: MethodEntry, registry: Registry) -> dict[str, Any]:
    method = entry.method
    clash = len(registry.methods[method.name]) > 1
    return {
        "name": entry.qualified_name if clash else method.name,
        "package": str(entry.source),
        "needs": _needs(entry),
        "options": {
            key: {
                "type": str(field.annotation),
                "default": field.default,
                "about": field.description,
            }
            for key, field in method.options_type.model_fields.items()
        },
        "about": (inspect.getdoc(method) or "").partition("\n")[0],
    }


def _needs(entry: MethodEntry) -> str:
    """Needs with default options, in words; what needs options to be known says so."""
    from corewarding.method import Needs

    try:
        needs = entry.method(entry.method.options_type()).needs()
    except Exception:
        return "depends on options"
    default, words = Needs(), []
    if needs.labels:
        words.append("labels")
    words += [f"view {v}" for v in sorted(needs.views - default.views)]
    if needs.teacher_views:
        words.append("teacher")
    words += [f"statistic {s}" for s in sorted(needs.statistics)]
    if needs.min_rollouts > 1:
        words.append(f"n ≥ {needs.min_rollouts}")
    return ", ".join(words)


def _print_method(entry: MethodEntry, registry: Registry, as_json: bool) -> None:
    row = _row(entry, registry)
    doc = inspect.getdoc(inspect.getmodule(entry.method)) or inspect.getdoc(entry.method) or ""
    if as_json:
        print_json({**row, "doc": doc})
        return
    typer.echo(f"{row['name']}  ({row['package']})\nneeds: {row['needs'] or '–'}\n\n{doc}")
    for key, option in row["options"].items():
        typer.echo(f"\noption {key} = {option['default']!r}\n    {option['about'] or ''}")
