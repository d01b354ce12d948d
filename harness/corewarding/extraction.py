r"""Find the final answer in a model's text, and say by which rule it was found.

Five styles, from strict to wide:

=========  ====================================================================================
reference  what the paper's training code does, byte for byte (last box, nothing normalised)
boxed      last complete ``\boxed{...}`` after the last ``</think>``
lenient    boxed, else "the answer is ...", else ``#### ...``, else "total is ...", else bold
number     lenient, else the last number of the text (GSM8K and other numeric tasks)
choice     an option letter A to J, boxed or after "answer is"
=========  ====================================================================================

Every scan is linear in the length of the text, so a degenerate megabyte is harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from corewarding.errors import UserError

__all__ = ["Extraction", "Style", "extract", "option_letter", "reference_answer"]

Style = Literal["reference", "boxed", "lenient", "number", "choice"]


@dataclass(frozen=True, slots=True)
class Extraction:
    """The answer found in one text, and which rule found it."""

    answer: str | None
    """None: the text holds no answer."""
    rule: str
    """The rule that fired (``boxed``, ``several_boxes``, ``answer_is``, ...), or why none did
    (``no_box``, ``unclosed_box``, ``empty_box``, ``unfinished_thinking``, ``no_answer``)."""
    earlier: tuple[str, ...] = ()
    """Under ``several_boxes``: the contents of the boxes before the last one, in order."""


def extract(text: str, *, style: Style, stop: Sequence[str] = ()) -> Extraction:
    """Return the final answer of `text`, cut before at the first of the `stop` strings.

    Raises:
        UserError: `style` is not one of the five styles.
    """
    for marker in stop:
        if marker:
            text = text.partition(marker)[0]
    if style == "reference":
        return _reference(text)
    visible, unfinished = _after_thinking(text)
    if style == "boxed":
        found = _boxed(visible)
    elif style == "lenient":
        found = _lenient(visible)
    elif style == "number":
        found = _number(visible)
    elif style == "choice":
        found = _choice(visible)
    else:
        raise UserError(f"unknown extraction style {style!r}; styles: {', '.join(get_args(Style))}")
    if found.answer is None and unfinished:
        return Extraction(None, "unfinished_thinking")
    return found


def reference_answer(text: str) -> str:
    r"""Return exactly what the paper's reference code extracts; '' where it finds nothing.

    The literal ``\boxed␠`` anywhere wins over every brace; no strip, no fall-back to an earlier
    box (paper.md 1.2).
    """
    _, spaced, tail = text.rpartition("\\boxed ")
    if spaced:
        return tail.partition("$")[0]
    start = text.rfind("\\boxed")
    if start < 0 or not text.startswith("\\boxed{", start):
        return ""
    depth = 0
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return text[start + len("\\boxed{") : start + brace.start()]
    return ""


def _reference(text: str) -> Extraction:
    answer = reference_answer(text)
    if answer.strip():
        return Extraction(answer, "reference")
    if "\\boxed" not in text:
        return Extraction(None, "no_box")
    return Extraction(None, "empty_box" if _boxed(text).rule == "empty_box" else "unclosed_box")


def _after_thinking(text: str) -> tuple[str, bool]:
    """Return the text that is not thought, and whether a thought was left open at its end."""
    _, _, visible = text.rpartition("</think>")
    visible, opened, _ = visible.partition("<think>")
    return visible, bool(opened)


# --- boxes ---------------------------------------------------------------------------------------

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
# A double backslash is a line break, unless it is a doubly escaped \boxed.
_BRACE = re.compile(
    r"(?P<box>\\(?:boxed|fbox)(?![A-Za-z]))|\\\\(?!boxed|fbox)|\\[{}]|(?P<open>\{)|(?P<close>\})"
)
_BARE = re.compile(r"[ \t]{0,20}([^\n$]{0,200}?)(\$|\\\]|\\\)|\n|\Z)")
_OPENING = re.compile(r"\s*\{")
_MOST_BOXES = 64  # looked at, from the end
_NOTHING = re.compile(r"[\s.,;:!?$*_~…-]*")


def _boxed(text: str) -> Extraction:
    first = _BOX.search(text)
    if first is None:
        return Extraction(None, "no_box")
    contents: list[str] = []
    empty = False
    for content in _boxes(text, first.start()):
        if _NOTHING.fullmatch(content):
            empty = True
        else:
            contents.append(content)
    if contents:
        rule = "boxed" if len(set(contents)) == 1 else "several_boxes"
        return Extraction(contents[-1], rule, tuple(contents[:-1]) if rule != "boxed" else ())
    return Extraction(None, "empty_box" if empty else "unclosed_box")


def _boxes(text: str, start: int) -> Iterator[str]:
    """Yield the content of every complete box that lies in no other complete box."""
    stack: list[int | None] = []  # where a box's content starts; None: an ordinary brace
    found: list[tuple[int, int]] = []  # spans; an end of -1 marks a box without braces
    skip_to = start
    for token in _BRACE.finditer(text, start):
        if token.start() < skip_to:
            continue
        if token["box"]:
            opening = _OPENING.match(text, token.end())
            if opening:
                stack.append(opening.end())
                skip_to = opening.end()
            else:
                found.append((token.end(), -1))
        elif token["open"]:
            stack.append(None)
        elif token["close"] and stack:
            begin = stack.pop()
            if begin is not None:
                while found and found[-1][0] >= begin:
                    found.pop()
                found.append((begin, token.start()))
    for begin, end in found[-_MOST_BOXES:]:
        yield _bare(text, begin) if end < 0 else _unnest(text[begin:end].strip())


def _bare(text: str, start: int) -> str:
    r"""Content of a box without braces: ``\boxed 12$`` up to the ``$``, otherwise one word."""
    match = _BARE.match(text, start)
    words = match[1].split() if match else []
    if match is None or not words:
        return ""
    return words[0].rstrip(".,;:!?") if match[2] in ("", "\n") else match[1].strip()


def _unnest(content: str) -> str:
    r"""Turn ``\boxed{5}`` inside a box into ``5`` (a few levels; more is not an answer)."""
    for _ in range(4):
        if not (content.startswith(("\\boxed{", "\\fbox{")) and content.endswith("}")):
            break
        content = content[content.index("{") + 1 : -1].strip()
    return content


# --- phrases -------------------------------------------------------------------------------------

_LINE = r"[ \t:=*_]*(?:\n[ \t]*){0,3}(?P<rest>[^\n]{1,400})"
_ANSWER_IS = re.compile(
    r"\banswer[*_]{0,2}[ \t]*(?:is\b|:|=|[*_]{2}[ \t]*:?[ \t]*\n)" + _LINE, re.IGNORECASE
)
_TOTAL_IS = re.compile(r"\b(?:total|result|sum)[ \t]*(?:is\b|:|=)" + _LINE, re.IGNORECASE)
_HASHES = re.compile(r"(?<!#)####(?!#)[ \t]*(?P<rest>[^\n]{1,400})")
_BOLD = re.compile(r"\*\*(?P<rest>[^*\n]{1,100})\*\*")
_MATH = re.compile(r"\$([^$]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]")
_ENDS = re.compile(
    r"[.!?](?=\s|$)|[,;]\s+(?!and\b|or\b)(?=[A-Za-z]{2,})|\s\((?=[A-Za-z])"
    r"|\s(?:because|since|which|so that|where)\b"
)
_FORMULA = re.compile(r"[\\/^=√π]")
_STARTS_AS_NUMBER = re.compile(r"(?:[-−+$]|\\\$)*(?:\.?\d|\\[dt]?frac|\\sqrt|\\pi|√|π)")
_REMARK = re.compile(r"[\s,;:]*(?:[A-Za-z(][^\\^=+*/]*)?")
_NUMBER = re.compile(
    r"(?:(?<![\w.)\]}])[-−])?\$?(?:\d{1,3}(?:,\d{3})+(?![\d])|\d+)(?:\.\d+)?|(?<![\w.])[-−]?\.\d+"
)


def _lenient(text: str) -> Extraction:
    boxed = _boxed(text)
    if boxed.answer is not None or boxed.rule == "unclosed_box":  # the latter was cut off
        return boxed
    for rule, pattern, numeric in (
        ("answer_is", _ANSWER_IS, False),
        ("hash_marks", _HASHES, True),
        ("total_is", _TOTAL_IS, True),
        ("bold", _BOLD, True),
    ):
        for match in reversed(list(pattern.finditer(text))):
            candidate = _clean(match["rest"])
            # Headings and bold remarks are common: without the word "answer" it takes a number.
            if numeric and candidate:
                candidate = _leading_number(candidate)
            if candidate:
                return Extraction(candidate, rule)
    return boxed


def _leading_number(candidate: str) -> str:
    """Keep what starts as a number does, without a remark behind it; '' for anything else."""
    if not _STARTS_AS_NUMBER.match(candidate):
        return ""
    number = _NUMBER.match(candidate)
    if number and _REMARK.fullmatch(candidate, number.end()):
        return _bare_number(number)
    return candidate


def _bare_number(match: re.Match[str]) -> str:
    return match.group().replace("$", "").replace("−", "-")


def _clean(rest: str) -> str:
    """Reduce the rest of an answer line to the answer: one formula, or the first clause."""
    formulas = _MATH.findall(rest)
    if len(formulas) == 1 and _first_clause_holds_formula(rest):
        rest = "".join(formulas[0])
    else:
        rest = _ENDS.split(rest, maxsplit=1)[0]
        rest = re.sub(r"(?<!\\)\$", "", rest)
    rest = re.sub(r"^[\s*_`:=]+|[\s*_`.,;:!?]+$", "", rest.replace("**", ""))
    return "" if _NOTHING.fullmatch(rest) else rest


def _first_clause_holds_formula(rest: str) -> bool:
    end = _ENDS.search(rest)
    formula = _MATH.search(rest)
    return formula is not None and (end is None or formula.start() < end.start())


def _number(text: str) -> Extraction:
    found = _lenient(text)
    if found.answer is not None:
        if found.rule in ("boxed", "several_boxes"):
            return found
        number = _NUMBER.search(found.answer)
        if number is None or _FORMULA.search(found.answer):
            return found
        return Extraction(_bare_number(number), found.rule)
    if found.rule == "unclosed_box":
        return found
    last = None
    for last in _NUMBER.finditer(text):  # noqa: B007  the last match is what counts
        pass
    return found if last is None else Extraction(_bare_number(last), "last_number")


# --- options -------------------------------------------------------------------------------------

_WRAPPER = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathsf|bf|rm)\b|[{}$*`\s\\]")
_OPTION = re.compile(r"\(?([A-Ja-j])\)?(?:$|[).:,])")
_OPTION_IS = re.compile(
    r"\b(?:answer|option|choice)[*_]{0,2}(?:[ \t]{0,4}(?:is\b|:|=))?[ \t:*_\n$]{0,40}"
    r"(?:option[ \t]+|choice[ \t]+)?(?:\\(?:text|mathrm|mathbf|textbf)\{)?"
    r"(?:\(([A-Ja-j])\)|([A-J])(?![A-Za-z'’]))",
    re.IGNORECASE,
)


def option_letter(answer: str) -> str | None:
    r"""Return the option that a short answer names: C for ``\text{(C)}``, ``C: 14`` or ``c``."""
    if len(answer) > 2000:
        return None
    match = _OPTION.match(_WRAPPER.sub("", answer))
    return match[1].upper() if match else None


def _choice(text: str) -> Extraction:
    boxed = _boxed(text)
    if boxed.answer is not None:
        letter = option_letter(boxed.answer)
        if letter is not None:
            return Extraction(letter, "choice_box")
    letter = None
    for match in _OPTION_IS.finditer(text):
        named = match[1] or match[2]
        if match[1] or named.isupper():  # "the answer is a number" names no option
            letter = named.upper()
    if letter is not None:
        return Extraction(letter, "choice_phrase")
    letter = option_letter(text.strip()) if boxed.answer is None else None
    if letter is not None:
        return Extraction(letter, "choice")
    return Extraction(None, "no_choice")
