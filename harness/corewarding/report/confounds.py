"""List whatever else differs between arms, so that a difference is not credited to the reward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from corewarding.report.frame import Frame, Run

__all__ = ["Confound", "conditions", "find", "reference_arm"]

_HEADER_KEYS = (
    "n",
    "temperature",
    "top_p",
    "max_new_tokens",
    "stop",
    "prompt",
    "prompt_sha256",
    "questions",
    "questions_sha256",
    "benchmark_version",
    "engine",
    "lm_eval_version",
)
_GRADER_KEYS = ("grader", "version", "style")
_BUDGET_COUNTS = (
    "prompts",
    "student_rollouts",
    "vote_rollouts",
    "teacher_rollouts",
    "optimizer_steps",
)
_BUDGET_TOKENS = ("trained_tokens", "generated_tokens")
TOKEN_TOLERANCE = 0.10
"""Token counts always differ a little: completions have different lengths. 10 % is listed."""
_OWN_SETTINGS = ("arm", "seed", "comparison", "rewards")


@dataclass(frozen=True, slots=True)
class Confound:
    """One thing that differs between an arm and the arm it is held against."""

    arm: str
    kind: str
    """``setting``, ``budget``, ``evaluation`` or ``provenance``."""
    key: str
    value: str
    reference: str
    """What the reference arm has."""
    seeds: tuple[int, ...]


def reference_arm(frame: Frame) -> str | None:
    """Return the arm that settings are compared with: the first trained one that has a run."""
    return next(
        (arm for arm in frame.trained() if any(run.arm == arm for run in frame.runs.values())), None
    )


def find(frame: Frame) -> list[Confound]:
    """Compare every arm with the first trained one, run by run of the same seed.

    Rewards are what is studied and are left out. The untrained model is compared in how it was
    evaluated and what it was made from.
    """
    reference = reference_arm(frame)
    if reference is None:
        return []
    found: dict[tuple[str, str, str, str, str], list[int]] = {}
    for arm in frame.arms:
        for seed in frame.seeds:
            one, other = frame.runs.get((arm, seed)), frame.runs.get((reference, seed))
            if arm == reference or one is None or other is None:
                continue
            for kind, key, value, expected in _differences(frame, one, other):
                found.setdefault((arm, kind, key, value, expected), []).append(seed)
    return [Confound(*key, seeds=tuple(seeds)) for key, seeds in found.items()]


def conditions(frame: Frame, arm: str, other: str, benchmark: str) -> list[str]:
    """Say in which sampling or grading conditions two arms differ on a benchmark."""
    found: dict[str, None] = {}
    for seed in frame.seeds:
        for key, value, expected in _evaluation(frame, arm, other, seed, benchmark):
            found[f"{key}: {value}, {frame.title(other)}: {expected}"] = None
    return list(found)


def _differences(frame: Frame, one: Run, other: Run) -> Iterator[tuple[str, str, str, str]]:
    if one.trained:
        ours, theirs = _flat(one.settings), _flat(other.settings)
        for key in sorted({*ours, *theirs}):
            if key.partition(".")[0] in _OWN_SETTINGS or ours.get(key) == theirs.get(key):
                continue
            yield "setting", key, _show(ours.get(key)), _show(theirs.get(key))
        for key, value, expected in _budget(one, other):
            yield "budget", key, value, expected
    for benchmark in frame.benchmarks:
        for key, value, expected in _evaluation(frame, one.arm, other.arm, one.seed, benchmark):
            yield "evaluation", f"{benchmark}: {key}", value, expected
    for key, value, expected in _provenance(one, other):
        yield "provenance", key, value, expected


def _evaluation(
    frame: Frame, arm: str, other: str, seed: int, benchmark: str
) -> Iterator[tuple[str, str, str]]:
    a = frame.evaluations.get((arm, seed, benchmark))
    b = frame.evaluations.get((other, seed, benchmark))
    if a is None or b is None:
        return
    for ours, theirs, keys, prefix in (
        (a.header, b.header, _HEADER_KEYS, ""),
        (a.grader, b.grader, _GRADER_KEYS, "grader "),
    ):
        for key in keys:
            if ours.get(key) != theirs.get(key):
                name = key if key == "grader" else f"{prefix}{key}"
                yield name, _show(ours.get(key)), _show(theirs.get(key))


def _budget(one: Run, other: Run) -> Iterator[tuple[str, str, str]]:
    ours, theirs = one.record.get("budget") or {}, other.record.get("budget") or {}
    if not ours or not theirs:
        return
    for key in (*_BUDGET_COUNTS, *_BUDGET_TOKENS):
        a, b = ours.get(key), theirs.get(key)
        if a == b or a is None or b is None:
            continue
        if key in _BUDGET_TOKENS and abs(a - b) <= TOKEN_TOLERANCE * max(a, b):
            continue
        yield key, f"{a:,}", f"{b:,}"


def _provenance(one: Run, other: Run) -> Iterator[tuple[str, str, str]]:
    sections = ["git", "versions", "model", *(["data", "prompt"] if one.trained else [])]
    ours = _flat({key: one.record.get(key) for key in sections})
    theirs = _flat({key: other.record.get(key) for key in sections})
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            yield key, _show(ours.get(key)), _show(theirs.get(key))
    cpus = [(run.record.get("attempts") or [{}])[-1].get("host") or {} for run in (one, other)]
    if cpus[0].get("cpu") != cpus[1].get("cpu"):
        yield "host.cpu", _show(cpus[0].get("cpu")), _show(cpus[1].get("cpu"))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _show(value: Any) -> str:
    if value is None:
        return "–"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    is_hash = len(text) in (40, 64) and all(c in "0123456789abcdef" for c in text)
    return text[:12] if is_hash else text
