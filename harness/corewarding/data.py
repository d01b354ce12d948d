"""Training questions by name: loaded, hashed, put in an order that is a function of the seed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from corewarding import config
from corewarding.errors import DataError, EnvironmentProblem
from corewarding.registry import suggest
from corewarding.rundir import read_jsonl, text_sha256
from corewarding.seeding import derive_seed

__all__ = [
    "DATA_VARIABLE",
    "Dataset",
    "Question",
    "batch",
    "keep_within",
    "load",
    "steps_per_epoch",
]

DATA_VARIABLE = "COREWARDING_DATA"
"""Environment variable: a folder with ``train/`` and ``eval/`` files to read instead of the Hub."""

REPEAT_VIEW = "repeat"
"""A view that every set offers: the original question once more."""

_EMBEDDED_POOL = 480


@dataclass(frozen=True, slots=True)
class Question:
    """One row of training data."""

    uid: str
    views: Mapping[str, str]
    """Wording by view; ``original`` is always there."""
    label: str | None
    """Gold answer as a string, or None where the source has none."""
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A training set as one run uses it."""

    name: str
    questions: tuple[Question, ...]
    sha256: str
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Reason → number of questions left out."""


def load(settings: config.Data, *, views: Iterable[str], seed: int) -> Dataset:
    """Load a training set with the wanted views.

    Questions that lack a wanted view are dropped and counted, so that all arms of a comparison
    that name the same views see the same questions.

    Raises:
        DataError: unknown set, unreadable file, or a view that no question has.
        EnvironmentProblem: the Hub cannot be reached and no local copy is configured.
    """
    wanted = sorted(set(views) - {REPEAT_VIEW})
    name = settings.train
    if name is None:
        raise DataError("data.train is missing: give a training set")
    questions = list(_source(name)(settings, seed))
    if not questions:
        raise DataError(f"data {name!r} holds no question")
    kept, missing = [], dict.fromkeys(wanted, 0)
    for question in questions:
        lacking = [view for view in wanted if not question.views.get(view)]
        for view in lacking:
            missing[view] += 1
        if not lacking:
            repeated = {**question.views, REPEAT_VIEW: question.views["original"]}
            kept.append(replace(question, views=repeated))
    for view, count in missing.items():
        if count == len(questions):
            raise DataError(
                f"view {view!r} is missing from data {name!r}, which offers "
                f"{', '.join(sorted(questions[0].views))}; add a column {view!r} to its rows"
            )
    dropped = {f"no {view} view": count for view, count in missing.items() if count}
    return _finish(name, kept[: settings.limit], dropped)


def keep_within(dataset: Dataset, lengths: Mapping[str, int], limit: int) -> Dataset:
    """Drop questions whose longest prompt exceeds `limit` tokens; `lengths` is by uid."""
    kept = [q for q in dataset.questions if lengths[q.uid] <= limit]
    count = len(dataset.questions) - len(kept)
    dropped = dict(dataset.dropped)
    if count:
        dropped[f"prompt over {limit} tokens"] = count
    if not kept:
        raise DataError(
            f"data {dataset.name!r}: every prompt is longer than rollout.max_prompt_tokens={limit}"
        )
    return _finish(dataset.name, kept, dropped)


def steps_per_epoch(count: int, size: int, tail: str) -> int:
    """Batches of `size` in one pass over `count` questions.

    Raises:
        DataError: there are fewer questions than one batch and the tail is dropped.
    """
    steps = -(-count // size) if tail == "keep" else count // size
    if steps == 0:
        raise DataError(
            f"{count} questions do not fill one batch of train.questions_per_step={size}; "
            "lower it or set data.tail: keep"
        )
    return steps


def batch(dataset: Dataset, *, step: int, size: int, tail: str, seed: int) -> list[Question]:
    """Return the questions of 1-based `step`: a pure function of (seed, step), hence no cursor."""
    count = len(dataset.questions)
    per_epoch = steps_per_epoch(count, size, tail)
    epoch, position = divmod(step - 1, per_epoch)
    order = np.random.default_rng(derive_seed(seed, "order", epoch)).permutation(count)
    chosen = order[position * size : (position + 1) * size]
    return [dataset.questions[int(index)] for index in chosen]


def _finish(name: str, questions: list[Question], dropped: Mapping[str, int]) -> Dataset:
    rows = (json.dumps([q.uid, dict(q.views), q.label], sort_keys=True) for q in questions)
    return Dataset(name, tuple(questions), text_sha256(*rows), dropped)


def _source(name: str) -> Callable[[config.Data, int], Iterable[Question]]:
    if name in _SOURCES:
        return _SOURCES[name]
    if name.endswith((".jsonl", ".jsonl.gz")):
        return lambda settings, seed: _from_file(Path(name))
    raise DataError(
        f"unknown training set {name!r}{suggest(name, _SOURCES)}; or give a .jsonl file"
    )


def _embedded(settings: config.Data, seed: int) -> Iterable[Question]:
    from corewarding.embedded.problems import problems

    for problem in problems("train", seed=seed, count=settings.limit or _EMBEDDED_POOL):
        views = {"original": problem.original, "rephrased": problem.rephrased}
        yield Question(problem.uid, views, problem.answer, {"level": problem.level})


def _from_file(path: Path) -> Iterable[Question]:
    """Rows with ``question`` and optionally ``id``, ``answer``, ``rephrased`` or ``views``."""
    for number, row in enumerate(read_jsonl(path), 1):
        if not isinstance(row.get("question"), str):
            raise DataError(f"{path}:{number}: the key 'question' is missing or not a string")
        views = {"original": row["question"], **row.get("views", {})}
        if isinstance(row.get("rephrased"), str):
            views["rephrased"] = row["rephrased"]
        uid = str(row.get("id", number - 1))
        yield Question(uid, views, as_label(row.get("answer")))


def _gsm8k_train(settings: config.Data, seed: int) -> Iterable[Question]:
    local = local_file("train", "gsm8k_train.jsonl.gz")
    if local is not None:
        return list(_from_file(local))
    rows = from_hub("openai/gsm8k", "main", split="train", revision=settings.revision)
    return [
        Question(f"gsm8k-train-{i}", {"original": row["question"]}, gsm8k_answer(row["answer"]))
        for i, row in enumerate(rows)
    ]


_SOURCES: dict[str, Callable[[config.Data, int], Iterable[Question]]] = {
    "embedded": _embedded,
    "gsm8k-train": _gsm8k_train,
}


def as_label(value: object) -> str | None:
    """Return a gold answer as text: ints and strings alike; blank becomes None."""
    if value is None or isinstance(value, bool):
        return None
    return str(value).strip() or None


def gsm8k_answer(solution: str) -> str:
    """Return what follows ``####`` in a GSM8K solution."""
    match = re.search(r"####\s*(.+?)\s*$", solution)
    return match.group(1) if match else solution.strip()


def local_file(split: str, name: str) -> Path | None:
    """Return a file of ``$COREWARDING_DATA/<split>/``, or None if the variable is unset.

    Raises:
        DataError: the variable is set and the file is not there.
    """
    root = os.environ.get(DATA_VARIABLE)
    if not root:
        return None
    path = Path(root) / split / name
    if not path.is_file():
        raise DataError(f"{DATA_VARIABLE}={root}: {path} is missing; unset it to use the Hub")
    return path


def from_hub(
    path: str, name: str | None, *, split: str, revision: str | None
) -> Iterable[dict[str, Any]]:
    """Load one split of a Hub data set.

    Raises:
        EnvironmentProblem: the Hub cannot be reached; says how to work offline.
    """
    import datasets

    try:
        return list(datasets.load_dataset(path, name, split=split, revision=revision))
    except Exception as error:
        raise EnvironmentProblem(
            f"data set {path!r} cannot be loaded from the Hub "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}). "
            f"Offline: point {DATA_VARIABLE} at a folder with train/ and eval/ JSON Lines files"
        ) from error
