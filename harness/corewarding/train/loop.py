"""THE training loop, for every engine and method: collect → score → update → after_step → log."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from corewarding import config, data
from corewarding.backends.base import Backend, TrainGroup
from corewarding.data import Dataset
from corewarding.method import StepEnd
from corewarding.rundir import RunDir, append_jsonl
from corewarding.seeding import derive_seed
from corewarding.train import checkpoint
from corewarding.train.advantages import group_advantages
from corewarding.train.audit import audit, health
from corewarding.train.collect import Collected, Collector
from corewarding.train.rewards import RewardEngine, Rewards

__all__ = ["Progress", "Trainer"]

Progress = Callable[[int, int, Mapping[str, float]], None]
"""Called after each step with (steps done, steps in all, the step's metrics)."""


@dataclass(slots=True)
class Trainer:
    """One run's training, from a fresh start or the last checkpoint to the last step."""

    spec: config.RunSpec
    run: RunDir
    dataset: Dataset
    backend: Backend
    engine: RewardEngine
    collector: Collector
    total_steps: int
    store_rollouts_every: int = 10

    def train(self, progress: Progress) -> int:
        """Train; return the step that was resumed from (0: a fresh start)."""
        done, folder, state = checkpoint.restore(self.run)
        if folder is not None:
            self.backend.load(folder)
            self.engine.load_state_dict(state)
        with (
            open(self.run.metrics, "a", encoding="utf-8") as metrics,
            open(self.run.timing, "a", encoding="utf-8") as timing,
        ):
            for step in range(done + 1, self.total_steps + 1):
                row, seconds = self._step(step)
                append_jsonl(metrics, {"step": step, **row})
                if step % self.spec.train.save_every == 0 or step == self.total_steps:
                    with _Clock(seconds, "save"):
                        checkpoint.save(self.run, self.backend, self.engine.state_dict(), step=step)
                append_jsonl(timing, {"step": step, **seconds})
                progress(step, self.total_steps, row)
        return done

    def _step(self, step: int) -> tuple[dict[str, float], dict[str, float]]:
        settings, seconds = self.spec.train, dict[str, float]()
        questions = data.batch(
            self.dataset,
            step=step,
            size=settings.questions_per_step,
            tail=self.spec.data.tail,
            seed=self.spec.seed,
        )
        with _Clock(seconds, "rollout"):
            collected = self.collector.collect(questions, step=step)
        with _Clock(seconds, "reward"):
            rewards = self.engine.score(collected.batch)
            figures = health(collected.batch, rewards.combined)
            figures |= audit(collected.batch, rewards.combined, rewards.targets)
        with _Clock(seconds, "update"):
            groups = self._train_groups(collected, rewards)
            engine_metrics = self.backend.update(
                groups, step=step, seed=derive_seed(self.spec.seed, "update", step)
            )
        end = StepEnd(step=step, total_steps=self.total_steps, metrics=engine_metrics)
        self.engine.after_step(end, self.backend)
        if step % self.store_rollouts_every == 0 or step in (1, self.total_steps):
            self._store(step, collected, rewards)
        counts = {f"rollouts/{kind}": float(n) for kind, n in collected.rollout_counts.items()}
        counts["tokens/generated"] = float(collected.generated_tokens)
        seconds["grade"] = collected.grading_seconds
        return {**engine_metrics, **figures, **rewards.metrics, **counts}, seconds

    def _train_groups(self, collected: Collected, rewards: Rewards) -> list[TrainGroup]:
        groups = []
        for group in collected.batch.trained():
            values = rewards.combined[group.key]
            groups.append(
                TrainGroup(
                    prompt=group.prompt,
                    samples=collected.samples[group.key],
                    advantages=group_advantages(values, scale=self.spec.train.advantage),
                    mask=~np.isnan(values),
                )
            )
        return groups

    def _store(self, step: int, collected: Collected, rewards: Rewards) -> None:
        """Keep a step's texts with every method's reward in its own column."""
        path = self.run.rollouts(step)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        # A fixed time stamp: equal runs give equal files.
        with gzip.GzipFile(temporary, "wb", mtime=0) as handle:
            for row in _rollout_rows(collected, rewards):
                handle.write((json.dumps(row) + "\n").encode())
        temporary.replace(path)


def _rollout_rows(collected: Collected, rewards: Rewards) -> list[dict[str, Any]]:
    rows = []
    for item in collected.batch:
        kinds = {"policy": item.policy, "votes": item.votes, "teacher": item.teacher}
        for kind, groups in kinds.items():
            for view, group in groups.items():
                for index, rollout in enumerate(group.rollouts):
                    row: dict[str, Any] = {
                        "uid": item.uid,
                        "view": view,
                        "actor": kind,
                        "rollout": index,
                        "text": rollout.text,
                        "answer": rollout.answer,
                        "raw_answer": rollout.raw_answer,
                        "finished": rollout.finished,
                        "tokens": len(rollout.tokens),
                        "gold": item.label,
                        "correct": item.verdicts.get(rollout.answer or ""),
                    }
                    if index == 0:
                        row["prompt"] = group.prompt
                    if kind == "policy":
                        row["reward"] = _number(rewards.combined[group.key][index])
                        row["target"] = rewards.targets.get(group.key)
                        row["rewards"] = {
                            part.name: _number(part.scores.rewards[group.key][index])
                            for part in rewards.parts
                        }
                        row["columns"] = {
                            name: _number(values[group.key][index])
                            for part in rewards.parts
                            for name, values in part.scores.columns.items()
                            if group.key in values
                        }
                    rows.append(row)
    return rows


def _number(value: np.float32) -> float | None:
    return None if np.isnan(value) else float(value)


class _Clock:
    """Adds the wall and CPU seconds of a block to a row, under `phase` and ``cpu/phase``."""

    def __init__(self, row: dict[str, float], phase: str) -> None:
        self._row, self._phase = row, phase

    def __enter__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def __exit__(self, *exc: object) -> None:
        self._row[self._phase] = time.perf_counter() - self._wall
        self._row[f"cpu/{self._phase}"] = time.process_time() - self._cpu
