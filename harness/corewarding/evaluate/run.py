"""Sample a model on benchmarks with lm-eval; keep every raw text in ``samples.jsonl``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from corewarding.backends.base import Backend
from corewarding.config import Eval
from corewarding.evaluate.suite import benchmarks, expand, folders
from corewarding.prompts import Prompter
from corewarding.registry import Registry
from corewarding.rundir import read_jsonl, text_sha256, write_atomic, write_json
from corewarding.seeding import derive_seed

__all__ = ["is_current", "sample"]

SCHEMA = 1


def sample(
    load_backend: Callable[[], Backend],
    prompter: Prompter,
    settings: Eval,
    *,
    model: str,
    seed: int,
    out: Callable[[str], Path],
    registry: Registry,
    progress: Callable[[str], None] = lambda task: None,
) -> list[str]:
    """Draw ``settings.n`` samples a question for every benchmark that lacks them.

    Args:
        load_backend: gives the engine with the weights to evaluate; called only if needed.
        prompter: formats questions exactly as training does.
        settings: suite, n and sampling settings.
        model: what the record calls the model.
        seed: sampling seed.
        out: benchmark name → folder for ``samples.jsonl`` and ``lm_eval.json``.
        registry: for benchmarks of plug-ins.
        progress: called with each benchmark's name before it is sampled.

    Returns:
        The benchmarks' names, groups expanded.
    """
    names = expand(settings.suite, benchmarks(registry))
    tasks = _load_tasks(names, settings, prompter, registry)
    backend: Backend | None = None
    for name in names:
        header = _header(name, tasks[name], settings, prompter, model=model, seed=seed)
        if is_current(out(name) / "samples.jsonl", header):
            continue
        progress(name)
        backend = backend or load_backend()
        _sample_task(name, tasks[name], backend, settings, header, out(name), seed)
    return names


def is_current(path: Path, header: Mapping[str, Any]) -> bool:
    """Tell whether a samples file was made under exactly these settings.

    The file is written at once and in whole, so its header vouches for the rest.
    """
    if not path.exists():
        return False
    return next(iter(read_jsonl(path)), None) == header


def _load_tasks(
    names: list[str], settings: Eval, prompter: Prompter, registry: Registry
) -> dict[str, Any]:
    from lm_eval.tasks import TaskManager

    # lm-eval warns about every custom data set and prompt; nothing in it concerns the user.
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    paths: list[str | Path] = [str(folder) for folder, _ in folders(registry)]
    tasks = TaskManager(include_path=paths, include_defaults=False).load(names)["tasks"]
    for task in tasks.values():
        config = task.config
        config.repeats = settings.n
        config.doc_to_text = lambda doc: prompter(doc["question"])
        # The pooled grader decides later, in killable workers.
        config.process_results = lambda doc, results: {"sampled": float(len(results[0]))}
        config.generation_kwargs = {
            **config.generation_kwargs,
            "do_sample": settings.temperature > 0,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "max_gen_toks": settings.max_new_tokens,
        }
    return dict(tasks)


def _header(
    name: str, task: Any, settings: Eval, prompter: Prompter, *, model: str, seed: int
) -> dict[str, Any]:
    import importlib.metadata

    docs = _docs(task, settings)
    rows = [text for doc in docs for text in (doc["id"], doc["question"], doc["answer"])]
    return {
        "schema": SCHEMA,
        "benchmark": name,
        "benchmark_version": task.config.metadata.get("version"),
        "model": model,
        "engine": "in-process",
        "n": settings.n,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_new_tokens": settings.max_new_tokens,
        "stop": list(task.config.generation_kwargs.get("until") or []),
        "seed": seed,
        "prompt": prompter.template.name,
        "prompt_sha256": prompter.sha256,
        "questions": len(docs),
        "questions_sha256": text_sha256(*rows),
        "lm_eval_version": importlib.metadata.version("lm_eval"),
    }


def _docs(task: Any, settings: Eval) -> list[dict[str, str]]:
    return list(task.eval_docs)[: settings.limit]


def _sample_task(
    name: str,
    task: Any,
    backend: Backend,
    settings: Eval,
    header: dict[str, Any],
    folder: Path,
    seed: int,
) -> None:
    import json

    from lm_eval import evaluator

    from corewarding.evaluate.lm import BackendLM

    lm = BackendLM(backend, seed=derive_seed(seed, "samples"))
    results = evaluator.evaluate(
        lm, {"tasks": {name: task}, "groups": {}}, limit=settings.limit, bootstrap_iters=0
    )
    lines = [header]
    for logged in results.pop("samples")[name]:
        doc, index = logged["doc"], logged["doc_id"]
        prompt_sha = text_sha256(logged["arguments"][0][0])
        for number, (text, drawn) in enumerate(
            zip(logged["resps"][0], lm.samples[(name, index)], strict=True)
        ):
            row = {"doc": doc["id"], "sample": number, "prompt_sha256": prompt_sha}
            if number == 0:
                row |= {"question": doc["question"], "gold": doc["answer"]}
            tokens = len(drawn.tokens)
            lines.append(row | {"text": text, "tokens": tokens, "finished": drawn.finished})
    write_json(folder / "lm_eval.json", json.loads(json.dumps(results, default=str)))
    write_atomic(
        folder / "samples.jsonl",
        "".join(json.dumps(line, ensure_ascii=True) + "\n" for line in lines),
    )
