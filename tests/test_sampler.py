from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from corewarding.backends import sampler
from corewarding.backends.sampler import Sampler

PAD, END, BEGIN = 0, 1, 2


def byte_tokenizer(template=None):
    """One token a byte; `template` says which special tokens the tokenizer adds by itself."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<end>", "<bos>", *alphabet])}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    if template:
        special = [("<bos>", BEGIN), ("<end>", END)]
        made.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<end>", bos_token="<bos>"
    )


def make(template=None):
    return Sampler(byte_tokenizer(template), frozenset({END}), {})


def plain(text):
    return byte_tokenizer()(text)["input_ids"]


@pytest.mark.parametrize("template", ["<bos> $A", "<bos> $A <end>"])
@pytest.mark.parametrize("prompt", ["2+2", "<bos>2+2"])
def test_begin_of_text_stands_once_where_the_tokenizer_adds_it(template, prompt):
    assert make(template).encode(prompt) == [BEGIN, *plain("2+2")]


def test_begin_of_text_is_not_forced_on_a_tokenizer_that_does_not_add_it():
    assert make().encode("2+2") == plain("2+2")
    assert make().encode("<bos>2+2") == [BEGIN, *plain("2+2")]


@pytest.mark.parametrize("stop", ["x", "\n\nQuestion:", "。。。、、、", "🙂🙂"])
def test_a_stop_string_is_seen_at_its_last_byte_and_not_before(stop):
    check = make()._stop_check((stop,))
    written = plain("a b é" + stop)
    assert check(written)
    assert not check(written[:-1])


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=12),
    st.integers(1, 9),
    st.integers(1, 64),
    st.integers(1, 40_000),
)
def test_parts_hold_every_row_once_and_fit_unless_one_row_does_not(widths, n, per_token, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "_CACHE_BYTES", limit)
        parts = sampler._parts(widths, n, per_token)
    found = [(prompt, row) for part, some in parts for prompt in part for row in range(n)[some]]
    assert sorted(found) == [(p, row) for p in range(len(widths)) for row in range(n)]
    for part, some in parts:
        rows = len(part) * len(range(n)[some])
        assert rows == 1 or rows * max(widths[p] for p in part) * per_token <= limit
