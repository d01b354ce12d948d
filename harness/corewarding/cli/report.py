"""``report``: tables, figures and verdicts from run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corewarding.cli.options import Json, print_json, split
from corewarding.errors import DataError

__all__ = ["report", "write_and_print"]


def report(
    folder: Annotated[Path, typer.Argument(help="runs/<comparison>, finished or not.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Default: <folder>/report.")
    ] = None,
    arms: Annotated[str | None, typer.Option("--arms", help="Only these arms.")] = None,
    as_json: Json = False,
) -> None:
    """Write the comparison report of a folder of runs. Needs no model."""
    if not (folder / "comparison.yaml").is_file():
        raise DataError(
            f"{folder} holds no comparison (comparison.yaml is missing); give runs/<comparison>"
        )
    write_and_print(folder, out, arms=split(arms), as_json=as_json)


def write_and_print(
    folder: Path, out: Path | None, *, arms: list[str] | None = None, as_json: bool = False
) -> None:
    """Write the report and print its verdicts and where it lies."""
    from corewarding.report.render import write_report

    result = write_report(folder, out or folder / "report", arms=arms or None)
    if as_json:
        print_json({"report": str(result.markdown), "html": str(result.html)})
        return
    for line in result.verdicts:
        typer.echo(line)
    typer.echo(f"\nreport: {result.html}")
