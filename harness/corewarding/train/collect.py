"""Draw a step's rollouts, find their answers, and put them together question by question."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corewarding import config, extraction
from corewarding.backends.base import Actor, Backend, Sample, Sampling
from corewarding.data import Question
from corewarding.graderpool import GraderPool
from corewarding.grading import Grader
from corewarding.method import TRAINED_VIEWS, Needs
from corewarding.prompts import Prompter
from corewarding.seeding import derive_seed
from corewarding.types import Group, Item, Rollout, RolloutBatch

__all__ = ["AUDIT_STATISTICS", "Collected", "Collector", "policy_views", "teacher_views"]

AUDIT_STATISTICS = frozenset({"entropy"})
"""Drawn for every arm, because collapse shows in it; methods see it only if they declare it."""

_Key = tuple[str, str, str]  # (kind, uid, view)


@dataclass(frozen=True, slots=True)
class Collected:
    """One step's rollouts: for the methods (`batch`, unmasked) and for the update (`samples`)."""

    batch: RolloutBatch
    samples: Mapping[tuple[str, str], tuple[Sample, ...]]  # policy samples by (uid, view)
    generated_tokens: int
    rollout_counts: Mapping[str, int]
    """Rollouts by kind: policy, votes, teacher."""
    grading_seconds: float


def policy_views(needs: Needs, data: config.Data) -> list[str]:
    """Views that the policy answers and trains on: the run's own and those methods need."""
    return sorted(needs.views | set(data.views))


def teacher_views(needs: Needs, data: config.Data) -> list[str]:
    """Views that the teacher answers."""
    views = set(needs.teacher_views)
    if TRAINED_VIEWS in views:
        views = (views - {TRAINED_VIEWS}) | set(policy_views(needs, data))
    return sorted(views)


class Collector:
    """Makes the `RolloutBatch` of a step from questions."""

    def __init__(
        self,
        spec: config.RunSpec,
        needs: Needs,
        backend: Backend,
        prompter: Prompter,
        pool: GraderPool,
        total_steps: int,
    ) -> None:
        self._spec = spec
        self._needs = needs
        self._backend = backend
        self._prompter = prompter
        self._pool = pool
        self._total_steps = total_steps
        self._sampling = Sampling(
            temperature=spec.rollout.temperature,
            top_p=spec.rollout.top_p,
            max_new_tokens=spec.rollout.max_new_tokens,
            stop=tuple(spec.rollout.stop),
        )

    def collect(self, questions: Sequence[Question], *, step: int) -> Collected:
        """Draw and assemble everything that the arm's methods need for `step`."""
        uids = [f"{step}-{i}-{question.uid}" for i, question in enumerate(questions)]
        drawn: dict[_Key, tuple[str, list[Sample]]] = {}
        n, needs, data = self._spec.rollout.n, self._needs, self._spec.data
        views = policy_views(needs, data)
        drawn |= self._draw("policy", questions, uids, views, n, step)
        if needs.vote_rollouts:
            drawn |= self._draw("votes", questions, uids, views, needs.vote_rollouts, step)
        if needs.teacher_views:
            drawn |= self._draw("teacher", questions, uids, teacher_views(needs, data), n, step)
        started = time.perf_counter()
        items = self._items(questions, uids, drawn)
        return Collected(
            batch=RolloutBatch(
                items=items,
                step=step,
                total_steps=self._total_steps,
                seed=derive_seed(self._spec.seed, "method", step),
            ),
            samples={k[1:]: tuple(s) for k, (_, s) in drawn.items() if k[0] == "policy"},
            generated_tokens=sum(len(s.tokens) for _, group in drawn.values() for s in group),
            rollout_counts={
                kind: sum(len(group) for k, (_, group) in drawn.items() if k[0] == kind)
                for kind in ("policy", "votes", "teacher")
            },
            grading_seconds=time.perf_counter() - started,
        )

    def _draw(
        self,
        kind: str,
        questions: Sequence[Question],
        uids: Sequence[str],
        views: Sequence[str],
        n: int,
        step: int,
    ) -> dict[_Key, tuple[str, list[Sample]]]:
        """One engine call for all views of one kind, so that small batches are not split."""
        keys = [(kind, uid, view) for view in views for uid in uids]
        prompts = [self._prompter(q.views[view]) for view in views for q in questions]
        actor: Actor = "teacher" if kind == "teacher" else "policy"
        # Entropy is logged for the policy's trained rollouts only.
        statistics = self._needs.statistics | AUDIT_STATISTICS if kind == "policy" else frozenset()
        groups = self._backend.rollout(
            prompts,
            n,
            actor=actor,
            sampling=self._sampling,
            statistics=frozenset(statistics),
            seed=derive_seed(self._spec.seed, "rollout", kind, step),
        )
        return dict(zip(keys, zip(prompts, groups, strict=True), strict=True))

    def _items(
        self,
        questions: Sequence[Question],
        uids: Sequence[str],
        drawn: Mapping[_Key, tuple[str, list[Sample]]],
    ) -> tuple[Item, ...]:
        """Put each question's answers into classes, *then* compare the classes with the gold.

        The order matters: the gold answer's own spelling must not become a class's name, or it
        would leak to methods that must not see it.
        """
        style = self._spec.data.extraction
        raw = {
            key: [extraction.extract(s.text, style=style).answer for s in samples]
            for key, (_, samples) in drawn.items()
        }
        keys: dict[str, list[_Key]] = {uid: [] for uid in uids}
        for key in drawn:
            keys[key[1]].append(key)
        found = [
            list(dict.fromkeys(a for key in keys[uid] for a in raw[key] if a is not None))
            for uid in uids
        ]
        canonical = self._classes(found)
        verdicts = self._verdicts([question.label for question in questions], canonical)
        return tuple(
            _item(question, uid, {key: drawn[key] for key in keys[uid]}, raw, names, decided)
            for question, uid, names, decided in zip(
                questions, uids, canonical, verdicts, strict=True
            )
        )

    def _classes(self, items: Sequence[Sequence[str]]) -> list[dict[str, str]]:
        """Per question: answer → the name of its class."""
        if self._spec.data.equality == "string":
            return [{answer: answer for answer in answers} for answers in items]
        named = self._pool.classes_of_items(items)
        return [dict(zip(a, names, strict=True)) for a, names in zip(items, named, strict=True)]

    def _verdicts(
        self, labels: Sequence[str | None], canonical: Sequence[Mapping[str, str]]
    ) -> list[dict[str, bool | None]]:
        """Per question: class name → equal to the gold answer? None where there is none."""
        grader: Grader = "string" if self._spec.data.equality == "string" else "math"
        names = [sorted(set(classes.values())) for classes in canonical]
        pairs = [
            (label, name)
            for label, own in zip(labels, names, strict=True)
            if label is not None
            for name in own
        ]
        results = iter(self._pool.correct(pairs, grader=grader))
        return [
            {name: None if label is None else next(results).correct for name in own}
            for label, own in zip(labels, names, strict=True)
        ]


def _item(
    question: Question,
    uid: str,
    drawn: Mapping[_Key, tuple[str, list[Sample]]],
    raw: Mapping[_Key, Sequence[str | None]],
    canonical: Mapping[str, str],
    verdicts: Mapping[str, bool | None],
) -> Item:
    kinds: dict[str, dict[str, Group]] = {"policy": {}, "votes": {}, "teacher": {}}
    for key, (prompt, samples) in drawn.items():
        rollouts = tuple(
            Rollout(
                text=sample.text,
                tokens=sample.tokens,
                answer=None if answer is None else canonical[answer],
                raw_answer=answer,
                finished=sample.finished,
                stats=sample.stats,
            )
            for sample, answer in zip(samples, raw[key], strict=True)
        )
        kinds[key[0]][key[2]] = Group(uid=uid, view=key[2], prompt=prompt, rollouts=rollouts)
    return Item(uid=uid, label=question.label, verdicts=verdicts, columns=question.columns, **kinds)
