"""``eval``: sample and grade a model or finished runs on benchmarks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corewarding.cli.options import Json, Runs, print_json, split
from corewarding.errors import DataError

if TYPE_CHECKING:
    from corewarding.config import RunSpec

__all__ = ["evaluate"]


def evaluate(
    target: Annotated[str, typer.Argument(metavar="MODEL|RUN", help="Hub id, folder or run.")],
    suite: Annotated[str | None, typer.Option(help="Benchmarks, comma-separated.")] = None,
    n: Annotated[int | None, typer.Option(min=1, help="Samples a question.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="0 is greedy.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1)] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="First so many questions.")] = None,
    grader: Annotated[str | None, typer.Option(help="math, math-verify or string.")] = None,
    prompt: Annotated[str, typer.Option(help="Prompt template, for a model.")] = "boxed-chat",
    dtype: Annotated[str, typer.Option(help="Precision, for a model.")] = "float32",
    seed: Annotated[int, typer.Option(help="Sampling seed, for a model.")] = 0,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Evaluate a model, or a finished run again with other settings; nothing is trained.

    Samples made under the same settings are not drawn again.
    """
    settings = {
        "suite": split(suite) or None,
        "n": n,
        "temperature": temperature,
        "max_new_tokens": max_new_tokens,
        "limit": limit,
        "grader": grader,
    }
    given = {key: value for key, value in settings.items() if value is not None}
    if (Path(target) / "run.json").is_file():
        root, spec = _spec_of_run(Path(target), given)
    else:
        root = runs
        spec = _spec_of_model(target, given, prompt=prompt, dtype=dtype, seed=seed, runs=runs)
    _execute(root, spec)
    rows = _summary(root, spec)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        name = f"avg@{row['n']}"
        typer.echo(
            f"{row['benchmark']}: {name} {row['accuracy']:.4f} "
            f"({row['questions']} questions; undecided {row['undecided']}, "
            f"truncated {row['truncated']})"
        )


def _spec_of_run(folder: Path, given: dict[str, Any]) -> tuple[Path, RunSpec]:
    import yaml

    from corewarding.config import RunSpec

    tree = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    tree["eval"] |= given
    spec = RunSpec.model_validate(tree)
    if spec.rewards and not (folder / "model" / "DONE").exists():
        raise DataError(f"{folder} is not trained to its end; finish it with corewarding compare")
    return folder.resolve().parent.parent.parent, spec


def _spec_of_model(
    target: str, given: dict[str, Any], *, prompt: str, dtype: str, seed: int, runs: Path
) -> RunSpec:
    from corewarding.config import BASE_ARM, Comparison
    from corewarding.configfile import dump, resolve
    from corewarding.rundir import write_atomic

    if "suite" not in given:
        raise DataError("--suite is missing; corewarding plugins lists the benchmarks")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", target).strip("-.") or "model"
    comparison = Comparison.model_validate(
        {
            "name": f"eval-{name}"[:80],
            "model": {"path": target, "dtype": dtype},
            "prompt": prompt,
            "eval": given,
            "arms": {},
            "seeds": [seed],
        }
    )
    write_atomic(runs / comparison.name / "comparison.yaml", dump(comparison))
    return resolve(comparison, arm=BASE_ARM, seed=seed)


def _execute(root: Path, spec: RunSpec) -> None:
    from corewarding.graderpool import GraderPool
    from corewarding.registry import load_registry
    from corewarding.runner import check, execute

    registry = load_registry()
    check(spec.model_copy(update={"rewards": []}), registry)
    with GraderPool() as pool:
        execute(spec, root, registry, listener=lambda event: None, pool=pool)


def _summary(root: Path, spec: RunSpec) -> list[dict[str, Any]]:
    from corewarding.evaluate.suite import benchmarks, expand
    from corewarding.registry import load_registry
    from corewarding.rundir import RunDir, read_jsonl

    run = RunDir.of(root, spec.comparison, spec.arm, spec.seed)
    rows = []
    for name in expand(spec.eval.suite, benchmarks(load_registry())):
        folder = run.evaluation("final", name)
        verdicts = [grade["correct"] for grade in read_jsonl(folder / "grades.jsonl")]
        samples = list(read_jsonl(folder / "samples.jsonl"))[1:]
        decided = [verdict for verdict in verdicts if verdict is not None]
        rows.append(
            {
                "benchmark": name,
                "n": spec.eval.n,
                "questions": len({sample["doc"] for sample in samples}),
                "accuracy": sum(decided) / len(decided) if decided else float("nan"),
                "undecided": len(verdicts) - len(decided),
                "truncated": sum(sample["finished"] is False for sample in samples),
                "folder": str(folder),
            }
        )
    return rows
