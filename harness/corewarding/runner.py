"""One run from beginning to end: train, export, sample, grade. Picks up where it was left."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corewarding import __version__, configfile, data, models, provenance
from corewarding.backends.base import Backend
from corewarding.backends.make import make_backend, require_engine
from corewarding.config import RunSpec
from corewarding.errors import CorewardingError, UserError
from corewarding.evaluate import grade as grading
from corewarding.evaluate import run as sampling
from corewarding.evaluate.suite import benchmarks, expand
from corewarding.graderpool import GraderPool
from corewarding.method import Needs
from corewarding.prompts import Prompter
from corewarding.registry import Registry
from corewarding.rundir import (
    RunDir,
    read_json,
    read_jsonl,
    remove_tree,
    write_atomic,
    write_json,
)
from corewarding.train.checks import build_methods, check_needs
from corewarding.train.collect import Collector, policy_views, teacher_views
from corewarding.train.loop import Trainer
from corewarding.train.rewards import RewardEngine

__all__ = ["Event", "check", "execute", "plan_steps"]

_log = logging.getLogger(__name__)

FINAL = "final"
"""Name of the evaluated checkpoint: the weights after the last step."""


@dataclass(frozen=True, slots=True)
class Event:
    """A sign of progress of one run."""

    arm: str
    seed: int
    phase: str
    """``base``, ``train``, ``eval``, ``grade``, ``done`` or ``failed``."""
    done: int = 0
    total: int = 0
    note: str = ""


Listener = Callable[[Event], None]


def check(spec: RunSpec, registry: Registry) -> data.Dataset | None:
    """Do every check that needs no model; return the training set of a trained arm.

    Raises:
        UserError: listing what is wrong.
        EnvironmentProblem: the engine's package is missing.
    """
    expand(spec.eval.suite, benchmarks(registry))
    if not spec.rewards:
        return None
    require_engine(spec)
    engine = RewardEngine(build_methods(spec, registry))
    dataset = _load_data(spec, engine)
    check_needs(spec, engine, dataset, registry)
    plan_steps(spec, dataset)
    return dataset


def plan_steps(spec: RunSpec, dataset: data.Dataset) -> int:
    """Return the number of training steps."""
    per_epoch = data.steps_per_epoch(
        len(dataset.questions), spec.train.questions_per_step, spec.data.tail
    )
    return spec.train.steps or per_epoch * (spec.train.epochs or 0)


def execute(
    spec: RunSpec, root: Path, registry: Registry, *, listener: Listener, pool: GraderPool
) -> None:
    """Bring one run to its end below `root`; what is finished already is not done again.

    Raises:
        CorewardingError: the run failed; ``run.json`` says why.
    """
    run = RunDir.of(root, spec.comparison, spec.arm, spec.seed)
    with run.locked():
        job = _Job(spec, run, registry, listener, pool)
        try:
            job.execute()
        except BaseException as error:
            job.fail(error)
            raise


def _load_data(spec: RunSpec, engine: RewardEngine) -> data.Dataset:
    needs = engine.needs
    views = {*policy_views(needs, spec.data), *teacher_views(needs, spec.data)}
    return data.load(spec.data, views=views, seed=spec.seed)


@dataclass(slots=True)
class _Job:
    spec: RunSpec
    run: RunDir
    registry: Registry
    listener: Listener
    pool: GraderPool
    record: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def execute(self) -> None:
        self._tell("base" if self.spec.model.path == models.EMBEDDED else "load")
        path = models.resolve(self.spec.model, seed=self.spec.seed, progress=self._on_base_step)
        self._open(path)
        backend: Backend | None = None
        if self.spec.rewards:
            if not (self.run.model / "DONE").exists():
                backend = self._train(path)
            path = str(self.run.model)
        self._evaluate(path, backend)
        self._save(status="done")
        self._tell("done")

    def fail(self, error: BaseException) -> None:
        if self.record:
            text = str(error).strip().splitlines() or [type(error).__name__]
            self._save(status="failed", error=f"{type(error).__name__}: {text[-1]}")
        if not isinstance(error, CorewardingError):
            _log.error("run failed", exc_info=error)
        self._tell("failed", note=str(error))

    def _open(self, path: str) -> None:
        """Write the run's record, or refuse to go on with a run that was another one."""
        identity = {
            "settings": self.spec.model_dump(mode="json", exclude={"eval"}),
            "model": models.fingerprint(path, self.spec.model),
            "version": __version__,
        }
        old = read_json(self.run.record) if self.run.record.exists() else {}
        differences = provenance.changed(old.get("identity", identity), identity)
        if differences:
            raise UserError(
                f"{self.run.path} holds a run with other settings "
                f"({'; '.join(differences[:5])}); choose another --runs folder, or delete it"
            )
        self.record = old | {
            "schema": 1,
            "identity": identity,
            "comparison": self.spec.comparison,
            "arm": self.spec.arm,
            "seed": self.spec.seed,
            "error": None,
            "git": provenance.git_state(),
            "versions": provenance.versions(),
        }
        self.record.setdefault("attempts", []).append(
            {"started": provenance.utc_now(), "ended": None, "host": provenance.host()}
        )
        write_atomic(self.run.config, configfile.dump(self.spec))

    def _train(self, path: str) -> Backend:
        spec = self.spec
        methods = build_methods(spec, self.registry)
        engine = RewardEngine(methods)
        dataset = _load_data(spec, engine)
        check_needs(spec, engine, dataset, self.registry)
        prompter = _prompter(spec, path)
        dataset = data.keep_within(
            dataset,
            {q.uid: max(map(prompter.length, q.views.values())) for q in dataset.questions},
            spec.rollout.max_prompt_tokens,
        )
        total = plan_steps(spec, dataset)
        backend = make_backend(
            spec, path=path, needs=engine.needs, registry=self.registry, total_steps=total
        )
        self._save(
            status="training",
            steps_total=total,
            methods=provenance.describe_methods(methods, self.registry),
            model={"path": spec.model.path, "revision": spec.model.revision}
            | {"sha256": self.record["identity"]["model"], **backend.describe()},
            data={
                "train": spec.data.train,
                "revision": spec.data.revision,
                "sha256": dataset.sha256,
                "questions": len(dataset.questions),
                "dropped": dict(dataset.dropped),
            },
            prompt={"name": spec.prompt, "sha256": prompter.sha256},
        )
        collector = Collector(spec, engine.needs, backend, prompter, self.pool, total)
        trainer = Trainer(spec, self.run, dataset, backend, engine, collector, total)
        resumed = trainer.train(self._on_step)
        self.record["attempts"][-1]["resumed_from_step"] = resumed
        self._export(backend)
        return backend

    def _on_base_step(self, step: int, loss: float) -> None:
        if step % 100 == 0 and step:
            self._tell("base", note=f"first use: training the base, step {step}, loss {loss:.2f}")

    def _on_step(self, done: int, total: int, row: Mapping[str, float]) -> None:
        note = f"reward {row['reward']:.3g}, hidden accuracy {row['hidden/accuracy']:.2f}"
        self._tell("train", done=done, total=total, note=note)

    def _export(self, backend: Backend) -> None:
        remove_tree(self.run.model)
        backend.export(self.run.model)
        (self.run.model / "DONE").touch()
        rows = list(read_jsonl(self.run.metrics))
        self._save(steps_done=len(rows), budget=_budget(rows, self.spec))

    def _evaluate(self, path: str, backend: Backend | None) -> None:
        spec, started = self.spec, time.perf_counter()
        self._save(status="evaluating")
        known = benchmarks(self.registry)
        prompter = _prompter(spec, path)
        names = sampling.sample(
            lambda: backend or self._load_for_evaluation(path),
            prompter,
            spec.eval,
            model=self.record["identity"]["model"] if not spec.rewards else self._label(),
            seed=spec.seed,
            out=lambda name: self.run.evaluation(FINAL, name),
            registry=self.registry,
            progress=lambda name: self._tell("eval", note=name),
        )
        self.seconds["eval"] = time.perf_counter() - started
        started = time.perf_counter()
        for name in names:
            self._tell("grade", note=name)
            folder = self.run.evaluation(FINAL, name)
            grading.grade_samples(
                folder, style=known[name].style, grader=spec.eval.grader, pool=self.pool
            )
        self.seconds["grade"] = time.perf_counter() - started

    def _load_for_evaluation(self, path: str) -> Backend:
        backend = make_backend(
            self.spec, path=path, needs=Needs(), registry=self.registry, total_steps=0
        )
        if not self.spec.rewards:
            self.record["model"] = {
                "path": self.spec.model.path,
                "revision": self.spec.model.revision,
                "sha256": self.record["identity"]["model"],
                **backend.describe(),
            }
        return backend

    def _label(self) -> str:
        return f"{self.spec.comparison}/{self.spec.arm}/seed-{self.spec.seed}"

    def _save(self, **changes: Any) -> None:
        self.record |= changes
        self.record["attempts"][-1]["ended"] = provenance.utc_now()
        timing = list(read_jsonl(self.run.timing)) if self.run.timing.exists() else []
        phases = {key for row in timing for key in row} - {"step"}
        total = {phase: sum(row.get(phase, 0.0) for row in timing) for phase in sorted(phases)}
        kept = self.record.get("seconds", {})
        wall = {phase: value for phase, value in total.items() if not phase.startswith("cpu/")}
        self.record["seconds"] = kept | wall | self.seconds
        self.record["cpu_seconds"] = {
            phase.removeprefix("cpu/"): v for phase, v in total.items() if phase.startswith("cpu/")
        }
        write_json(self.run.record, self.record)

    def _tell(self, phase: str, *, done: int = 0, total: int = 0, note: str = "") -> None:
        self.listener(Event(self.spec.arm, self.spec.seed, phase, done, total, note))


def _prompter(spec: RunSpec, path: str) -> Prompter:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(
        path,
        revision=spec.model.revision if path == spec.model.path else None,
        trust_remote_code=spec.model.trust_remote_code,
    )
    return Prompter(spec.prompt, tokenizer)


def _budget(rows: Sequence[Mapping[str, float]], spec: RunSpec) -> dict[str, int]:
    """What the arm was given, summed over the steps; the report's cost columns."""

    def total(key: str) -> int:
        return int(sum(row.get(key) or 0 for row in rows))

    return {
        "prompts": total("rollouts/policy") // spec.rollout.n,
        "student_rollouts": total("rollouts/policy"),
        "vote_rollouts": total("rollouts/votes"),
        "teacher_rollouts": total("rollouts/teacher"),
        "generated_tokens": total("tokens/generated"),
        "trained_tokens": total("trained_tokens"),
        "optimizer_steps": total("optimizer_steps"),
    }
