r"""The string comparison of the MATH data set, as the paper's ground-truth reward uses it.

Both answers are normalised (fraction and root spellings, units, percent, degrees, dollars) and
compared as strings: ``0.5`` equals ``\frac{1}{2}``, but ``142`` does not equal ``142.0``
(paper.md 1.4). Written from that description; use `corewarding.grading` for mathematics.
"""

from __future__ import annotations

import re

__all__ = ["is_equiv"]

_REWRITES = (
    ("\n", ""),
    ("\\!", ""),
    ("\\\\", "\\"),
    ("tfrac", "frac"),
    ("dfrac", "frac"),
    ("\\left", ""),
    ("\\right", ""),
    ("^{\\circ}", ""),
    ("^\\circ", ""),
    ("\\$", ""),
)
_INTEGER = re.compile(r"[+-]?\d+")


def is_equiv(a: str | None, b: str | None) -> bool:
    """Return whether two answers are the same string after the MATH normalisation."""
    if a is None or b is None:
        return a is b
    try:
        return _normalise(a) == _normalise(b)
    except ValueError:  # an answer with two units cannot be normalised: compare as written
        return a == b


def _normalise(text: str) -> str:
    for old, new in _REWRITES:
        text = text.replace(old, new)
    text = _without_unit(text).replace("\\%", "").replace("%", "")
    text = text.replace(" .", " 0.").replace("{.", "{0.")
    if text.startswith("."):
        text = "0" + text
    name, equals, value = text.partition("=")
    if equals and len(name) <= 2 and "=" not in value:
        text = value
    text = re.sub(r"\\sqrt([^{])", r"\\sqrt{\1}", text).replace(" ", "")
    text = _braced_fractions(text)
    if text == "0.5":
        return "\\frac{1}{2}"
    return _slash_fraction(text)


def _without_unit(text: str) -> str:
    parts = text.split("\\text{ ")
    if len(parts) > 2:
        raise ValueError(text)
    return parts[0]


def _braced_fractions(text: str) -> str:
    r"""Write ``\frac12`` and ``\frac1{72}`` with both braces; one that lacks a part stays."""
    head, *parts = text.split("\\frac")
    result = head
    for part in parts:
        if part.startswith("{"):
            result += "\\frac" + part
        elif len(part) < 2:
            return text
        elif part[1] == "{":
            result += f"\\frac{{{part[0]}}}{part[1:]}"
        else:
            result += f"\\frac{{{part[0]}}}{{{part[1]}}}{part[2:]}"
    return result


def _slash_fraction(text: str) -> str:
    r"""Write ``3/4`` as ``\frac{3}{4}``; anything but two integers around one slash stays."""
    top, slash, bottom = text.partition("/")
    if not slash or not _INTEGER.fullmatch(top) or not _INTEGER.fullmatch(bottom):
        return text
    if str(int(top)) != top or str(int(bottom)) != bottom:
        return text
    return f"\\frac{{{top}}}{{{bottom}}}"
