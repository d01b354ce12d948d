"""The embedded base is trained once, cached whole or not at all, and an ordinary model folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from corewarding.embedded import problems
from corewarding.embedded.base import Recipe, base_model
from corewarding.errors import UserError

_SMALL = Recipe(
    hidden_size=32,
    layers=1,
    heads=1,
    mlp_size=32,
    batch_size=4,
    warmup_steps=2,
    decay_steps=4,
    max_steps=4,
    check_every=2,
    dev_count=4,
)
_TRAIN = f"""
import sys
from pathlib import Path
from corewarding.embedded.base import Recipe, base_model
def progress(step, loss):
    if step == 0:
        print("locked", flush=True)
        sys.stdin.readline()
base_model(0, cache=Path(sys.argv[1]), recipe={_SMALL!r}, on_progress=progress)
"""
_LOCK_AND_DIE = """
import fcntl, os, signal, sys, time
with open(sys.argv[1], "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.readline()
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base_model(0, cache=tmp_path_factory.mktemp("bases"), recipe=_SMALL)


def _record(folder: Path) -> dict[str, Any]:
    return json.loads((folder.parent / f"{folder.name}.json").read_text())


@contextmanager
def _child(code: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run code that takes the lock; yield while it holds it, and has been told to go on."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "locked\n"
        child.stdin.close()
        yield child


def test_the_folder_is_an_ordinary_model_folder(small: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(small)
    tokenizer = AutoTokenizer.from_pretrained(small)
    assert model.dtype == torch.float32
    assert model.config.tie_word_embeddings
    assert len(tokenizer) == model.config.vocab_size
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    text = problems("test", seed=0, count=1)[0].original + "\n41-3=38\n\\boxed{38}"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    batch = tokenizer(["Gus has 4 cups.", text], padding=True, return_tensors="pt")
    assert batch["input_ids"][0, 0] == tokenizer.pad_token_id
    assert model.generate(**batch, max_new_tokens=3).shape[0] == 2


def test_the_default_model_has_heads_of_32_and_two_tenths_of_a_million_parameters(
    tmp_path: Path,
) -> None:
    folder = base_model(0, cache=tmp_path, recipe=Recipe(max_steps=1, decay_steps=1, dev_count=2))
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.hidden_size // model.config.num_attention_heads == 32
    assert 150_000 < model.num_parameters() < 250_000


def test_training_lowers_the_loss(tmp_path: Path) -> None:
    losses: list[float] = []
    recipe = Recipe(
        hidden_size=32, layers=1, heads=1, mlp_size=32, max_steps=40, decay_steps=11, check_every=10
    )
    base_model(0, cache=tmp_path, recipe=recipe, on_progress=lambda _, loss: losses.append(loss))
    assert len(losses) == 6
    assert losses[-1] < 0.8 * losses[1]


def test_the_record_says_how_the_base_was_made(small: Path) -> None:
    record = _record(small)
    assert record["steps"] == _SMALL.max_steps + _SMALL.decay_steps
    assert record["recipe"]["hidden_size"] == 32
    assert record["versions"]["torch"] == torch.__version__
    assert 0 <= record["dev_accuracy"] <= 1


def test_a_second_call_reads_the_cache(small: Path) -> None:
    steps: list[int] = []
    again = base_model(
        0, cache=small.parent, recipe=_SMALL, on_progress=lambda step, _: steps.append(step)
    )
    assert (again, steps) == (small, [])


def test_the_same_seed_gives_the_same_bits_whatever_the_global_generator(
    small: Path, tmp_path: Path
) -> None:
    torch.manual_seed(12345)
    again = base_model(0, cache=tmp_path, recipe=_SMALL)
    weights = [(folder / "model.safetensors").read_bytes() for folder in (small, again)]
    assert weights[0] == weights[1]


def test_training_leaves_the_global_generator_and_the_thread_count_alone(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    base_model(7, cache=tmp_path, recipe=_SMALL)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == 1


def test_another_seed_or_recipe_is_another_base(small: Path) -> None:
    other_seed = base_model(1, cache=small.parent, recipe=_SMALL)
    other_recipe = base_model(0, cache=small.parent, recipe=replace(_SMALL, mlp_size=48))
    assert len({small, other_seed, other_recipe}) == 3
    weights = {f: (f / "model.safetensors").read_bytes() for f in (small, other_seed, other_recipe)}
    assert len(set(weights.values())) == 3


def test_the_cache_folder_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COREWARDING_CACHE", str(tmp_path / "new" / "folder"))
    assert base_model(0, recipe=_SMALL).parent == tmp_path / "new" / "folder"


def test_a_cache_folder_that_cannot_be_made_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file/bases.*COREWARDING_CACHE"):
        base_model(0, cache=tmp_path / "file" / "bases", recipe=_SMALL)


def test_a_failed_training_leaves_no_base_and_the_next_call_trains(tmp_path: Path) -> None:
    def stop(step: int, loss: float) -> None:
        if step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        base_model(0, cache=tmp_path, recipe=_SMALL, on_progress=stop)
    assert not any(path.is_dir() and path.name.startswith("base") for path in tmp_path.iterdir())
    assert (base_model(0, cache=tmp_path, recipe=_SMALL) / "model.safetensors").is_file()


def test_a_half_written_folder_is_not_taken_for_a_base(small: Path, tmp_path: Path) -> None:
    half = tmp_path / f".{small.name}.partial"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    (half / "stray").write_text("")
    folder = base_model(0, cache=tmp_path, recipe=_SMALL)
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in small.iterdir())
    assert (folder / "model.safetensors").stat().st_size > 1000
    assert not half.exists()


def test_two_processes_that_want_one_base_train_it_once(tmp_path: Path) -> None:
    steps: list[int] = []
    with _child(_TRAIN, tmp_path) as child:
        folder = base_model(
            0, cache=tmp_path, recipe=_SMALL, on_progress=lambda step, _: steps.append(step)
        )
    assert child.returncode == 0
    assert steps == []
    assert (folder / "model.safetensors").is_file()


def test_a_process_killed_while_it_holds_the_lock_blocks_nobody(
    small: Path, tmp_path: Path
) -> None:
    with _child(_LOCK_AND_DIE, tmp_path / f"{small.name}.lock") as child:
        folder = base_model(0, cache=tmp_path, recipe=_SMALL)
        assert child.wait(timeout=10) == -signal.SIGKILL
    assert (folder / "model.safetensors").is_file()


@pytest.mark.slow
def test_the_real_base_solves_about_half_of_the_dev_problems(tmp_path: Path) -> None:
    folder = base_model(0, cache=tmp_path)
    record = _record(folder)
    assert 0.35 <= record["dev_accuracy"] <= 0.65
