"""Read a comparison's run folders into two tidy tables; the only reader of them for a report.

The format is documented in docs/run-folder.md. Whatever is missing or damaged becomes a `Hole`
with its reason; nothing is dropped silently.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from corewarding import configfile
from corewarding.config import BASE_ARM, Comparison
from corewarding.errors import DataError, UserError
from corewarding.rundir import RunDir, file_sha256, read_json, read_jsonl

__all__ = ["CHECKPOINT", "Evaluation", "Frame", "Hole", "Run", "read"]

CHECKPOINT = "final"
"""The evaluated checkpoint that is reported: the weights after the last step."""

_SAMPLES = {
    "arm": str,
    "seed": int,
    "benchmark": str,
    "doc": str,
    "sample": int,
    "correct": float,  # 1, 0, NaN: undecided
    "class": object,  # str or None
    "tokens": float,
    "finished": float,  # 1, 0, NaN: not known
    "answered": bool,
}
_STEPS = {"arm": str, "seed": int, "step": int, "metric": str, "value": float}


@dataclass(frozen=True, slots=True)
class Hole:
    """Something that should be in the report and is not, or not in whole."""

    arm: str
    seed: int
    benchmark: str | None
    """None: the whole run."""
    reason: str


@dataclass(frozen=True, slots=True)
class Run:
    """What one run says about itself."""

    arm: str
    seed: int
    folder: str
    """Relative to the comparison's folder."""
    record: Mapping[str, Any]
    """``run.json``; empty if it is missing."""
    settings: Mapping[str, Any]
    """``config.yaml``; empty if it is missing."""

    @property
    def trained(self) -> bool:
        """Whether the arm has a reward."""
        return bool(self.settings.get("rewards"))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Under which conditions one run was sampled and graded on one benchmark."""

    arm: str
    seed: int
    benchmark: str
    header: Mapping[str, Any]
    """First line of ``samples.jsonl``."""
    grader: Mapping[str, Any]
    """``grades.meta.json``."""
    files: Mapping[str, str]
    """Path below the comparison's folder → SHA-256."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Everything a report is made from."""

    comparison: Comparison
    arms: tuple[str, ...]
    """In the order of the tables, the untrained model first."""
    seeds: tuple[int, ...]
    benchmarks: tuple[str, ...]
    runs: Mapping[tuple[str, int], Run]
    evaluations: Mapping[tuple[str, int, str], Evaluation]
    samples: pd.DataFrame
    """Columns arm, seed, benchmark, doc, sample, correct, class, tokens, finished, answered."""
    steps: pd.DataFrame
    """Columns arm, seed, step, metric, value."""
    holes: tuple[Hole, ...]

    def title(self, arm: str) -> str:
        """What tables and figures call an arm."""
        known = self.comparison.arms.get(arm)
        return (known.title if known else None) or arm

    def trained(self) -> list[str]:
        """Return the arms that have a reward, by the comparison file or by their own runs."""
        return [arm for arm in self.arms if self.methods(arm)]

    def methods(self, arm: str) -> list[str]:
        """Return the names of an arm's reward methods."""
        known = self.comparison.arms.get(arm)
        if known is not None:
            return [reward.method for reward in known.rewards]
        rewards: Iterable[Mapping[str, Any]] = next(
            (run.settings.get("rewards") or [] for run in self.runs.values() if run.arm == arm), []
        )
        return [str(reward.get("method")) for reward in rewards]

    def supervised(self) -> str | None:
        """Return the first arm whose one reward is ``ground-truth``: what others are held to."""
        return next((arm for arm in self.arms if self.methods(arm) == ["ground-truth"]), None)


def read(root: Path, *, arms: Sequence[str] | None = None) -> Frame:
    """Read the comparison in the folder `root`, finished or not.

    Args:
        root: ``runs/<comparison>``.
        arms: only these; the untrained model is always there. None: all.

    Raises:
        DataError: `root` holds no comparison.
        UserError: an unknown arm.
    """
    comparison = configfile.load(root / "comparison.yaml")
    found = sorted(
        (folder.parent.name, int(folder.name.removeprefix("seed-")))
        for folder in root.glob("*/seed-*")
        if folder.name.removeprefix("seed-").isdigit()
    )
    known = dict.fromkeys([BASE_ARM, *comparison.arms, *(arm for arm, _ in found)])
    chosen = _choose(list(known), arms)
    seeds = sorted({*comparison.seeds, *(seed for arm, seed in found if arm in chosen)})
    reader = _Reader(root, comparison)
    for arm in chosen:
        for seed in seeds:
            if (arm, seed) in found or seed in comparison.seeds:
                reader.run(arm, seed)
    return reader.frame(chosen, seeds)


def _choose(known: list[str], arms: Sequence[str] | None) -> list[str]:
    for arm in arms or []:
        if arm not in known:
            close = difflib.get_close_matches(arm, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise UserError(f"unknown arm {arm!r}; {hint}")
    return [arm for arm in known if arms is None or arm in arms or arm == BASE_ARM]


class _Reader:
    """Collects runs one by one."""

    def __init__(self, root: Path, comparison: Comparison) -> None:
        self._root, self._comparison = root, comparison
        self._runs: dict[tuple[str, int], Run] = {}
        self._evaluations: dict[tuple[str, int, str], Evaluation] = {}
        self._samples: list[tuple[Any, ...]] = []
        self._steps: list[tuple[Any, ...]] = []
        self._holes: list[Hole] = []

    def run(self, arm: str, seed: int) -> None:
        run = RunDir(self._root / arm / f"seed-{seed}")
        if not run.record.exists():
            self._hole(arm, seed, None, "not started")
            return
        try:
            record = read_json(run.record)
            settings = _read_yaml(run.config)
        except DataError as error:
            self._hole(arm, seed, None, self._relative(str(error)))
            return
        self._runs[arm, seed] = Run(arm, seed, f"{arm}/seed-{seed}", record, settings)
        steps: list[tuple[Any, ...]] = []
        if run.metrics.exists():
            try:
                steps = list(_steps(run.metrics, arm, seed))
            except DataError as error:
                self._hole(arm, seed, None, self._relative(str(error)))
        self._steps += steps
        reason = _unfinished(record, steps[-1][2] if steps else 0)
        if reason:
            self._hole(arm, seed, None, reason)
        for folder in sorted((run.path / "eval" / CHECKPOINT).glob("*")):
            if (folder / "samples.jsonl").exists():
                self._evaluation(arm, seed, folder)

    def _evaluation(self, arm: str, seed: int, folder: Path) -> None:
        benchmark = folder.name
        try:
            rows = read_jsonl(folder / "samples.jsonl")
            header = next(rows, {})
            drawn = {(str(row["doc"]), int(row["sample"])): row for row in rows}
            if not (folder / "grades.meta.json").exists():
                raise DataError("sampled but not graded yet")
            meta = read_json(folder / "grades.meta.json")
            sha = file_sha256(folder / "samples.jsonl")
            if meta.get("samples_sha256") != sha:
                raise DataError("the grades were made from other samples; grade again")
            graded = {
                (str(row["doc"]), int(row["sample"])): row
                for row in read_jsonl(folder / "grades.jsonl")
            }
        except (DataError, KeyError, TypeError, ValueError) as error:
            text = f"no {error} in a line" if isinstance(error, KeyError) else str(error)
            self._hole(arm, seed, benchmark, self._relative(text))
            return
        for reason in _short(header, drawn, graded):
            self._hole(arm, seed, benchmark, reason)
        for key, row in drawn.items():
            self._samples.append((arm, seed, benchmark, *key, *_values(row, graded.get(key))))
        where = folder.relative_to(self._root).as_posix()
        grades = file_sha256(folder / "grades.jsonl")
        files = {f"{where}/samples.jsonl": sha, f"{where}/grades.jsonl": grades}
        self._evaluations[arm, seed, benchmark] = Evaluation(
            arm, seed, benchmark, header, meta, files
        )

    def frame(self, arms: list[str], seeds: list[int]) -> Frame:
        benchmarks = self._benchmarks()
        told = {(h.arm, h.seed, h.benchmark) for h in self._holes}
        for arm, seed in self._runs:
            for benchmark in benchmarks:
                key = (arm, seed, benchmark)
                if key not in self._evaluations and told.isdisjoint({key, (arm, seed, None)}):
                    self._hole(*key, "not evaluated yet")
        steps = pd.DataFrame(self._steps, columns=list(_STEPS)).astype(_STEPS)
        return Frame(
            comparison=self._comparison,
            arms=tuple(arms),
            seeds=tuple(seeds),
            benchmarks=benchmarks,
            runs=self._runs,
            evaluations=self._evaluations,
            samples=pd.DataFrame(self._samples, columns=list(_SAMPLES)).astype(_SAMPLES),
            steps=steps.drop_duplicates(["arm", "seed", "step", "metric"], keep="last"),
            holes=tuple(self._holes),
        )

    def _benchmarks(self) -> tuple[str, ...]:
        """Those with samples, in the suite's order; before the first sample, the suite itself."""
        suite = list(dict.fromkeys(self._comparison.eval.suite))
        found = {key[2] for key in self._evaluations}
        found |= {hole.benchmark for hole in self._holes if hole.benchmark}
        if not found:
            return tuple(suite)
        return tuple(sorted(found, key=lambda b: (suite.index(b) if b in suite else len(suite), b)))

    def _hole(self, arm: str, seed: int, benchmark: str | None, reason: str) -> None:
        self._holes.append(Hole(arm, seed, benchmark, reason))

    def _relative(self, text: str) -> str:
        """A report may be published: it names no folders above the comparison's."""
        return text.replace(f"{self._root}/", "")


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"{path}: not readable as YAML: {error}") from None
    return value if isinstance(value, dict) else {}


def _unfinished(record: Mapping[str, Any], done: int) -> str | None:
    status, total = record.get("status"), record.get("steps_total")
    if status == "done":
        return None
    if status == "failed":
        return f"failed: {record.get('error') or 'no message'}"
    progress = f", {done} of {total} steps done" if total else ""
    return f"unfinished (status: {status}{progress})"


def _steps(path: Path, arm: str, seed: int) -> Iterator[tuple[Any, ...]]:
    for row in read_jsonl(path):
        step = row.get("step")
        if not isinstance(step, int):
            raise DataError(f"{path}: a line without a step")
        for metric, value in row.items():
            if metric == "step" or isinstance(value, bool | str | list | dict):
                continue
            yield arm, seed, step, metric, math.nan if value is None else float(value)


def _short(
    header: Mapping[str, Any], drawn: Mapping[Any, Any], graded: Mapping[Any, Any]
) -> Iterator[str]:
    expected = (header.get("questions") or 0) * (header.get("n") or 0)
    if len(drawn) < expected:
        yield f"{len(drawn)} of {expected} samples are there; the rest is missing"
    ungraded = sum(key not in graded for key in drawn)
    if ungraded:
        yield f"{ungraded} of {len(drawn)} samples without a verdict; counted as undecided"


def _values(row: Mapping[str, Any], grade: Mapping[str, Any] | None) -> tuple[Any, ...]:
    """Columns correct, class, tokens, finished, answered of one sample."""
    grade = grade or {}
    return (
        _number(grade.get("correct")),
        grade.get("class"),
        _number(row.get("tokens")),
        _number(row.get("finished")),
        grade.get("answer") is not None,
    )


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
