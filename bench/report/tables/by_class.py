"""F1 of each class beside the teacher's: what a mean over all examples hides."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.errors import one_line
from bench.record.cell import TEACHER
from bench.report.resampled import Resampled
from bench.report.score_column import ScoreColumn
from bench.report.study import Study
from bench.report.table import Column, Line, Table, TableCell, number
from bench.report.tables.accuracy import WIDTH
from bench.report.tables.parts import keys_of, line_of
from bench.stats.form import CLASSES
from bench.stats.metrics import metric_of

FROM_CLASSES = 3
"""Of fewer classes one number says it all: the metric F1."""
MOST_CLASSES = 12
"""Classes that one table shows."""
LONGEST_NAME = 40
"""Characters of a class's name that a title has."""


def f1_by_class(study: Study) -> Iterator[Table]:
    """A table for each evaluation set of three classes or more whose answers are stored."""
    for column, data in study.answers.items():
        table = _of_column(study, column, data)
        if table is not None:
            yield table


def f1_of_classes(predicted: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """[classes] F1 of each class against all others; 0 for one that is never predicted rightly.

    Args:
        predicted, labels: [n] codes.
    """
    hits_C = np.bincount(labels[predicted == labels], minlength=classes)
    named_C = np.bincount(labels, minlength=classes) + np.bincount(predicted, minlength=classes)
    return np.divide(2 * hits_C, named_C, out=np.zeros(classes), where=named_C > 0)


def _of_column(study: Study, column: ScoreColumn, data: Resampled) -> Table | None:
    if metric_of(column.metric).form is not CLASSES:
        return None
    classes = next(logits.shape[1] for logits in data.logits.values())
    if classes < FROM_CLASSES:
        return None

    # each row's mean over its seeds
    mean_of: dict[str, np.ndarray] = {}
    for row in study.rows:
        records = study.finished(row, column)
        if data.has(records):
            answers = [data.predicted[record.key] for record in records]
            seeds = [f1_of_classes(predicted, data.labels, classes) for predicted in answers]
            mean_of[row] = np.mean(seeds, axis=0)
    if not mean_of:
        return None

    examples_C = np.bincount(data.labels, minlength=classes)
    shown = _shown(mean_of, examples_C)
    names = _names_of(study, column, classes)
    lines = [_line(study, row, column, mean_C[shown]) for row, mean_C in mean_of.items()]
    columns = [Column("System")]
    columns += [Column(f"{names[code]} ({examples_C[code]:,})") for code in shown]
    return Table(
        f"F1 by class, {column.name}",
        columns,
        lines,
        _notes(len(shown), examples_C),
        file=f"f1-by-class-{column.name}",
        width=WIDTH,
    )


def _shown(mean_of: dict[str, np.ndarray], examples_C: np.ndarray) -> list[int]:
    """The codes of the classes that a table shows, in their order.

    They have examples. Of more than :data:`MOST_CLASSES` they are those with the largest loss of
    any row to the teacher; without a teacher, to 100 %.
    """
    codes = np.flatnonzero(examples_C)
    if len(codes) <= MOST_CLASSES:
        return codes.tolist()
    teacher = mean_of.get(TEACHER, np.ones(len(examples_C)))
    students = [mean for row, mean in mean_of.items() if row != TEACHER] or [teacher]
    loss_C = teacher - np.min(students, axis=0)
    # of equal losses the class with more examples
    by_loss = sorted(codes.tolist(), key=lambda code: (-loss_C[code], -examples_C[code], code))
    return sorted(by_loss[:MOST_CLASSES])


def _names_of(study: Study, column: ScoreColumn, classes: int) -> list[str]:
    """The names of the classes; their codes where no record has the names."""
    records = [record for record in study.records if column.task in record.cell.tasks]
    named = next((record.task.labels for record in records if record.task.labels), ())
    return [
        one_line(named[code])[:LONGEST_NAME] if code < len(named) else str(code)
        for code in range(classes)
    ]


def _line(study: Study, row: str, column: ScoreColumn, f1: np.ndarray) -> Line:
    records = study.finished(row, column)
    cells: list[TableCell] = [
        number(100 * float(value), n=len(records), keys=keys_of(records)) for value in f1
    ]
    return line_of(study, row, cells)


def _notes(shown: int, examples_C: np.ndarray) -> tuple[str, ...]:
    note = (
        "F1 of each class against all others, in percent, mean over seeds. Behind a class stands "
        "the number of its examples in the scored set. 0: it is never predicted rightly."
    )
    there = int((examples_C > 0).sum())
    if shown < there:
        note += (
            f" Shown are {shown} of {there} classes: those in which any row loses most to the "
            "teacher."
        )
    empty = len(examples_C) - there
    if empty:
        note += f" {empty} of the task's classes have no example in the scored set."
    return (note,)
