"""Means of a study over columns: of a row, of the difference of two rows, and what they leave out.

No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

import numpy as np

from bench.record.cell import TEACHER, is_one_model
from bench.report.paired_rows import Pair, mean_difference, sides_of
from bench.report.resampled import Answers
from bench.report.score_column import ScoreColumn
from bench.report.study import Study
from bench.report.table import TableCell, number
from bench.stats.distribution import Distribution
from bench.stats.equivalence import is_shown_within
from bench.stats.metrics import metric_of
from bench.stats.paired import Resamples, mean_over_columns, over_seeds


def mean_of_rows(
    study: Study, answers: Answers, columns: Sequence[ScoreColumn], *rows: str
) -> Distribution | None:
    """The mean over these columns of a row's score, or of the difference of two rows, in percent.

    None where a column has not all of their answers, to the same examples.
    """
    if len(rows) == 2:
        pairs: list[Pair] = []
        for column in columns:
            data = answers.get(column)
            first = study.finished(rows[0], column)
            second = study.finished(rows[1], column)
            if data is None or not data.has(first) or not data.has(second):
                return None
            pairs.append((data, sides_of(first, second)))
        return mean_difference(pairs)

    (row,) = rows
    parts: list[tuple[str, Resamples]] = []
    lowest: list[float] = []
    highest: list[float] = []
    for column in columns:
        data = answers.get(column)
        records = study.finished(row, column)
        if data is None or not data.has(records):
            return None
        score_RS = data.stacked(records)
        # of one model, as a teacher of all seeds, only the examples are drawn
        parts.append((column.task, over_seeds(score_RS, score_RS)))
        metric = metric_of(column.metric)
        lowest.append(metric.low)
        highest.append(metric.high)
    drawn = mean_over_columns(parts).distribution()
    return drawn.within(float(np.mean(lowest)), float(np.mean(highest))).times(100)


def within_margin(
    study: Study, columns: Sequence[ScoreColumn], drawn: Distribution, *rows: str
) -> bool:
    """Whether the mean difference of two rows is shown to be within the margin.

    One training says nothing of others, so a row that is trained needs two seeds in each column.
    Seeds that end in results of several kinds say as little.

    Args:
        drawn: as :func:`mean_of_rows` has it of these rows and columns.
    """
    if study.has_seeds_apart(rows, columns):
        return False
    for row in rows:
        for column in columns:
            done = study.finished(row, column)
            if len(done) < 2 and not is_one_model(done[0].cell):
                return False
    return is_shown_within(drawn)


def columns_of_noise(
    study: Study, answers: Answers, baselines: Mapping[ScoreColumn, float]
) -> list[ScoreColumn]:
    """The columns in which the 95 % interval of the teacher's score is not above what the best
    constant prediction scores; none where it is so in all columns.

    Args:
        answers, baselines: at least those of the teacher (as in :class:`Study`).
    """
    columns = []
    for column, constant in baselines.items():
        if column not in answers or not study.finished(TEACHER, column):
            continue
        drawn = mean_of_rows(study, answers, [column], TEACHER)
        if drawn is not None and drawn.interval()[0] <= constant:
            columns.append(column)
    return columns if len(columns) < len(study.columns) else []


def mean_scores(study: Study) -> dict[str, TableCell]:
    """The mean score of every row that has its columns, with its interval where all predictions
    are stored."""
    means = {}
    for label, value in study.mean_scores.items():
        drawn = mean_of_rows(study, study.answers, study.averaged, label)
        if drawn is None:
            means[label] = number(value)
        else:
            low, high = drawn.interval()
            means[label] = number(value, low=low, high=high)
    return means


class MeanDifferences(Mapping[tuple[str, str], TableCell]):
    """(first, second) -> mean difference first - second, of two complete rows, in both orders.

    A difference is drawn when it is first asked for: a report shows few of all rows against all.
    """

    def __init__(self, study: Study, labels: Sequence[str]) -> None:
        self._study = study
        self._place = {label: place for place, label in enumerate(labels)}
        self._drawn: dict[tuple[str, str], tuple[TableCell, TableCell] | None] = {}

    def __getitem__(self, rows: tuple[str, str]) -> TableCell:
        first, second = rows
        if first == second or first not in self._place or second not in self._place:
            raise KeyError(rows)
        # both orders are one draw
        is_turned = self._place[first] > self._place[second]
        ordered = (second, first) if is_turned else (first, second)
        if ordered not in self._drawn:
            self._drawn[ordered] = self._both_ways(*ordered)
        cells = self._drawn[ordered]
        if cells is None:
            raise KeyError(rows)
        return cells[is_turned]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return (rows for rows in permutations(self._place, 2) if self.get(rows) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _both_ways(self, first: str, second: str) -> tuple[TableCell, TableCell] | None:
        """first - second, and second - first; None where answers are missing."""
        columns = self._study.averaged
        drawn = mean_of_rows(self._study, self._study.answers, columns, first, second)
        if drawn is None:
            return None
        gaps = [self._score(first, column) - self._score(second, column) for column in columns]
        value = float(np.mean([100 * gap for gap in gaps]))
        low, high = drawn.interval()
        near = within_margin(self._study, columns, drawn, first, second)
        return (
            number(value, "+.1f", low=low, high=high, is_within=near),
            number(-value, "+.1f", low=-high, high=-low, is_within=near),
        )

    def _score(self, row: str, column: ScoreColumn) -> float:
        """The mean over seeds."""
        done = self._study.finished(row, column)
        return float(np.mean([r.scores[column.evaluation][column.metric] for r in done]))
