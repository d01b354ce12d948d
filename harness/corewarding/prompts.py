"""Turn a question into the exact string that a model continues; templates are named and hashed.

The same function serves training and evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corewarding.errors import ConfigError
from corewarding.rundir import text_sha256

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["TEMPLATES", "Prompter", "Template"]


@dataclass(frozen=True, slots=True)
class Template:
    """A named way to ask.

    With `chat` the messages go through the tokenizer's own chat template, generation prompt
    included; without it the text is sent as it stands.
    """

    name: str
    user: str
    """The question goes in place of ``{question}``."""
    system: str | None = None
    chat: bool = True
    about: str = ""


_INSTRUCTION = "Please reason step by step, and put your final answer within \\boxed{}."

TEMPLATES: Mapping[str, Template] = {
    template.name: template
    for template in (
        Template("plain", "{question}", chat=False, about="the bare question, as text"),
        Template(
            "paper",
            "{question}",
            system="Let's think step by step and output the final answer within \\boxed{}.",
            about="verl's stock MATH instruction as system prompt; what the paper trains with",
        ),
        Template(
            "boxed-chat",
            "{question}\n\n" + _INSTRUCTION,
            about="instruction in the user turn, through the chat template",
        ),
        Template(
            "qwen-math",
            "{question}",
            system=_INSTRUCTION,
            about="instruction as system prompt, as Qwen2.5-Math is evaluated",
        ),
        Template(
            "completion",
            "Question: {question}\n"
            "Reason step by step and put the final answer in \\boxed{}.\nAnswer:",
            chat=False,
            about="for base models without a chat template",
        ),
        Template("chat", "{question}", about="the bare question, through the chat template"),
    )
}


class Prompter:
    """Formats questions with one template and one tokenizer."""

    def __init__(self, name: str, tokenizer: PreTrainedTokenizerBase) -> None:
        """Look the template up.

        Raises:
            ConfigError: unknown template, or a chat template that the tokenizer lacks.
        """
        if name not in TEMPLATES:
            raise ConfigError(f"unknown prompt {name!r}. Known: {', '.join(sorted(TEMPLATES))}")
        self.template = TEMPLATES[name]
        self._tokenizer = tokenizer
        chat_template = tokenizer.chat_template if self.template.chat else None
        if self.template.chat and chat_template is None:
            raise ConfigError(
                f"prompt {name!r} needs a chat template and the model's tokenizer has none; "
                "use prompt: completion or prompt: plain"
            )
        self.sha256 = text_sha256(
            self.template.user,
            self.template.system or "",
            str(self.template.chat),
            str(chat_template or ""),
        )

    def __call__(self, question: str) -> str:
        """Return the string to continue."""
        # By replacement, not format(): questions and instructions hold braces of their own.
        user = self.template.user.replace("{question}", question)
        if not self.template.chat:
            return user
        messages = [{"role": "user", "content": user}]
        if self.template.system:
            messages.insert(0, {"role": "system", "content": self.template.system})
        text = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        return str(text)

    def length(self, question: str) -> int:
        """Return the prompt's length in tokens."""
        return len(self._tokenizer(self(question), add_special_tokens=False)["input_ids"])
