"""Numbers that lie outside the interval that is printed behind them."""

from __future__ import annotations

from collections.abc import Iterator

from bench.audit.findings import ARITHMETIC, Finding
from bench.audit.table import Sheet


def outside_intervals(sheet: Sheet) -> Iterator[Finding]:
    """Of two ends with the number's own decimals: whole numbers in brackets may be citations."""
    for row in sheet.rows:
        for column, cell in row.cells.items():
            ends = [end.value for end in cell.interval if end.places == cell.places]
            if (
                not cell.places
                or len(ends) != 2
                or len(cell.interval) != 2
                or min(ends) <= cell.value <= max(ends)
            ):
                continue
            # a gain or a ratio from the first end to the second is printed in the same form
            changes = {abs(ends[1] - ends[0]), *(abs(a / b) for a, b in (ends, ends[::-1]) if b)}
            if all(abs(abs(cell.value) - change) > cell.step for change in changes):
                low, high = (end.text for end in cell.interval)
                yield Finding(
                    where=sheet.where,
                    row=row.system,
                    column=column,
                    printed=cell.text,
                    recomputed="",
                    basis=ARITHMETIC,
                    check="interval",
                    why=f"it lies outside its own interval, [{low}, {high}]",
                    changes="a digit",
                )
