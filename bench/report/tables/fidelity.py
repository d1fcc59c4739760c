"""How often a student disagrees with its teacher, and how far its probabilities can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bench.record.cell import TEACHER
from bench.record.schema import Record
from bench.report.resampled import Resampled
from bench.report.score_column import ScoreColumn
from bench.report.study import Study
from bench.report.table import TEXT, Column, Line, Table, TableCell, number
from bench.report.tables.parts import keys_of
from bench.report.teachers import teachers_of
from bench.stats.fidelity import calibration_error, fidelity
from bench.stats.form import CLASSES
from bench.stats.metrics import metric_of

TITLES = ("agreement (%)", "lost (%)", "gained (%)", "KL", "ECE (%)", "ECE, scaled (%)")
"""The columns, in the order of what :func:`bench.stats.fidelity.fidelity` measures."""
KL = "kl"
"""The one measure that is in nats, not in percent."""
NOTE = (
    "Of the development set's examples, mean over seeds. Agreement: student and teacher answer the "
    "same class. Lost: the teacher is right and the student is not; gained: the other way round. "
    "KL: of the teacher's probabilities to the student's, in nats. ECE: the expected calibration "
    "error in 15 bins, before the logits are divided by a temperature and after it; the "
    "temperature is fitted on the other half of the examples. The teacher's own is in its line."
)


def fidelity_table(study: Study) -> Table | None:
    """A line for each student and evaluation set of classes: the means over its seeds, beside its
    teacher."""
    lines: list[Line] = []
    for column, data in study.answers.items():
        lines += _lines_of(study, column, data)
    if not lines:
        return None
    heads = [Column("System"), Column("task", words=True, csv=TEXT), *map(Column, TITLES)]
    return Table("Fidelity and calibration", heads, lines, (NOTE,), "fidelity", folded=True)


def _lines_of(study: Study, column: ScoreColumn, data: Resampled) -> Iterator[Line]:
    """The lines of one evaluation set: the teacher's, and those of its students."""
    # one teacher of all seeds, or one for each
    teachers = study.finished(TEACHER, column)
    if metric_of(column.metric).form is not CLASSES or not data.has(teachers):
        return
    errors = [calibration_error(data.logits[each.key], data.labels) for each in teachers]
    error = number(100 * float(np.mean(errors)))
    task = TableCell(column.name)
    yield Line(TEACHER, [task, *[number(None)] * 4, error, number(None)])

    # of the students those that learned from one of them
    full_students = set(study.full_students)
    for label in study.rows:
        if label not in full_students:
            continue
        students = study.finished(label, column)
        taught_by = teachers_of(students, teachers)
        if data.has(students) and taught_by:
            keys = keys_of([*students, *teachers])
            cells = _cells(data, students, taught_by, keys)
            yield Line(label, [task, *cells], study.called(label))


def _cells(
    data: Resampled,
    students: Sequence[Record],
    taught_by: Sequence[Record],
    keys: tuple[str, ...],
) -> list[TableCell]:
    """What is measured of a row, as means over its seeds.

    Args:
        taught_by: the teacher of each.
        keys: of the records behind the cells.
    """
    seeds = []
    for student, teacher in zip(students, taught_by, strict=True):
        taught = data.logits[teacher.key]
        seeds.append(fidelity(data.logits[student.key], taught, data.labels))
    cells = []
    for name in seeds[0]:
        mean = float(np.mean([seed[name] for seed in seeds]))
        if not np.isfinite(mean):  # predictions without probabilities
            cells.append(number(None))
        elif name == KL:
            cells.append(number(mean, ".3f", n=len(seeds), keys=keys))
        else:
            cells.append(number(100 * mean, n=len(seeds), keys=keys))
    return cells
