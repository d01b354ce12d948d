"""The local engine: one process, transformers and torch, on a CPU or one GPU.

Memory: weights in ``model.dtype``; below float32 also float32 master weights, as updates of 1e-6
vanish in bfloat16. AdamW keeps two float32 copies, a teacher one (and its working copy below
float32), a KL term to the initial model one. A backend that only samples has the weights alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from corewarding import config
from corewarding.backends.base import Actor, Sample, Sampling, TrainGroup
from corewarding.backends.cache import keeps_everything
from corewarding.backends.loading import end_ids, load_model
from corewarding.backends.loss import k3, row_weights, surrogate
from corewarding.backends.sampler import Sampler
from corewarding.backends.schedule import learning_rate
from corewarding.backends.scoring import Row, micro_batches, response_logprobs
from corewarding.backends.weights import (
    contiguous,
    copy_into,
    deterministic,
    float32_weights,
    frozen_copy,
    load_optimizer_state,
    optimizer_state,
    write_back,
)
from corewarding.errors import DataError, EnvironmentProblem
from corewarding.method import KLReference
from corewarding.tokenstats import TokenStatistic

__all__ = ["LocalBackend"]


class LocalBackend:
    """Samples from and trains one model; see `corewarding.backends.base.Backend`.

    Args:
        model: dtype, device, attention and revision.
        path: folder or Hub id.
        train: optimiser and loss settings.
        rollout_temperature: divides the logits of the loss, as in sampling.
        max_new_tokens: of training rollouts; the divisor of ``loss_mean: max-tokens``.
        total_steps: of the training; 0: the engine will only sample.
        teacher: keep a teacher.
        kl_reference: what the KL term holds the policy to.
        statistics: per-token statistics by name.
    """

    def __init__(
        self,
        *,
        model: config.Model,
        path: str,
        train: config.Train,
        rollout_temperature: float,
        max_new_tokens: int,
        total_steps: int,
        teacher: bool,
        kl_reference: KLReference,
        statistics: Mapping[str, TokenStatistic],
    ) -> None:
        self._settings = train
        self._temperature = rollout_temperature
        self._max_new_tokens = max_new_tokens
        self._total_steps = total_steps
        self._kl_reference = kl_reference
        self._dtype: torch.dtype = getattr(torch, model.dtype)
        self._tokenizer, self._policy = load_model(model, path, self._dtype)
        if train.gradient_checkpointing and total_steps:
            self._policy.gradient_checkpointing_enable()
        self._sampler = Sampler(self._tokenizer, end_ids(self._policy, self._tokenizer), statistics)
        training = total_steps > 0
        self._teacher = frozen_copy(self._policy) if teacher and training else None
        held = train.kl.coef > 0 and kl_reference == "initial" and training
        self._initial = frozen_copy(self._policy) if held else None
        # Float32 weights under the names of the model's own; the same tensors if that is float32.
        self._master = float32_weights(self._policy) if training else {}
        self._teacher_master = float32_weights(self._teacher) if self._teacher is not None else {}
        self._optimizer = self._make_optimizer() if training else None
        self._shared = not train.gradient_checkpointing and keeps_everything(self._policy)

    def rollout(
        self,
        prompts: Sequence[str],
        n: int,
        *,
        actor: Actor,
        sampling: Sampling,
        statistics: frozenset[str],
        seed: int,
    ) -> list[list[Sample]]:
        """Draw `n` completions of each prompt from the policy or the teacher."""
        return self._sampler.draw(
            self._actor(actor), prompts, n, sampling=sampling, statistics=statistics, seed=seed
        )

    def update(self, groups: Sequence[TrainGroup], *, step: int, seed: int) -> dict[str, float]:
        """Make the optimiser steps of training step `step`, with the loss of paper.md 1.1.

        Samples that abstained (mask False), are empty, or were cut off under
        ``truncated: mask`` count nowhere: every mean is over the kept rows. Rows without a
        gradient (advantage 0, no KL term) are not computed but count in the loss's denominator.
        Dropout is off: the policy that is trained is the one that sampled.
        """
        rate = learning_rate(
            step=step,
            total=self._total_steps,
            peak=self._settings.learning_rate,
            warmup=self._settings.warmup,
            kind=self._settings.schedule,
        )
        batches = [self._rows(part) for part in self._minibatches(groups, seed)]
        many = len(batches) > 1
        old = [self._detached(self._live(rows)) if many else None for rows in batches]
        parts = [self._optimise(rows, rate, o) for rows, o in zip(batches, old, strict=True)]
        counted = ("optimizer_steps", "trained_tokens", "skipped_steps")
        return {
            key: sum(p[key] for p in parts) / (1 if key in counted else len(parts))
            for key in parts[0]
        }

    def blend(self, policy_weight: float) -> None:
        """Move the teacher in float32: θ̃ ← θ̃ + w·(θ − θ̃). Parameters only, no buffers."""
        if self._teacher is None:
            raise EnvironmentProblem("this run has no teacher to blend")
        with torch.no_grad():
            for name, weights in self._teacher_master.items():
                weights.lerp_(self._master[name], policy_weight)
            write_back(self._teacher, self._teacher_master)

    def save(self, path: Path) -> None:
        """Write float32 weights, teacher and optimiser state into the folder `path`."""
        assert self._optimizer is not None
        save_file(contiguous(self._master), path / "policy.safetensors")
        if self._teacher is not None:
            save_file(contiguous(self._teacher_master), path / "teacher.safetensors")
        save_file(optimizer_state(self._optimizer), path / "optimizer.safetensors")

    def load(self, path: Path) -> None:
        """Take back what `save` wrote.

        Raises:
            DataError: a file is missing or damaged.
        """
        assert self._optimizer is not None
        try:
            copy_into(self._master, load_file(path / "policy.safetensors"))
            write_back(self._policy, self._master)
            if self._teacher is not None:
                copy_into(self._teacher_master, load_file(path / "teacher.safetensors"))
                write_back(self._teacher, self._teacher_master)
            load_optimizer_state(self._optimizer, load_file(path / "optimizer.safetensors"))
        except (OSError, RuntimeError, ValueError, KeyError, SafetensorError) as error:
            raise DataError(
                f"checkpoint {path} is damaged ({error}); delete it to go on from the one before"
            ) from error

    def export(self, path: Path) -> None:
        """Write model, tokenizer and generation settings as an ordinary folder."""
        self._policy.save_pretrained(path)
        self._tokenizer.save_pretrained(path)

    def describe(self) -> dict[str, Any]:
        """Return parameters, dtype, device and attention."""
        device = self._policy.device
        return {
            "parameters": sum(p.numel() for p in self._policy.parameters()),
            "dtype": str(self._dtype).removeprefix("torch."),
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
            "attention": self._policy.config._attn_implementation,
            "threads": torch.get_num_threads(),
        }

    def close(self) -> None:
        """Nothing to free beyond what goes with the object."""

    def _actor(self, actor: Actor) -> PreTrainedModel:
        if actor == "policy":
            return self._policy
        if self._teacher is None:
            raise EnvironmentProblem("this run has no teacher to sample from")
        return self._teacher

    def _minibatches(self, groups: Sequence[TrainGroup], seed: int) -> list[list[TrainGroup]]:
        size, whole = self._settings.minibatch, self._settings.questions_per_step
        if size is None or size >= whole:
            return [list(groups)]
        # Groups of one question in several views count as that many shares of a question.
        share = max(1, round(len(groups) * size / whole))
        order = np.random.default_rng(seed).permutation(len(groups))
        return [
            [groups[int(i)] for i in order[start : start + share]]
            for start in range(0, len(groups), share)
        ]

    def _rows(self, groups: Sequence[TrainGroup]) -> list[Row]:
        masked = self._settings.truncated == "mask"
        kept = [
            (number, tuple(prompt), sample, float(advantage))
            for number, group in enumerate(groups)
            for prompt in [self._sampler.encode(group.prompt)]
            for sample, advantage, counts in zip(
                group.samples, group.advantages, group.mask, strict=True
            )
            if counts and len(sample.tokens) and (sample.finished or not masked)
        ]
        lengths = torch.tensor([len(sample.tokens) for _, _, sample, _ in kept])
        weights = row_weights(
            lengths, mean=self._settings.loss_mean, max_new_tokens=self._max_new_tokens
        )
        return [
            Row(i, number, prompt, tuple(sample.tokens.tolist()), advantage, float(weights[i]))
            for i, (number, prompt, sample, advantage) in enumerate(kept)
        ]

    def _live(self, rows: Sequence[Row]) -> list[Row]:
        """Rows that carry a gradient."""
        return [row for row in rows if row.advantage or self._settings.kl.coef]

    def _optimise(
        self, rows: Sequence[Row], rate: float, old: Mapping[int, Tensor] | None
    ) -> dict[str, float]:
        """Accumulate the gradient of one (mini-)batch and make one step."""
        coef = self._settings.kl.coef
        live = self._live(rows)
        figures = {
            "loss": 0.0,
            "grad_norm": 0.0,
            "learning_rate": rate,
            "optimizer_steps": 0.0,
            "skipped_steps": 0.0,
            "trained_tokens": float(sum(len(row.response) for row in rows)),
            "rows_without_gradient": 1 - len(live) / max(len(rows), 1),
        }
        if coef:
            figures["kl"] = 0.0
        if old is not None:
            figures["clip_fraction"] = 0.0
        if not live:
            return figures
        deterministic(self._policy)
        for part in micro_batches(live, self._settings.micro_batch):
            loss = self._loss(part, old, figures)
            loss.backward()
            figures["loss"] += float(loss.detach())
        norm = self._step(rate)
        figures["grad_norm"] = norm
        figures["optimizer_steps" if np.isfinite(norm) else "skipped_steps"] = 1.0
        return figures

    def _loss(
        self, rows: Sequence[Row], old: Mapping[int, Tensor] | None, figures: dict[str, float]
    ) -> Tensor:
        logp, mask = self._logprobs(self._policy, rows)
        old_logp = logp.detach() if old is None else _stack(old, rows, logp)
        advantages = torch.tensor([row.advantage for row in rows], device=logp.device)
        weights = torch.tensor([row.weight for row in rows], device=logp.device)[:, None] * mask
        settings = self._settings
        loss = surrogate(
            logp, old_logp, advantages, clip=settings.clip, dual_clip=settings.dual_clip
        )
        if old is not None:
            outside = ((logp - old_logp).exp() - 1).abs() > settings.clip
            figures["clip_fraction"] += float((outside * weights).sum())
        if settings.kl.coef:
            with torch.no_grad():
                reference, _ = self._logprobs(self._reference(), rows)
            divergence = k3(logp, reference)
            figures["kl"] += float((divergence.detach() * weights).sum())
            loss = loss + settings.kl.coef * divergence
        return (loss * weights).sum()

    def _logprobs(self, model: PreTrainedModel, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        return response_logprobs(
            model, rows, pad=self._sampler.pad, temperature=self._temperature, shared=self._shared
        )

    def _detached(self, rows: Sequence[Row]) -> dict[int, Tensor]:
        """Log-probabilities of every row before the first of several optimiser steps."""
        self._policy.eval()
        found: dict[int, Tensor] = {}
        with torch.no_grad():
            for part in micro_batches(rows, self._settings.micro_batch):
                logp, _ = self._logprobs(self._policy, part)
                found |= {
                    row.index: values[: len(row.response)].clone()
                    for row, values in zip(part, logp, strict=True)
                }
        return found

    def _reference(self) -> PreTrainedModel:
        reference = self._teacher if self._kl_reference == "teacher" else self._initial
        if reference is None:
            raise EnvironmentProblem("the KL term is held to a teacher that this run does not have")
        return reference

    def _make_optimizer(self) -> torch.optim.AdamW:
        return torch.optim.AdamW(
            self._master.values(),
            lr=self._settings.learning_rate,
            betas=self._settings.betas,
            eps=1e-8,
            weight_decay=self._settings.weight_decay,
            fused=self._policy.device.type in ("cpu", "cuda"),
        )

    def _step(self, rate: float) -> float:
        """Clip, step in float32, write back; return the gradient's norm before clipping.

        A norm that is not finite skips the step, as the reference does.
        """
        assert self._optimizer is not None
        for name, parameter in self._policy.named_parameters():
            if self._master[name] is not parameter and parameter.grad is not None:
                self._master[name].grad = parameter.grad.float()
                parameter.grad = None
        norm = float(
            torch.nn.utils.clip_grad_norm_(self._master.values(), self._settings.grad_clip)
        )
        if np.isfinite(norm):
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            self._optimizer.step()
            write_back(self._policy, self._master)
        self._optimizer.zero_grad(set_to_none=True)
        return norm


def _stack(old: Mapping[int, Tensor], rows: Sequence[Row], like: Tensor) -> Tensor:
    stacked = torch.zeros_like(like)
    for place, row in enumerate(rows):
        stacked[place, : len(row.response)] = old[row.index]
    return stacked
