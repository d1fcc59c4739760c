"""Mean absolute error of a user's own regression, in the labels' own units.

Less is better there, and no unit is known, so it is a table of its own and in no mean.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.record.known_tasks import KNOWN
from bench.report.resampled import Resampled
from bench.report.score_column import ScoreColumn
from bench.report.study import Study
from bench.report.table import SPREAD, Column, Line, Table, TableCell
from bench.report.tables.accuracy import WIDTH
from bench.report.tables.parts import keys_of, line_of
from bench.stats.form import SCORE
from bench.stats.metrics import metric_of
from bench.stats.summary import summarise


def absolute_errors(study: Study) -> Iterator[Table]:
    """A table for each evaluation set of an own regression whose answers are stored."""
    for column, data in study.answers.items():
        if column.task not in KNOWN and metric_of(column.metric).form is SCORE:
            yield _of_column(study, column, data)


def absolute_error(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Mean distance of [n] predicted values from their [n] labels, in the labels' units."""
    return float(np.abs(predicted.astype(np.float64) - labels.astype(np.float64)).mean())


def _of_column(study: Study, column: ScoreColumn, data: Resampled) -> Table:
    lines = []
    for row in study.rows:
        records = study.finished(row, column)
        if data.has(records):
            errors = [absolute_error(data.predicted[r.key], data.labels) for r in records]
            mean = summarise(errors)
            cell = TableCell(
                in_units(mean.mean),
                value=mean.mean,
                deviation=mean.deviation,
                n=mean.n,
                keys=keys_of(records),
            )
            lines.append(line_of(study, row, [cell]))
    # no other single value has a smaller one
    middle = float(np.median(data.labels))
    least = absolute_error(np.full(len(data.labels), middle), data.labels)
    constant = f"always {in_units(middle)}, the median"
    lines.append(Line(constant, [TableCell(in_units(least), value=least)], row=""))
    note = (
        "Mean over examples and seeds of the distance between predicted value and label, in the "
        "labels' own units. Less is better; it is in no mean and no test."
    )
    return Table(
        f"Mean absolute error, {column.name}",
        [Column("System"), Column("mean absolute error", csv=SPREAD)],
        lines,
        (note,),
        file=f"mean-absolute-error-{column.name}",
        width=WIDTH,
    )


def in_units(value: float) -> str:
    """A number of any size with four significant digits, and without an exponent below 10^15."""
    digits = 0 if value == 0 else 3 - int(np.floor(np.log10(abs(value))))
    return f"{value:.4g}" if abs(value) >= 1e15 or digits > 9 else f"{value:,.{max(digits, 0)}f}"
