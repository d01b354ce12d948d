"""Fixtures that several test modules share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Two OpenMP threads on busy cores spin against each other and take minutes for seconds."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_tokenizer():
    """Characters as tokens, with an end token, a chat template and left padding."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    characters = [chr(code) for code in range(32, 127)] + ["\n"]
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<end>", "<bos>", *characters])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        eos_token="<end>",
        bos_token="<bos>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template="{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}answer:",
    )


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory, tiny_tokenizer):
    """A folder with a random two-layer Llama."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    settings = LlamaConfig(
        vocab_size=len(tiny_tokenizer),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        initializer_range=0.3,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
    )
    folder = tmp_path_factory.mktemp("tiny") / "model"
    LlamaForCausalLM(settings).save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """Base, ground truth and a collapsing arm, two seeds, four questions of four samples."""
    from madeup_runs import Folder, fall, flat, marks

    folder = Folder(
        tmp_path_factory.mktemp("runs"),
        arms={"ground-truth": {}, "self-certainty": {}},
        seeds=(0, 1),
    )
    for seed, counts in ((0, (0, 1, 2, 4)), (1, (0, 1, 2, 3))):
        folder.run("base", seed)
        folder.evaluation("base", marks(*counts), seed)
    for seed, counts in ((0, (2, 3, 4, 4)), (1, (2, 3, 4, 4))):
        folder.run("ground-truth", seed)
        folder.metrics("ground-truth", seed, **{"hidden/accuracy": lambda x: 0.3 + 0.4 * x})
        folder.evaluation("ground-truth", marks(*counts), seed)
    for seed in (0, 1):
        folder.run("self-certainty", seed)
        folder.metrics(
            "self-certainty",
            seed,
            reward=lambda x: 2.1 + 1.3 * x,
            entropy=fall(1.2, 0.2),
            **{
                "hidden/accuracy": fall(0.4, 0.0),
                "pseudo/label_accuracy": flat(None),
                "completions/top_answer_share": fall(0.1, 0.9),
                "completions/mean_length": fall(30, 12),
                "frac_reward_zero_std": flat(0.25),
            },
        )
        folder.evaluation("self-certainty", marks(0, 0, 0, 1), seed)
    return folder


@pytest.fixture(scope="session")
def report(toy, tmp_path_factory):
    from corewarding.report.render import write_report

    return write_report(toy.root, tmp_path_factory.mktemp("report") / "out")
