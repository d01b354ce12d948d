"""Grade stored samples: ``samples.jsonl`` → ``grades.jsonl``. Needs no model."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, cast

from corewarding.errors import DataError
from corewarding.extraction import Style, extract
from corewarding.graderpool import GraderPool
from corewarding.grading import Grader, Verdict, grader_version
from corewarding.rundir import file_sha256, read_json, read_jsonl, write_atomic, write_json

__all__ = ["grade_samples"]

_Key = tuple[str, int]


def grade_samples(folder: Path, *, style: str, grader: Grader, pool: GraderPool) -> None:
    """Write ``grades.jsonl`` and ``grades.meta.json`` beside ``samples.jsonl``.

    Grades that were made from the same samples by the same grader are kept; grades of another
    grader are moved to ``grades.<name>.jsonl`` first.

    Raises:
        DataError: the samples are missing or their gold answers are.
    """
    samples = folder / "samples.jsonl"
    identity = {
        "grader": grader,
        "version": grader_version(grader),
        "style": style,
        "samples_sha256": file_sha256(samples) if samples.exists() else None,
    }
    meta = folder / "grades.meta.json"
    if meta.exists():
        old = read_json(meta)
        if {key: old.get(key) for key in identity} == identity:
            return
        _keep_aside(folder, str(old.get("grader")))
    rows = list(_grade(samples, cast("Style", style), grader, pool))
    write_atomic(folder / "grades.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    names = {True: "correct", False: "wrong", None: "undecided"}
    counts = Counter(names[row["correct"]] for row in rows)
    write_json(meta, {**identity, "counts": dict(sorted(counts.items()))})


def _grade(samples: Path, style: Style, grader: Grader, pool: GraderPool) -> list[dict[str, Any]]:
    golds: dict[str, str] = {}
    found: dict[_Key, tuple[str | None, str]] = {}
    rows = read_jsonl(samples)
    next(rows, None)  # the header
    for row in rows:
        doc = str(row["doc"])
        if "gold" in row:
            golds[doc] = str(row["gold"])
        if doc not in golds:
            raise DataError(f"{samples}: no gold answer for question {doc!r} on its first sample")
        extraction = extract(str(row["text"]), style=style)
        found[doc, int(row["sample"])] = (extraction.answer, extraction.rule)
    verdicts = pool.correct([(golds[d], found[d, s][0]) for d, s in found], grader=grader)
    classes = _classes(found, pool)
    return [
        {
            "doc": key[0],
            "sample": key[1],
            "answer": found[key][0],
            "class": classes.get(key),
            "correct": verdict.correct,
            "reason": _reason(verdict, found[key][1]),
        }
        for key, verdict in zip(found, verdicts, strict=True)
    ]


def _reason(verdict: Verdict, rule: str) -> str:
    """Where the answer was found (or why not), then how the verdict came about."""
    return f"{rule}; {verdict.reason}" if verdict.reason else rule


def _classes(found: dict[_Key, tuple[str | None, str]], pool: GraderPool) -> dict[_Key, str]:
    """Representative of each answer's equivalence class, question by question, for maj@k."""
    by_doc: defaultdict[str, list[_Key]] = defaultdict(list)
    for key, (answer, _) in found.items():
        if answer is not None:
            by_doc[key[0]].append(key)
    classes: dict[_Key, str] = {}
    for keys in by_doc.values():
        answers = [cast("str", found[key][0]) for key in keys]
        classes |= dict(zip(keys, pool.classes(answers), strict=True))
    return classes


def _keep_aside(folder: Path, grader: str) -> None:
    for name, suffix in (("grades.jsonl", "jsonl"), ("grades.meta.json", "meta.json")):
        path = folder / name
        if path.exists():
            path.replace(folder / f"grades.{grader}.{suffix}")
