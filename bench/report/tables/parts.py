"""What tables are made of, and cells and questions that several of them have."""

from __future__ import annotations

from collections.abc import Sequence

from bench.record.cell import TEACHER
from bench.record.schema import Record
from bench.report.groups import ReportGroup, ScoreColumn
from bench.report.table import DASH, Line, TableCell


def counted(number: int, what: str) -> str:
    """``1 column``, ``3 columns``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def line_of(group: ReportGroup, label: str, cells: Sequence[TableCell], *notes: str) -> Line:
    """The line of a row: its printed name (:meth:`ReportGroup.called`), and its label in CSV files."""
    return Line(label, cells, group.called(label), notes)


def keys_of(records: Sequence[Record]) -> tuple[str, ...]:
    return tuple(record.key for record in records)


def missing(group: ReportGroup, label: str, column: ScoreColumn) -> TableCell:
    """An empty cell, with its reason."""
    records = group.of(label, column.task)
    failed = [r for r in records if r.status == "failed"]
    if failed:
        message = failed[0].error.message if failed[0].error else "no message"
        reason = f"{label} on {column.task}, seed {failed[0].cell.seed}: failed: {message}"
    elif any(r.status == "interrupted" for r in records):
        reason = f"{label} on {column.task}: interrupted; run the same command again"
    else:
        reason = "not run: there is no record of this row on this task"
    return TableCell(DASH, footnotes=(reason,))


def cheaper(group: ReportGroup, label: str) -> bool:
    """Whether a student's FLOPs are below its teacher's: without that no retention is printed.

    Of one whose sequences leave early, averaged over the exits that they took.
    """
    own, teacher = ([r.sizes.flops for r in group.of(row) if r.sizes] for row in (label, TEACHER))
    return bool(own and teacher and min(own) < min(teacher))


def teacher_score(group: ReportGroup, column: ScoreColumn) -> float:
    """The teacher's score in a column that it has, in percent."""
    return group.summaries[TEACHER, column].mean


def sound_teacher(group: ReportGroup, column: ScoreColumn) -> bool:
    """Whether a share of the teacher's score says anything: it has a score above 0, and nothing is wrong with its answers."""
    has = bool(group.values(TEACHER, column))
    return has and teacher_score(group, column) > 0 and not group.suspicions.get((TEACHER, column))


def no_ratio(group: ReportGroup, column: ScoreColumn) -> TableCell:
    """The cell of a ratio to a teacher that is not sound, with the reason."""
    what = f"the teacher scores {teacher_score(group, column):.1f}"
    if group.suspicions.get((TEACHER, column)):
        what = "the answers of the teacher are suspect, see its notes in the results"
    return TableCell(DASH, footnotes=(f"{column.title}: {what}; a ratio to it means nothing",))


def left_out_of_means(columns: Sequence[ScoreColumn], sound: Sequence[ScoreColumn]) -> str:
    """A sentence that names the columns without a ratio, with a space before it; "" where all have one."""
    names = [column.name for column in columns if column not in sound]
    which = f"{listed(names)}, which {'has' if len(names) == 1 else 'have'} no ratio"
    return f" All means of this table leave out {which}." if names else ""


def students_of(group: ReportGroup) -> list[str]:
    """Rows that are students and no ablations."""
    return [s for s in group.students if any(r.cell.ablation_of is None for r in group.of(s))]
