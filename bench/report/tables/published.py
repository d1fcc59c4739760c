"""Ours and the numbers that papers print, cell by cell, with the reasons why two cannot be compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.record.cell import TEACHER
from bench.record.task_facts import SAMPLE
from bench.report import frame
from bench.report.frame import Frame, FrameLine, TableCell
from bench.report.groups import ReportGroup, ScoreColumn
from bench.report.published import Published, published
from bench.report.systems import UNKNOWN, is_shown_with, reasons_of, same_teacher
from bench.report.tables.parts import keys_of
from bench.report.tables.registry import PROVENANCE, ReportData, table
from bench.stats.glue import DEVELOPMENT_EXAMPLES
from bench.stats.metrics import label_of


@table(PROVENANCE, place=90)
def _frames(data: ReportData) -> Iterable[Frame | None]:
    return [compared_with_papers(data.group, published())]


def reasons(group: ReportGroup, label: str, column: ScoreColumn, paper: Published) -> list[str]:
    """Why a printed number and ours are not of the same thing; empty where they can be compared."""
    found = []
    if paper.split != "dev":
        found.append("split not stated" if paper.split == UNKNOWN else f"{paper.split} set, ours is dev")
    if paper.metric == UNKNOWN:
        found.append("metric not stated")
    elif paper.metric != column.metric:
        found.append(f"{label_of(paper.metric)}, ours is {label_of(column.metric)}")
    rows = {r.cell.data.rows.get(column.evaluation) for r in group.records if column.task in r.cell.tasks}
    if rows != {
        DEVELOPMENT_EXAMPLES.get((column.task, column.evaluation))
    }:  # a folder with another number holds something else
        found.append("not GLUE's development set")
    if paper.facts.teacher == UNKNOWN:
        found.append("teacher not stated")
    elif not same_teacher(group.teacher, paper.facts):
        found.append("other teacher")
    if group.row_limit(column.task):
        found.append("fewer training examples")
    done = [record for record in group.of(label, column.task) if record.status == "ok"]
    return found + reasons_of(group, done, paper.facts)


def compared_with_papers(group: ReportGroup, papers: Sequence[Published]) -> Frame | None:
    """Ours and the papers', cell by cell. Never for generated data: nothing there compares with a paper."""
    if group.facts.source == SAMPLE:
        return None
    lines = [
        line
        for column in group.columns
        for label in group.systems
        for paper in papers
        if (line := _line(group, label, column, paper)) is not None
    ]
    if not lines:
        return None
    columns = (
        frame.TableColumn("Column"),
        frame.TableColumn("System"),
        frame.TableColumn("ours", csv=frame.EXACT),
        frame.TableColumn("printed", csv=(("", lambda cell: f"{cell.value:g}"),)),
        frame.TableColumn("where", words=True),
        frame.TableColumn("comparable", words=True),
    )
    comparable = sum(line.cells[-1].text == YES for line in lines)
    note = (
        f"{comparable} of {len(lines)} pairs are comparable. A pair is a published result and one of ours, of the same method. "
        "Paper and records must agree in shape, start, pre-training, settings, teacher and data. "
        f"The scores that a paper prints for its own teacher are paired with our row '{TEACHER}'. "
        "Recipes and searches of hyper-parameters also differ; no column shows this."
    )
    return Frame("Published numbers and ours", columns, tuple(lines), (note,), file="published and ours", folded=True)


YES = "yes"


def _line(group: ReportGroup, label: str, column: ScoreColumn, paper: Published) -> FrameLine | None:
    """One pair; None where the two are no pair."""
    ours = group.summaries.get((label, column))
    if ours is None or (paper.task, paper.evaluation) != (column.task, column.evaluation):
        return None
    records = group.of(label, column.task)
    if not is_shown_with(group, records[0], paper.facts):
        return None
    why = reasons(group, label, column, paper)
    place = f"{paper.system}; {paper.source}, {paper.table}" + (f" ({paper.note})" if paper.note else "")
    cells = (
        TableCell(group.called(label), plain=label),
        TableCell(ours.text(), value=ours.mean, deviation=ours.deviation, n=ours.n, keys=keys_of(records)),
        TableCell(f"{paper.value:.1f} ({label_of(paper.metric)}, {paper.split})", value=paper.value),
        TableCell(place),
        TableCell("no: " + "; ".join(why) if why else YES),
    )
    return FrameLine(column.title, cells, row=label)
