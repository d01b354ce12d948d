"""Open a model and its tokenizer, from a folder or the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from corewarding import config
from corewarding.errors import EnvironmentProblem

__all__ = ["end_ids", "load_model"]


def load_model(model: config.Model, path: str, dtype: torch.dtype) -> tuple[Any, PreTrainedModel]:
    """Open tokenizer and model.

    Raises:
        EnvironmentProblem: a Hub id that cannot be fetched, a folder that cannot be read, or a
            device that cannot be used.
    """
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    # A Hub revision means nothing to a folder.
    revision = model.revision if path == model.path and not Path(path).is_dir() else None
    common = {"revision": revision, "trust_remote_code": model.trust_remote_code}
    attention = None if model.attention == "auto" else model.attention
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, **common)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            path, dtype=dtype, attn_implementation=attention, **common
        )
    except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
        raise EnvironmentProblem(
            f"model.path: {path!r} cannot be loaded: {_first_line(error)}. "
            "Give a folder that save_pretrained wrote, or a Hub id that this machine can reach"
        ) from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer, _placed(loaded, model.device)


def _placed(model: Any, device: str) -> PreTrainedModel:
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        placed: PreTrainedModel = model.to(torch.device(device))
    except (RuntimeError, AssertionError) as error:  # torch built without it: AssertionError
        raise EnvironmentProblem(
            f"model.device: {device!r} cannot be used: {_first_line(error)}. "
            "Give auto, cpu, or a device with enough free memory"
        ) from error
    return placed


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def end_ids(model: PreTrainedModel, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a completion: of the generation settings and of the tokenizer."""
    given = model.generation_config.eos_token_id if model.generation_config else None
    listed = given if isinstance(given, list) else [given]
    return frozenset(int(i) for i in [*listed, tokenizer.eos_token_id] if i is not None)
