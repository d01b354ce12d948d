"""Arguments and small helpers that several verbs share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from corewarding import resources
from corewarding.errors import ConfigError

__all__ = ["Config", "Json", "Runs", "Set", "find_config", "print_json", "split"]

Config = Annotated[
    str, typer.Argument(metavar="CONFIG", help="A comparison file, or the name of a shipped one.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. train.steps=10."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Runs = Annotated[Path, typer.Option("--runs", help="Folder that run folders go to.")]


def find_config(name: str) -> Path:
    """Return the file `name`, or the shipped configuration of that name.

    Raises:
        ConfigError: neither exists; lists the shipped ones.
    """
    path = Path(name)
    if path.is_file():
        return path
    shipped = resources.folder("configs")
    candidate = shipped / f"{path.name.removesuffix('.yaml')}.yaml"
    # A bare name, or ``configs/name.yaml`` as the documentation writes it, outside a checkout.
    if path.parent in (Path(), Path("configs")) and candidate.is_file():
        return candidate
    known = ", ".join(sorted(file.stem for file in shipped.glob("*.yaml")))
    raise ConfigError(f"{name}: no such file; shipped comparisons: {known}")


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print JSON to standard output."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False, default=str))


def split(text: str | None) -> list[str]:
    """Split a comma-separated option."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]
