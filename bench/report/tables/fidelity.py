"""How many answers of its teacher a student changes, and how far its probabilities can be trusted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.record.cell import TEACHER
from bench.report.frame import teachers_of
from bench.report.groups import ReportGroup
from bench.report.table import TEXT, Column, Line, Table, TableCell, number
from bench.report.tables.parts import keys_of, students_of
from bench.stats.fidelity import calibration_error, fidelity
from bench.stats.form import CLASSES
from bench.stats.metrics import metric_of


def fidelity_table(group: ReportGroup) -> Table | None:
    """A line for each student and evaluation set of classes: the means over its seeds, beside its
    teacher."""
    lines = list(_lines(group))
    if not lines:
        return None
    note = (
        "Of the development set's examples, mean over seeds. Agreement: student and teacher answer the same class. Lost: the teacher is "
        "right and the student is not; gained: the other way round. KL: of the teacher's probabilities to the student's, in nats. ECE: the "
        "expected calibration error in 15 bins, before the logits are divided by a temperature and after it; the temperature is "
        "fitted on the other half of the examples. The teacher's own is in its line."
    )
    titles = ("agreement (%)", "lost (%)", "gained (%)", "KL", "ECE (%)", "ECE, scaled (%)")
    heads = [Column("System"), Column("task", words=True, csv=TEXT), *map(Column, titles)]
    return Table("Fidelity and calibration", heads, lines, (note,), "fidelity", folded=True)


def _lines(group: ReportGroup) -> Iterator[Line]:
    for column in group.columns:
        data, theirs = group.answers.get(column), group.finished(TEACHER, column)
        if data is None or metric_of(column.metric).form is not CLASSES or not data.has(theirs):
            continue
        # one of all seeds, or one for each
        errors = [calibration_error(data.logits[each.key], data.labels) for each in theirs]
        own = number(100 * float(np.mean(errors)))
        yield Line(TEACHER, [TableCell(column.name), *[number(None)] * 4, own, number(None)])
        for label in students_of(group):
            students = group.finished(label, column)
            taught_by = teachers_of(students, theirs)
            if not data.has(students) or not taught_by:
                continue
            teachers = taught_by if len(taught_by) > 1 else taught_by * len(students)
            seeds = []
            for student, teacher in zip(students, teachers, strict=True):
                taught = data.logits[teacher.key]
                seeds.append(fidelity(data.logits[student.key], taught, data.labels))
            means = {name: float(np.mean([seed[name] for seed in seeds])) for name in seeds[0]}
            keys = keys_of([*students, *theirs])
            cells = [
                number(
                    value if name == "kl" else 100 * value,
                    ".3f" if name == "kl" else ".1f",
                    n=len(seeds),
                    keys=keys,
                )
                if np.isfinite(value)
                else number(None)  # answers without probabilities
                for name, value in means.items()
            ]
            yield Line(label, [TableCell(column.name), *cells], group.called(label))
