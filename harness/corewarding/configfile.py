"""Read a comparison file: every problem at once, each with file, line, key and suggestion.

comparison = load(Path("configs/quickstart.yaml"), overrides=["train.steps=10"])
run = resolve(comparison, arm="majority-vote", seed=0)
"""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from corewarding import config
from corewarding.config import Comparison, RunSpec
from corewarding.errors import ConfigError

__all__ = ["dump", "load", "resolve"]

Path_ = tuple[str | int, ...]
_MAX_BYTES = 1_000_000
_SECTIONS: dict[str, type[BaseModel]] = {
    "model": config.Model,
    "data": config.Data,
    "rollout": config.Rollout,
    "train": config.Train,
    "train.kl": config.KL,
    "eval": config.Eval,
    "arms.<name>": config.Arm,
    "arms.<name>.rewards.0": config.Reward,
}


class _Loader(yaml.SafeLoader):
    """PyYAML that reads ``1e-5`` as a number, refuses duplicate keys and aliases."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML's stub
            raise yaml.composer.ComposerError(
                None, None, "aliases (*name) are not supported", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int):
                raise yaml.constructor.ConstructorError(
                    None, None, f"keys must be plain names, got {key!r}", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} occurs twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.1 wants a dot in a float; people write 1e-6.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*)(\.[\d_]*)?[eE][-+]?\d+$"),
    list("-+0123456789"),
)


def load(path: Path, *, overrides: Sequence[str] = ()) -> Comparison:
    """Read, extend, override and validate the comparison file `path`.

    Args:
        path: a YAML file; its key ``extends: other.yaml`` (relative to it) is applied first.
        overrides: ``dotted.key=value`` strings as ``--set`` takes them; values are YAML.

    Raises:
        ConfigError: listing every problem, one a line.
    """
    tree, lines = _read(path)
    parent = tree.pop("extends", None)
    if parent is not None:
        if not isinstance(parent, str):
            raise ConfigError(f"{path}: extends must be a file name, got {parent!r}")
        base, _ = _read(path.parent / parent)
        if "extends" in base:
            raise ConfigError(f"{path.parent / parent}: extends may be used once, not in a chain")
        tree = _merge(base, tree)
    for override in overrides:
        _set(tree, *_parse_override(override))
    try:
        comparison = Comparison.model_validate(tree)
    except ValidationError as error:
        raise ConfigError("\n".join(_messages(error, tree, path, lines))) from None
    problems = list(_contradictions(comparison))
    for name in comparison.arms:
        try:
            resolve(comparison, arm=name, seed=comparison.seeds[0])
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems))
    return comparison


def resolve(comparison: Comparison, *, arm: str, seed: int) -> RunSpec:
    """Return the settings of one run, with the arm's overrides applied.

    Raises:
        ConfigError: an override names an unknown key or a wrong value, or `arm` is unknown.
    """
    if arm == config.BASE_ARM and arm not in comparison.arms:
        chosen = config.Arm()
    elif arm in comparison.arms:
        chosen = comparison.arms[arm]
    else:
        raise ConfigError(f"unknown arm {arm!r}{_suggest(arm, comparison.arms)}")
    tree = comparison.model_dump(include={"model", "data", "rollout", "train", "eval"})
    tree["prompt"] = comparison.prompt
    for key, value in chosen.overrides.items():
        _set(tree, tuple(key.split(".")), value)
    tree |= {"comparison": comparison.name, "arm": arm, "seed": seed}
    tree["rewards"] = [reward.model_dump() for reward in chosen.rewards]
    try:
        return RunSpec.model_validate(tree)
    except ValidationError as error:
        messages = _messages(error, tree, None, {})
        raise ConfigError("\n".join(f"arms.{arm}.overrides: {m}" for m in messages)) from None


def dump(settings: BaseModel) -> str:
    """Return settings as YAML text that `load` would read again."""
    return yaml.safe_dump(
        settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=100
    )


def _contradictions(comparison: Comparison) -> Iterator[str]:
    """Settings that are each valid and together meaningless."""
    train, rollout = comparison.train, comparison.rollout
    trained = [name for name, arm in comparison.arms.items() if arm.rewards]
    if trained and (train.steps is None) == (train.epochs is None):
        yield "give exactly one of train.steps and train.epochs"
    if train.openrlhf and train.backend != "openrlhf":
        yield "train.openrlhf is set but train.backend is 'local'; remove it or change the backend"
    if trained and comparison.data.train is None:
        yield "data.train is missing: the arms with rewards need a training set"
    if trained and rollout.n < 2:
        yield "rollout.n must be at least 2: advantages are relative to the group"
    if train.minibatch and train.minibatch > train.questions_per_step:
        yield "train.minibatch is larger than train.questions_per_step"
    if train.kl.reference != "auto" and train.kl.coef == 0:
        yield f"train.kl.reference is {train.kl.reference!r} but train.kl.coef is 0: no effect"
    for k in comparison.eval.k or []:
        if k > comparison.eval.n:
            yield f"eval.k: k={k} needs at least {k} samples, eval.n is {comparison.eval.n}"
    if config.BASE_ARM in comparison.arms and comparison.arms[config.BASE_ARM].rewards:
        yield "arms.base is the untrained model; give the trained arm another name"


def _read(path: Path) -> tuple[dict[str, Any], dict[Path_, int]]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"{path}: larger than {_MAX_BYTES} bytes; not a comparison file")
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=_Loader)
        tree = yaml.load(text, Loader=_Loader)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{place}: {error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected a mapping of keys, got {type(tree).__name__}")
    lines: dict[Path_, int] = {}
    if node is not None:
        _collect_lines(node, (), lines)
    return tree, lines


def _collect_lines(node: yaml.Node, path: Path_, lines: dict[Path_, int]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            lines[(*path, key.value)] = key.start_mark.line + 1
            _collect_lines(value, (*path, key.value), lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            lines[(*path, index)] = value.start_mark.line + 1
            _collect_lines(value, (*path, index), lines)


def _merge(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of `top` win; sections are merged, but ``arms`` is replaced as a whole."""
    merged = dict(base)
    for key, value in top.items():
        old = merged.get(key)
        if key != "arms" and isinstance(old, dict) and isinstance(value, dict):
            merged[key] = _merge(old, value)
        else:
            merged[key] = value
    return merged


def _parse_override(text: str) -> tuple[tuple[str, ...], Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text!r}: write key=value, for instance train.steps=10")
    try:
        return tuple(key.strip().split(".")), yaml.load(value, Loader=_Loader)
    except yaml.YAMLError:
        raise ConfigError(f"--set {text!r}: {value!r} is not a YAML value") from None


def _set(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    place: Any = tree
    for index, key in enumerate(path[:-1]):
        if isinstance(place, list) and key.isdigit() and int(key) < len(place):
            place = place[int(key)]
        elif isinstance(place, dict):
            place = place.setdefault(key, {})
            if place is None:
                raise ConfigError(
                    f"cannot set {'.'.join(path)}: {'.'.join(path[: index + 1])} is empty"
                )
        else:
            raise ConfigError(f"cannot set {'.'.join(path)}: {'.'.join(path[:index])} has no keys")
    if isinstance(place, list) and path[-1].isdigit() and int(path[-1]) < len(place):
        place[int(path[-1])] = copy.deepcopy(value)
    elif isinstance(place, dict):
        place[path[-1]] = copy.deepcopy(value)
    else:
        raise ConfigError(f"cannot set {'.'.join(path)}: its parent is not a section")


def _messages(
    error: ValidationError, tree: Mapping[str, Any], path: Path | None, lines: Mapping[Path_, int]
) -> list[str]:
    messages = []
    for detail in error.errors(include_url=False):
        location = tuple(part for part in detail["loc"] if part != "[key]")
        line = next(
            (
                lines[location[:end]]
                for end in range(len(location), 0, -1)
                if location[:end] in lines
            ),
            None,
        )
        dotted = ".".join(str(part) for part in location)
        if detail["type"] == "extra_forbidden":
            text = f"unknown key {dotted!r}{_hint(location)}"
        elif detail["type"] == "missing":
            text = f"the key {dotted!r} is missing"
        elif detail["type"] == "string_pattern_mismatch":
            text = (
                f"{dotted}: {detail['input']!r} is not a name; use letters, digits, '.', '_', '-' "
                "and begin with a letter or digit"
            )
        else:
            text = (
                f"{dotted}: {detail['msg'].removeprefix('Value error, ')}, got {detail['input']!r}"
            )
        place = "" if path is None else f"{path}:{line}: " if line else f"{path}: "
        messages.append(place + text)
    return messages


def _hint(location: Path_) -> str:
    """What an unknown key may have been meant to be: a near name here, or a key elsewhere."""
    key = str(location[-1])
    section = ".".join(str(part) for part in location[:-1])
    section = re.sub(r"^arms\.[^.]+", "arms.<name>", section)
    section = re.sub(r"rewards\.\d+$", "rewards.0", section)
    known = _SECTIONS.get(section, Comparison if not section else None)
    names = list(known.model_fields) if known else []
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
    if close:
        return f". Did you mean {close[0]!r}?"
    everywhere: dict[str, type[BaseModel]] = {**_SECTIONS, "": Comparison}
    for other, model in everywhere.items():
        if key in model.model_fields:
            place = (
                f"under {other.replace('.rewards.0', '.rewards[…]')!r}" if other else "at the top"
            )
            return f". It belongs {place}"
    return _suggest(key, names)


def _suggest(name: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    if close:
        return f". Did you mean {close[0]!r}?"
    return f". Known: {', '.join(sorted(known))}" if known else ""
