"""Get the embedded default's base model: trained once in about a minute, then read from a cache.

The model is a Llama of 0.19 M parameters that solves about half of the `dev` and `test` problems at
temperature 1. Import late: this module needs torch and transformers.

The thread count of torch is left as the caller has it; one thread is best for a model this small.
The same seed gives the same bits on one machine with one thread count, not across machines.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

import torch
from torch.nn import functional
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from corewarding.embedded.problems import Problem, problems, supervised
from corewarding.embedded.tokenizer import build_tokenizer
from corewarding.errors import UserError

__all__ = ["RECIPE_VERSION", "Recipe", "base_model"]

RECIPE_VERSION: Final = 1
"""Part of the cache key; raise it when problems, tokenizer or training code change."""

_LOGGER: Final = logging.getLogger(__name__)
_IGNORED: Final = -100


@dataclass(frozen=True, slots=True)
class Recipe:
    """Choose size and training of the base; every field is part of the cache key.

    Training runs at a constant rate until `target` is reached on `dev`, because the number of steps
    that a given accuracy takes varies with the seed; then the rate falls to 0 in `decay_steps`.
    """

    hidden_size: int = 64
    layers: int = 3
    heads: int = 2  # of size 32: vLLM on a CPU refuses 16 and 24
    mlp_size: int = 192
    initializer_range: float = 0.08  # with the usual 0.02 hardly anything is learned in this time
    rope_theta: float = 100.0  # texts have about 60 tokens; 10,000 takes a third more steps
    positions: int = 256
    batch_size: int = 16
    learning_rate: float = 2e-3
    beta2: float = 0.98
    max_gradient_norm: float = 1.0
    warmup_steps: int = 30
    decay_steps: int = 60
    max_steps: int = 1500  # decay begins here at the latest
    check_every: int = 25  # steps
    check_below: float = 0.2  # nats of smoothed training loss; above it dev accuracy is near 0
    dev_count: int = 128
    target: float = 0.25


_DEFAULT: Final = Recipe()


@dataclass(frozen=True, slots=True)
class _Batch:
    tokens: torch.Tensor  # (B, T) question, answer, end, padding
    labels: torch.Tensor  # (B, T) answer and end; elsewhere _IGNORED


def base_model(
    seed: int,
    *,
    cache: Path | None = None,
    recipe: Recipe = _DEFAULT,
    on_progress: Callable[[int, float], None] | None = None,
) -> Path:
    """Return the Hugging Face folder of the base with this seed, training it on first use.

    Args:
        seed: Seed of weights and training problems.
        cache: Folder to keep bases in; default `$COREWARDING_CACHE`, else `~/.cache/corewarding`.
        recipe: What to train.
        on_progress: Called every `recipe.check_every` steps with step and smoothed training loss.

    Two processes that want the same base train it once: the second waits. What a killed process
    leaves behind is neither taken for a base nor in the way of the next attempt. A JSON file of the
    same name beside the folder records recipe, steps, dev accuracy and library versions.

    Raises:
        UserError: The cache folder cannot be written.
    """
    root = cache or Path(os.environ.get("COREWARDING_CACHE") or Path.home() / ".cache/corewarding")
    identity = {"version": RECIPE_VERSION, "seed": seed, "recipe": asdict(recipe)}
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
    folder = root / f"base-v{RECIPE_VERSION}-seed{seed}-{digest}"
    if folder.is_dir():
        return folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = (root / f"{folder.name}.lock").open("w")
    except OSError as error:
        raise UserError(
            f"cannot write to the cache folder {root}: {error.strerror}. "
            "Set COREWARDING_CACHE to a folder that can be written."
        ) from error
    with lock, _locked(lock.fileno(), folder):
        if not folder.is_dir():
            partial = root / f".{folder.name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            record = _make(partial, seed=seed, recipe=recipe, on_progress=on_progress)
            # Beside and not inside: a fingerprint of the folder must not depend on seconds taken.
            beside = root / f"{folder.name}.json"
            beside.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
            partial.replace(folder)
    return folder


@contextmanager
def _locked(descriptor: int, folder: Path) -> Iterator[None]:
    """Hold an advisory lock, which the kernel releases if this process dies."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _LOGGER.info("another process is training %s; waiting for it", folder.name)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield


def _make(
    folder: Path, *, seed: int, recipe: Recipe, on_progress: Callable[[int, float], None] | None
) -> dict[str, object]:
    """Train a base, write its folder and return the record of how it was made."""
    tokenizer = build_tokenizer()
    cpu_start = time.process_time()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(_config(recipe, tokenizer))
    run = _Training(model, tokenizer, seed=seed, recipe=recipe)
    steps = run.run(on_progress)
    record: dict[str, object] = {
        "recipe_version": RECIPE_VERSION,
        "seed": seed,
        "recipe": asdict(recipe),
        "steps": steps,
        "dev_accuracy": round(run.dev_accuracy(), 4),
        "cpu_seconds": round(time.process_time() - cpu_start, 1),
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
        "versions": {name: version(name) for name in ("tokenizers", "torch", "transformers")},
    }
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _LOGGER.info("trained base %d: %s", seed, record)
    return record


def _config(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=recipe.hidden_size,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        intermediate_size=recipe.mlp_size,
        max_position_embeddings=recipe.positions,
        rope_parameters={"rope_type": "default", "rope_theta": recipe.rope_theta},
        initializer_range=recipe.initializer_range,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )


class _Training:
    """Supervised training on fresh problems, with the loss on the answers only."""

    def __init__(
        self,
        model: LlamaForCausalLM,
        tokenizer: PreTrainedTokenizerFast,
        *,
        seed: int,
        recipe: Recipe,
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._seed = seed
        self._recipe = recipe
        self._optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=recipe.learning_rate,
            betas=(0.9, recipe.beta2),
            weight_decay=0.0,
            fused=True,
        )
        self._dev = self._encode(problems("dev", seed=seed, count=recipe.dev_count))

    def run(self, on_progress: Callable[[int, float], None] | None) -> int:
        """Train until the stop rule ends it; return the number of steps."""
        recipe = self._recipe
        smoothed = float("inf")
        decay_from: int | None = None
        step = 0
        while decay_from is None or step < decay_from + recipe.decay_steps:
            if step % recipe.check_every == 0 and on_progress is not None:
                on_progress(step, smoothed)
            if decay_from is None and self._ready(step, smoothed):
                decay_from = step
            loss = self._step(step, rate=self._rate(step, decay_from))
            smoothed = loss if step == 0 else 0.97 * smoothed + 0.03 * loss
            step += 1
        return step

    def dev_accuracy(self) -> float:
        """Return the chance that a sample at temperature 1 is the worked solution, over `dev`.

        It is exact, so needs no sampling, and takes one forward pass. A right answer by another way
        does not count, so sampled accuracy is slightly higher.
        """
        with torch.no_grad():
            nll = self._nll(self._dev)
            rows = (self._dev.labels[:, 1:] != _IGNORED).nonzero()[:, 0]
            total = torch.zeros(len(self._dev.tokens)).index_add_(0, rows, nll)
        return float(torch.exp(-total).mean())

    def _ready(self, step: int, smoothed: float) -> bool:
        """Say whether the decay of the learning rate is to begin."""
        recipe = self._recipe
        if step >= recipe.max_steps:
            _LOGGER.warning("base %d: dev target not reached in %d steps", self._seed, step)
            return True
        if step % recipe.check_every or smoothed > recipe.check_below:
            return False
        return self.dev_accuracy() >= recipe.target

    def _rate(self, step: int, decay_from: int | None) -> float:
        recipe = self._recipe
        warm = min(1.0, (step + 1) / recipe.warmup_steps)
        left = 1.0 if decay_from is None else 1 - (step - decay_from) / recipe.decay_steps
        return recipe.learning_rate * warm * left

    def _step(self, step: int, *, rate: float) -> float:
        """Take one optimizer step on the next problems of the stream; return the loss in nats."""
        size = self._recipe.batch_size
        batch = self._encode(supervised(seed=self._seed, start=step * size, count=size))
        loss = self._nll(batch).mean()
        self._optimizer.param_groups[0]["lr"] = rate
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._recipe.max_gradient_norm)
        self._optimizer.step()
        return float(loss.detach())

    def _nll(self, batch: _Batch) -> torch.Tensor:
        """Return the negative log-likelihood of every label, row after row."""
        hidden = self._model.model(input_ids=batch.tokens[:, :-1], use_cache=False)
        targets = batch.labels[:, 1:]
        kept = targets != _IGNORED
        # Logits of the labels only: the output layer is an eighth of a step.
        logits = self._model.lm_head(hidden.last_hidden_state[kept])
        return functional.cross_entropy(logits, targets[kept], reduction="none")

    def _encode(self, batch: list[Problem]) -> _Batch:
        """Tokenize; pad on the right, where causal attention needs no mask."""
        questions = self._tokenizer([p.original for p in batch])["input_ids"]
        answers = self._tokenizer([p.worked for p in batch])["input_ids"]
        end = self._tokenizer.eos_token_id
        rows = [(q, [*a, end]) for q, a in zip(questions, answers, strict=True)]
        length = max(len(q) + len(a) for q, a in rows)
        tokens = torch.full((len(rows), length), end)
        labels = torch.full((len(rows), length), _IGNORED)
        for i, (question, answer) in enumerate(rows):
            row = torch.tensor(question + answer)
            tokens[i, : len(row)] = row
            labels[i, len(question) : len(row)] = row[len(question) :]
        return _Batch(tokens=tokens, labels=labels)
