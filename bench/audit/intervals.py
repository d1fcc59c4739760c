"""Numbers that lie outside the interval that is printed behind them."""

from __future__ import annotations

from collections.abc import Iterator

from bench.audit.findings import ARITHMETIC, Finding
from bench.audit.printed import PrintedNumber
from bench.audit.table import Sheet


def outside_intervals(sheet: Sheet) -> Iterator[Finding]:
    """Find numbers with decimals outside the interval behind them, whose ends have as many.

    Whole numbers in brackets may be citations.
    """
    for row in sheet.rows:
        for column, cell in row.cells.items():
            if not cell.places or len(cell.interval) != 2:
                continue
            low, high = cell.interval
            if low.places == high.places == cell.places and _is_outside(cell, low, high):
                yield Finding(
                    where=sheet.where,
                    row=row.system,
                    column=column,
                    printed=cell.text,
                    recomputed="",
                    basis=ARITHMETIC,
                    check="interval",
                    why=f"it lies outside its own interval, [{low.text}, {high.text}]",
                    changes="a digit",
                )


def _is_outside(cell: PrintedNumber, first: PrintedNumber, second: PrintedNumber) -> bool:
    """Whether a number is neither between two others nor the change from one to the other.

    A gain or a ratio from the first to the second is printed in the same form as an interval.
    """
    a = first.value
    b = second.value
    if min(a, b) <= cell.value <= max(a, b):
        return False
    changes = [abs(b - a)]
    if b:
        changes.append(abs(a / b))
    if a:
        changes.append(abs(b / a))
    return all(abs(abs(cell.value) - change) > cell.step for change in changes)
