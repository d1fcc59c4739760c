"""Totals: rows whose name calls them a sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from bench.audit.averages import rows_above
from bench.audit.findings import ARITHMETIC, INFERENCE, Finding, of_cell
from bench.audit.names import is_total_row
from bench.audit.printed import PrintedNumber
from bench.audit.table import Sheet

DEVIATIONS = Decimal("1.9")
"""A total is named if it is off by more than so many standard deviations of the rounding of its parts. It is a guess while
all roundings together can explain it."""
NEAR = Decimal("0.02")
"""A total further off than this share of itself is of other parts than these."""


def sums(sheet: Sheet) -> Iterator[Finding]:
    """Rows of totals that no set of the rows above gives, although the nearest almost does."""
    for row, choices in rows_above(sheet, is_total_row):
        for column, cell in row.cells.items():
            ways = [[r.cells[column] for r in chosen if column in r.cells] for chosen in choices.values()]
            ways = [parts for parts in ways if len(parts) >= 2]
            if not ways or not cell.value or any(_fits(cell, parts) for parts in ways):
                continue
            parts = min(ways, key=lambda parts: abs(_sum(parts) - cell.value))
            off = abs(_sum(parts) - cell.value)
            if off > NEAR * abs(cell.value) or len({part.unit for part in parts}) > 1:
                continue
            why, basis = "the sum of the rows above in this column", ARITHMETIC
            is_fractional = any(part.places or part.unit for part in parts)
            if is_fractional and off <= cell.step / 2 + sum((part.step / 2 for part in parts), Decimal(0)):
                why, basis = f"{why}; rounding of the parts hardly gives this", INFERENCE
            yield of_cell(sheet, row, column, _sum(parts), "sum", why, "a total", basis)


def _sum(parts: Sequence[PrintedNumber]) -> Decimal:
    return sum((part.value for part in parts), Decimal(0))


def _fits(cell: PrintedNumber, parts: Sequence[PrintedNumber]) -> bool:
    """Whether a total is the sum of its parts within what their rounding makes likely; of whole numbers exactly."""
    # a number rounded to a step is off by a uniform error: variance step**2 / 12
    spread = (sum((part.step**2 for part in parts), Decimal(0)) / 12).sqrt()
    is_fractional = any(part.places or part.unit for part in parts)
    return abs(cell.value - _sum(parts)) <= cell.step / 2 + (DEVIATIONS * spread if is_fractional else 0)
