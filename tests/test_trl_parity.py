"""Our loss and gradient against TRL's own `GRPOTrainer._compute_loss` on the same tensors.

Settings under which both compute the same: no dual clip (TRL has none by default; its `delta`
clips the ratio instead); k3 in its unclamped range and not multiplied by the ratio (TRL's
`use_bias_correction_kl`, which the reference does not have); finished advantages handed to both
(TRL divides by std + 1e-4, the reference by std + 1e-6); the same clip range on both sides.
`loss_mean: token` is TRL's ``bnpo``, ``sequence`` its ``grpo``, ``max-tokens`` its ``dr_grpo``.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from corewarding import config
from corewarding.backends.base import Sampling, TrainGroup
from corewarding.backends.local import LocalBackend

pytest.importorskip("trl", reason="TRL is a test-only dependency: pip install --group test")

PROMPTS = ["2+2=", "a longer prompt: 3+4="]
LIMIT = 10


@pytest.fixture
def backend(tiny_model_folder):
    def make(**train):
        return LocalBackend(
            model=config.Model(path=str(tiny_model_folder), device="cpu"),
            path=str(tiny_model_folder),
            train=config.Train.model_validate({"steps": 1, "dual_clip": None, **train}),
            rollout_temperature=0.9,
            max_new_tokens=LIMIT,
            total_steps=1,
            teacher=False,
            kl_reference="initial",
            statistics={},
        )

    return make


@pytest.fixture
def trainer(tiny_model_folder, tiny_tokenizer, tmp_path):
    def make(loss_type, beta, epsilon):
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        arguments = GRPOConfig(
            output_dir=str(tmp_path),
            loss_type=loss_type,
            beta=beta,
            epsilon=epsilon,
            temperature=0.9,
            max_completion_length=LIMIT,
            num_generations=4,
            per_device_train_batch_size=8,
            use_cpu=True,
            bf16=False,
            report_to=[],
            use_bias_correction_kl=False,
            gradient_checkpointing=False,
        )
        made = GRPOTrainer(
            model=str(tiny_model_folder),
            reward_funcs=lambda completions, **kwargs: [0.0] * len(completions),
            args=arguments,
            train_dataset=Dataset.from_list([{"prompt": p} for p in PROMPTS]),
            processing_class=tiny_tokenizer,
        )
        made.current_gradient_accumulation_steps = 1
        return made

    return make


def drifted(policy):
    """Give both sides a policy that is no longer the initial model."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.01 * torch.randn(parameter.shape, generator=generator))


def trl_inputs(rows, old, reference):
    """The rows as TRL lays them out: prompts padded left, completions right."""
    width = max(len(row.prompt) for row in rows)
    length = max(len(row.response) for row in rows)
    tensors = {
        "prompt_ids": torch.zeros(len(rows), width, dtype=torch.long),
        "prompt_mask": torch.zeros(len(rows), width, dtype=torch.long),
        "completion_ids": torch.zeros(len(rows), length, dtype=torch.long),
        "completion_mask": torch.zeros(len(rows), length, dtype=torch.long),
    }
    for i, row in enumerate(rows):
        tensors["prompt_ids"][i, width - len(row.prompt) :] = torch.tensor(row.prompt)
        tensors["prompt_mask"][i, width - len(row.prompt) :] = 1
        tensors["completion_ids"][i, : len(row.response)] = torch.tensor(row.response)
        tensors["completion_mask"][i, : len(row.response)] = 1
    tensors["advantages"] = torch.tensor([row.advantage for row in rows])
    tensors["ref_per_token_logps"] = reference
    tensors["old_per_token_logps"] = old
    return tensors


@pytest.mark.parametrize("on_policy", [True, False])
@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize(
    ("loss_mean", "loss_type"),
    [("token", "bnpo"), ("sequence", "grpo"), ("max-tokens", "dr_grpo")],
)
def test_loss_and_gradient_agree_with_trl(backend, trainer, loss_mean, loss_type, beta, on_policy):
    ours = backend(loss_mean=loss_mean, kl={"coef": beta}, clip=0.1)
    samples = ours.rollout(
        PROMPTS,
        4,
        actor="policy",
        sampling=Sampling(temperature=0.9, max_new_tokens=LIMIT),
        statistics=frozenset(),
        seed=0,
    )
    advantages = np.array([1.2, -0.7, 0.3, -0.8], np.float32)
    everyone = np.ones(4, bool)
    rows = ours._rows(
        [
            TrainGroup(p, tuple(s), advantages, everyone)
            for p, s in zip(PROMPTS, samples, strict=True)
        ]
    )
    with torch.no_grad():
        reference, _ = ours._logprobs(ours._policy, rows)
    old = None if on_policy else ours._detached(rows)
    drifted(ours._policy)
    figures = {"kl": 0.0, "clip_fraction": 0.0}
    our_loss = ours._loss(rows, old, figures)
    our_loss.backward()

    theirs = trainer(loss_type, beta, 0.1)
    theirs.model.train()
    theirs.model.load_state_dict(ours._policy.state_dict())
    inputs = trl_inputs(rows, None if on_policy else reference, reference)
    their_loss = theirs._compute_loss(theirs.model, inputs)
    their_loss.backward()

    assert our_loss.item() == pytest.approx(their_loss.item(), abs=1e-5)
    their_gradient = dict(theirs.model.named_parameters())
    for name, parameter in ours._policy.named_parameters():
        torch.testing.assert_close(
            parameter.grad,
            their_gradient[name].grad,
            atol=1e-5,
            rtol=1e-4,
            msg=lambda m, name=name: f"{name}: {m}",
        )
    if not on_policy:
        assert figures["clip_fraction"] > 0
