"""One thing that does not add up, and how a list of them is shown."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from bench.audit.names import is_average, is_average_row, is_plain
from bench.audit.printed import ROOM
from bench.audit.table import PrintedRow, Sheet
from bench.errors import one_line

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
    cell = row.cells[column] if column in row.cells else row.sizes[column]
    rounded = right.quantize(cell.step, ROUND_HALF_UP, ROOM)
    return Finding(
        where=sheet.where,
        row=row.system,
        column=column,
        printed=cell.text,
        recomputed=str(rounded),
        basis=basis,
        check=check,
        why=why,
        changes=changes or _rank_change(sheet, row, column, rounded),
    )


def _rank_change(sheet: Sheet, row: PrintedRow, column: str, right: Decimal) -> str:
    if column not in row.cells:
        return "a size"
    if is_plain(row):
        if column not in sheet.in_order:
            sheet.in_order[column] = sorted(
                r.cells[column].value for r in sheet.rows if column in r.cells and is_plain(r)
            )
        values, own = sheet.in_order[column], row.cells[column].value
        before = len(values) - bisect_right(values, own)
        after = len(values) - bisect_right(values, right) - (own > right)  # without the row itself
        if before != after:
            return f"a ranking: {before + 1} becomes {after + 1}"
    return "a headline" if is_average(column) or is_average_row(row) else "a digit"


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


def table(findings: Sequence[Finding]) -> str:
    """Markdown, one line a cause: arithmetic before guesses, each in the order of the sources."""
    from tabulate import tabulate

    header = ["where", "row", "column", "printed", "recomputed", "basis", "why", "changes"]
    return tabulate(list(map(_line, causes(findings))), header, tablefmt="github", disable_numparse=True)


def _line(cause: Sequence[Finding]) -> list[str]:
    first = cause[0]
    return [
        first.where,
        several([f.row for f in cause]),
        several([f.column for f in cause]),
        several([f.printed for f in cause], once=False),
        several([f.recomputed or "–" for f in cause], once=False),
        first.basis,
        first.why,
        first.changes,
    ]


def several(texts: Sequence[str], once: bool = True) -> str:
    """The first three and how many more; ``once``: equal texts are shown once."""
    shown = list(dict.fromkeys(texts)) if once else list(texts)
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return ", ".join(shown[:3]) + more


def printable(text: str) -> str:
    """Lines for a terminal: the cells of a file may hold control characters, which a terminal obeys."""
    return "\n".join(map(one_line, text.split("\n")))
