"""Numbers as they are printed: value, decimals, and what they may have been before rounding."""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass, field, replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from functools import lru_cache

DIGITS = (
    r"(?:\d{1,3}(?:,\d{3}){1,4}(?:\.\d{1,20})?"  # 1,234.5
    r"|\d{1,15}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,2})?"  # 84.3, 1.2e-5
    r"|\.\d{1,20})"  # .843
)
"""A printed number. One with more digits is no result."""
ROOM = Context(prec=200)
"""The context in which the largest of them can be rounded to the smallest step; decimals have 28
digits otherwise."""
UNIT = (
    r"(?:%|‰|[x×X](?![\w])|(?:ms|µs|us|sec|secs|s|min|mins|h|hr|hrs|hours?|d|days?"
    r"|[KkMBGT]|[KMGT]i?B|mb|mn|bn|b|m|B/s|MB/s|it/s|tok/s|tokens/s|pts?|pp|points?|bits?|bpw"
    r"|GFLOPs|MFLOPs|FLOPs|GMACs|MACs|params|million|billion|hours|epochs?"
    r"|W|J|fps|FPS|qps)(?![\w]))"
)
TOKEN = re.compile(
    rf"(?<![\w.])(?P<sign>[-+−–](?=[\d.]))?(?P<number>{DIGITS})(?:\s*(?P<unit>{UNIT}))?(?![\w])"
)
SUPERSCRIPT = re.compile(r"\^\{?[\w*†‡,]+\}?|[†‡§¶*✝♠♣♦♡¹²³⁴⁵⁶⁷⁸⁹⁰]")
SEPARATORS = re.compile(r"^[\s()\[\]/,;:|~≈∼<>≤≥=±→➔➜➡…+\-–—−.$°√'\"’_]*$")
WORDS_BETWEEN = re.compile(
    r"\b(?:to|vs\.?|versus|and|out of|of|CI|about|ca\.?|approx\.?|over|under"
    r"|better|worse|borderline|not significant|too few seeds for a verdict|n\.s\.)(?!\w)",
    re.IGNORECASE,
)
"""Words that may stand in the cell of a number; the last of them say how a test ended."""
CLOCK = re.compile(
    r"\s*\d+:\d\d(?::\d\d)?\s*|.*\d{4}-\d\d-\d\d.*"
    r"|.*\d+\s*h\s*\d+\s*m.*|.*\d\s*m(?:in)?\s*\d+\s*s.*"
)
"""Times of a clock and dates: no numbers to compute with."""
FROM_TO = re.compile(r"\(\s*([+−–-]?\d[\d.,]*)\s*[%x×]?\s+to\s+([+−–-]?\d[\d.,]*)\s*[%x×]?\s*\)")
DECIMAL_COMMA = re.compile(r"(?<!\w)(\d+),(\d{1,2})(?![\d,])(?=\s*(?:$|\\?%|[()\[±/$]))")
POWER = re.compile(
    r"(?:(\d[\d.]*)\s*(?:×|\\times|\\cdot|x|\*)\s*)?(?<![\d.])10\s*\^\s*\{?\s*([-−+]?\d+)\s*\}?"
)


@dataclass(frozen=True)
class PrintedNumber:
    """One number of a table.

    Attributes:
        text: as it stands there, without marks of emphasis.
        places: digits after the point.
        deviation: what is printed behind ±, if anything.
        interval: its ends, where they are printed behind it: [69.0, 72.5] or (69.0 to 72.5).
        unit: the unit behind it, as % or M.
    """

    text: str
    value: Decimal
    places: int
    deviation: PrintedNumber | None = field(default=None, compare=False)
    interval: tuple[PrintedNumber, ...] = field(default=(), compare=False)
    unit: str = field(default="", compare=False)

    @property
    def step(self) -> Decimal:
        """One step of its last digit."""
        return Decimal(1).scaleb(-self.places)

    def is_rounded(self, exact: Decimal) -> bool:
        """Whether it is ``exact`` rounded to its places, halves rounded up or to even."""
        return self.value in {
            exact.quantize(self.step, rule, ROOM) for rule in (ROUND_HALF_UP, ROUND_HALF_EVEN)
        }

    def is_cut(self, exact: Decimal) -> bool:
        """Whether it is ``exact`` with the further digits cut off."""
        return self.value == exact.quantize(self.step, ROUND_DOWN, ROOM)

    def is_only_cut(self, exact: Decimal) -> bool:
        """Whether ``exact`` is cut off here where it would be rounded up."""
        return self.is_cut(exact) and not self.is_rounded(exact)


def printed(text: str) -> PrintedNumber | None:
    """The number of a cell, or None where there is none or more than one.

    Emphasis, percent signs, multiplication signs, a deviation after ± or as a subscript, and
    footnote marks are left aside.
    """
    parts = numbers_of(text)
    return parts[0][0] if len(parts) == 1 else None


@lru_cache(20_000)
def numbers_of(text: str) -> tuple[tuple[PrintedNumber, str], ...]:
    """The numbers of a cell in their order, each with what it is there; none where the cell is
    words.

    They are ``value``, ``other`` (a second value) or ``change`` (a signed one in brackets). A
    deviation and an interval stay with the number before them.
    """
    plain = _without_marks(text)
    # numbers, and what stands between them: a cell of words has none
    tokens = list(TOKEN.finditer(plain))
    glue = re.sub(r"[↑↓]", " ", WORDS_BETWEEN.sub(" ", TOKEN.sub(" ", plain)))
    if not tokens or CLOCK.fullmatch(plain) or not SEPARATORS.match(glue):
        return ()

    # each number with what it is to those before
    parts: list[tuple[PrintedNumber, str]] = []
    end = 0
    is_interval = False
    for token in tokens:
        glue = plain[end : token.start()]
        end = token.end()
        # 84.3%–85.1% is a range
        is_signed = not parts or (glue and glue[-1] in " (/[,;→|")
        number = _number(token, token["sign"] if is_signed else "")
        if not parts:
            parts.append((number, "value"))
            continue

        # the ends of an interval and a deviation belong to the number before them
        last, last_role = parts[-1]
        is_interval = "[" in glue or (is_interval and "]" not in glue)
        if is_interval:
            parts[-1] = (replace(last, interval=(*last.interval, number)), last_role)
            continue
        role = _role(glue, token, number, parts[0][0])
        if role == "deviation":
            parts[-1] = (replace(last, deviation=last.deviation or number), last_role)
            continue

        # an arrow is the sign of a change
        if role == "change" and "↓" in glue:
            number = replace(number, text=f"-{number.text.lstrip('+-')}", value=-abs(number.value))
        parts.append((number, role))
    return tuple(parts)


def _number(token: re.Match[str], sign: str | None) -> PrintedNumber:
    """The number of a token with a sign, whichever dash prints it."""
    shown = token["number"].replace(",", "").rstrip(".")
    if sign:
        shown = ("+" if sign == "+" else "-") + shown
    value = Decimal(shown)
    places = max(0, -int(value.as_tuple().exponent))
    return PrintedNumber(shown, value, places, unit=token["unit"] or "")


def _without_marks(text: str) -> str:
    """A cell as its numbers are read: without markup, footnotes and emphasis, signs in one form."""
    # signs in one form
    plain = html.unescape(text)
    plain = re.sub(r"\$?\\pm\s*", "±", plain)
    plain = plain.replace("+/-", "±").replace("\\times", "×").replace("+-", "±")
    plain = re.sub(r"<br\s*/?>", " / ", plain)
    plain = POWER.sub(lambda m: f"{m[1] or 1}e{m[2].replace('−', '-')}", plain)

    # markup and the look of numbers
    plain = re.sub(r"</?\w[^<>]*>", "", plain)
    plain = re.sub(r"\\(?:textbf|underline|mathbf|textit|emph|bf)\b", "", plain)
    # a deviation as a subscript: 81.2_{0.4}
    plain = re.sub(r"(?<=\d)(\s*%?\s*)\$?_\{?\s*±?\s*([\d.]+)\s*\}?\$?", r"\1 ±\2", plain)
    plain = SUPERSCRIPT.sub("", plain)
    plain = re.sub(r"(?<=\S)\s*\[\s*\w{0,3}\s*\]|^\s*(?:\[\d+\]\s*)+$", "", plain)  # a footnote

    # intervals and decimal commas
    plain = FROM_TO.sub(_interval, plain)
    plain = DECIMAL_COMMA.sub(r"\1.\2", plain)
    plain = "".join(mark for mark in plain if _is_shown(mark))
    return re.sub(r"[*`{}$]|\\[,;%! ]", " ", plain).replace("\\", " ").replace("~", " ").strip()


def _interval(from_to: re.Match[str]) -> str:
    """``(69,0 to 72.5)`` as ``[69.0, 72.5]``."""
    low, high = (re.sub(r",(?=\d{1,2}$)", ".", end) for end in from_to.groups())
    return f"[{low}, {high}]"


def _is_shown(mark: str) -> bool:
    """Whether a character is neither a symbol as an emoji, an accent, nor invisible."""
    return mark == "^" or unicodedata.category(mark) not in ("So", "Sk", "Mn", "Cf")


def _role(glue: str, token: re.Match[str], number: PrintedNumber, first: PrintedNumber) -> str:
    """The role of a further number of a cell: ``deviation``, ``change`` or ``other``.

    The end of a range is ``other``.

    Args:
        glue: what stands between it and the number before.
    """
    if "±" in glue:
        return "deviation"
    has_arrow = "↑" in glue or "↓" in glue
    is_bracketed = "(" in glue
    if has_arrow or (is_bracketed and token["sign"]):
        return "change"
    if token["sign"] == "+" and glue.endswith(" "):
        return "change"
    # without a sign and small, in brackets: over seeds
    is_small = abs(number.value) < abs(first.value) / 5 and number.places >= 1
    return "deviation" if is_bracketed and not number.unit and is_small else "other"
