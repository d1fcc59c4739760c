"""What tables are made of, and cells and questions that several of them have."""

from __future__ import annotations

from collections.abc import Sequence

from bench.record.cell import is_one_model
from bench.record.rescored import NO_ANSWERS
from bench.record.schema import Record
from bench.record.varied import VARIED_START, VARIED_TEACHER
from bench.report.groups import ReportGroup, ScoreColumn
from bench.report.table import DASH, Line, TableCell

SEARCHES = "Settings chosen by search"
"""Title of the table that says what searches chose."""


def if_busy(title: str, group: ReportGroup) -> str:
    """The title of a column of times: it says where the machine was busy when they were taken."""
    return f"{title} (busy)" if group.speed_others else title


def counted(number: int, what: str) -> str:
    """``1 column``, ``3 columns``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def line_of(group: ReportGroup, label: str, cells: Sequence[TableCell], *notes: str) -> Line:
    """The line of a row: its printed name (:meth:`ReportGroup.called`), and its label in CSV files."""
    return Line(label, cells, group.called(label), notes)


def left_out_of_means(group: ReportGroup) -> str:
    """A sentence that says which columns are in no mean."""
    names = listed([column.name for column in group.left_out_of_means])
    return f"Means leave out {names}: the 95 % interval of the teacher's score there is not above the {group.baseline_name}."


def sources_of_variance(group: ReportGroup) -> list[str]:
    """Sentences for tables with intervals: by which chances these are moved, and which they leave
    out."""
    trained = [
        label for label in group.students if not is_one_model(group.records_of(label)[0].cell)
    ]
    records = [record for label in trained for record in group.records_of(label)]
    if not records:
        return ["The intervals are over examples alone."]
    over = ["examples"]
    if len({record.cell.seed for record in records}) > 1:
        over.append("seeds of the students")
    left_out: list[str] = []
    of_some: list[str] = []
    for source in _drawn_once_or_anew(records):
        own = [label for label in trained if group.records_of(label)[0].cell.varies(source)]
        if len(own) == len(trained):
            over.append(f"{source}s, of which each seed has its own")
        elif own:
            of_some.append(f"{source}s in {listed([group.called(label) for label in own])}")
        else:
            left_out.append(source)
    text = f"The intervals are over {listed([*over, *of_some])}."
    if left_out:
        serve = "serves" if len(left_out) == 1 else "serve"
        ones = listed([f"one {source}" for source in left_out])
        text += f" They leave out what another one would do: {ones} {serve} all seeds."
    return [text, *_one_search(group)]


def _drawn_once_or_anew(records: Sequence[Record]) -> list[str]:
    """What besides the seed of a student is drawn by chance in some of these trainings: teachers
    that are fine-tuned here, and starts that are trained here."""
    sources = []
    if any(record.cell.teacher.origin == "fine-tuned" for record in records):
        sources.append(VARIED_TEACHER)
    for record in records:
        bodies = [body for name, body in record.artefacts.items() if name in record.cell.artefacts]
        if any("train" in body for body in bodies):
            return [*sources, VARIED_START]
    return sources


def _one_search(group: ReportGroup) -> list[str]:
    """A sentence where one search chose the settings of several seeds; none where no search did, or
    each seed has its own."""
    found = [record.cell.search for record in group.records if record.cell.search is not None]
    if all(search.each_seed for search in found):
        return []
    return [
        "Rows (best of …) were tuned by one search for all seeds: the intervals leave out that another search, with other held-out "
        "examples and another seed, may choose other settings."
    ]


def keys_of(records: Sequence[Record]) -> tuple[str, ...]:
    return tuple(record.key for record in records)


def missing(group: ReportGroup, label: str, column: ScoreColumn) -> TableCell:
    """An empty cell, with its reason."""
    records = group.records_of(label, column.task)
    failed = [r for r in records if r.status == "failed"]
    if failed:
        message = failed[0].error.message if failed[0].error else "no message"
        reason = f"{label} on {column.shown}, seed {failed[0].cell.seed}: failed: {message}"
    elif any(r.status == "interrupted" for r in records):
        reason = f"{label} on {column.shown}: interrupted; run the same command again"
    elif any(r.status == "ok" and not r.scores for r in records):
        reason = f"{label} on {column.shown}: {NO_ANSWERS}"
    else:
        reason = "not run: there is no record of this row on this task"
    return TableCell(DASH, footnotes=(reason,))


def students_of(group: ReportGroup) -> list[str]:
    """Rows that are students and no ablations."""
    return [
        s for s in group.students if any(r.cell.ablation_of is None for r in group.records_of(s))
    ]
