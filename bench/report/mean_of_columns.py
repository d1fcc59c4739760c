"""Mean scores over the columns of a report, and the differences between them, with intervals from the stored answers. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from bench.record.cell import TEACHER
from bench.report.comparison import drawn_differences
from bench.report.groups import ReportGroup, ScoreColumn
from bench.report.resampled import Resampled, finished, rng_for
from bench.stats.metrics import metric_of
from bench.stats.paired import bootstrap_p, interval, over_seeds
from bench.stats.summary import summarise

Answers = Mapping[ScoreColumn, Resampled]


@dataclass(frozen=True)
class MeanOfColumns:
    """The mean of a row's scores over the columns, or of its differences to another row, in percent."""

    value: float
    low: float | None
    high: float | None
    """the 95 % interval; None where answers are not stored"""
    p: float | None = None
    """of a difference, not adjusted"""


def complete_rows(group: ReportGroup) -> list[str]:
    """The rows that have a score in every column; the teacher too."""
    return [label for label in group.systems if group.columns and all(group.values(label, c) for c in group.columns)]


def mean_scores(group: ReportGroup, answered: Answers) -> dict[str, MeanOfColumns]:
    """The mean score of every complete row."""
    return {label: _mean_score(group, answered, label) for label in complete_rows(group)}


def _mean_score(group: ReportGroup, answered: Answers, label: str) -> MeanOfColumns:
    value = summarise(group.means(label)).mean
    samples = []
    for column in group.columns:
        records, data = finished(group, label, column), answered.get(column)
        if data is None or not data.has(records):
            return MeanOfColumns(value, None, None)
        score_RS = data.stacked(records)
        # the teacher is one model: only the examples are drawn
        rng = rng_for(column, "score", label)
        drawn_R = score_RS.mean(1) if label == TEACHER else over_seeds(score_RS, (score_RS,), rng)
        metric = metric_of(column.metric)
        samples.append(100 * np.clip(drawn_R, metric.low, metric.high))
    low, high = interval(np.mean(samples, axis=0))
    return MeanOfColumns(value, low, high)


def all_pairs(group: ReportGroup, answered: Answers, labels: Sequence[str]) -> dict[tuple[str, str], MeanOfColumns]:
    """(first, second) -> mean difference first - second, for every two of these complete rows with stored answers.

    Each pair is there in both orders.
    """
    both: dict[tuple[str, str], MeanOfColumns] = {}
    for first, second in combinations(labels, 2):
        one = _difference(group, answered, first, second)
        if one is not None and one.low is not None and one.high is not None:
            both[first, second] = one
            both[second, first] = MeanOfColumns(-one.value, -one.high, -one.low, one.p)
    return both


def _difference(group: ReportGroup, answered: Answers, first: str, second: str) -> MeanOfColumns | None:
    samples, values = [], []
    for column in group.columns:
        sides = finished(group, first, column), finished(group, second, column)
        data = answered.get(column)
        if data is None or not (data.has(sides[0]) and data.has(sides[1])):
            return None
        samples.append(drawn_differences(data, sides))
        scores = [np.mean([r.scores[column.evaluation][column.metric] for r in side]) for side in sides]
        values.append(100 * float(scores[0] - scores[1]))
    drawn_R = np.mean(samples, axis=0)
    low, high = interval(drawn_R)
    return MeanOfColumns(float(np.mean(values)), low, high, bootstrap_p(drawn_R))
