r"""Build the embedded default's tokenizer: every byte, single digits, `\boxed{` as one token."""

from __future__ import annotations

from typing import Final

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from corewarding.embedded.problems import problems

__all__ = ["build_tokenizer"]

_EOS: Final = "<|endoftext|>"
_PAD: Final = "<|pad|>"
_PIECES: Final = r"\\boxed\{| ?[A-Za-z]+| ?\d|\s|[^\sA-Za-z\d]"
_VOCABULARY_LIMIT: Final = 640
_CORPUS_SIZE: Final = 600


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer, trained in under a second on questions of the train split.

    Byte-level BPE whose alphabet is all 256 bytes, so any text is encoded without an unknown token
    and decoded to itself. Pads on the left; adds no token by itself. Always the same result.
    """
    corpus = [
        text
        for problem in problems("train", seed=0, count=_CORPUS_SIZE)
        for text in (problem.original, problem.rephrased, problem.worked)
    ]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY_LIMIT,
        special_tokens=[_EOS, _PAD],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=_EOS,
        pad_token=_PAD,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
