"""The command line as a user meets it: real processes, exit codes, messages."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def corewarding(*arguments, stdin=None, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "corewarding", *arguments],
        capture_output=True,
        text=True,
        input=stdin,
        cwd=cwd,
        timeout=120,
    )


def config(**changes):
    tree = {
        "name": "tiny",
        "model": {"path": "embedded"},
        "data": {"train": "embedded"},
        "prompt": "plain",
        "train": {"steps": 2, "questions_per_step": 2},
        "eval": {"suite": ["embedded_test"]},
        "arms": {"mv": {"rewards": [{"method": "majority-vote"}]}},
    }
    return {**tree, **changes}


@pytest.fixture
def write(tmp_path):
    def write(tree):
        path = tmp_path / "c.yaml"
        path.write_text(json.dumps(tree))
        return str(path)

    return write


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nsys.argv = ['corewarding', '--help']\n"
        "from corewarding.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'pandas', 'lm_eval', 'numpy', 'pydantic', 'transformers'}\n"
        "print('heavy:', sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "heavy: []" in result.stdout
    assert "compare" in result.stdout


def test_version_and_no_arguments():
    assert corewarding("--version").stdout.strip() == "0.1.0"
    assert "Usage" in corewarding().stdout + corewarding().stderr


def test_an_unknown_verb_exits_with_two():
    assert corewarding("comparee").returncode == 2


def test_plugins_lists_all_methods_with_package_and_options():
    listing = json.loads(corewarding("plugins", "--json").stdout)
    methods = {row["name"]: row for row in listing["methods"]}
    assert len(methods) == 10
    assert methods["co-rewarding-ii"]["package"].startswith("corewarding ")
    assert "EMA decay" in methods["co-rewarding-ii"]["options"]["policy_weight_start"]["about"]
    assert listing["broken"] == []
    assert "gsm8k" in {row["name"] for row in listing["benchmarks"]}


def test_plugins_shows_one_method_with_its_equation():
    result = corewarding("plugins", "majority-vote")
    assert "vote(a(y_1)" in result.stdout
    assert "extra_votes" in result.stdout
    missing = corewarding("plugins", "majority-vot")
    assert missing.returncode == 2
    assert "Did you mean 'majority-vote'?" in missing.stderr


def test_a_dry_run_prints_the_plan_and_starts_nothing(write, tmp_path):
    result = corewarding("compare", write(config()), "--dry-run", "--json", cwd=tmp_path)
    plan = json.loads(result.stdout)
    assert [(row["arm"], row["steps"]) for row in plan["runs"]] == [("base", 0), ("mv", 2)]
    assert plan["runs"][1]["rollouts_per_step"] == 16
    assert not (tmp_path / "runs").exists()
    table = corewarding("compare", write(config()), "--dry-run", cwd=tmp_path)
    assert "majority-vote" in table.stdout


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trian": {}}, "Did you mean 'train'?"),
        ({"arms": {"mv": {"rewards": [{"method": "majority-vot"}]}}}, "Did you mean"),
        ({"data": {"train": "embedded", "views": ["french"]}}, "view 'french' is missing"),
        ({"eval": {"suite": ["math501"]}}, "unknown benchmark 'math501'"),
        ({"data": {"train": "no-such-set"}}, "unknown training set 'no-such-set'"),
    ],
)
def test_a_wrong_request_is_one_message_with_a_remedy_and_exit_code_two(write, changes, message):
    result = corewarding("compare", write(config(**changes)), "--dry-run")
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_missing_engine_is_exit_code_three(write, tmp_path):
    tree = config(train={"steps": 2, "questions_per_step": 2, "backend": "openrlhf"})
    result = corewarding("compare", write(tree), "--dry-run")
    assert result.returncode == 3
    assert "pip install 'corewarding[openrlhf]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_all_problems_of_all_arms_come_at_once(write):
    arms = {
        "a": {"rewards": [{"method": "nope"}]},
        "b": {"rewards": [{"method": "majority-vote", "options": {"tie": "coin"}}]},
    }
    result = corewarding("compare", write(config(arms=arms)), "--dry-run")
    assert "arms.a.rewards.0.method" in result.stderr
    assert "arms.b.rewards.0.options" in result.stderr


def test_doctor_reports_the_environment_and_a_comparisons_problems(write):
    findings = json.loads(corewarding("doctor", "--json").stdout)
    assert any("reward methods" in finding["what"] for finding in findings)
    result = corewarding("doctor", write(config(trian={})))
    assert result.returncode == 2
    assert "PROBLEM" in result.stdout


def test_grade_prints_one_verdict_a_line_in_order():
    rows = [
        {"gold": "7", "response": "so \\boxed{7}"},
        {"gold": 8, "response": "so \\boxed{7}"},
        {"gold": "\\frac12", "response": "\\boxed{0.5}"},
        {"gold": "C", "response": "\\boxed{\\text{(C)}}"},
        {"gold": "63", "response": "#### 63"},
        {"gold": "7", "response": "no idea"},
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    result = corewarding("grade", "-", stdin=lines)
    verdicts = [json.loads(line) for line in result.stdout.splitlines()]
    assert [v["correct"] for v in verdicts] == [True, False, True, True, True, False]
    assert verdicts[0]["extracted"] == "7"
    assert verdicts[5]["reason"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "expected"),
        ('{"gold": "1"}', "expected"),
        ('{"gold": [1], "response": "x"}', "must be text"),
    ],
)
def test_grade_names_the_line_it_cannot_read(tmp_path, line, message):
    path = tmp_path / "g.jsonl"
    path.write_text('{"gold": "1", "response": "1"}\n' + line + "\n")
    result = corewarding("grade", str(path))
    assert result.returncode == 2
    assert "g.jsonl:2" in result.stderr
    assert message in result.stderr


def test_grade_refuses_unknown_styles_and_missing_files(tmp_path):
    assert "choose from" in corewarding("grade", "-", "--style", "x", stdin="").stderr
    assert corewarding("grade", str(tmp_path / "none")).returncode == 2


def test_report_of_a_folder_without_a_comparison_is_a_user_error(tmp_path):
    result = corewarding("report", str(tmp_path))
    assert result.returncode == 2
    assert "comparison.yaml is missing" in result.stderr


def test_an_unknown_configuration_lists_the_shipped_ones():
    result = corewarding("compare", "nope.yaml")
    assert result.returncode == 2
    assert "quickstart" in result.stderr


def test_a_bad_seed_list_is_explained(write):
    result = corewarding("compare", write(config()), "--dry-run", "--seeds", "a")
    assert result.returncode == 2
    assert "whole numbers" in result.stderr
