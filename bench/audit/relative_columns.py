"""Columns of multiples and shares of one row (speed-ups, compression, relative sizes) and of differences to one row, compared with the
column that they come from.

Column and row are those that most of the cells follow to the digit; no name says them. A cell that is off by more than 5 %, or a
difference by three of its digits, is a finding then. A column that follows none, as a measured speed-up beside FLOPs, says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from itertools import product

from bench.audit.findings import Finding, of_cell
from bench.audit.names import derived_kind, is_average
from bench.audit.printed import PrintedNumber
from bench.audit.table import Sheet

RELATIVE = re.compile(
    r"speed.?up|faster|compress|smaller|reduc|times\b|×|ratio|relative|reten|retain|\bkept\b|remain|%\s*of",
    re.IGNORECASE,
)
Form = Callable[[Decimal, Decimal], Decimal]
FORMS: Mapping[str, Form] = {
    "{column} of {row} / its own": lambda own, base: base / own,
    "its own {column} / that of {row}": lambda own, base: own / base,
    "1 - its own {column} / that of {row}": lambda own, base: 1 - own / base,
}
Follows = Callable[
    [Mapping[int, PrintedNumber], Mapping[int, PrintedNumber], int], tuple[int, dict[int, Decimal]]
]
LEAST_FITS = 3
"""So many different values have to follow a row, and three times as many as do not. In 1,000 tables of random numbers none did."""
MOST_BASES = 8
"""Rows that are tried as the one that all are relative to, of those whose own cell is 0, 1, 100 or missing."""
NARROW, NEAR = Decimal("0.1"), Decimal("0.05")
"""A cell counts if rounding leaves no more than the first share of it open. One that is as near as the second may be of other numbers
than the printed ones: the median of ratios is not the ratio of medians."""


def relative_columns(sheet: Sheet) -> Iterator[Finding]:
    """The cells of such columns that do not follow."""
    multiples_of: dict[str, Follows] = {
        words if scale == 1 else f"100 x ({words})": partial(_followed, form=form, scale=scale)
        for (words, form), scale in product(FORMS.items(), (1, 100))
    }
    differences_to: dict[str, Follows] = {"its own {column} - that of {row}": _differs_so}
    by_column: dict[str, dict[int, PrintedNumber]] = {}
    for at, row in enumerate(sheet.rows):
        for column, number in (*row.cells.items(), *row.sizes.items()):
            by_column.setdefault(column, {})[at] = number
    for column, target in by_column.items():
        multiples = sum(number.unit in ("x", "X", "×") for number in target.values())
        is_difference = derived_kind(column) == "difference"
        is_relative = bool(RELATIVE.search(column)) or multiples >= LEAST_FITS
        if len(target) < LEAST_FITS or is_average(column) or not (is_difference or is_relative):
            continue
        # fits, misses with a minus, the right values of these, and the rule
        best = 0, 0, dict[int, Decimal](), ""
        for name, source in by_column.items():
            if name == column:
                continue
            bases = [at for at in source if at not in target or target[at].value in (0, 1, 100)]
            for base in bases[:MOST_BASES]:
                for words, follows in (differences_to if is_difference else multiples_of).items():
                    fits, misses = follows(target, source, base)
                    if fits >= max(LEAST_FITS, 3 * len(misses)) and (fits, -len(misses)) > best[:2]:
                        best = (
                            fits,
                            -len(misses),
                            misses,
                            words.format(column=name, row=sheet.rows[base].system),
                        )
        for at, right in best[2].items():
            yield of_cell(sheet, sheet.rows[at], column, right, "relative", best[3], "a digit")


def _differs_so(
    target: Mapping[int, PrintedNumber], source: Mapping[int, PrintedNumber], base: int
) -> tuple[int, dict[int, Decimal]]:
    """How many different differences follow a row, and the right values of the cells that do not. They are often computed before
    rounding, so that a fit may be off by half a digit of each number."""
    fits, misses = set(), {}
    for at, cell in target.items():
        if at != base and at in source:
            right = source[at].value - source[base].value
            if abs(cell.value - right) <= (cell.step + source[at].step + source[base].step) / 2:
                fits.add(cell.value)
            elif abs(cell.value - right) >= 3 * max(cell.step, source[at].step, source[base].step):
                misses[at] = right
    return len(fits), misses


def _followed(
    target: Mapping[int, PrintedNumber],
    source: Mapping[int, PrintedNumber],
    base: int,
    form: Form,
    scale: int,
) -> tuple[int, dict[int, Decimal]]:
    """How many different values follow a row, and the right values of the cells that do not."""
    fits, misses = set(), {}
    for at, cell in target.items():
        if at == base or at not in source or source[at].value == source[base].value:
            continue
        own, of_base = (
            [n.value - n.step / 2, n.value + n.step / 2] for n in (source[at], source[base])
        )
        if own[0] <= 0 or of_base[0] <= 0:
            continue
        corners = [scale * form(a, b) for a, b in product(own, of_base)]  # it is monotone in both
        low, high = min(corners) - cell.step / 2, max(corners) + cell.step / 2
        if high - low > NARROW * max(abs(low), abs(high)):
            continue
        right = scale * form(source[at].value, source[base].value)
        printed = abs(cell.value)  # a reduction may have a minus
        if low <= printed <= high:
            fits.add(printed)
        elif abs(printed - right) > NEAR * abs(right):
            misses[at] = right
    return len(fits), misses
