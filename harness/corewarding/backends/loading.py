"""Open a model and its tokenizer, from a folder or the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from corewarding import config
from corewarding.errors import EnvironmentProblem

__all__ = ["end_ids", "load_model"]


def load_model(model: config.Model, path: str, dtype: torch.dtype) -> tuple[Any, PreTrainedModel]:
    """Open tokenizer and model.

    Raises:
        EnvironmentProblem: a Hub id that cannot be fetched, or a folder that cannot be read.
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
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EnvironmentProblem(
            f"model.path: {path!r} cannot be loaded: {reason}. "
            "Give a folder that save_pretrained wrote, or a Hub id that this machine can reach"
        ) from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    placed: PreTrainedModel = loaded.to(_device(model.device))
    return tokenizer, placed


def _device(name: str) -> torch.device:
    if name != "auto":
        return torch.device(name)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def end_ids(model: PreTrainedModel, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a completion: of the generation settings and of the tokenizer."""
    given = model.generation_config.eos_token_id if model.generation_config else None
    listed = given if isinstance(given, list) else [given]
    return frozenset(int(i) for i in [*listed, tokenizer.eos_token_id] if i is not None)
