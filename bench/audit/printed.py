"""Numbers as they are printed: value, decimals, and what they may have been before rounding."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

NUMBER = re.compile(r"[-+−–]?\d[\d,]*(?:\.\d+)?|[-+−–]?\.\d+")


@dataclass(frozen=True)
class Printed:
    """One number of a table.

    Attributes:
        text: as it stands there, without marks of emphasis.
        places: digits after the point.
    """

    text: str
    value: Decimal
    places: int

    @property
    def unit(self) -> Decimal:
        """One step of its last digit."""
        return Decimal(1).scaleb(-self.places)

    def is_rounded(self, exact: Decimal) -> bool:
        """Whether it is ``exact`` rounded to its places, halves either way."""
        return self.value in {exact.quantize(self.unit, rule) for rule in (ROUND_HALF_UP, ROUND_HALF_EVEN)}

    def is_cut(self, exact: Decimal) -> bool:
        """Whether it is ``exact`` with the further digits cut off."""
        return self.value == exact.quantize(self.unit, ROUND_DOWN)


def printed(text: str) -> Printed | None:
    """The number of a cell, or None where there is none or more than one.

    Emphasis, percent signs, multiplication signs, a deviation after ± or as a subscript, and footnote marks are left aside.
    """
    plain = re.sub(r"</?\w+>", "", text)
    plain = re.sub(r"^(\W*\d[\d.,]*\W*)_\{?(?:\\pm)?\s*[\d.]+\}?$", r"\1", plain)
    plain = re.sub(r"\\(?:textbf|underline|mathbf|textit|emph|bf)\b", "", plain)
    plain = re.sub(r"\$?\\pm.*|±.*|\+/-.*", "", plain)
    plain = re.sub(r"\[\d+\]|\^\{?[\w*†‡]+\}?|[*_`{}$†‡~]|\\[,;% ]", " ", plain)
    plain = re.sub(r"(?<=\d)\s*(?:%|x|×|X|ms|s|[MBGK])\s*$", "", plain.strip())
    plain = re.sub(r"\\times", "", plain).strip()
    if not NUMBER.fullmatch(plain.replace(" ", "")):
        return None
    clean = plain.replace(" ", "").replace(",", "").replace("−", "-").replace("–", "-").lstrip("+")
    value = Decimal(clean)
    return Printed(clean, value, max(0, -int(value.as_tuple().exponent)))
