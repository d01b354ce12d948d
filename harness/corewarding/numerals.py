r"""Read exact values out of numeric answers: integers, decimals, fractions, powers of ten.

Works on what `repairs.tidy` returns. Most answers of mathematics benchmarks are numbers, so most
comparisons end here, in microseconds and without computer algebra.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

__all__ = ["Number", "number"]

_TEXT = r"\\(?:text(?:bf|it|rm|sf)?|math(?:rm|bf|it|sf)|mbox|operatorname|emph)"
_UNIT = r"(?:mm|cm|km|ft|yd|mi|kg|mg|lbs?|oz|ml|hrs?|ms|in)"
_WORD = rf"(?:[A-Za-z]{{3,}}|{_UNIT})"


@dataclass(frozen=True, slots=True)
class Number:
    """The exact value of a numeric answer, and how it was written."""

    value: Fraction
    places: int | None = None
    """Decimals written; None for integers and fractions."""
    percent: bool = False
    name: str = ""
    r"""The x of ``x = 8``."""
    base: str = ""
    """The 8 of ``52_8``; `value` then reads the digits as if they were decimal."""

    def equals(self, other: Number) -> bool:
        """Compare by value; a decimal of six places or more may round a fraction."""
        if self.name and other.name and self.name != other.name:
            return False
        if self.base and other.base and self.base != other.base:
            return False
        if self.value == other.value or _rounds_to(self, other) or _rounds_to(other, self):
            return True
        if self.percent != other.percent:  # 10\% is written 10 as often as 0.1
            rate, plain = (self, other) if self.percent else (other, self)
            return rate.value == plain.value * 100
        return False


_ROUNDING_PLACES = 6


def _rounds_to(decimal: Number, fraction: Number) -> bool:
    if decimal.places is None or decimal.places < _ROUNDING_PLACES or fraction.places is not None:
        return False
    denominator = fraction.value.denominator
    if pow(10, denominator.bit_length(), denominator) == 0:  # it has an exact decimal
        return False
    return abs(decimal.value - fraction.value) * 2 <= Fraction(1, 10**_ROUNDING_PLACES)


_ASSIGNED = re.compile(r"\s*([A-Za-z](?:_(?:\w|\{\w+\}))?)\s*=(?!=)")
_TRAILING = re.compile(
    rf"(?P<percent>\s*(?:\\?%|percent\b))"
    rf"|\s*\^\s*(?:\\circ|\{{\s*\\circ\s*\}})\s*(?:C|F)?"
    rf"|\s*(?:{_TEXT}\{{[^{{}}]*\}}\s*)+(?:\^\s*(?:\d|\{{-?\d+\}}))?"
    rf"|(?:\s+(?:{_WORD})(?:\s*/\s*(?:{_WORD})|\s+(?:{_WORD}))*|\s*(?:cm|km|mm|kg))"
    rf"(?:\s*\^\s*(?:\d|\{{-?\d+\}}))?"
)
_PLAIN = re.compile(
    r"([-+]?)\s*(\d{1,3}(?:,\d{3})+(?!\d)|\d{1,3}(?: \d{3})+(?!\d)|\d+)?(?:\.(\d*))?"
)
_SCIENTIFIC = re.compile(
    r"\s*(?:\\times|\\cdot|\*|x)\s*10\s*\^\s*(?:\{\s*([-+]?\d{1,4})\s*\}|(\d))"
)
_POWER_OF_TEN = re.compile(r"10\s*\^\s*(?:\{\s*([-+]?\d{1,4})\s*\}|(\d))")
_FRACTION = re.compile(
    r"([-+]?)\s*(\d*)\s*\\frac\s*(?:\{\s*([-+]?\d+)\s*\}|(\d))\s*(?:\{\s*([-+]?\d+)\s*\}|(\d))"
)
_SLASH = re.compile(r"([-+]?)\s*(\d+)\s*/\s*(\d+)|([-+]?)\s*\(\s*([-+]?\d+)\s*/\s*(\d+)\s*\)")
_BASED = re.compile(r"(\d+)\s*_\s*(?:\{\s*(\d+)\s*\}|(\d+))")


@lru_cache(maxsize=16384)
def number(tidied: str) -> Number | None:
    """Read an integer, decimal, fraction, mixed number or power of ten, exactly.

    Units, degrees, percent and a single ``x =`` in front are understood. None: not a number.
    """
    name = ""
    if match := _ASSIGNED.match(tidied):
        name, tidied = match[1].replace("{", "").replace("}", ""), tidied[match.end() :]
    tidied = tidied.strip()
    if match := _BASED.fullmatch(tidied):
        return Number(Fraction(int(match[1])), name=name, base=match[2] or match[3])
    for read in (_read_decimal, _read_fraction):
        found = read(tidied)
        if found is None:
            continue
        value, places, end = found
        if end == len(tidied):
            return Number(value, places, name=name)
        if rest := _TRAILING.fullmatch(tidied, end):
            return Number(value, places, percent=bool(rest["percent"]), name=name)
    return None


def _read_decimal(text: str) -> tuple[Fraction, int | None, int] | None:
    if match := _POWER_OF_TEN.match(text):
        return Fraction(10) ** int(match[1] or match[2]), None, match.end()
    match = _PLAIN.match(text)
    if match is None or not (match[2] or match[3]):
        return None
    whole = (match[2] or "0").replace(",", "").replace(" ", "")
    decimals = match[3] or ""
    value = Fraction(int(whole + decimals), 10 ** len(decimals))
    if match[1] == "-":
        value = -value
    if power := _SCIENTIFIC.match(text, match.end()):
        return value * Fraction(10) ** int(power[1] or power[2]), None, power.end()
    return value, len(decimals) or None, match.end()


def _read_fraction(text: str) -> tuple[Fraction, int | None, int] | None:
    if match := _FRACTION.match(text):
        sign, whole, top, bottom = match[1], match[2], match[3] or match[4], match[5] or match[6]
        inner_sign = top[0] in "+-" or bottom[0] in "+-"
        if int(bottom) == 0 or (whole and (inner_sign or int(top) >= int(bottom))):
            return None  # 2\frac{9}{4} is a product, not a mixed number: leave it to algebra
        value = Fraction(int(top), int(bottom)) + (int(whole) if whole else 0)
        return (-value if sign == "-" else value), None, match.end()
    match = _SLASH.match(text)
    if match is None or int(match[3] or match[6]) == 0:
        return None
    value = Fraction(int(match[2] or match[5]), int(match[3] or match[6]))
    return (-value if "-" in (match[1], match[4]) else value), None, match.end()
