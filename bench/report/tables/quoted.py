"""Printed numbers beside an experiment's table that are no scores of its rows.

Those of printed rows and columns that no row here makes are quoted with the reason. Printed shares
of a teacher's score stand beside ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.record.task_facts import SAMPLE
from bench.report.published import UNKNOWN, PrintedRow, Published
from bench.report.study import Study
from bench.report.table import TEXT, Column, Line, Table, TableCell, number
from bench.stats.metrics import label_of

PERCENT = "percent_of_teacher"
"""Metric of a printed cell: a student's score in percent of its teacher's."""
POINTS = "percentage_points"
"""Metric of a printed cell: by how many percent of the teacher's score a row leads another."""


@dataclass(frozen=True)
class Quotation:
    """A printed cell that no row of the table makes.

    Attributes:
        cell: as it is printed.
        why: why no row here makes it, a sentence.
    """

    cell: Published
    why: str


def scores_alone(printed: Mapping[str, PrintedRow]) -> dict[str, PrintedRow]:
    """The printed rows without their shares of a teacher's score."""
    kept = {}
    for label, row in printed.items():
        cells = [cell for cell in row.cells if cell.metric not in (PERCENT, POINTS)]
        kept[label] = row._replace(cells=cells)
    return kept


def column_of(cell: Published) -> str:
    """The task of a printed cell, and which of its evaluation sets where it has two."""
    return cell.task if cell.evaluation == "validation" else f"{cell.task}, {cell.evaluation}"


def place_of(cell: Published) -> TableCell:
    """Where a cell is printed, and what its typist noted."""
    note = f" ({cell.note})" if cell.note else ""
    return TableCell(f"{cell.source}, {cell.table}{note}")


def quotations(study: Study, quoted: Sequence[Quotation]) -> Table | None:
    """The printed cells that no row makes, a line each.

    Returns:
        None where there are none, and of generated data.
    """
    if not quoted or study.facts.source == SAMPLE:
        return None
    lines = []
    for each in quoted:
        cell = each.cell
        metric = "metric not stated" if cell.metric == UNKNOWN else label_of(cell.metric)
        split = "split not stated" if cell.split == UNKNOWN else cell.split
        printed = TableCell(
            f"{cell.value:.1f} ({metric}, {split})", cell.value, plain=f"{cell.value:g}"
        )
        cells = (TableCell(column_of(cell)), printed, place_of(cell), TableCell(each.why))
        lines.append(Line(cell.system, cells, row=""))
    columns = [
        Column("Printed row", words=True),
        Column("Column", words=True),
        Column("printed", csv=TEXT),
        Column("where", words=True),
        Column("why not here", words=True),
    ]
    note = (
        "Quoted, so that the printed table stands here as a whole. Nothing was measured for them."
    )
    return Table("Printed numbers that no row here makes", columns, lines, (note,))


def printed_shares(study: Study, printed: Mapping[str, PrintedRow]) -> Table | None:
    """Printed retention beside ours, and the printed difference of two rows.

    Returns:
        None where no share is printed, and of generated data.
    """
    if study.facts.source == SAMPLE:
        return None
    shares = shares_of(study)
    has_percent = [label for label, row in printed.items() if PERCENT in metrics_of(row)]
    lines = []
    for label, row in printed.items():
        others = [other for other in has_percent if other != label]
        for cell in row.cells:
            share = shares.get((label, cell.task, cell.evaluation))
            if share is None or cell.metric not in (PERCENT, POINTS):
                continue
            ours: float | None = share
            unit = " %"
            if cell.metric == POINTS:
                ours = more_than(share, cell, others, shares)
                unit = ""
            said = TableCell(f"{cell.value:g}{unit}", cell.value, plain=f"{cell.value:g}")
            cells = (TableCell(column_of(cell)), number(ours, unit=unit), said, place_of(cell))
            lines.append(Line(cell.system, cells, row=label))
    if not lines:
        return None
    columns = [
        Column("Printed row", words=True),
        Column("Column", words=True),
        Column("ours"),
        Column("printed", csv=TEXT),
        Column("where", words=True),
    ]
    note = (
        "Retention in percent of the teacher's score, and in points what one row has more than the "
        "other, by our metric of each column. The intervals and verdicts of ours stand in the "
        "table of retention."
    )
    return Table("Printed retention and ours", columns, lines, (note,))


def metrics_of(row: PrintedRow) -> set[str]:
    """The metrics of a printed row's cells."""
    return {cell.metric for cell in row.cells}


def more_than(
    share: float,
    cell: Published,
    others: Sequence[str],
    shares: Mapping[tuple[str, str, str], float],
) -> float | None:
    """What a row's share is more than that of the one other row with a printed share.

    None where there is not one.
    """
    if len(others) != 1:
        return None
    other = shares.get((others[0], cell.task, cell.evaluation))
    return None if other is None else share - other


def shares_of(study: Study) -> dict[tuple[str, str, str], float]:
    """(row, task, evaluation set) -> our share in percent, where there is one."""
    shares = {}
    for label, row in study.retained.items():
        for column, cell in row.scores.items():
            if cell.value is not None:
                shares[label, column.task, column.evaluation] = cell.value
    return shares
