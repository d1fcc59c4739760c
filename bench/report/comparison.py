"""Paired comparisons: two rows on the same examples, their difference, its interval, a test and a verdict; and means of columns. No torch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import permutations
from types import MappingProxyType
from typing import Any

import numpy as np

from bench.record.cell import TEACHER, is_one_model
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.groups import ReportGroup, ScoreColumn
from bench.report.resampled import Answers, Resampled, judge_answers, resample, rng_for
from bench.report.table import TableCell, number
from bench.stats.metrics import metric_of
from bench.stats.paired import (
    Resamples,
    bootstrap_p,
    discordant,
    holm,
    interval,
    is_near,
    least_detectable,
    mcnemar,
    mean_over_columns,
    of_difference,
    over_seeds,
    permutation,
)
from bench.stats.power import LEVEL, least_gap_at_any_disagreement

BETTER, WORSE, NOT_SIGNIFICANT, BORDERLINE = "better", "worse", "not significant", "borderline"
"""How a comparison ended. Borderline: another draw of the resamples may end otherwise."""


def verdict_of(difference: float, p: float, adjusted: float, test: str = "bootstrap") -> str:
    """How a test ended, from its p and that after Holm's adjustment.

    Args:
        test: where p was counted in resamples it has an error, as large as its distance to the limit if it is borderline.
    """
    # a bootstrap's p is twice the counted tail; the limit of the adjusted p, seen from p itself
    tails = 2 if test == "bootstrap" else 1
    if "McNemar" not in test and p > 0 and is_near(p / tails, LEVEL * p / max(adjusted, p) / tails):
        return BORDERLINE
    if adjusted > LEVEL:
        return NOT_SIGNIFICANT
    return BETTER if difference > 0 else WORSE


@dataclass(frozen=True)
class Comparison:
    """One line of the answer; scores and differences in percent.

    Attributes:
        task: the column, by its task and, where that has several, its evaluation set; ``mean`` for the mean of several.
        seeds, second_seeds: of the two rows; of a mean whose columns have different ones: none.
        test: mid-p (or exact) McNemar, permutation of examples, or bootstrap of examples with Student's t over seeds.
        least: the smallest true difference that four in five such comparisons would find; None where the answers do not say.
        borrowed: whether a row of one seed was taken to scatter as the other does.
        adjusted: p after Holm's adjustment over its family: the columns of the same two rows. A mean is a test of its own.
        family: how many tests that are.
        names: of the two rows, as tables print them.
    """

    task: str
    metric: str
    examples: int
    seeds: tuple[int, ...]
    second_seeds: tuple[int, ...]
    first: float
    second: float
    low: float
    high: float
    test: str
    p: float
    least: float | None
    borrowed: bool = False
    adjusted: float = 1.0
    family: int = 1
    names: tuple[str, str] = ("", "")

    @property
    def difference(self) -> float:
        return self.first - self.second

    @property
    def verdict(self) -> str:
        return verdict_of(self.difference, self.p, self.adjusted, self.test)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "difference": self.difference, "verdict": self.verdict}


MEAN = "mean"
NO_LEAST = (
    "A dash for the minimum detectable difference: the two rows have the same predictions on every example, or their training runs "
    "vary so much that no difference would be found. Agreement on all examples does not prove that a small difference would be found."
)
Sides = tuple[Sequence[Record], Sequence[Record]]
"""The records of two systems for one question, a record for each seed."""
Pair = tuple[Resampled, Sides]
"""The answers of a column, and two rows that are compared there."""
NO_PAIRS: Mapping[int, Pair] = MappingProxyType({})


def judged(
    lines: Sequence[Comparison], averaged: Mapping[int, Pair] = NO_PAIRS
) -> list[Comparison]:
    """The comparisons of two rows, column by column, with Holm's adjustment over them; behind them that of a mean, if there is one.

    The columns are a family of tests and the mean is one test. No other pair is in it, so that a verdict on two rows is the
    same whatever else was compared, or lies in the folder.

    Args:
        averaged: number of a line whose column is in the mean -> its answers and the two rows' records.
    """
    values = holm([line.p for line in lines])
    family = [
        replace(line, adjusted=value, family=len(lines))
        for line, value in zip(lines, values, strict=True)
    ]
    if not averaged:
        return family
    lines, drawn = (
        [lines[number] for number in averaged],
        drawn_differences(list(averaged.values())),
    )
    (low, high), p = interval(drawn), bootstrap_p(drawn)
    known = all(line.least is not None and line.low < line.high for line in lines)
    alike = len({(line.seeds, line.second_seeds) for line in lines}) == 1
    mean = Comparison(
        task=MEAN,
        metric=f"{len(lines)} columns",
        examples=sum(line.examples for line in lines),
        seeds=lines[0].seeds if alike else (),
        second_seeds=lines[0].second_seeds if alike else (),
        borrowed=any(line.borrowed for line in lines),
        first=float(np.mean([line.first for line in lines])),
        second=float(np.mean([line.second for line in lines])),
        low=low,
        high=high,
        test="bootstrap",
        p=p,
        adjusted=p,
        least=least_detectable(drawn) if known else None,
        names=lines[0].names,
    )
    return [*family, mean]


def compared(data: Resampled, sides: Sides, exact: bool = False) -> Comparison:
    """Two rows' records of one column.

    One seed has its own test; of several the bootstrap, with Student's t over the seeds, says how far 0 lies outside.
    """
    column, metric, seeds = data.column, metric_of(data.column.metric), max(map(len, sides))
    rows, is_turned = _in_order(sides)
    rng = rng_for([column], "difference", *(row[0].drawn_as for row in rows))
    spread = _difference(data, rows).spread(rng)
    drawn = 100 * np.clip(spread, -metric.largest_difference, metric.largest_difference)
    low, high = interval(drawn)
    low, high = (-high, -low) if is_turned else (low, high)
    first, second = (data.predicted[row[0].key] for row in rows)
    if seeds > 1:
        test, p = "bootstrap", bootstrap_p(drawn)  # of both tails: the same for both orders
    elif metric.right:
        only = discordant(metric.right(first, data.labels), metric.right(second, data.labels))
        test, p = f"McNemar, {'exact' if exact else 'mid-p'}", mcnemar(*only, exact)
    else:
        test, p = "permutation", permutation(first, second, data.labels, column.metric, rng)

    # The minimum detectable difference. Where two rows answer alike, drawing examples moves nothing: shares of right answers still
    # have the gap that McNemar's test could find at best, other metrics have no bound. One seed is tested by McNemar's too.
    constant = float(np.ptp(spread)) <= 1e-12
    least = None if constant else least_detectable(spread)
    if metric.right and (constant or seeds == 1):
        bound = least_gap_at_any_disagreement(len(data.labels), exact)
        least = None if bound is None else max(bound, least or 0.0)
    if least is not None:
        least = 100 * least if least <= metric.largest_difference else None

    scores = [
        100 * float(np.mean([r.scores[column.evaluation][column.metric] for r in side]))
        for side in sides
    ]
    return Comparison(
        task=f"{column.task} {column.evaluation}" if len(sides[0][0].scores) > 1 else column.task,
        metric=column.metric,
        examples=len(data.labels),
        seeds=tuple(record.cell.seed for record in sides[0]),
        second_seeds=tuple(record.cell.seed for record in sides[1]),
        borrowed=any(len(side) == 1 < seeds and not is_one_model(side[0].cell) for side in sides),
        first=scores[0],
        second=scores[1],
        low=low,
        high=high,
        test=test,
        p=p,
        least=least,
        names=(sides[0][0].called, sides[1][0].called),
    )


def _in_order(sides: Sides) -> tuple[Sides, bool]:
    """The two rows in the order in which all is drawn, and whether they were named the other way round: what is drawn follows from the
    two rows and the column alone."""
    first, second = sorted(
        sides, key=lambda side: (side[0].drawn_as, [record.key for record in side])
    )
    return (first, second), first is not sides[0]


def _difference(data: Resampled, rows: Sides) -> Resamples:
    """Of two rows in one column, as shares."""
    first, second = rows
    single = is_one_model(first[0].cell), is_one_model(second[0].cell)
    return of_difference(data.stacked(first), data.stacked(second), single)


def drawn_differences(pairs: Sequence[Pair]) -> np.ndarray:
    """[resamples] differences of two rows, the first less the second, as other examples and trainings would give them; in percent, the
    mean over these columns."""
    columns, parts = [data.column for data, _ in pairs], list[tuple[str, Resamples]]()
    for data, sides in pairs:
        rows, is_turned = _in_order(sides)
        parts.append((data.column.task, _difference(data, rows)))
    rng = rng_for(columns, "difference", *(row[0].drawn_as for row in rows))
    # Student's t of two seeds reaches beyond what the metrics can give. The true difference lies within, so an interval that is
    # cut there covers it as often as before, and every quantile within stays where it was
    most = float(np.mean([metric_of(column.metric).largest_difference for column in columns]))
    drawn = 100 * np.clip(mean_over_columns(parts).spread(rng), -most, most)
    return -drawn if is_turned else drawn


def drawn_mean(
    group: ReportGroup, answers: Answers, columns: Sequence[ScoreColumn], *rows: str
) -> np.ndarray | None:
    """[resamples] means over these columns of a row's scores, or of the differences of two rows, in percent.

    None where a column has not all of their answers, to the same examples.
    """
    pairs = []
    for column in columns:
        data, sides = answers.get(column), [group.finished(row, column) for row in rows]
        if data is None or not all(map(data.has, sides)):
            return None
        pairs.append((data, sides))
    if len(rows) == 2:
        return drawn_differences([(data, (sides[0], sides[1])) for data, sides in pairs])
    parts, limits = list[tuple[str, Resamples]](), list[tuple[float, float]]()
    for data, (own,) in pairs:
        score_RS, metric = data.stacked(own), metric_of(data.column.metric)
        # the teacher is one model: only the examples are drawn
        part = Resamples(score_RS.mean(1)) if rows[0] == TEACHER else over_seeds(score_RS, score_RS)
        parts.append((data.column.task, part))
        limits.append((metric.low, metric.high))
    spread = mean_over_columns(parts).spread(rng_for(columns, "score", own[0].drawn_as))
    return 100 * np.clip(spread, *np.mean(limits, axis=0))


def not_shown_better(group: ReportGroup, answers: Answers) -> list[ScoreColumn]:
    """The columns in which the 95 % interval of the teacher's score is not above what one answer to everything scores; none where it is
    so in all of them."""
    columns = []
    for column, constant in group.baselines.items():
        known = column in answers and group.finished(TEACHER, column)
        drawn_R = drawn_mean(group, answers, [column], TEACHER) if known else None
        if drawn_R is not None and interval(drawn_R)[0] <= constant:
            columns.append(column)
    return columns if len(columns) < len(group.columns) else []


def columns_of_noise(group: ReportGroup, store: Store) -> list[ScoreColumn]:
    """As :func:`not_shown_better`, from the teacher's stored answers alone."""
    teacher = ReportGroup(
        group.cell, group.identity, [r for r in group.records if r.row == TEACHER]
    )
    judge_answers(teacher, store)
    return not_shown_better(teacher, resample(teacher, store))


def mean_scores(group: ReportGroup, answers: Answers) -> dict[str, TableCell]:
    """The mean score of every row that has its columns, with its interval where all answers are stored."""
    means = {}
    for label, value in group.mean_scores.items():
        drawn_R = drawn_mean(group, answers, group.averaged, label)
        low, high = (None, None) if drawn_R is None else interval(drawn_R)
        means[label] = number(value, low=low, high=high)
    return means


class MeanDifferences(Mapping[tuple[str, str], TableCell]):
    """(first, second) -> mean difference first - second, of two complete rows, in both orders.

    A difference is drawn when it is first asked for: a report shows few of all rows against all.
    """

    def __init__(self, group: ReportGroup, answers: Answers, labels: Sequence[str]) -> None:
        self._group = group
        self._answers = answers
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
        columns = self._group.averaged
        drawn_R = drawn_mean(self._group, self._answers, columns, first, second)
        if drawn_R is None:
            return None
        gaps = [self._score(first, column) - self._score(second, column) for column in columns]
        value = float(np.mean([100 * gap for gap in gaps]))
        low, high = interval(drawn_R)
        return (
            number(value, "+.1f", low=low, high=high),
            number(-value, "+.1f", low=-high, high=-low),
        )

    def _score(self, row: str, column: ScoreColumn) -> float:
        """The mean over seeds."""
        done = self._group.finished(row, column)
        return float(np.mean([r.scores[column.evaluation][column.metric] for r in done]))


def p_in_words(p: float) -> str:
    """Three digits; what is smaller is said to be so."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def comparison_notes(lines: Collection[Comparison]) -> list[str]:
    """What a reader of these comparisons has to know of their seeds and minimum detectable differences."""
    notes = {
        "One seed says nothing about other training runs: the test covers the examples alone.": any(
            len(line.seeds) == len(line.second_seeds) == 1 for line in lines
        ),
        "Where a row of one seed is compared with a row of several seeds, the difference uses all seeds of both rows, and the variance "
        "over seeds is assumed to be the same for both.": any(line.borrowed for line in lines),
        NO_LEAST: any(line.least is None for line in lines),
    }
    return [note for note, applies in notes.items() if applies]
