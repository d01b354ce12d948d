"""``doctor``: what this machine has, what it lacks, and the command that mends it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from corewarding.cli.options import Json, Set, find_config, print_json
from corewarding.errors import UserError

__all__ = ["doctor"]


@dataclass(frozen=True, slots=True)
class _Finding:
    level: Literal["ok", "note", "problem"]
    what: str
    remedy: str = ""


def doctor(
    config: Annotated[str | None, typer.Argument(help="Also check this comparison.")] = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Check the environment, plug-ins and data; with CONFIG, everything the comparison needs."""
    findings = [*_packages(), *_hardware(), *_data(), *_plugins()]
    if config is not None:
        findings += _comparison(config, overrides or [])
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        marks = {"ok": "ok      ", "note": "note    ", "problem": "PROBLEM "}
        for finding in findings:
            remedy = f"\n         → {finding.remedy}" if finding.remedy else ""
            typer.echo(f"{marks[finding.level]} {finding.what}{remedy}")
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(3 if config is None else 2)


def _packages() -> list[_Finding]:
    from corewarding import provenance

    versions = ", ".join(f"{name} {version}" for name, version in provenance.versions().items())
    findings = [_Finding("ok", versions)]
    for extra in ("vllm", "openrlhf"):
        if importlib.util.find_spec(extra) is None:
            findings.append(
                _Finding("note", f"{extra} is not installed", f"pip install 'corewarding[{extra}]'")
            )
    return findings


def _hardware() -> list[_Finding]:
    import torch

    cores = len(os.sched_getaffinity(0))
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU; CPU is used"
    findings = [_Finding("ok", f"{cores} cores, {device}, {free:.0f} GiB free here")]
    if free < 2:
        findings.append(
            _Finding("problem", f"only {free:.1f} GiB of disk are free", "free some, or use --runs")
        )
    return findings


def _data() -> list[_Finding]:
    from corewarding.data import DATA_VARIABLE

    root = os.environ.get(DATA_VARIABLE)
    if not root:
        return [_Finding("note", f"{DATA_VARIABLE} is not set: data sets come from the Hub")]
    if not Path(root).is_dir():
        return [
            _Finding("problem", f"{DATA_VARIABLE}={root} is not a folder", "correct or unset it")
        ]
    return [_Finding("ok", f"data sets are read from {DATA_VARIABLE}={root}")]


def _plugins() -> list[_Finding]:
    from corewarding.registry import load_registry

    registry = load_registry()
    findings = [_Finding("ok", f"reward methods: {', '.join(sorted(registry.methods))}")]
    findings += [
        _Finding(
            "note",
            f"plug-in {broken.source.plugin} ({broken.source}) is broken: {broken.reason}",
            f"mend it, or pip uninstall {broken.source.distribution}",
        )
        for broken in registry.broken
    ]
    findings += [
        _Finding(
            "note",
            f"method {name!r} is claimed by {' and '.join(str(e.source) for e in found)}",
            f"write {' or '.join(e.qualified_name for e in found)}",
        )
        for name, found in registry.methods.items()
        if len(found) > 1
    ]
    return findings


def _comparison(config: str, overrides: list[str]) -> list[_Finding]:
    from corewarding.compare import make_plan
    from corewarding.configfile import load
    from corewarding.registry import load_registry

    try:
        plan = make_plan(load(find_config(config), overrides=overrides), load_registry())
    except UserError as error:
        return [_Finding("problem", line) for line in str(error).splitlines()]
    return [_Finding("ok", f"{config}: {len(plan.runs)} runs planned")]
