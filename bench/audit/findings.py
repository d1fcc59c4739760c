"""One thing that does not add up, and which of them have one cause."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from bench.audit.names import is_average, is_average_row, is_plain
from bench.audit.printed import ROOM
from bench.audit.table import PrintedRow, Sheet

ARITHMETIC = "arithmetic"
INFERENCE = "inference"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A cell that the rest of the table contradicts.

    Attributes:
        where: the source of the table.
        row: the system, "" where the finding is of the whole table or of a text.
        printed: what the table says.
        recomputed: what it should be by the rule in ``why``; "" where there is no number.
        basis: ``arithmetic`` for what follows from the printed numbers and labels alone,
            ``inference`` for what needs a reading of them.
        changes: what a reader would see differently, in words: a ranking, a headline, a digit,
            whose numbers these are.
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

    ``changes`` is worked out where it is "": whether the right value moves the row in its column.
    """
    cell = row.cells.get(column) or row.sizes[column]
    rounded = right.quantize(cell.step, ROUND_HALF_UP, ROOM)
    if not changes:
        changes = _change(sheet, row, column, cell.value, rounded)
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


def _change(sheet: Sheet, row: PrintedRow, column: str, printed: Decimal, right: Decimal) -> str:
    """The change that a reader sees where a cell is right: a ranking, a headline or a digit."""
    if is_plain(row):
        scores = _in_order(sheet, column)
        before = len(scores) - bisect_right(scores, printed)
        # without the row itself
        after = len(scores) - bisect_right(scores, right) - (printed > right)
        if before != after:
            return f"a ranking: {before + 1} becomes {after + 1}"
    return "a headline" if is_average(column) or is_average_row(row) else "a digit"


def _in_order(sheet: Sheet, column: str) -> list[Decimal]:
    """The scores of a column's systems from least to greatest, sorted once a sheet."""
    if column not in sheet.in_order:
        scores = [
            row.cells[column].value for row in sheet.rows if column in row.cells and is_plain(row)
        ]
        sheet.in_order[column] = sorted(scores)
    return sheet.in_order[column]


def causes(findings: Sequence[Finding]) -> list[list[Finding]]:
    """The findings by what is behind them.

    A column that is cut off is one cause, a row quoted from elsewhere is one.
    """
    # what findings of one cause have in common
    grouped: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        cause: tuple[str, ...] = (
            finding.where,
            finding.row,
            finding.column,
            finding.check,
            finding.why,
        )
        if finding.check == "truncation":
            cause = (finding.where, finding.check, finding.why)
        elif finding.check in ("quoted differently", "teacher changes"):
            cause = (finding.where, finding.row, finding.check)
        grouped.setdefault(cause, []).append(finding)
    return list(grouped.values())
