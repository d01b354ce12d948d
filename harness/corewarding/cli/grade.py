"""``grade``: verdicts for answers in a file, without a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from corewarding.errors import DataError

__all__ = ["grade"]

_BLOCK = 2_000
"""Lines graded at a time, so that a file of any length streams."""


def grade(
    file: Annotated[
        Path, typer.Argument(help='JSON Lines of {"gold": …, "response": …}; - for stdin.')
    ],
    style: Annotated[
        str,
        typer.Option(
            help="auto, reference, boxed, lenient, number or choice. auto: by the gold answer: "
            "number for a number, choice for a letter A-J, lenient for anything else."
        ),
    ] = "auto",
    grader: Annotated[str, typer.Option(help="math, math-verify or string.")] = "math",
    workers: Annotated[int, typer.Option(min=1, help="Grader processes.")] = 1,
    budget: Annotated[float, typer.Option(min=0.1, help="Seconds an answer may take.")] = 2.0,
) -> None:
    """Grade each line; print one JSON verdict a line, in order.

    A verdict is {"correct": true | false | null, "extracted": …, "reason": …}; null means that
    it could not be decided (unreadable gold answer, time-out).
    """
    from corewarding.graderpool import GraderPool

    _one_of("--style", style, ("auto", "reference", "boxed", "lenient", "number", "choice"))
    _one_of("--grader", grader, ("math", "math-verify", "string"))
    rows = _rows(file)
    with GraderPool(workers=workers, budget_s=budget) as pool:
        while block := list(islice(rows, _BLOCK)):
            by_style: dict[str, list[int]] = {}
            for index, (gold, _) in enumerate(block):
                chosen = _style_for(gold) if style == "auto" else style
                by_style.setdefault(chosen, []).append(index)
            lines: list[str] = [""] * len(block)
            for chosen, indices in by_style.items():
                verdicts = pool.grade([block[i] for i in indices], style=chosen, grader=grader)  # type: ignore[arg-type]  # checked above
                for index, verdict in zip(indices, verdicts, strict=True):
                    row = {
                        "correct": verdict.correct,
                        "extracted": verdict.extracted,
                        "reason": verdict.reason,
                    }
                    lines[index] = json.dumps(row, ensure_ascii=True)
            typer.echo("\n".join(lines))


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise DataError(f"{option} {value!r}: choose from {', '.join(allowed)}")


def _style_for(gold: str) -> str:
    bare = gold.strip().strip("()")
    if len(bare) == 1 and bare in "ABCDEFGHIJ":
        return "choice"
    try:
        float(bare.replace(",", "").replace("$", ""))
    except ValueError:
        return "lenient"
    return "number"


def _rows(file: Path) -> Iterator[tuple[str, str]]:
    if str(file) != "-" and not file.is_file():
        raise DataError(f"{file}: no such file")
    handle: Any = sys.stdin if str(file) == "-" else open(file, encoding="utf-8")  # noqa: SIM115
    with handle:
        for number, line in enumerate(handle, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                gold, response = row["gold"], row["response"]
            except (ValueError, KeyError, TypeError):
                raise DataError(
                    f'{file}:{number}: expected {{"gold": …, "response": …}}, got {line[:80]!r}'
                ) from None
            if not isinstance(response, str) or not isinstance(gold, str | int | float):
                raise DataError(f"{file}:{number}: gold and response must be text")
            yield str(gold), response
