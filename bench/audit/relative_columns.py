"""Compare columns of multiples, shares and differences of one row with the column behind them.

Speed-ups, compression and relative sizes are such columns. Column and row are those that most of
the cells follow to the digit; no name says them. A cell that is then off by more than 5 %, or a
difference by three of its digits, is a finding. A column that follows none, as a measured speed-up
beside FLOPs, says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import product

from bench.audit.findings import Finding, of_cell
from bench.audit.names import derived_kind, is_average
from bench.audit.printed import PrintedNumber
from bench.audit.table import Sheet

RELATIVE = re.compile(
    r"speed.?up|faster|compress|smaller|reduc|times\b|×|ratio|relative|reten|retain|\bkept\b|remain"
    r"|%\s*of",
    re.IGNORECASE,
)
Column = Mapping[int, PrintedNumber]
"""The numbers of a column by the numbers of their rows."""
Form = Callable[[Decimal, Decimal], Decimal]
FORMS: Mapping[str, Form] = {
    "{column} of {row} / its own": lambda own, base: base / own,
    "its own {column} / that of {row}": lambda own, base: own / base,
    "1 - its own {column} / that of {row}": lambda own, base: 1 - own / base,
}
LEAST_FITS = 3
"""So many different values have to follow a row, and three times as many as do not. In 1,000 tables
of random numbers none did."""
MOST_BASES = 8
"""Rows that are tried as the one that all are relative to, of those whose own cell is 0, 1, 100 or
missing."""
NARROW = Decimal("0.1")
"""A cell counts if rounding leaves no more than this share of it open."""
NEAR = Decimal("0.05")
"""A cell that is as near as this share may be of other numbers than the printed ones: the median of
ratios is not the ratio of medians."""


@dataclass
class Followed:
    """How a column follows one row of another column.

    Attributes:
        fits: the different values that follow.
        misses: row -> what its cell should be, of the cells that do not follow.
        rule: how the cells are made, in words.
    """

    fits: set[Decimal] = field(default_factory=set)
    misses: dict[int, Decimal] = field(default_factory=dict)
    rule: str = ""

    @property
    def convinces(self) -> bool:
        return len(self.fits) >= max(LEAST_FITS, 3 * len(self.misses))

    @property
    def rank(self) -> tuple[int, int]:
        return len(self.fits), -len(self.misses)


Follows = Callable[[Column, Column, int], Followed]
"""How a column follows the cell of a row in another column."""


def relative_columns(sheet: Sheet) -> Iterator[Finding]:
    """Find the cells of such columns that do not follow."""
    # the numbers of each column, sizes too
    by_column: dict[str, dict[int, PrintedNumber]] = {}
    for index, row in enumerate(sheet.rows):
        for column, number in (*row.cells.items(), *row.sizes.items()):
            by_column.setdefault(column, {})[index] = number
    for column, target in by_column.items():
        if len(target) < LEAST_FITS or is_average(column):
            continue
        rules = _rules_for(column, target)
        best = _best_followed(sheet, column, by_column, rules)
        for index, right in best.misses.items():
            row = sheet.rows[index]
            yield of_cell(sheet, row, column, right, "relative", best.rule, "a digit")


def _rules_for(column: str, target: Column) -> Mapping[str, Follows]:
    """How a column may follow another one, by its name and units; empty for an ordinary column."""
    if derived_kind(column) == "difference":
        return {"its own {column} - that of {row}": _differs_so}
    multiples = sum(number.unit in ("x", "X", "×") for number in target.values())
    if multiples < LEAST_FITS and not RELATIVE.search(column):
        return {}

    # as a ratio, or in percent
    rules = {}
    for words, form in FORMS.items():
        rules[words] = partial(_multiplies, form=form, scale=1)
        rules[f"100 x ({words})"] = partial(_multiplies, form=form, scale=100)
    return rules


def _best_followed(
    sheet: Sheet, column: str, by_column: Mapping[str, Column], rules: Mapping[str, Follows]
) -> Followed:
    """The first of the other columns, rows and rules that most of the column's cells follow."""
    target = by_column[column]
    best = Followed()
    for name, source in by_column.items():
        if name == column:
            continue
        # a row that all are relative to is 0, 1 or 100, or left out
        bases = [at for at in source if at not in target or target[at].value in (0, 1, 100)]
        for base, (words, follows) in product(bases[:MOST_BASES], rules.items()):
            followed = follows(target, source, base)
            if followed.convinces and followed.rank > best.rank:
                followed.rule = words.format(column=name, row=sheet.rows[base].system)
                best = followed
    return best


def _differs_so(target: Column, source: Column, base: int) -> Followed:
    """How cells follow as differences to one row.

    They are often computed before rounding, so that a fit may be off by half a digit of each
    number.
    """
    followed = Followed()
    for index, cell in target.items():
        if index == base or index not in source:
            continue
        # within the rounding of all three it fits; far outside it is wrong
        right = source[index].value - source[base].value
        off = abs(cell.value - right)
        steps = (cell.step, source[index].step, source[base].step)
        if off <= sum(steps) / 2:
            followed.fits.add(cell.value)
        elif off >= 3 * max(steps):
            followed.misses[index] = right
    return followed


def _multiplies(target: Column, source: Column, base: int, form: Form, scale: int) -> Followed:
    """How cells follow as multiples or shares of one row."""
    followed = Followed()
    for index, cell in target.items():
        if index == base or index not in source or source[index].value == source[base].value:
            continue
        own_ends = _ends(source[index])
        base_ends = _ends(source[base])
        if own_ends[0] <= 0 or base_ends[0] <= 0:
            continue

        # what rounding leaves open: the form is monotone in both numbers
        corners = [scale * form(own, of_base) for own, of_base in product(own_ends, base_ends)]
        low = min(corners) - cell.step / 2
        high = max(corners) + cell.step / 2
        if high - low > NARROW * max(abs(low), abs(high)):
            continue

        # near misses are of other numbers; far ones are wrong
        right = scale * form(source[index].value, source[base].value)
        printed = abs(cell.value)  # a reduction may have a minus
        if low <= printed <= high:
            followed.fits.add(printed)
        elif abs(printed - right) > NEAR * abs(right):
            followed.misses[index] = right
    return followed


def _ends(number: PrintedNumber) -> tuple[Decimal, Decimal]:
    """The least and the greatest number that are rounded to this one."""
    return number.value - number.step / 2, number.value + number.step / 2
