"""Grade stored samples: ``samples.jsonl`` → ``grades.jsonl``. Needs no model."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from corewarding.errors import DataError
from corewarding.extraction import Style
from corewarding.graderpool import GraderPool
from corewarding.grading import Grader, Verdict, grader_version
from corewarding.rundir import file_sha256, read_json, read_jsonl, write_atomic, write_json

__all__ = ["grade_samples"]


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
    texts: dict[tuple[str, int], str] = {}
    rows = read_jsonl(samples)
    next(rows, None)  # the header
    for row in rows:
        doc = str(row["doc"])
        if "gold" in row:
            golds[doc] = str(row["gold"])
        if doc not in golds:
            raise DataError(f"{samples}: no gold answer for question {doc!r} on its first sample")
        texts[doc, int(row["sample"])] = str(row["text"])
    pairs = [(golds[doc], text) for (doc, _), text in texts.items()]
    verdicts = dict(zip(texts, pool.grade(pairs, style=style, grader=grader), strict=True))
    classes = _classes(verdicts, pool)
    return [
        {
            "doc": doc,
            "sample": number,
            "answer": verdict.extracted,
            "class": classes.get((doc, number)),
            "correct": verdict.correct,
            "reason": _reason(verdict),
        }
        for (doc, number), verdict in verdicts.items()
    ]


def _reason(verdict: Verdict) -> str:
    """Where the answer was found (or why not), then how the verdict came about."""
    parts = dict.fromkeys([verdict.rule, verdict.reason])
    return "; ".join(part for part in parts if part)


def _classes(
    verdicts: Mapping[tuple[str, int], Verdict], pool: GraderPool
) -> dict[tuple[str, int], str]:
    """Representative of each answer's equivalence class, question by question, for maj@k."""
    by_doc: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for key, verdict in verdicts.items():
        if verdict.extracted is not None:
            by_doc[key[0]].append(key)
    answers = [[str(verdicts[key].extracted) for key in keys] for keys in by_doc.values()]
    classes = pool.classes_of_items(answers)
    return {
        key: name
        for keys, names in zip(by_doc.values(), classes, strict=True)
        for key, name in zip(keys, names, strict=True)
    }


def _keep_aside(folder: Path, grader: str) -> None:
    for name, suffix in (("grades.jsonl", "jsonl"), ("grades.meta.json", "meta.json")):
        path = folder / name
        if path.exists():
            path.replace(folder / f"grades.{grader}.{suffix}")
