"""``compare`` and ``train``: run a comparison, or one run of it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corewarding.cli.options import Config, Json, Runs, Set, find_config, print_json, split
from corewarding.errors import ConfigError

if TYPE_CHECKING:
    from corewarding.compare import Plan
    from corewarding.config import Comparison

__all__ = ["compare", "train"]

Arms = Annotated[str | None, typer.Option("--arms", help="Only these arms, comma-separated.")]
Seeds = Annotated[str | None, typer.Option("--seeds", help="Only these seeds, comma-separated.")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Runs side by side; default: one a core.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, print the plan, start nothing.")
]


def compare(
    config: Config,
    runs: Runs = Path("runs"),
    overrides: Set = None,
    arms: Arms = None,
    seeds: Seeds = None,
    workers: Workers = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Train and evaluate every arm with every seed, then write the report.

    Interrupted or killed, the same command goes on where it stopped.
    """
    from corewarding.compare import make_plan, run_all
    from corewarding.configfile import load
    from corewarding.registry import load_registry

    comparison = load(find_config(config), overrides=overrides or [])
    registry = load_registry()
    plan = make_plan(comparison, registry, arms=split(arms), seeds=_numbers(seeds))
    if dry_run:
        _print_plan(plan, as_json)
        return
    from corewarding.cli.progress import Display
    from corewarding.cli.report import write_and_print

    count = workers or _default_workers(comparison)
    with Display(plan, count, quiet=as_json) as display:
        outcomes = run_all(plan, runs, workers=count, listener=display.on_event)
    failed = [outcome for outcome in outcomes if outcome.error]
    for outcome in failed:
        message = f"{outcome.arm} seed {outcome.seed} failed: {outcome.error}"
        typer.echo(message, err=True)
    if len(failed) < len(outcomes):
        write_and_print(runs / comparison.name, None, as_json=as_json)
    if failed:
        raise typer.Exit(max(outcome.exit_code for outcome in failed))


def train(
    config: Config,
    arm: Annotated[str, typer.Option("--arm", help="Which arm.")],
    seed: Annotated[
        int | None, typer.Option("--seed", help="Which seed; default: the first.")
    ] = None,
    runs: Runs = Path("runs"),
    overrides: Set = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Do one run of a comparison: one arm with one seed."""
    from corewarding.compare import make_plan, run_all
    from corewarding.configfile import load
    from corewarding.registry import load_registry

    comparison = load(find_config(config), overrides=overrides or [])
    chosen = comparison.seeds[0] if seed is None else seed
    plan = make_plan(comparison, load_registry(), arms=[arm], seeds=[chosen])
    if dry_run:
        _print_plan(plan, as_json)
        return
    from corewarding.cli.progress import Display

    with Display(plan, 1, quiet=as_json) as display:
        (outcome,) = run_all(plan, runs, workers=1, listener=display.on_event)
    folder = runs / comparison.name / arm / f"seed-{chosen}"
    if as_json:
        print_json({"run": str(folder), "error": outcome.error})
    elif outcome.error is None:
        typer.echo(f"{folder}")
    if outcome.error:
        typer.echo(f"error: {outcome.error}", err=True)
        raise typer.Exit(outcome.exit_code)


def _numbers(text: str | None) -> list[int]:
    try:
        return [int(part) for part in split(text)]
    except ValueError:
        raise ConfigError(f"--seeds {text!r}: write whole numbers, for instance 0,1") from None


def _default_workers(comparison: Comparison) -> int:
    """One run a core on a CPU; one at a time where they would share a GPU."""
    on_gpu = comparison.model.device not in ("auto", "cpu") or (
        comparison.model.device == "auto" and shutil.which("nvidia-smi") is not None
    )
    return 1 if on_gpu else len(os.sched_getaffinity(0))


def _print_plan(plan: Plan, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "arm": run.spec.arm,
            "seed": run.spec.seed,
            "rewards": [
                (f"{reward.weight:g}·" if len(run.spec.rewards) > 1 else "") + reward.method
                for reward in run.spec.rewards
            ],
            "steps": run.steps,
            "questions": run.questions,
            "rollouts_per_step": run.rollouts_per_step,
            "dropped": run.dropped,
            "benchmarks": list(run.spec.eval.suite),
            "samples_per_question": run.spec.eval.n,
        }
        for run in plan.runs
    ]
    if as_json:
        print_json({"comparison": plan.comparison.name, "runs": rows})
        return
    _print_table(plan, rows)
    for note in sorted({f"{k}: {v}" for row in rows for k, v in row["dropped"].items()}):
        typer.echo(f"left out: {note}")


def _print_table(plan: Plan, rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    settings = plan.comparison
    seeds: dict[str, list[str]] = {}
    for row in rows:
        seeds.setdefault(row["arm"], []).append(str(row["seed"]))
    headings = ("arm", "reward", "seeds", "steps", "questions", "rollouts a step")
    table = Table(*headings, title=f"{settings.name}: {len(rows)} runs of {settings.model.path}")
    for row in {row["arm"]: row for row in rows}.values():
        table.add_row(
            row["arm"],
            " + ".join(row["rewards"]) or "evaluated only",
            ", ".join(seeds[row["arm"]]),
            *(str(row[key] or "–") for key in ("steps", "questions", "rollouts_per_step")),
        )
    Console(file=sys.stdout).print(table)
    names = ", ".join(rows[0]["benchmarks"])
    typer.echo(f"each is evaluated on {names}: {settings.eval.n} samples a question")
