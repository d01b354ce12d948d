"""Functions that the task files in ``benchmarks/`` name with ``!function``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from corewarding import data
from corewarding.extraction import Style
from corewarding.grading import grade
from corewarding.rundir import read_jsonl

__all__ = ["embedded_test", "embedded_test_hard", "gsm8k", "process_boxed", "process_number"]

_EMBEDDED_QUESTIONS = 160


def embedded_test(**metadata: Any) -> Mapping[str, Any]:
    """Questions of the kind that the embedded arms train on; disjoint from all training."""
    return _embedded("test")


def embedded_test_hard(**metadata: Any) -> Mapping[str, Any]:
    """Questions with one fact more than training has."""
    return _embedded("test_hard")


def gsm8k(**metadata: Any) -> Mapping[str, Any]:
    """GSM8K test: ``$COREWARDING_DATA/eval/gsm8k.jsonl`` or openai/gsm8k from the Hub."""
    local = data.local_file("eval", "gsm8k.jsonl")
    if local is not None:
        rows = (
            {"id": str(row["id"]), "question": row["question"], "answer": str(row["answer"])}
            for row in read_jsonl(local)
        )
    else:
        hub = data.from_hub("openai/gsm8k", "main", split="test", revision=None)
        rows = (
            {
                "id": f"gsm8k-{i}",
                "question": r["question"],
                "answer": data.gsm8k_answer(r["answer"]),
            }
            for i, r in enumerate(hub)
        )
    return _split(rows)


def process_boxed(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, float]:
    """Score for the stock lm-eval command: mean correctness, answer in a box."""
    return _process(doc, results, "boxed")


def process_number(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, float]:
    """Score for the stock lm-eval command: mean correctness, last number as a fall-back."""
    return _process(doc, results, "number")


def _process(doc: Mapping[str, Any], results: Sequence[Any], style: Style) -> dict[str, float]:
    # lm-eval hands over a list of n texts, or one text after its take_first filter.
    texts = [results[0]] if isinstance(results[0], str) else list(results[0])
    verdicts = [grade(gold=str(doc["answer"]), response=t, style=style).correct for t in texts]
    return {"correct": sum(bool(v) for v in verdicts) / len(verdicts)}


def _embedded(split: str) -> Mapping[str, Any]:
    from corewarding.embedded.problems import problems

    # One fixed set for all training seeds, so that arms and seeds are paired by question.
    found = problems(split, seed=0, count=_EMBEDDED_QUESTIONS)  # type: ignore[arg-type]
    return _split({"id": p.uid, "question": p.original, "answer": p.answer} for p in found)


def _split(rows: Iterable[Mapping[str, str]]) -> Mapping[str, Any]:
    import datasets

    return {"test": datasets.Dataset.from_list([dict(row) for row in rows])}
