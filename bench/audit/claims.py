"""Claims in running text that name a system and a number: does any row of the tables bear them out?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from bench.audit.checks import is_average, plain_name
from bench.audit.findings import INFERENCE, Finding
from bench.audit.printed import printed
from bench.audit.sheets import Row, Sheet

NUMBER = r"(\d+(?:\.\d+)?)"
TIMES = re.compile(NUMBER + r"\s*(?:x|×|times)\s+(smaller|fewer|faster)", re.IGNORECASE)
PERCENT = re.compile(NUMBER + r"\s*%\s+(smaller|fewer|faster)", re.IGNORECASE)
KEPT = re.compile(r"(over|more than|at least)?\s*" + NUMBER + r"\s*%\s+of\s+[^.;]{0,60}?performance", re.IGNORECASE)
REFERENCES = ("bert", "bertbase", "bertlarge", "elmo", "gpt", "glue")
TIME = re.compile(r"time|latency|second", re.IGNORECASE)
NAME = re.compile(r"\b[A-Za-z]*[A-Z][A-Za-z]*[A-Z][\w-]*\b")
"""Names of systems: two capitals, as TinyBERT or PKD."""


def claims(text: str, where: str, sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Claims of size, speed and kept score that no pair of rows gives; those that cannot be computed are left alone."""
    rows = [row for sheet in sheets for row in sheet.rows]
    for sentence in re.split(r"(?<=[.!?])\s+|\n", text):
        if "|" in sentence or "\t" in sentence:
            continue
        for match, kind in _matches(sentence):
            own = _subject(sentence[: match.start()], rows)
            number = printed(match.group(2 if kind == "kept" else 1))
            if not own or number is None:
                continue
            what = "kept" if kind == "kept" else "faster" if match.group(2).lower() == "faster" else "smaller"
            values = [value for row in own for value in _values(row, rows, kind, what)]
            slack = _slack(match.group(2 if kind == "kept" else 1))
            at_least = kind == "kept" and match.group(1)
            fits = any(abs(v - number.value) <= slack or (at_least and v >= number.value - slack) for v in values)
            if values and not fits:
                nearest = min(values, key=lambda v: abs(v - number.value))
                yield Finding(
                    where,
                    own[0].system,
                    "",
                    match.group(0).strip(),
                    f"{nearest:.1f}",
                    INFERENCE,
                    "claim",
                    "no pair of rows of the tables gives this number; the nearest is shown",
                    "a claim in the text",
                )


def _matches(sentence: str) -> Iterator[tuple[re.Match[str], str]]:
    for kind, pattern in (("times", TIMES), ("percent", PERCENT), ("kept", KEPT)):
        for match in pattern.finditer(sentence):
            yield match, kind


def _subject(before: str, rows: Sequence[Row]) -> list[Row]:
    """The rows of the first system named before the claim; what others are measured against is no subject."""
    for name in NAME.findall(before):
        plain = plain_name(name)
        own = [row for row in rows if plain_name(row.system).startswith(plain)]
        if own and plain not in REFERENCES:
            return own
    return []


def _slack(text: str) -> Decimal:
    """Half a step of the last digit that was meant: 60 may stand for 55 to 65, 7.5 for 7.45 to 7.55; and two hundredths of itself."""
    value = Decimal(text)
    step = (
        Decimal(1).scaleb(-len(text.partition(".")[2]))
        if "." in text
        else Decimal(10 if value >= 10 and value % 10 == 0 else 1)
    )
    return step / 2 + value / 200


def _values(row: Row, rows: Sequence[Row], kind: str, what: str) -> list[Decimal]:
    """Every value of this kind that the row has beside another one."""
    others = [other for other in rows if other is not row]
    made: list[Decimal] = []
    if what == "kept":
        for other in others:
            for column, cell in row.cells.items():
                if is_average(column) and column in other.cells and other.cells[column].value:
                    made.append(100 * cell.value / other.cells[column].value)
        return made
    ratios: list[Decimal] = []
    keys = ("params",) if what == "smaller" else ("flops",)
    for other in others:
        for key in keys:
            if key in row.sizes and key in other.sizes and row.sizes[key].value:
                ratios.append(other.sizes[key].value / row.sizes[key].value)
        if what == "faster":
            for column, cell in row.cells.items():
                # a column of times, by its name or because scores do not go beyond 100
                timed = TIME.search(column) or any(r.cells[column].value > 100 for r in rows if column in r.cells)
                if timed and column in other.cells and cell.value:
                    ratios.append(other.cells[column].value / cell.value)
    if what == "faster" and "speed-up" in row.sizes:
        ratios.append(row.sizes["speed-up"].value)
    if kind == "times":
        return ratios
    return [100 * (1 - 1 / r) if what == "smaller" else 100 * (r - 1) for r in ratios if r]
