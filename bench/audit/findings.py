"""One thing that does not add up, and how a list of them is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from bench.audit.names import AVERAGE, is_average, is_plain
from bench.audit.sheets import Row, Sheet

ARITHMETIC, INFERENCE = "arithmetic", "inference"


@dataclass(frozen=True)
class Finding:
    """A cell that the rest of the table contradicts.

    Attributes:
        recomputed: what it should be by the rule in ``why``; "" where there is no number.
        basis: ``arithmetic`` for what follows from the printed numbers and labels alone, ``inference`` for what needs a
            reading of them.
        changes: a ranking, a headline, a digit, or a reading.
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


def of_cell(sheet: Sheet, row: Row, column: str, right: Decimal, check: str, why: str, changes: str = "") -> Finding:
    """The arithmetic finding that a cell should read ``right``, shown with the cell's own digits.

    ``changes`` is worked out where it is not given: whether the right value moves the row in its column.
    """
    cell = row.cells[column]
    rounded = right.quantize(cell.unit, ROUND_HALF_UP)
    return Finding(
        sheet.where,
        row.system,
        column,
        cell.text,
        str(rounded),
        ARITHMETIC,
        check,
        why,
        changes or _rank_change(sheet, row, column, rounded),
    )


def _rank_change(sheet: Sheet, row: Row, column: str, right: Decimal) -> str:
    others = [r.cells[column].value for r in sheet.rows if r is not row and column in r.cells and is_plain(r)]
    before, after = (sum(other > value for other in others) for value in (row.cells[column].value, right))
    if is_plain(row) and before != after:
        return f"a ranking: {before + 1} becomes {after + 1}"
    return "a headline" if is_average(column) or AVERAGE.match(row.system) else "a digit"


def table(findings: Sequence[Finding]) -> str:
    """Markdown, in the order of the sources."""
    from tabulate import tabulate

    rows = [[f.where, f.row, f.column, f.printed, f.recomputed or "–", f.basis, f.why, f.changes] for f in findings]
    header = ["where", "row", "column", "printed", "recomputed", "basis", "why", "changes"]
    return tabulate(rows, header, tablefmt="github", disable_numparse=True)
