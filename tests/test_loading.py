from __future__ import annotations

import shutil

import pytest
import torch

from corewarding import config
from corewarding.backends.base import Sampling
from corewarding.backends.decode import complete
from corewarding.backends.loading import end_ids, load_model
from corewarding.errors import EnvironmentProblem


def load(folder, device="cpu"):
    return load_model(config.Model(path=str(folder), device=device), str(folder), torch.float32)


def test_a_model_that_cannot_be_loaded_names_path_and_remedy(tmp_path):
    with pytest.raises(EnvironmentProblem, match=r"cannot be loaded.*Give a folder"):
        load(tmp_path)


def test_damaged_weights_name_the_path(tiny_model_folder, tmp_path):
    folder = shutil.copytree(tiny_model_folder, tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"garbage!" * 10)
    with pytest.raises(EnvironmentProblem, match=r"model' cannot be loaded"):
        load(folder)


def test_a_device_that_does_not_exist_names_the_key(tiny_model_folder):
    with pytest.raises(EnvironmentProblem, match=r"model.device: 'nonsense' cannot be used"):
        load(tiny_model_folder, device="nonsense")


def test_a_tokenizer_without_padding_pads_with_its_end_token(tiny_model_folder, tmp_path):
    folder = shutil.copytree(tiny_model_folder, tmp_path / "model")
    tokenizer, _ = load(folder)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(folder)
    tokenizer, _ = load(folder)
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == 1


def test_every_end_token_of_model_and_tokenizer_ends_a_sample(tiny_model_folder):
    # Case C103.
    tokenizer, model = load(tiny_model_folder)
    model.eval()
    model.generation_config.eos_token_id = [7, 9]
    ends = end_ids(model, tokenizer)
    assert ends == {1, 7, 9}
    uniforms = torch.rand((64, 40), generator=torch.Generator().manual_seed(0)).double()
    found = complete(
        model,
        [[5, 6]],
        uniforms,
        sampling=Sampling(max_new_tokens=40),
        end_ids=ends,
        pad=0,
        statistics={},
    )
    assert {row.tokens[-1] for row in found if row.finished} == ends
    assert not any(ends & set(row.tokens[:-1]) for row in found)
