"""A whole comparison: every arm × seed in worker processes side by side, then the report."""

from __future__ import annotations

import logging
import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from corewarding import configfile
from corewarding.config import BASE_ARM, Comparison, RunSpec
from corewarding.errors import CorewardingError, UserError
from corewarding.registry import Registry, load_registry
from corewarding.rundir import write_atomic
from corewarding.runner import Event, check, execute, plan_steps

__all__ = ["Outcome", "Plan", "PlannedRun", "make_plan", "run_all"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of the plan with its size."""

    spec: RunSpec
    steps: int
    questions: int
    rollouts_per_step: int
    """Student, voting and teacher rollouts together."""
    dropped: dict[str, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a comparison will do, in the order it will be started."""

    comparison: Comparison
    runs: tuple[PlannedRun, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    arm: str
    seed: int
    error: str | None
    exit_code: int


def arms_of(comparison: Comparison) -> list[str]:
    """Return all arms, the untrained model first."""
    return [BASE_ARM, *(arm for arm in comparison.arms if arm != BASE_ARM)]


def make_plan(
    comparison: Comparison,
    registry: Registry,
    *,
    arms: Sequence[str] = (),
    seeds: Sequence[int] = (),
) -> Plan:
    """Resolve and check every run without loading a model.

    Args:
        comparison: the comparison.
        registry: installed plug-ins.
        arms: only these; empty for all.
        seeds: only these; empty for all.

    Raises:
        UserError: listing every problem of every arm.
    """
    runs, problems = [], dict[str, None]()
    chosen = arms or arms_of(comparison)
    pairs = [(arm, seed) for seed in seeds or comparison.seeds for arm in chosen]
    # Untrained models first: where each seed has its own, they are made side by side. Then seed
    # by seed, so that an interrupted comparison has whole seeds to compare.
    for arm, seed in sorted(pairs, key=lambda pair: pair[0] != BASE_ARM):
        try:
            runs.append(_planned(configfile.resolve(comparison, arm=arm, seed=seed), registry))
        except UserError as error:
            problems |= dict.fromkeys(str(error).splitlines())
    if problems:
        raise UserError("\n".join(problems))
    return Plan(comparison, tuple(runs))


def _planned(spec: RunSpec, registry: Registry) -> PlannedRun:
    from corewarding.train.checks import build_methods
    from corewarding.train.collect import policy_views, teacher_views
    from corewarding.train.rewards import RewardEngine

    dataset = check(spec, registry)
    if dataset is None:
        return PlannedRun(spec, 0, 0, 0, {})
    needs = RewardEngine(build_methods(spec, registry)).needs
    student = len(policy_views(needs, spec.data)) * (spec.rollout.n + needs.vote_rollouts)
    teacher = len(teacher_views(needs, spec.data)) * spec.rollout.n
    per_step = spec.train.questions_per_step * (student + teacher)
    steps = plan_steps(spec, dataset)
    return PlannedRun(spec, steps, len(dataset.questions), per_step, dict(dataset.dropped))


def run_all(
    plan: Plan, root: Path, *, workers: int, listener: Callable[[Event], None]
) -> list[Outcome]:
    """Do every run of the plan in `workers` processes; a failed run does not stop the others.

    A worker that dies (out of memory, killed) fails its run and is replaced.
    """
    folder = root / plan.comparison.name
    write_atomic(folder / "comparison.yaml", configfile.dump(plan.comparison))
    pool = _Workers(root, min(workers, len(plan.runs)), listener)
    try:
        return pool.run([planned.spec for planned in plan.runs])
    finally:
        pool.stop()


class _Workers:
    """Processes that take one run after another, so that imports are paid once each."""

    def __init__(self, root: Path, count: int, listener: Callable[[Event], None]) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._root = root
        self._listener = listener
        self._messages: Any = self._context.Queue()
        self._count = count
        self._processes: dict[int, tuple[SpawnProcess, Any]] = {}
        self._running: dict[int, RunSpec] = {}
        self._started = 0

    def run(self, specs: Sequence[RunSpec]) -> list[Outcome]:
        waiting, outcomes = list(specs), list[Outcome]()
        while waiting or self._running:
            while waiting and len(self._running) < self._count:
                self._start(waiting.pop(0))
            try:
                worker, message = self._messages.get(timeout=0.5)
            except queue.Empty:
                outcomes += self._bury()
                continue
            if isinstance(message, Event):
                self._listener(message)
            else:
                self._running.pop(worker, None)
                outcomes.append(message)
        return outcomes

    def stop(self) -> None:
        """End every worker: the idle by a word, the busy by force."""
        for worker, (process, jobs) in self._processes.items():
            if worker in self._running:
                process.terminate()
            else:
                jobs.put(None)
        for process, _ in self._processes.values():
            process.join(timeout=10)
            if process.is_alive():
                process.kill()
                process.join()
        self._processes.clear()

    def _start(self, spec: RunSpec) -> None:
        idle = [w for w in self._processes if w not in self._running]
        worker = idle[0] if idle else self._spawn()
        self._running[worker] = spec
        self._processes[worker][1].put(spec.model_dump(mode="json"))

    def _spawn(self) -> int:
        self._started += 1
        jobs = self._context.Queue()
        process = self._context.Process(
            target=_work, args=(self._started, self._root, jobs, self._messages), daemon=False
        )
        with _one_thread_environment():
            process.start()
        self._processes[self._started] = (process, jobs)
        return self._started

    def _bury(self) -> list[Outcome]:
        outcomes = []
        for worker, spec in list(self._running.items()):
            process = self._processes[worker][0]
            if not process.is_alive() and self._messages.empty():
                del self._running[worker], self._processes[worker]
                error = f"its process ended with exit code {process.exitcode}; out of memory?"
                self._listener(Event(spec.arm, spec.seed, "failed", note=error))
                outcomes.append(Outcome(spec.arm, spec.seed, error, 1))
        return outcomes


class _one_thread_environment:
    """While a worker starts: one OpenMP thread each, unless the user chose otherwise.

    Two threads of two workers on two cores spin against each other and cost several times what
    they gain; the runs themselves are what runs side by side.
    """

    def __enter__(self) -> None:
        self._old = os.environ.get("OMP_NUM_THREADS")
        os.environ.setdefault("OMP_NUM_THREADS", "1")

    def __exit__(self, *exc: object) -> None:
        if self._old is None:
            os.environ.pop("OMP_NUM_THREADS", None)


def _work(worker: int, root: Path, jobs: Any, messages: Any) -> None:
    """Body of a worker process."""
    from corewarding.graderpool import GraderPool

    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    registry = load_registry()
    with GraderPool() as pool:
        while (job := jobs.get()) is not None:
            spec = RunSpec.model_validate(job)
            run_log = _log_to(root, spec)
            error, code = None, 0
            try:
                execute(
                    spec,
                    root,
                    registry,
                    listener=lambda event: messages.put((worker, event)),
                    pool=pool,
                )
            except CorewardingError as problem:
                error, code = str(problem), problem.exit_code
            except Exception as problem:
                error, code = f"{type(problem).__name__}: {problem}", 1
            finally:
                logging.getLogger().removeHandler(run_log)
                run_log.close()
            messages.put((worker, Outcome(spec.arm, spec.seed, error, code)))


def _end_with_parent(parent: int) -> None:
    """A command that was killed outright must not leave workers that go on holding their runs."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _log_to(root: Path, spec: RunSpec) -> logging.Handler:
    from corewarding.rundir import RunDir

    path = RunDir.of(root, spec.comparison, spec.arm, spec.seed).log
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    return handler
