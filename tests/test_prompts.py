from __future__ import annotations

import pytest

from corewarding.errors import ConfigError
from corewarding.prompts import TEMPLATES, Prompter


class Tokenizer:
    """The two things a prompter asks a tokenizer for."""

    def __init__(self, chat_template="t"):
        self.chat_template = chat_template

    def apply_chat_template(self, messages, *, tokenize, add_generation_prompt):
        assert not tokenize
        assert add_generation_prompt
        return "".join(f"<{m['role']}>{m['content']}" for m in messages) + "<assistant>"

    def __call__(self, text, *, add_special_tokens):
        assert not add_special_tokens
        return {"input_ids": list(text)}


def test_the_papers_template_is_a_system_prompt_and_the_bare_question():
    assert Prompter("paper", Tokenizer())("1+1?") == (
        "<system>Let's think step by step and output the final answer within \\boxed{}."
        "<user>1+1?<assistant>"
    )


def test_plain_and_completion_need_no_chat_template():
    assert Prompter("plain", Tokenizer(None))("1+1?") == "1+1?"
    text = Prompter("completion", Tokenizer(None))("1+1?")
    assert text.startswith("Question: 1+1?\n")
    assert "\\boxed{}" in text
    assert text.endswith("Answer:")


@pytest.mark.parametrize("name", TEMPLATES)
def test_braces_in_a_question_survive(name):
    question = "Solve {x} and {{y}} and {question} for \\boxed{}."
    assert question in Prompter(name, Tokenizer())(question)


def test_a_chat_prompt_without_a_chat_template_says_what_to_use():
    with pytest.raises(ConfigError, match="use prompt: completion"):
        Prompter("boxed-chat", Tokenizer(None))


def test_an_unknown_template_lists_the_known():
    with pytest.raises(ConfigError, match="Known: boxed-chat"):
        Prompter("boxed", Tokenizer())


def test_the_hash_covers_the_chat_template_only_where_it_is_used():
    assert Prompter("chat", Tokenizer("a")).sha256 != Prompter("chat", Tokenizer("b")).sha256
    assert Prompter("plain", Tokenizer("a")).sha256 == Prompter("plain", Tokenizer("b")).sha256
    assert Prompter("plain", Tokenizer()).sha256 != Prompter("completion", Tokenizer()).sha256


def test_length_is_that_of_the_whole_prompt():
    assert Prompter("plain", Tokenizer()).length("abcd") == 4
