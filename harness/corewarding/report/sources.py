"""Trace every cell back to runs, files and counts: the content of ``sources.json``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from corewarding.report.formats import Source, Table
from corewarding.report.frame import Frame
from corewarding.rundir import file_sha256

__all__ = ["trace"]


def trace(root: Path, frame: Frame, tables: Iterable[Table]) -> dict[str, Any]:
    """Return ``{"files": {path: sha256}, "cells": {id: {…}}}``.

    A cell of scores names, for each run, its two files and the numbers of questions, samples,
    verdicts (n) and right ones (c); other cells name the file that holds their metric.
    """
    tracer = _Tracer(root, frame)
    for table in tables:
        for row in table.rows:
            for column, cell in zip(table.columns, row, strict=True):
                if cell.source is not None:
                    tracer.add(cell.source, dict(zip(column.parts, cell.values, strict=True)))
    return {"files": dict(sorted(tracer.files.items())), "cells": tracer.cells}


class _Tracer:
    def __init__(self, root: Path, frame: Frame) -> None:
        self._root, self._frame = root, frame
        self.files: dict[str, str] = {}
        self.cells: dict[str, dict[str, Any]] = {}
        samples = frame.samples
        counts = samples.groupby(["arm", "seed", "benchmark"], sort=False).agg(
            questions=("doc", "nunique"),
            samples=("doc", "size"),
            n=("correct", "count"),
            c=("correct", "sum"),
        )
        self._counts: dict[Any, Any] = counts.astype(int).to_dict("index")

    def add(self, source: Source, values: dict[str, Any]) -> None:
        if source.id in self.cells:
            self.cells[source.id]["values"] |= values
            return
        runs = [
            entry
            for arm in source.arms
            for seed in source.seeds
            if (entry := self._run(source, arm, seed)) is not None
        ]
        self.cells[source.id] = {"values": values, "runs": runs}

    def _run(self, source: Source, arm: str, seed: int) -> dict[str, Any] | None:
        if source.file != "samples" or source.benchmark is None:
            path = f"{arm}/seed-{seed}/{source.file}"
            if not (self._root / path).is_file():
                return None
            if path not in self.files:
                self.files[path] = file_sha256(self._root / path)
            return {"run": f"{arm}/seed-{seed}", "files": [path]}
        evaluation = self._frame.evaluations.get((arm, seed, source.benchmark))
        if evaluation is None:
            return None
        self.files |= evaluation.files
        counts = self._counts[arm, seed, source.benchmark]
        return {"run": f"{arm}/seed-{seed}", "files": list(evaluation.files), **counts}
