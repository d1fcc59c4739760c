"""The records behind every cell."""

from __future__ import annotations

from collections.abc import Iterable

from bench.report import frame
from bench.report.frame import Frame, TableCell
from bench.report.groups import ReportGroup, ScoreColumn
from bench.report.reproduce import verifying
from bench.report.tables.parts import DASH, keys_of, line_of
from bench.report.tables.registry import PROVENANCE, ReportData, table


@table(PROVENANCE, place=100)
def _frames(data: ReportData) -> Iterable[Frame | None]:
    return [record_keys(data.group)]


def record_keys(group: ReportGroup) -> Frame | None:
    """The records behind every cell: the beginning of each one's key, in the order of seeds."""
    lines = [line_of(group, label, [_cell(group, label, c) for c in group.columns]) for label in group.systems]
    if not lines:
        return None
    note = (
        f"One key for each seed. `python -m bench show KEY --results {group.results}` prints a record, "
        f"`python -m bench trace NUMBER --results {group.results}` finds a number's records, "
        f"`{verifying(group)}` trains the cell of a record again and says how close the results are."
    )
    columns = (frame.TableColumn("System"), *(frame.TableColumn(c.title) for c in group.columns))
    return Frame("Records of each number", columns, tuple(lines), (note,), file="records", folded=True)


def _cell(group: ReportGroup, label: str, column: ScoreColumn) -> TableCell:
    done = [r for r in group.of(label, column.task) if r.status == "ok" and column.evaluation in r.scores]
    return TableCell(", ".join(r.key[:8] for r in done) or DASH, keys=keys_of(done))
