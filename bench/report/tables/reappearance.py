"""Each student's score, and the share of its teacher's score that it reaches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.record.cell import TEACHER
from bench.report import frame
from bench.report.frame import EXACT, Footnote, Frame, FrameLine, TableCell
from bench.report.groups import ReportGroup, ScoreColumn
from bench.report.resampled import finished
from bench.report.tables.parts import (
    DASH,
    cheaper,
    counted,
    left_out_of_means,
    listed,
    missing,
    no_ratio,
    sound_teacher,
    students_of,
    teacher_score,
)
from bench.report.tables.registry import RETENTION, ReportData, table
from bench.report.tables.retention import same_teacher
from bench.stats.summary import summarise

EMPTY = TableCell("")


@table(RETENTION, place=30)
def _frames(data: ReportData) -> Iterable[Frame | None]:
    return [reappearance(data.group)]


def reappearance(group: ReportGroup) -> Frame | None:
    """Student / teacher in percent, per column and as the mean of the ratios. Needs the teacher's record."""
    columns = [c for c in group.columns if group.values(TEACHER, c)]
    students = students_of(group)
    if not columns or not students:
        return None
    sound = [c for c in columns if sound_teacher(group, c)]
    lines = [_teacher(group, columns, sound)]
    for label in students:
        scores = [_score(group, label, c) for c in columns]
        lines += [
            FrameLine(label, (*scores, EMPTY), group.called(label), only="markdown"),
            _ratios(group, label, columns, sound),
        ]
    note = (
        "The student's score divided by the teacher's score of the first line, on the same development set and by the same metric. "
        "The last column is the mean of the ratios (in the teacher's row: the mean of its scores)."
    ) + left_out_of_means(columns, sound)
    if other := [label for label in students if _learned_from_another(group, label, columns)]:
        note += (
            f" {listed([group.called(row) for row in other])} learned from another training of the same teacher "
            f"(same settings and seed, other weights). For {'this row' if len(other) == 1 else 'these rows'}, "
            "the table with intervals divides by the score of that training, "
            "where it is known."
        )
    mean = frame.TableColumn(f"mean of {counted(len(sound), 'ratio')}", csv=EXACT)
    heads = (frame.TableColumn("System"), *(frame.TableColumn(c.title, csv=EXACT) for c in columns), mean)
    return Frame("Share of the teacher's score", heads, tuple(lines), (note,), file="reappearance")


def _learned_from_another(group: ReportGroup, label: str, columns: Sequence[ScoreColumn]) -> bool:
    """Whether one of a student's records names another teacher than the one in the table."""
    return any(
        not same_teacher(student, teacher)
        for column in columns
        for student in finished(group, label, column)
        for teacher in finished(group, TEACHER, column)
    )


def _teacher(group: ReportGroup, columns: Sequence[ScoreColumn], sound: Sequence[ScoreColumn]) -> FrameLine:
    """The teacher's scores, and their mean over the columns that have ratios."""
    cells = [_number(teacher_score(group, c)) for c in columns]
    mean = _number(summarise([teacher_score(group, c) for c in sound]).mean) if sound else TableCell(DASH)
    return FrameLine(TEACHER, (*cells, mean))


def _number(value: float) -> TableCell:
    return TableCell(f"{value:.1f}", value=value)


def _percent(value: float) -> TableCell:
    return TableCell(f"{value:.1f} %", value=value)


def _score(group: ReportGroup, label: str, column: ScoreColumn) -> TableCell:
    summary = group.summaries.get((label, column))
    return _number(summary.mean) if summary else missing(group, label, column)


def _ratios(group: ReportGroup, label: str, columns: Sequence[ScoreColumn], sound: Sequence[ScoreColumn]) -> FrameLine:
    """A student's ratios. One that is not cheaper than its teacher has none."""
    ratios = {
        c: 100 * group.summaries[label, c].mean / teacher_score(group, c)
        for c in sound
        if (label, c) in group.summaries
    }
    name, called = f"{label}, % of teacher", f"{group.called(label)}, % of teacher"
    if ratios and not cheaper(group, label):
        note = Footnote(
            f"{label} needs at least as many FLOPs as its teacher, so it is not a compressed model and has no retention"
        )
        dashes = [TableCell(DASH) for _ in range(len(columns) + 1)]
        return FrameLine(name, tuple(dashes), called, (note,), row=label, continues=True)
    cells = [_ratio(group, label, c, ratios) for c in columns]
    complete = len(ratios) == len(sound) > 0
    cells.append(_percent(summarise(list(ratios.values())).mean) if complete else TableCell(DASH))
    return FrameLine(name, tuple(cells), called, row=label, continues=True)


def _ratio(group: ReportGroup, label: str, column: ScoreColumn, ratios: dict[ScoreColumn, float]) -> TableCell:
    if column in ratios:
        return _percent(ratios[column])
    return no_ratio(group, column) if group.values(label, column) else TableCell(DASH)
