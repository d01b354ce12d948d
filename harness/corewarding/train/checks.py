"""Find out before a model loads whether a run can work: every failure at once, with a remedy."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from corewarding import config
from corewarding.config import RunSpec
from corewarding.data import Dataset
from corewarding.errors import NeedsError, PluginError
from corewarding.method import RewardMethod
from corewarding.registry import Registry, suggest
from corewarding.train.collect import policy_views, teacher_views
from corewarding.train.rewards import RewardEngine

__all__ = ["build_methods", "check_needs"]


def build_methods(spec: RunSpec, registry: Registry) -> list[tuple[config.Reward, RewardMethod]]:
    """Build the arm's methods with validated options.

    Raises:
        NeedsError: listing every unknown method and refused option of the arm.
    """
    methods, problems = [], []
    for index, reward in enumerate(spec.rewards):
        place = f"arms.{spec.arm}.rewards.{index}"
        try:
            methods.append((reward, registry.make(reward.method, reward.options)))
        except PluginError as error:
            problems.append(f"{place}.method: {error}")
        except ValidationError as error:
            options = registry.method(reward.method).method.options_type
            for detail in error.errors(include_url=False):
                key = ".".join(str(part) for part in detail["loc"])
                if detail["type"] == "extra_forbidden":
                    text = f"unknown option {key!r}{suggest(key, options.model_fields)}"
                else:
                    text = f"{key}: {detail['msg']}, got {detail['input']!r}"
                problems.append(f"{place}.options ({reward.method}): {text}")
    if problems:
        raise NeedsError("\n".join(problems))
    return methods


def check_needs(spec: RunSpec, engine: RewardEngine, dataset: Dataset, registry: Registry) -> None:
    """Compare what the arm's methods need with what the run offers.

    Raises:
        NeedsError: listing everything that is missing.
    """
    problems = [
        f"arm {spec.arm!r}: {problem}" for problem in _problems(spec, engine, dataset, registry)
    ]
    if problems:
        raise NeedsError("\n".join(problems))


def _problems(
    spec: RunSpec, engine: RewardEngine, dataset: Dataset, registry: Registry
) -> Iterator[str]:
    needs = engine.needs
    offered = dataset.questions[0].views
    for view in sorted({*policy_views(needs, spec.data), *teacher_views(needs, spec.data)}):
        if view not in offered:
            yield (
                f"view {view!r} is missing from data {spec.data.train!r} "
                f"(it offers {', '.join(sorted(offered))}); add a column {view!r} to its rows"
            )
    if spec.rollout.n < needs.min_rollouts:
        yield f"rollout.n is {spec.rollout.n}, the methods need at least {needs.min_rollouts}"
    for name in sorted(needs.statistics - registry.statistics.keys()):
        yield f"no plug-in offers the token statistic {name!r}{suggest(name, registry.statistics)}"
    if needs.labels and all(q.label is None for q in dataset.questions):
        yield f"data {spec.data.train!r} has no answers, and a method needs labels"
    teachers = [r.method for r, m in engine.methods if m.needs().teacher_views]
    if len(teachers) > 1:
        yield f"{' and '.join(teachers)} would both move the one teacher; keep one of them"
    if spec.train.kl.reference == "teacher" and not needs.teacher_views:
        yield "train.kl.reference is 'teacher' but no method of the arm has one; set it to 'auto'"
