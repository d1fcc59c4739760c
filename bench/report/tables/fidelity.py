"""How many answers of its teacher a student changes, and how far its probabilities can be trusted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.record.cell import TEACHER
from bench.report.frame import same_teacher
from bench.report.study import Study
from bench.report.table import TEXT, Column, Line, Table, TableCell, number
from bench.report.tables.parts import keys_of
from bench.stats.fidelity import calibration_error, fidelity
from bench.stats.form import CLASSES
from bench.stats.metrics import metric_of


def fidelity_table(study: Study) -> Table | None:
    """A line for each student and evaluation set of classes: the means over its seeds, beside the teacher that they share."""
    lines = list(_lines(study))
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


def _lines(study: Study) -> Iterator[Line]:
    for column in study.columns:
        data, theirs = study.answers.get(column), study.finished(TEACHER, column)
        if (
            data is None
            or metric_of(column.metric).form is not CLASSES
            or len(theirs) != 1
            or not data.has(theirs)
        ):
            continue
        taught = data.logits[theirs[0].key]
        own = number(100 * calibration_error(taught, data.labels))
        yield Line(TEACHER, [TableCell(column.name), *[number(None)] * 4, own, number(None)])
        for label in study.full_students:
            students = study.finished(label, column)
            if not data.has(students) or not all(
                same_teacher(student, theirs[0]) for student in students
            ):
                continue
            seeds = [
                fidelity(data.logits[student.key], taught, data.labels) for student in students
            ]
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
            yield Line(label, [TableCell(column.name), *cells], study.called(label))
