"""From a configuration to a report on a real, tiny model; killed, resumed, refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from corewarding.compare import make_plan, run_all
from corewarding.configfile import dump, load, resolve
from corewarding.errors import MethodError, UserError
from corewarding.graderpool import GraderPool
from corewarding.registry import load_registry
from corewarding.rundir import RunDir, file_sha256, read_json, read_jsonl, write_atomic
from corewarding.runner import execute


@pytest.fixture
def write(tmp_path, tiny_model_folder):
    def write(arms, **changes):
        tree = {
            "name": "flow",
            "model": {"path": str(tiny_model_folder), "device": "cpu"},
            "data": {"train": "embedded", "limit": 8, "views": ["original", "rephrased"]},
            "prompt": "plain",
            "rollout": {"n": 4, "max_new_tokens": 12},
            "train": {
                "steps": 4,
                "questions_per_step": 2,
                "learning_rate": 1e-3,
                "warmup": 0.0,
                "save_every": 2,
            },
            "eval": {"suite": ["embedded_test"], "n": 2, "limit": 4, "max_new_tokens": 8},
            "arms": {name: {"rewards": rewards} for name, rewards in arms.items()},
        }
        for section, values in changes.items():
            tree[section] = {**tree[section], **values} if isinstance(values, dict) else values
        path = tmp_path / "flow.yaml"
        path.write_text(yaml.safe_dump(tree))
        return path

    return write


def one(method, **options):
    return [{"method": method, "options": options}]


def execute_all(path, root, registry=None):
    comparison = load(path)
    registry = registry or load_registry()
    write_atomic(root / comparison.name / "comparison.yaml", dump(comparison))
    events = []
    with GraderPool() as pool:
        for planned in make_plan(comparison, registry).runs:
            execute(planned.spec, root, registry, listener=events.append, pool=pool)
    return events


METHODS = {
    "ground-truth": {},
    "majority-vote": {"tie": "first", "extra_votes": 2},
    "self-certainty": {},
    "entropy": {},
    "co-rewarding-i": {"tie": "first"},
    "co-rewarding-ii": {"tie": "first"},
    "random": {},
    "constant": {},
    "format-only": {},
    "inverted": {},
}


def test_every_method_goes_from_configuration_to_report(write, tmp_path):
    from corewarding.report.render import write_report

    path = write({name: one(name, **options) for name, options in METHODS.items()})
    events = execute_all(path, tmp_path / "runs")
    assert sum(event.phase == "done" for event in events) == len(METHODS) + 1
    for name in METHODS:
        run = RunDir.of(tmp_path / "runs", "flow", name, 0)
        record = read_json(run.record)
        assert record["status"] == "done"
        assert record["steps_done"] == 4
        assert record["methods"][0]["distribution"] == "corewarding"
        assert record["budget"]["student_rollouts"] == 4 * 2 * 2 * 4
        assert len(list(read_jsonl(run.metrics))) == 4
        assert (run.model / "model.safetensors").exists()
        assert len(list(read_jsonl(run.evaluation("final", "embedded_test") / "grades.jsonl"))) == 8
    budget = read_json(RunDir.of(tmp_path / "runs", "flow", "co-rewarding-ii", 0).record)["budget"]
    assert budget["teacher_rollouts"] == budget["student_rollouts"]
    result = write_report(tmp_path / "runs/flow", tmp_path / "report")
    text = result.markdown.read_text()
    assert all(name in text for name in ["base", *METHODS])


def test_what_is_done_is_not_done_again(write, tmp_path):
    path = write({"gt": one("ground-truth")})
    execute_all(path, tmp_path / "runs")
    run = RunDir.of(tmp_path / "runs", "flow", "gt", 0)
    files = [run.metrics, run.model / "model.safetensors"]
    files.append(run.evaluation("final", "embedded_test") / "samples.jsonl")
    stamps = [file.stat().st_mtime_ns for file in files]
    execute_all(path, tmp_path / "runs")
    assert [file.stat().st_mtime_ns for file in files] == stamps
    assert len(read_json(run.record)["attempts"]) == 2


def test_a_run_with_other_settings_is_refused_with_the_differing_keys(write, tmp_path):
    execute_all(write({"gt": one("ground-truth")}), tmp_path / "runs")
    changed = write({"gt": one("ground-truth")}, train={"learning_rate": 0.5})
    with pytest.raises(UserError, match=r"settings\.train\.learning_rate: 0\.001 → 0\.5"):
        execute_all(changed, tmp_path / "runs")


def test_other_evaluation_settings_evaluate_again_without_training(write, tmp_path):
    execute_all(write({"gt": one("ground-truth")}), tmp_path / "runs")
    run = RunDir.of(tmp_path / "runs", "flow", "gt", 0)
    stamp = run.metrics.stat().st_mtime_ns
    execute_all(write({"gt": one("ground-truth")}, eval={"n": 3}), tmp_path / "runs")
    samples = run.evaluation("final", "embedded_test") / "samples.jsonl"
    assert next(read_jsonl(samples))["n"] == 3
    assert run.metrics.stat().st_mtime_ns == stamp


def test_equal_seeds_give_equal_bits_and_other_seeds_do_not(write, tmp_path):
    path = write({"coin": one("random")}, seeds=[0, 1])
    for name in ("a", "b"):
        execute_all(path, tmp_path / name)

    def files(name, seed):
        run = RunDir.of(tmp_path / name, "flow", "coin", seed)
        samples = run.evaluation("final", "embedded_test") / "samples.jsonl"
        return [file_sha256(p) for p in (run.metrics, run.model / "model.safetensors", samples)]

    assert files("a", 0) == files("b", 0)
    assert not set(files("a", 0)) & set(files("a", 1))


def train(path, runs, *, kill_at=None):
    """Run one arm by the command; kill that process once so many steps are logged."""
    command = [sys.executable, "-m", "corewarding", "train", str(path), "--arm", "ii"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([*command, "--runs", str(runs)], env=environment)
    metrics = RunDir.of(runs, "flow", "ii", 0).metrics
    while kill_at is not None and process.poll() is None:
        if metrics.exists() and metrics.read_text().count("\n") >= kill_at:
            process.kill()
            break
        time.sleep(0.005)
    return process.wait(timeout=120)


def wait_until_free(run):
    """The killed command's worker ends by itself within a second or so."""
    for _ in range(200):
        try:
            with run.locked():
                return
        except UserError:
            time.sleep(0.1)
    raise AssertionError("a worker outlived the command that started it")


def test_killed_between_checkpoints_and_restarted_gives_the_same_bits(write, tmp_path):
    path = write(
        {"ii": one("co-rewarding-ii", tie="first", policy_weight_start=0.3)},
        train={"steps": 60, "save_every": 7, "kl": {"coef": 0.01}},
    )
    assert train(path, tmp_path / "whole") == 0
    assert train(path, tmp_path / "killed", kill_at=10) == -signal.SIGKILL
    killed = RunDir.of(tmp_path / "killed", "flow", "ii", 0)
    wait_until_free(killed)
    step, _ = killed.latest_checkpoint()
    assert 7 <= step < 60
    assert not killed.model.exists()
    assert train(path, tmp_path / "killed") == 0
    assert read_json(killed.record)["attempts"][-1]["resumed_from_step"] == step
    whole = RunDir.of(tmp_path / "whole", "flow", "ii", 0)
    for name in ("metrics.jsonl", "model/model.safetensors", "rollouts/step-000060.jsonl.gz"):
        assert file_sha256(whole.path / name) == file_sha256(killed.path / name), name
    samples = "eval/final/embedded_test/samples.jsonl"
    assert file_sha256(whole.path / samples) == file_sha256(killed.path / samples)


def test_workers_run_side_by_side_and_a_failing_arm_does_not_stop_the_others(write, tmp_path):
    path = write({"gt": one("ground-truth"), "mv": one("majority-vote")}, seeds=[0])
    comparison = load(path)
    plan = make_plan(comparison, load_registry())
    # A folder in place of a file makes one run fail, as a full or broken disk would.
    RunDir.of(tmp_path / "runs", "flow", "gt", 0).metrics.mkdir(parents=True)
    events = []
    outcomes = run_all(plan, tmp_path / "runs", workers=2, listener=events.append)
    errors = {outcome.arm: outcome.error for outcome in outcomes}
    assert errors["base"] is None
    assert errors["mv"] is None
    assert "metrics.jsonl: cannot be read" in errors["gt"]
    assert read_json(tmp_path / "runs/flow/gt/seed-0/run.json")["status"] == "failed"
    assert {event.phase for event in events} >= {"train", "eval", "grade", "done", "failed"}


def test_a_worker_that_dies_fails_its_run_and_is_replaced(write, tmp_path):
    path = write({"gt": one("ground-truth"), "mv": one("majority-vote")}, train={"steps": 30})
    plan = make_plan(load(path), load_registry(), arms=["gt", "mv"])
    killed = []

    def listener(event):
        if event.arm == "gt" and event.phase == "train" and not killed:
            (worker,) = multiprocessing.active_children()
            worker.kill()
            killed.append(worker.pid)

    outcomes = run_all(plan, tmp_path / "runs", workers=1, listener=listener)
    errors = {outcome.arm: outcome.error for outcome in outcomes}
    assert killed
    assert "process ended with exit code -9" in errors["gt"]
    assert errors["mv"] is None


def test_a_method_that_breaks_its_contract_fails_the_run_with_its_name(write, tmp_path):
    from corewarding import RewardMethod, Scores
    from corewarding.registry import MethodEntry, Source

    class Forgetful(RewardMethod):
        name = "forgetful"

        def score(self, batch):
            return Scores()

    registry = load_registry()
    registry.methods["forgetful"] = [MethodEntry(Forgetful, Source("p", "d", "1"))]
    with pytest.raises(MethodError, match="forgetful"):
        execute_all(write({"f": one("forgetful")}), tmp_path / "runs", registry)
    record = read_json(tmp_path / "runs/flow/f/seed-0/run.json")
    assert record["status"] == "failed"
    assert "forgetful" in record["error"]


def test_prompts_over_the_limit_are_counted_in_the_record(write, tmp_path):
    path = write({"gt": one("ground-truth")}, rollout={"max_prompt_tokens": 120})
    execute_all(path, tmp_path / "runs")
    recorded = read_json(tmp_path / "runs/flow/gt/seed-0/run.json")["data"]
    assert recorded["questions"] + sum(recorded["dropped"].values()) == 8


def test_each_arms_overrides_reach_its_run(write, tmp_path):
    path = write({"gt": one("ground-truth")})
    tree = yaml.safe_load(path.read_text())
    tree["arms"]["gt"]["overrides"] = {"train.steps": 2}
    path.write_text(yaml.safe_dump(tree))
    assert resolve(load(path), arm="gt", seed=0).train.steps == 2
    execute_all(path, tmp_path / "runs")
    assert read_json(tmp_path / "runs/flow/gt/seed-0/run.json")["steps_done"] == 2


def command(*arguments, cwd):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "corewarding", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        timeout=180,
    )


def test_the_command_compares_reports_and_evaluates_again(write, tmp_path):
    path = write({"gt": one("ground-truth")})
    result = command("compare", str(path), "--workers", "1", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "ground-truth" not in result.stderr.lower() or "error" not in result.stderr.lower()
    assert (tmp_path / "runs/flow/report/report.html").exists()
    assert "gt:" in result.stdout
    run = "runs/flow/gt/seed-0"
    again = command("eval", run, "--n", "1", "--grader", "string", "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    (row,) = json.loads(again.stdout)
    assert (row["benchmark"], row["n"], row["questions"]) == ("embedded_test", 1, 4)
    model = command(
        "eval", f"{run}/model", "--suite", "embedded_test", "--n", "1", "--limit", "3",
        "--prompt", "plain", "--max-new-tokens", "5", cwd=tmp_path,
    )  # fmt: skip
    assert model.returncode == 0, model.stderr
    assert "embedded_test: avg@1" in model.stdout
    report = command("report", "runs/flow", "-o", "elsewhere", "--json", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    assert (tmp_path / "elsewhere/report.md").exists()


def test_evaluating_an_unfinished_run_is_refused(write, tmp_path):
    run = tmp_path / "runs/flow/gt/seed-0"
    execute_all(write({"gt": one("ground-truth")}), tmp_path / "runs")
    (run / "model/DONE").unlink()
    result = command("eval", str(run), cwd=tmp_path)
    assert result.returncode == 2
    assert "is not trained to its end" in result.stderr
