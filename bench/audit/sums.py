"""Totals: a row or a column that its name calls a sum, compared with the sum of its parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

from bench.audit.averages import rows_above
from bench.audit.findings import INFERENCE, AuditedCell, Finding, of_cell
from bench.audit.names import TOTAL, is_average, is_plain, is_total_row
from bench.audit.printed import PrintedNumber
from bench.audit.table import PrintedRow, Sheet

DEVIATIONS = Decimal("1.9")
"""A total is named if it is off by more than so many standard deviations of the rounding of its parts. It is a guess while
all roundings together can explain it."""
NEAR = Decimal("0.02")
"""A total further off than this share of itself is of other parts than these."""


def sums(sheet: Sheet) -> Iterator[Finding]:
    """Rows and columns of totals that are not the sum of their parts although they are near it."""
    for place, row in enumerate(sheet.rows):
        if is_total_row(row):
            for column, cell in row.cells.items():
                ways = [
                    [r.cells[column] for r in chosen if column in r.cells]
                    for chosen in rows_above(sheet, place).values()
                ]
                yield from _against(sheet, row, column, cell, ways, "the sum of the rows above in this column")
    for column in [c for c in sheet.columns if TOTAL.match(c)]:
        rows = [r for r in sheet.rows if column in r.cells and is_plain(r)]
        parts = {id(r): [v for c, v in r.cells.items() if c != column and not is_average(c)] for r in rows}
        fitting = [r for r in rows if len(parts[id(r)]) >= 2 and not _gap(r.cells[column], parts[id(r)])]
        if len(fitting) >= max(2, len(rows) / 2):
            for row in rows:
                yield from _against(
                    sheet, row, column, row.cells[column], [parts[id(row)]], "the sum of this row's other columns"
                )


def _gap(cell: PrintedNumber, parts: Sequence[PrintedNumber]) -> Decimal:
    """How far a total is from the sum of its parts, 0 within what their rounding makes likely."""
    gap = abs(cell.value - _sum(parts))
    # a number rounded to a step is off by a uniform error: variance step**2 / 12
    spread = sum((part.step**2 for part in parts), Decimal(0)).sqrt() / Decimal(12).sqrt()
    fractional = any(part.places for part in parts) or any(part.unit for part in parts)
    return gap if gap > cell.step / 2 + (DEVIATIONS * spread if fractional else 0) else Decimal(0)


def _sum(parts: Sequence[PrintedNumber]) -> Decimal:
    return sum((part.value for part in parts), Decimal(0))


def _against(
    sheet: Sheet, row: PrintedRow, column: str, cell: PrintedNumber, ways: Sequence[Sequence[PrintedNumber]], why: str
) -> Iterator[Finding]:
    """A finding if no set of parts gives the total and the nearest almost does."""
    possible = [parts for parts in ways if len(parts) >= 2]
    if not possible or not cell.value or any(not _gap(cell, parts) for parts in possible):
        return
    nearest = min(possible, key=lambda parts: abs(_sum(parts) - cell.value))
    right = _sum(nearest)
    if abs(right - cell.value) > NEAR * abs(cell.value) or len({part.unit for part in nearest}) > 1:
        return
    finding = of_cell(AuditedCell(sheet, row, column), right, "sum", why, "a total")
    counted = not any(part.places or part.unit for part in nearest)
    if not counted and abs(right - cell.value) <= cell.step / 2 + sum((part.step / 2 for part in nearest), Decimal(0)):
        why = f"{why}; rounding of the parts hardly gives this"
        finding = replace(finding, basis=INFERENCE, why=why)
    yield finding
