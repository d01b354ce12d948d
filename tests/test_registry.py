from __future__ import annotations

import importlib.metadata
import types

import pytest

from corewarding import Needs, Options, RewardMethod, Scores, TokenStatistic, hookimpl
from corewarding.errors import PluginError
from corewarding.registry import Registry, Source, load_registry, suggest


class Good(RewardMethod):
    name = "good"

    def score(self, batch):
        return Scores()


def module(name="plugin", **members):
    made = types.ModuleType(name)
    for key, value in members.items():
        if isinstance(value, types.FunctionType):
            value.__module__ = name
        setattr(made, key, value)
    return made


def source(plugin="p", distribution="dist", version="1"):
    return Source(plugin, distribution, version)


def registering(*things):
    @hookimpl
    def register_reward_methods(register):
        for thing in things:
            register(thing)

    return register_reward_methods


def reason(*, hook=None, **members):
    registry = Registry()
    if hook is not None:
        members["register_reward_methods"] = hook
    registry.add(module(**members), source())
    assert registry.methods == {}
    (broken,) = registry.broken
    return broken.reason


def test_a_method_is_found_by_bare_and_by_qualified_name():
    registry = Registry()
    registry.add(module(register_reward_methods=registering(Good)), source())
    assert registry.method("good").method is Good
    assert registry.method("dist:good").source.version == "1"


def test_a_plugin_that_registers_one_method_and_then_fails_leaves_nothing():
    @hookimpl
    def register_reward_methods(register):
        register(Good)
        raise RuntimeError("half way")

    assert "RuntimeError: half way" in reason(hook=register_reward_methods)


def test_a_hook_without_its_marker_is_reported():
    def register_reward_methods(register):
        register(Good)

    assert "lacks the @corewarding.hookimpl marker" in reason(hook=register_reward_methods)


def test_a_misspelt_hook_is_reported_with_a_suggestion():
    @hookimpl
    def register_reward_method(register):
        register(Good)

    text = reason(register_reward_method=register_reward_method)
    assert "unknown hook 'register_reward_method'" in text
    assert "register_reward_methods" in text


def test_an_argument_hidden_behind_a_default_is_reported():
    @hookimpl
    def register_reward_methods(register, config=None):
        register(Good)

    assert "exactly one argument" in reason(hook=register_reward_methods)


class Abstract(RewardMethod):
    name = "abstract"


class Nameless(Good):
    pass


class Colon(Good):
    name = "a:b"


class BadOptions(Good):
    name = "bad-options"
    options_type = dict


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (Abstract, "does not define score"),
        (Nameless, "needs a class attribute name"),
        (Colon, "needs a class attribute name"),
        (BadOptions, "subclass of Options"),
        (Good(Options()), "wants a RewardMethod subclass"),
        (int, "wants a RewardMethod subclass"),
    ],
)
def test_what_is_not_a_method_is_reported(thing, text):
    assert text in reason(hook=registering(thing))


def test_a_module_without_hooks_and_an_object_are_reported():
    assert "no hook found" in reason()
    registry = Registry()
    registry.add(Good, source())
    assert "must name a module" in registry.broken[0].reason


def test_a_statistic_is_registered_and_a_clash_is_reported():
    @hookimpl
    def register_token_statistics(register):
        register(TokenStatistic("margin", lambda logits: logits[:, 0]))

    @hookimpl
    def clash(register):
        register(TokenStatistic("entropy", lambda logits: logits[:, 0]))

    registry = Registry()
    registry.add(module(register_token_statistics=register_token_statistics), source())
    assert "margin" in registry.statistics
    registry.add(module("other", register_token_statistics=clash), source("q", "other"))
    assert "entropy" in registry.broken[0].reason


def test_a_benchmark_folder_must_exist(tmp_path):
    @hookimpl
    def register_benchmarks(register):
        register(tmp_path)

    @hookimpl
    def missing(register):
        register(tmp_path / "missing")

    registry = Registry()
    registry.add(module(register_benchmarks=register_benchmarks), source())
    assert registry.benchmark_folders == [(tmp_path, source())]
    registry.add(module("other", register_benchmarks=missing), source("q"))
    assert "does not exist" in registry.broken[0].reason


def test_a_name_clash_names_both_packages_and_leaves_qualified_names_working():
    class Twin(RewardMethod):
        name = "good"

        def score(self, batch):
            return Scores()

    registry = Registry()
    registry.add(module(register_reward_methods=registering(Good)), source("a", "one"))
    registry.add(module("m2", register_reward_methods=registering(Twin)), source("b", "two", "2"))
    with pytest.raises(PluginError, match="one 1 and two 2; write one:good or two:good"):
        registry.method("good")
    assert registry.method("two:good").method is Twin


def test_the_same_plugin_found_twice_is_no_clash():
    registry = Registry()
    registry.add(module(register_reward_methods=registering(Good)), source("a", "one"))
    registry.add(module("m2", register_reward_methods=registering(Good)), source("b", "one"))
    assert registry.method("good").method is Good


def test_an_unknown_method_gets_a_suggestion():
    registry = Registry()
    registry.add(module(register_reward_methods=registering(Good)), source())
    with pytest.raises(PluginError, match=r"unknown method 'goood'\. Did you mean 'good'?"):
        registry.method("goood")
    assert suggest("zzz", ["alpha", "beta"]) == ". Known: alpha, beta"
    assert suggest("zzz", []) == ""


def test_options_are_validated_by_the_methods_own_model():
    from pydantic import ValidationError

    registry = load_registry()
    with pytest.raises(ValidationError):
        registry.make("majority-vote", {"tie": "coin"})
    assert registry.make("majority-vote", {}).needs() == Needs(min_rollouts=2)


def entry_point(name, value):
    return importlib.metadata.EntryPoint(name, value, "corewarding")


def test_an_import_error_is_listed_and_asking_for_the_method_gives_the_reason():
    points = [
        entry_point("gone", "no_such_module_anywhere"),
        entry_point("ground-truth", "corewarding_plugins.ground_truth"),
    ]
    registry = load_registry(points)
    assert "ground-truth" in registry.methods
    assert registry.broken[0].source.plugin == "gone"
    with pytest.raises(PluginError, match="is broken: ModuleNotFoundError"):
        registry.method("gone")


def test_plugins_can_be_skipped_by_an_environment_variable(monkeypatch):
    monkeypatch.setenv("COREWARDING_SKIP_PLUGINS", "entropy, controls")
    registry = load_registry()
    assert "entropy" not in registry.methods
    assert "random" not in registry.methods
    assert "ground-truth" in registry.methods
