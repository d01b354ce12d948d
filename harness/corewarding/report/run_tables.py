"""Build the tables about runs: pseudo-labels, cost, confounds, methods, provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from corewarding.report.captions import holes, training_footnote
from corewarding.report.confounds import Confound
from corewarding.report.curves import Curves, Level
from corewarding.report.formats import Cell, Column, Source, Table
from corewarding.report.frame import Frame, Run

__all__ = ["confound_table", "cost", "labels", "methods", "run_list", "versions"]

_ARM = Column("arm", ("arm",), is_text=True)
_LABELS = (
    ("pseudo/label_accuracy", "label accuracy"),
    ("pseudo/reward_accuracy", "reward accuracy"),
    ("pseudo/reward_auc", "reward AUC"),
    ("pseudo/majority_ratio", "majority ratio"),
    ("pseudo/tie_ratio", "ties"),
    ("pseudo/abstain_ratio", "abstained"),
    ("frac_reward_zero_std", "equal-reward groups"),
)
_BUDGET = (
    ("prompts", "prompts"),
    ("student_rollouts", "student rollouts"),
    ("vote_rollouts", "vote rollouts"),
    ("teacher_rollouts", "teacher rollouts"),
    ("trained_tokens", "trained tokens"),
    ("generated_tokens", "generated tokens"),
    ("optimizer_steps", "optimiser steps"),
)
_TRAINING_PHASES = ("rollout", "reward", "update", "save")


def labels(frame: Frame, curves: Curves) -> Table:
    """Table of how good each arm's pseudo-labels and rewards are, at the start and at the end."""
    columns = [Column(name, (f"{key}_first", f"{key}_last")) for key, name in _LABELS]
    body = []
    for arm in frame.trained():
        cells = [_text(frame.title(arm))]
        for key, _ in _LABELS:
            seeds = tuple(seed for seed, _, _ in curves.each(arm, key))
            source = Source(f"labels/{arm}/{key}", (arm,), seeds, "metrics.jsonl")
            cells.append(_levels(curves.level(arm, key), source))
        body.append(tuple(cells))
    notes = (
        training_footnote(frame),
        "Mean of the first tenth of training → mean of the last, averaged over seeds. Label "
        "accuracy: pseudo-labels that equal the hidden gold answer. Reward accuracy: rollouts "
        "whose 0/1 reward is the true one; AUC: chance that a right rollout is rewarded above a "
        "wrong one of its group. A dash: not defined for this reward.",
        *holes(frame),
    )
    return Table("labels", "Quality of pseudo-labels", (_ARM, *columns), tuple(body), notes)


def cost(frame: Frame) -> Table:
    """Table of what each arm was given and what it took, a run on average."""
    columns = [Column(name, (key,)) for key, name in _BUDGET]
    columns += [
        Column("training, wall s", ("train_seconds",)),
        Column("evaluation, wall s", ("eval_seconds",)),
        Column("training, CPU s", ("train_cpu_seconds",)),
    ]
    body = []
    for arm in frame.arms:
        runs = [run for run in frame.runs.values() if run.arm == arm]
        cells = [_text(frame.title(arm))]
        for key, _ in _BUDGET:
            cells.append(_mean(runs, [(r.record.get("budget") or {}).get(key) for r in runs], key))
        training = [_phases(run.record.get("seconds"), _TRAINING_PHASES) for run in runs]
        evaluation = [_phases(run.record.get("seconds"), ("eval", "grade")) for run in runs]
        cpu = [_phases(run.record.get("cpu_seconds"), _TRAINING_PHASES) for run in runs]
        cells += [
            _mean(runs, training, "train_seconds"),
            _mean(runs, evaluation, "eval_seconds"),
            _mean(runs, cpu, "train_cpu_seconds"),
        ]
        body.append(tuple(cells))
    notes = (
        training_footnote(frame),
        "Mean of an arm's runs. Runs may share the machine, so wall times depend on what ran "
        "beside them. A dash: nothing of the kind, or the run has not written it yet.",
        *holes(frame),
    )
    return Table("cost", "Budget and cost", (_ARM, *columns), tuple(body), notes)


def confound_table(frame: Frame, found: Sequence[Confound], reference: str | None) -> Table:
    """Table of whatever differs between arms besides the reward."""
    other = frame.title(reference) if reference else "reference"
    columns = (
        _ARM,
        Column("kind", ("kind",), is_text=True),
        Column("what", ("key",), is_text=True),
        Column("this arm", ("value",), is_text=True),
        Column(other, ("reference",), is_text=True),
        Column("seeds", ("seeds",), is_text=True),
    )
    body = tuple(
        tuple(
            _text(text)
            for text in (
                frame.title(c.arm),
                c.kind,
                c.key,
                c.value,
                c.reference,
                ", ".join(map(str, c.seeds)),
            )
        )
        for c in found
    )
    return Table("confounds", "What else differs", columns, body)


def methods(frame: Frame) -> Table:
    """Table of the reward methods with origin and options in force."""
    columns = tuple(
        Column(name, (name,), is_text=True)
        for name in ("arm", "method", "package", "weight", "normalize", "options")
    )
    body, seen = [], set[tuple[str, str]]()
    for run in frame.runs.values():
        for method in run.record.get("methods") or []:
            key = (run.arm, json.dumps(method, sort_keys=True))
            if key in seen:
                continue
            seen.add(key)
            passed = method.get("options_passed") or {}
            options = ", ".join(
                f"{name}={value}{' (set)' if name in passed else ''}"
                for name, value in (method.get("options") or {}).items()
            )
            row = (
                frame.title(run.arm),
                str(method.get("name")),
                f"{method.get('distribution')} {method.get('version')}",
                str(method.get("weight")),
                str(method.get("normalize")),
                options or "none",
            )
            body.append(tuple(map(_text, row)))
    return Table("methods", "Reward methods", columns, tuple(body))


def run_list(frame: Frame) -> Table:
    """Table of all runs: status, steps, code, data, machine."""
    names = ("arm", "seed", "status", "steps", "commit", "data", "start model", "started", "ended")
    body = []
    for arm in frame.arms:
        for seed in frame.seeds:
            run = frame.runs.get((arm, seed))
            record: Mapping[str, Any] = run.record if run else {}
            attempts = record.get("attempts") or [{}]
            git = record.get("git") or {}
            steps = f"{record.get('steps_done', 0)} / {record.get('steps_total')}"
            row = (
                frame.title(arm),
                str(seed),
                str(record.get("status", "not started")),
                steps if record.get("steps_total") else "–",
                f"{str(git.get('commit'))[:12]}{' (changed)' if git.get('dirty') else ''}"
                if git
                else "–",
                str((record.get("data") or {}).get("sha256") or "–")[:12],
                str((record.get("model") or {}).get("sha256") or "–")[:12],
                str(attempts[0].get("started") or "–"),
                str(attempts[-1].get("ended") or "–"),
            )
            body.append(tuple(map(_text, row)))
    columns = tuple(Column(name, (name,), is_text=True) for name in names)
    return Table("runs", "Runs", columns, tuple(body), tuple(holes(frame)))


def versions(frame: Frame) -> Table:
    """Table of package versions over all runs."""
    found: dict[str, dict[str, None]] = {}
    for run in frame.runs.values():
        for package, version in (run.record.get("versions") or {}).items():
            found.setdefault(str(package), {})[str(version)] = None
    columns = tuple(Column(name, (name,), is_text=True) for name in ("package", "version"))
    body = tuple((_text(package), _text(", ".join(vs))) for package, vs in found.items())
    return Table("versions", "Versions", columns, body)


def _text(text: str) -> Cell:
    return Cell(text, values=(text,))


def _levels(level: Level | None, source: Source) -> Cell:
    if level is None:
        return Cell()
    text = f"{level.first:.2f} → {level.last:.2f}"
    return Cell(text, values=(level.first, level.last), source=source)


def _mean(runs: Sequence[Run], values: Sequence[float | None], key: str) -> Cell:
    known = [(run, value) for run, value in zip(runs, values, strict=True) if value is not None]
    if not known:
        return Cell()
    mean = sum(value for _, value in known) / len(known)
    arm, seeds = known[0][0].arm, tuple(run.seed for run, _ in known)
    source = Source(f"cost/{arm}/{key}", (arm,), seeds, "run.json")
    return Cell(f"{mean:,.0f}", values=(round(mean, 3),), source=source)


def _phases(seconds: Mapping[str, float] | None, phases: Sequence[str]) -> float | None:
    found = [seconds[phase] for phase in phases if phase in seconds] if seconds else []
    return sum(found) if found else None
