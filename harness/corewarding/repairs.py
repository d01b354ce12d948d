r"""Bring the spellings of an answer together before anything is compared.

Models write ``½``, ``2 3/4``, ``12\,450``, ``3e8``, ``45 cm^2`` or ``\mathrm e``; math-verify reads
some of these wrongly or not at all. `tidy` rewrites them to plain LaTeX, `number` reads exact
values out of the result, `too_heavy` spots what no computer algebra should be asked to evaluate.
Pure text work: nothing here imports sympy.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from corewarding.numerals import number

__all__ = [
    "MAX_LENGTH",
    "brackets",
    "is_prose",
    "is_word",
    "plain_text",
    "split_top_level",
    "tidy",
    "too_heavy",
]

MAX_LENGTH = 2000
"""Characters; an answer that is longer is not an answer."""

_SYMBOLS = {
    "−": "-", "–": "-", "×": r"\times ", "÷": r"\div ", "·": r"\cdot ", "⋅": r"\cdot ",
    "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "±": r"\pm ", "∓": r"\mp ",
    "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}",
    "°": r"^\circ ", "º": r"^\circ ", "′": "'", "’": "'", "€": "", "£": "", "¥": "", "，": ",",
    "∶": ":", "⁄": "/", "∕": "/", "∗": "*", "＊": "*", "∑": r"\sum ", "∏": r"\prod ",
    "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ", "ε": r"\epsilon ",
    "θ": r"\theta ", "λ": r"\lambda ", "μ": r"\mu ", "π": r"\pi ", "ρ": r"\rho ",
    "σ": r"\sigma ", "τ": r"\tau ", "φ": r"\phi ", "ω": r"\omega ", "Δ": r"\Delta ",
    "Ω": r"\Omega ",
}  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")

_NAMED = r"(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?|log|ln|exp|sqrt"
_TEXT = r"\\(?:text(?:bf|it|rm|sf)?|math(?:rm|bf|it|sf)|mbox|operatorname|emph)"
_NO_UNIT = r"(?:and|or|if|is|are|for|where|when|with|[AaPp]\.?[Mm]\.?)(?![A-Za-z])"
_UNIT_TEXT = _TEXT + rf"\{{\s*(?!{_NO_UNIT})(?:[A-Za-z][A-Za-z. ]+|\s[A-Za-z]\s*)\}}"
_NUMERAL = r"(?:\d[\d,]*(?:\.\d*)?|\.\d+)"

_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        # thousands: 12\,450 12{,}450 12,\!450; never 12,450, which may be a list
        (r"(?<=\d)(?:\\,|\{,\}|,?\\!)\s*(?=\d{3}(?!\d))", ""),
        (r"\\(?:left|right|[bB]ig+[lr]?|displaystyle|textstyle|limits)(?![A-Za-z])\.?", ""),
        (r"\\(?:[,;:!> ]|q?quad(?![A-Za-z]))|~", " "),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\le(?:q|qslant)?(?![A-Za-z])", r"\\le "),
        (r"\\ge(?:q|qslant)?(?![A-Za-z])", r"\\ge "),
        (r"\\(?:colon(?![A-Za-z])|mathbin\{:\})|\{:\}", ":"),
        (r"\\?\$", ""),
        (rf"(?<!_\{{)({_TEXT})\s+(?=\{{)", r"\1"),
        # a numbered E is no Euler's number, but math-verify cannot read it
        (r"(?<![A-Za-z\\])[eE](?=_)", r"\\Xi"),
        *(
            (
                rf"(?<=\d)\s*(?:{_TEXT}\{{\s*{scale}(?:\s[A-Za-z ]*)?\}}|\b{scale}\b)",
                rf"\\times10^{{{power}}} ",
            )
            for scale, power in (("thousand", 3), ("million", 6), ("billion", 9), ("trillion", 12))
        ),
        # lists in words, then units: 45\text{ cm}^2, 9\pi\text{ m}/\text{s}
        (r",?\s*" + _TEXT + r"\{\s*,?\s*(?:[A-Za-z.]+\s+)?(?:and|or)\s*\}", ", "),
        (
            rf"(?:(?<=[\d}})])|(?<=\\pi)|(?<=\\pi ))\s*{_UNIT_TEXT}"
            rf"(?:\s*/\s*{_TEXT}\{{[A-Za-z. ]+\}})?\s*"
            r"(?:\^\s*(?:\d|\{-?\d+\})\s*)?(?=[,)\]]|$|(?:and|or)\b)",
            " ",
        ),
        (r"(?<=[\s\d}]),?\s*\b(?:and|or)\b(?=[\s\d\\-])", ", "),
        # upright letters and numbers: \mathrm{e}, \mathrm e, \text{17}; 12\text{ m} has a unit
        (_TEXT + r"\s*\{\s*([ei]|-?[\d.,]+)\s*\}", r"\1"),
        (r"(?<![\d ])" + _TEXT + r"\s*\{\s*([A-Za-z])\s*\}", r"\1"),
        (_TEXT + r"\s+([A-Za-z])(?![A-Za-z])", r"\1"),
        (r"\*\*", "^"),
        (rf"(?<![\\A-Za-z])(?:np\.|math\.)?({_NAMED})(?=\s*\()", r"\\\1"),
        # 3e8, but not 2e or 3e8x
        (rf"(?<![\w.\\}}])({_NUMERAL})[eE]([-+]?\d+)(?![\w.])", r"\1\\times10^{\2}"),
        (r"(?<=\^\{)\+(?=\d)", ""),
        # 2 3/4 and 2 \frac{3}{4}
        (r"(?<![\w.^}/])(\d+)\s+(\d{1,3})\s*/\s*(\d{1,3})(?![\w.!])", r"\1\\frac{\2}{\3}"),
        (r"(?<=\d)\.(?=\s*(?:[/,)\]}]|$))", ""),
        (r"\s+", " "),
    )
)
_NAMED_CHARACTER = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+|[₀-₉]+|√\s*(?:[\d.]+|[A-Za-z])?|[^\x00-\x7f]")
_WHOLLY_TEXT = re.compile(_TEXT + r"\s*\{([^{}]*\d[^{}]*)\}\.?")
_OPENING_PAREN = re.compile(r"(\\sqrt(?:\[[^\]]*\])?|\^)\s*\(")


@lru_cache(maxsize=16384)
def tidy(text: str) -> str:
    """Rewrite an answer to plain LaTeX with one spelling for what has several.

    Expects at most `MAX_LENGTH` characters.
    """
    text = text.strip()
    if not text.isascii():
        text = _NAMED_CHARACTER.sub(_latex, text)
    if match := _WHOLLY_TEXT.fullmatch(text):
        text = match[1].strip()
    for pattern, new in _REWRITES:
        text = pattern.sub(new, text)
    text = _braced(text.strip()).rstrip(".,; ")
    return text if brackets(text) != "{}" else tidy(text[1:-1])


def _latex(match: re.Match[str]) -> str:
    char = match.group()
    if char[0] in "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ":
        return "^{" + char.translate(_SUPERSCRIPTS) + "}"
    if "₀" <= char[0] <= "₉":
        return "_{" + char.translate(_SUBSCRIPTS) + "}"
    if char[0] == "√":
        return r"\sqrt" + (f"{{{char[1:].strip()}}}" if len(char) > 1 else "")
    if char in _SYMBOLS:
        return _SYMBOLS[char]
    plain = unicodedata.normalize("NFKC", char)
    if "⁄" in plain:  # a vulgar fraction such as ½, also behind a whole number
        top, _, bottom = plain.partition("⁄")
        return rf"\frac{{{top}}}{{{bottom}}}"
    return plain


def _braced(text: str) -> str:
    r"""Write ``\sqrt(9)`` as ``\sqrt{9}`` and ``2^(10)`` as ``2^{10}``."""
    position = 0
    while match := _OPENING_PAREN.search(text, position):
        opening = match.end() - 1
        closing = _closing(text, opening)
        if closing is not None:
            inner = text[opening + 1 : closing]
            text = f"{text[: match.end(1)]}{{{inner}}}{text[closing + 1 :]}"
        position = match.end(1) + 1
    return text


def _closing(text: str, opening: int) -> int | None:
    depth = 0
    for index in range(opening, len(text)):
        if text[index] in "([{":
            depth += 1
        elif text[index] in ")]}":
            depth -= 1
            if depth == 0:
                return index
    return None


# --- words ---------------------------------------------------------------------------------------

_TEXT_COMMAND = re.compile(_TEXT + r"(?![A-Za-z])")
_BARE_PROSE = re.compile(r"(?<![A-Za-z\\])([A-Za-z]{2,})\s+([A-Za-z]{2,})(?![A-Za-z])")
_FUNCTION = re.compile(_NAMED + r"|pi|inf|infty|max|min|gcd|lcm|mod|det|cm|km|mm|kg|in")
_VERDICT = re.compile(
    r"(?:(?:there (?:is|are) )?no\b|infinite(?:ly)?\b|all\b|does not exist|not possible)"
    r"(?:(?!answer|figure|proof|given|available|provided).)*",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"(?:n/?a|none|null|nan|unknown|tbd|todo|omitted|see .*|answers? (?:may|will|can) vary.*"
    r"|(?:the )?(?:proof|figure|diagram|graph|image|picture|solution))",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[^\W\d_]+(?:['-]? ?[^\W\d_]+)*")
_SHORT_WORDS = frozenset({"yes", "no", "odd", "even", "true", "false", "none", "both"})


def plain_text(text: str) -> str:
    r"""Return an answer in words without its wrapping: ``even`` for ``\text{(Even).}``."""
    text = re.sub(r"[\\{}$*\"“”]", " ", _TEXT_COMMAND.sub(" ", text))
    text = " ".join(text.split()).casefold().rstrip(".!? ")
    return text[1:-1].strip() if brackets(text) == "()" else text


def is_word(text: str) -> bool:
    r"""Return whether an answer names something: ``\text{even}``, ``Evelyn``, ``no solution``.

    A bare product of variables such as ``xy`` or ``abcd`` names nothing.
    """
    words = plain_text(text)
    if not _WORDS.fullmatch(words) or _FUNCTION.fullmatch(words):
        return False
    if _TEXT_COMMAND.search(text) or words in _SHORT_WORDS:
        return True
    if re.search(r"\\[A-Za-z]", text):
        return False
    return " " in words or (
        len(words) > 3 and bool(re.search("[aeiouy]", words)) and list(words) != sorted(words)
    )


def is_prose(text: str) -> bool:
    """Return whether a gold answer is a remark that no response can match (C09: *see figure*)."""
    plain = plain_text(text)
    if not plain or _PLACEHOLDER.fullmatch(plain):
        return True
    outside = re.sub(_TEXT + r"\s*\{[^{}]*\}", " ", text)
    if _VERDICT.fullmatch(plain):
        return False
    remark = any(
        not any(_FUNCTION.fullmatch(word) for word in pair) for pair in _BARE_PROSE.findall(outside)
    )
    return remark and number(tidy(text)) is None


# --- structure -----------------------------------------------------------------------------------


def split_top_level(text: str, separator: str) -> list[str]:
    """Split at `separator` (one character) outside of all brackets."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == separator and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()]


def brackets(tidied: str) -> str:
    r"""Return the pair that encloses the whole answer: ``()``, ``[)``, ``\{\}``, ... or ''."""
    escaped = tidied.startswith("\\{") and tidied.endswith("\\}")
    if not escaped and (len(tidied) < 2 or tidied[0] not in "([{" or tidied[-1] not in ")]}"):
        return ""
    if _closing(tidied, 1 if escaped else 0) != len(tidied) - 1:
        return ""
    return "\\{\\}" if escaped else tidied[0] + tidied[-1]


# --- weight --------------------------------------------------------------------------------------

_MAX_EXPONENT = 10_000
_MAX_DEPTH = 40
_BOUND = re.compile(r"\\(?:sum|prod|int)\b[^^]{0,80}\^\s*(?:\{\s*)?(\d{4,})")
_FACTORIAL = re.compile(r"\d{5,}\s*!|\d\s*!\s*!")
_OF_GROUP = re.compile(r"[)\]}]\s*!")
_LARGE = re.compile(r"\d{5,}|[!^]")
_LONG_SUM = re.compile(r"[)\]}]\s*\^\s*\{?\s*\d{4,}")
_BINOMIAL = re.compile(r"\\[dt]?binom\s*\{\s*\d{5,}")


def too_heavy(tidied: str) -> str | None:
    """Name what makes an answer too expensive to evaluate; None: nothing does.

    ``budget``: towers of powers, exponents beyond 10,000, huge factorials, sums, binomials and
    sums to the power of 1,000 or more.
    ``too_deep``: more than 40 brackets inside each other.
    """
    depth = deepest = 0
    for char in tidied:
        depth += (char in "([{") - (char in ")]}")
        deepest = max(deepest, depth)
    if deepest > _MAX_DEPTH:
        return "too_deep"
    if any(pattern.search(tidied) for pattern in (_BOUND, _BINOMIAL, _FACTORIAL, _LONG_SUM)):
        return "budget"
    groups = (_group_before(tidied, match.start()) for match in _OF_GROUP.finditer(tidied))
    if any(_LARGE.search(group) for group in groups):
        return "budget"
    return "budget" if _tower(tidied) else None


def _group_before(text: str, closing: int) -> str:
    """Return the bracket group that ends at `closing`."""
    depth = 0
    for index in range(closing, -1, -1):
        depth += (text[index] in ")]}") - (text[index] in "([{")
        if depth == 0:
            return text[index : closing + 1]
    return text[: closing + 1]


def _tower(text: str) -> bool:
    """Return whether some exponent of `text` is a number beyond the limit, or a tower itself."""
    return any(_magnitude(exponent) > _MAX_EXPONENT for exponent in _exponents(text))


def _exponents(text: str) -> list[str]:
    found = []
    for match in re.finditer(r"\^\s*(\{)?", text):
        if match[1]:
            closing = _closing(text, match.end() - 1)
            found.append(text[match.end() : closing if closing is not None else len(text)])
        elif plain := re.compile(r"[-+]?[\d.]+(?:\s*\^.*)?").match(text, match.end()):
            found.append(plain.group())
    return found


def _magnitude(exponent: str, nesting: int = 0) -> float:
    """Upper guess of the largest number that an exponent stands for."""
    if nesting > 3:
        return float("inf")
    base, power, rest = exponent.partition("^")
    digits = re.findall(r"\d+(?:\.\d+)?", base)
    largest = max((float(d) for d in digits[:50]), default=1.0)
    if not power:
        return largest
    inner = re.sub(r"^\s*\{|\}\s*$", "", rest)
    try:
        return max(largest, float(largest ** min(_magnitude(inner, nesting + 1), 1e4)))
    except OverflowError:
        return float("inf")
