from __future__ import annotations

import pytest
import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from corewarding.backends.base import Sampling
from corewarding.backends.cache import sampling_cache
from corewarding.backends.decode import complete
from corewarding.tokenstats import entropy, self_certainty

VOCABULARY = 60
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.4,
    "max_position_embeddings": 256,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "bos_token_id": 2,
}


def make(kind):
    torch.manual_seed(0)
    if kind == "gpt2":
        config = GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=256,
            n_embd=32,
            n_layer=2,
            n_head=4,
            initializer_range=0.4,
            eos_token_id=1,
            bos_token_id=2,
        )
        return GPT2LMHeadModel(config).eval()
    classes = {
        "llama": (LlamaConfig, LlamaForCausalLM),
        "qwen2": (Qwen2Config, Qwen2ForCausalLM),
        "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    }
    config, model = classes[kind]
    return model(config(**SMALL, **({"head_dim": 8} if kind == "qwen3" else {}))).eval()


PROMPTS = [[5, 6, 7, 8, 9], [10, 11], [12, 13, 14]]


def draw(model, prompts=PROMPTS, n=2, new=12, temperature=1.0, seed=0, **kwargs):
    sampling = Sampling(temperature=temperature, max_new_tokens=new, top_p=kwargs.pop("top_p", 1.0))
    generator = torch.Generator().manual_seed(seed)
    uniforms = torch.rand((len(prompts) * n, new), generator=generator, dtype=torch.float64)
    arguments = {"end_ids": frozenset({1}), "pad": 0, "statistics": {}, **kwargs}
    return complete(model, prompts, uniforms, sampling=sampling, **arguments)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gpt2"])
def test_greedy_tokens_equal_those_of_generate(kind):
    model = make(kind)
    found = draw(model, n=1, temperature=0.0)
    for prompt, completion in zip(PROMPTS, found, strict=True):
        expected = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=12,
            pad_token_id=0,
        )[0, len(prompt) :].tolist()
        assert completion.tokens == expected


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gpt2"])
def test_statistics_equal_those_of_a_full_forward_pass(kind):
    model = make(kind)
    statistics = {"entropy": entropy, "self_certainty": self_certainty}
    found = draw(model, temperature=0.7, statistics=statistics)
    for index, completion in enumerate(found):
        prompt = PROMPTS[index // 2]
        with torch.no_grad():
            logits = model(torch.tensor([prompt + completion.tokens])).logits[0]
        at = logits[len(prompt) - 1 : -1] / 0.7
        for name, function in statistics.items():
            torch.testing.assert_close(
                torch.tensor(completion.stats[name]), function(at), atol=1e-5, rtol=1e-5
            )


def test_a_row_does_not_depend_on_its_neighbours():
    model = make("llama")
    generator = torch.Generator().manual_seed(3)
    uniforms = torch.rand((6, 20), generator=generator, dtype=torch.float64)
    sampling = Sampling(max_new_tokens=20)
    common = {"sampling": sampling, "end_ids": frozenset(range(1, 12)), "pad": 0, "statistics": {}}
    together = complete(model, PROMPTS, uniforms, **common)
    alone = [
        row
        for i, prompt in enumerate(PROMPTS)
        for row in complete(model, [prompt], uniforms[2 * i : 2 * i + 2], **common)
    ]
    assert [row.tokens for row in together] == [row.tokens for row in alone]
    # Rows ended at different times, so finished ones did leave the batch.
    assert len({len(row.tokens) for row in together}) > 2


def test_the_end_token_is_kept_and_ends_the_row():
    found = draw(make("llama"), n=8, new=40, end_ids=frozenset(range(1, 20)))
    for completion in found:
        inside, last = completion.tokens[:-1], completion.tokens[-1]
        assert not set(inside) & set(range(1, 20))
        assert completion.finished == (last in range(1, 20))
        assert completion.finished or len(completion.tokens) == 40


def test_samples_follow_the_distribution():
    model = make("llama")
    found = draw(model, prompts=[[5, 6, 7]], n=4000, new=1)
    with torch.no_grad():
        expected = model(torch.tensor([[5, 6, 7]])).logits[0, -1].softmax(-1)
    counts = torch.bincount(torch.tensor([c.tokens[0] for c in found]), minlength=VOCABULARY)
    # Total variation between 4,000 draws and the truth; about 0.03 by chance alone.
    assert float((counts / 4000 - expected).abs().sum()) / 2 < 0.08


def test_a_nucleus_keeps_the_likeliest_tokens_only():
    model = make("llama")
    with torch.no_grad():
        probabilities = model(torch.tensor([[5, 6, 7]])).logits[0, -1].softmax(-1)
    ordered, order = probabilities.sort(descending=True)
    size = int((ordered.cumsum(0) - ordered < 0.5).sum())
    allowed = set(order[:size].tolist())
    found = draw(model, prompts=[[5, 6, 7]], n=500, new=1, top_p=0.5)
    assert {c.tokens[0] for c in found} <= allowed


def test_no_hidden_top_k_cuts_the_tail():
    torch.manual_seed(0)
    flat = LlamaForCausalLM(LlamaConfig(**{**SMALL, "initializer_range": 1e-4})).eval()
    found = draw(flat, prompts=[[5]], n=3000, new=1)
    assert len({c.tokens[0] for c in found}) == VOCABULARY


def test_a_stop_check_ends_a_row():
    found = draw(make("llama"), n=4, new=30, end_ids=frozenset(), stop=lambda t: len(t) == 5)
    assert all(len(c.tokens) == 5 and c.finished for c in found)


def test_the_cache_grows_past_its_first_room():
    model = make("llama")
    cache = sampling_cache(model)
    ids = torch.randint(3, VOCABULARY, (1, 150), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        steps = [
            model(ids[:, i : i + 1], past_key_values=cache, use_cache=True).logits[:, -1]
            for i in range(150)
        ]
        whole = model(ids).logits[0]
    torch.testing.assert_close(torch.cat(steps), whole, atol=1e-4, rtol=1e-4)


def test_a_model_with_sliding_windows_gets_transformers_own_cache():
    from transformers import DynamicCache, MistralConfig, MistralForCausalLM

    torch.manual_seed(0)
    model = MistralForCausalLM(MistralConfig(**SMALL, sliding_window=4)).eval()
    assert isinstance(sampling_cache(model), DynamicCache)
    completion = draw(model, prompts=[[5, 6, 7, 8, 9, 10]], n=1, temperature=0.0)[0]
    expected = model.generate(
        torch.tensor([[5, 6, 7, 8, 9, 10]]), do_sample=False, max_new_tokens=12, pad_token_id=0
    )[0, 6:].tolist()
    assert completion.tokens == expected
