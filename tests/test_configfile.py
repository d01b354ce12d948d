from __future__ import annotations

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corewarding import resources
from corewarding.configfile import dump, load, resolve
from corewarding.errors import ConfigError

MINIMAL = """\
name: tiny
model: {path: embedded}
data: {train: embedded}
train: {steps: 2, questions_per_step: 2}
eval: {suite: [embedded_test]}
arms:
  mv:
    rewards: [{method: majority-vote}]
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="c.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def problems(path, **kwargs):
    with pytest.raises(ConfigError) as caught:
        load(path, **kwargs)
    return str(caught.value)


def test_a_minimal_file_gets_every_default(write):
    comparison = load(write(MINIMAL))
    assert comparison.rollout.n == 8
    assert comparison.train.learning_rate == 3e-6
    assert comparison.eval.ladder() == [1, 2, 4, 8]


def test_an_exponent_without_a_dot_is_a_number(write):
    text = MINIMAL.replace("steps: 2,", "steps: 2, learning_rate: 1e-6,")
    assert load(write(text)).train.learning_rate == 1e-6


def test_a_word_for_a_number_names_key_and_value(write):
    text = problems(write(MINIMAL.replace("steps: 2,", "steps: 2, learning_rate: fast,")))
    assert "c.yaml:4: train.learning_rate" in text
    assert "'fast'" in text


def test_a_misspelt_key_gets_line_and_suggestion(write):
    text = problems(write(MINIMAL.replace("steps: 2,", "steps: 2, learning_rat: 1e-5,")))
    assert "c.yaml:4: unknown key 'train.learning_rat'. Did you mean 'learning_rate'?" in text


def test_a_key_in_the_wrong_section_is_told_where_it_belongs(write):
    text = problems(write("learning_rate: 1e-5\n" + MINIMAL))
    assert "c.yaml:1: unknown key 'learning_rate'. It belongs under 'train'" in text
    text = problems(write(MINIMAL.replace("{path: embedded}", "{path: embedded, seeds: [1]}")))
    assert "'model.seeds'. It belongs at the top" in text


def test_a_misspelt_key_of_a_reward_is_found(write):
    text = problems(write(MINIMAL.replace("majority-vote}", "majority-vote, wieght: 2}")))
    assert "'arms.mv.rewards.0.wieght'. Did you mean 'weight'?" in text


def test_all_problems_come_at_once(write):
    text = problems(write("seedz: [1]\n" + MINIMAL.replace("steps: 2", "steps: none")))
    assert len(text.splitlines()) == 2


def test_a_missing_key_is_named(write):
    assert "the key 'name' is missing" in problems(write(MINIMAL.replace("name: tiny\n", "")))


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "", "-x", "a b", "x" * 81])
def test_names_that_would_leave_the_folder_are_refused(write, name):
    assert "name" in problems(write(MINIMAL.replace("name: tiny", f"name: '{name}'")))
    assert "arms" in problems(write(MINIMAL.replace("  mv:", f"  '{name}':")))


def test_the_second_of_two_equal_keys_is_refused(write):
    assert "c.yaml:2: the key 'name' occurs twice" in problems(write("name: other\n" + MINIMAL))


def test_aliases_are_refused_so_that_no_bomb_can_grow(write):
    text = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
    assert "aliases" in problems(write(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a\n", "expected a mapping"),
        ("a: [", "c.yaml"),
        ("? [1]\n: 2\n", "keys must be plain names"),
        ("a: !!python/object/apply:os.system [id]\n", "c.yaml:1"),
        ("", "expected a mapping"),
        ("[" * 5000, "c.yaml"),
    ],
)
def test_what_is_no_comparison_is_an_error_with_its_place(write, text, expected):
    assert expected in problems(write(text))


def test_missing_unreadable_and_huge_files_are_user_errors(write, tmp_path):
    assert "no such file" in problems(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff\xfe")
    assert "cannot be read" in problems(tmp_path / "latin.yaml")
    assert "larger than" in problems(write("# " + "x" * 1_100_000))


def test_a_file_extends_another_section_by_section_but_replaces_arms(write):
    write(MINIMAL, "base.yaml")
    child = write(
        "extends: base.yaml\nname: child\ntrain: {steps: 9}\n"
        "arms: {gt: {rewards: [{method: ground-truth}]}}\n"
    )
    comparison = load(child)
    assert comparison.name == "child"
    assert (comparison.train.steps, comparison.train.questions_per_step) == (9, 2)
    assert list(comparison.arms) == ["gt"]


def test_extending_in_a_chain_or_by_a_number_is_refused(write):
    write("extends: c.yaml\n" + MINIMAL, "base.yaml")
    assert "not in a chain" in problems(write("extends: base.yaml\nname: x\n"))
    assert "must be a file name" in problems(write("extends: 3\n" + MINIMAL))


def test_overrides_use_the_same_paths_as_the_errors(write):
    comparison = load(
        write(MINIMAL),
        overrides=["train.steps=7", "train.kl.coef=1e-3", "arms.mv.rewards.0.weight=2"],
    )
    assert comparison.train.steps == 7
    assert comparison.train.kl.coef == 1e-3
    assert comparison.arms["mv"].rewards[0].weight == 2


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("train.steps", "write key=value"),
        ("=3", "write key=value"),
        ("train.stepz=3", "Did you mean 'steps'?"),
        ("train.steps.x=3", "its parent is not a section"),
        ("arms.mv.rewards.5.weight=3", "cannot set"),
        ("name.x.y=3", "cannot set"),
        ("train.steps=[", "is not a YAML value"),
    ],
)
def test_bad_overrides_are_explained(write, override, expected):
    assert expected in problems(write(MINIMAL), overrides=[override])


def test_an_arms_overrides_apply_to_it_alone(write):
    text = MINIMAL + "    overrides: {train.learning_rate: 1e-3, rollout.n: 4}\n"
    comparison = load(write(text))
    run = resolve(comparison, arm="mv", seed=5)
    assert (run.train.learning_rate, run.rollout.n, run.seed) == (1e-3, 4, 5)
    assert resolve(comparison, arm="base", seed=5).train.learning_rate == 3e-6


def test_an_arms_wrong_override_is_named_with_the_arm(write):
    text = problems(write(MINIMAL + "    overrides: {train.learning_rat: 1}\n"))
    assert "arms.mv.overrides: unknown key 'train.learning_rat'" in text


def test_an_unknown_arm_gets_a_suggestion(write):
    with pytest.raises(ConfigError, match="unknown arm 'vm'"):
        resolve(load(write(MINIMAL)), arm="vm", seed=0)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("steps: 2, ", "", "exactly one of train.steps and train.epochs"),
        ("steps: 2", "steps: 2, epochs: 1", "exactly one"),
        ("steps: 2", "steps: 2, openrlhf: {a: 1}", "backend is 'local'"),
        ("steps: 2", "steps: 2, minibatch: 9", "larger than train.questions_per_step"),
        ("steps: 2", "steps: 2, kl: {reference: initial}", "no effect"),
        ("data: {train: embedded}\n", "data: {train: embedded}\nrollout: {n: 1}\n", "at least 2"),
        ("[embedded_test]", "[embedded_test], n: 4, k: [8]", "k=8 needs at least 8 samples"),
        ("  mv:", "  base:", "arms.base is the untrained model"),
        ("{train: embedded}", "{limit: 3}", "data.train is missing"),
        ("arms:", "seeds: [1, 1]\narms:", "distinct"),
        ("arms:", "seeds: []\narms:", "seeds"),
        ("{train: embedded}", "{train: embedded, views: []}", "at least one view"),
    ],
)
def test_contradictions_are_refused(write, old, new, expected):
    assert expected in problems(write(MINIMAL.replace(old, new)))


def test_a_resolved_run_survives_being_written_and_read(write):
    from corewarding.config import RunSpec

    run = resolve(load(write(MINIMAL)), arm="mv", seed=1)
    assert RunSpec.model_validate(yaml.safe_load(dump(run))) == run


@pytest.mark.parametrize("path", sorted(resources.folder("configs").glob("*.yaml")), ids=str)
def test_every_shipped_comparison_loads(path):
    load(path)


@given(st.text(max_size=200))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_comparison_or_a_config_error(write, text):
    path = write("")
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    with pytest.raises(ConfigError):
        load(path)
