"""Float32 weights behind a model of any precision, and copies of models."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor
from transformers import PreTrainedModel

__all__ = [
    "contiguous",
    "copy_into",
    "deterministic",
    "float32_weights",
    "frozen_copy",
    "load_optimizer_state",
    "optimizer_state",
    "write_back",
]


def frozen_copy(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy that takes no gradients."""
    frozen = copy.deepcopy(model)
    frozen.eval()
    frozen.requires_grad_(False)
    return frozen


def deterministic(model: PreTrainedModel) -> None:
    """Set the model up for an update without dropout.

    Dropout would draw from hidden random state, and the policy that is trained would not be the
    one that sampled. Where gradient checkpointing is enabled, the modules that do it must believe
    that they are training; what is below them need not.
    """
    model.eval()
    for module in model.modules():
        module.training = bool(vars(module).get("gradient_checkpointing", False))


def float32_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """Return the model's parameters, or float32 copies of those that are narrower."""
    return {
        name: parameter
        if parameter.dtype == torch.float32
        else parameter.detach().float().requires_grad_(parameter.requires_grad)
        for name, parameter in model.named_parameters()
    }


def write_back(model: PreTrainedModel, master: Mapping[str, Tensor]) -> None:
    """Round float32 weights into the model, where they are not its own tensors."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if master[name] is not parameter:
                parameter.copy_(master[name])


def copy_into(target: Mapping[str, Tensor], source: Mapping[str, Tensor]) -> None:
    """Overwrite `target` by the tensors of the same names; a missing one is a KeyError."""
    with torch.no_grad():
        for name, tensor in target.items():
            tensor.copy_(source[name])


def contiguous(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as safetensors can store them."""
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimiser's tensors under ``<parameter index>.<name>``: no pickle, no code."""
    state = optimizer.state_dict()["state"]
    return {
        f"{index}.{name}": tensor.detach().cpu().contiguous()
        for index, tensors in state.items()
        for name, tensor in tensors.items()
    }


def load_optimizer_state(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Take back what `optimizer_state` gave; the settings stay those of `optimizer`."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
