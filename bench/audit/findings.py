"""One thing that does not add up, and which of them have one cause."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from bench.audit.names import is_average, is_average_row, is_plain
from bench.audit.printed import ROOM
from bench.audit.table import PrintedRow, Sheet

ARITHMETIC, INFERENCE = "arithmetic", "inference"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A cell that the rest of the table contradicts.

    Attributes:
        where: the source of the table.
        row: the system, "" where the finding is of the whole table or of a text.
        printed: what the table says.
        recomputed: what it should be by the rule in ``why``; "" where there is no number.
        basis: ``arithmetic`` for what follows from the printed numbers and labels alone, ``inference`` for what needs a
            reading of them.
        changes: what a reader would see differently, in words: a ranking, a headline, a digit, whose numbers these are.
    """

    where: str
    row: str
    column: str
    printed: str
    recomputed: str
    basis: str
    check: str
    why: str
    changes: str


def of_cell(
    sheet: Sheet,
    row: PrintedRow,
    column: str,
    right: Decimal,
    check: str,
    why: str,
    changes: str = "",
    basis: str = ARITHMETIC,
) -> Finding:
    """The finding that a cell should read ``right``, shown with the cell's own digits.

    ``changes`` is worked out where it is not given: whether the right value moves the row in its column.
    """
    cell = row.cells.get(column) or row.sizes[column]
    rounded = right.quantize(cell.step, ROUND_HALF_UP, ROOM)
    if not changes:
        changes = "a headline" if is_average(column) or is_average_row(row) else "a digit"
        if is_plain(row):
            if column not in sheet.in_order:
                scores = (
                    r.cells[column].value for r in sheet.rows if column in r.cells and is_plain(r)
                )
                sheet.in_order[column] = sorted(scores)
            values = sheet.in_order[column]
            before = len(values) - bisect_right(values, cell.value)
            # without the row itself
            after = len(values) - bisect_right(values, rounded) - (cell.value > rounded)
            changes = changes if before == after else f"a ranking: {before + 1} becomes {after + 1}"
    return Finding(
        where=sheet.where,
        row=row.system,
        column=column,
        printed=cell.text,
        recomputed=str(rounded),
        basis=basis,
        check=check,
        why=why,
        changes=changes,
    )


def causes(findings: Sequence[Finding]) -> list[list[Finding]]:
    """The findings by what is behind them: a column that is cut off is one cause, a row quoted from elsewhere is one."""
    grouped: dict[tuple[str, ...], list[Finding]] = {}
    for f in findings:
        key: tuple[str, ...] = (f.where, f.row, f.column, f.check, f.why)
        if f.check == "truncation":
            key = (f.where, f.check, f.why)
        elif f.check in ("quoted differently", "teacher changes"):
            key = (f.where, f.row, f.check)
        grouped.setdefault(key, []).append(f)
    return list(grouped.values())
