"""Paired comparisons: two rows on the same examples, their difference, its interval, a test and a
verdict.

No torch. A side may be the mean of several rows, or a lead over a baseline: each training is one
source of chance."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from bench.record.cell import is_one_model
from bench.record.schema import Record
from bench.report.resampled import Resampled, rng_for
from bench.report.score_column import ScoreColumn, why_no_verdict
from bench.stats.distribution import Distribution
from bench.stats.equivalence import MARGIN
from bench.stats.mean_detail import MeanDetail
from bench.stats.metrics import metric_of
from bench.stats.paired import (
    RESAMPLES,
    Resamples,
    Trained,
    discordant,
    holm,
    mcnemar,
    mean_over_columns,
    of_contrast,
    permutation,
)
from bench.stats.power import LEVEL, least_gap_at_any_disagreement
from bench.stats.seeds import TIMES

BETTER = "better"
WORSE = "worse"
NOT_SIGNIFICANT = "not significant"
BORDERLINE = "borderline"
"""How a comparison ended. Borderline: another draw of the resamples may end otherwise."""
TOO_FEW_SEEDS = "too few seeds for a verdict"
"""Where seeds of a row end in results of several kinds (:mod:`bench.stats.seeds`)."""
WITHIN = f"within {MARGIN:g} point"
"""What is asked of a row and the best one, beside which of the two is better."""
SHOWN = "shown"
NOT_SHOWN = "not shown"
NEAR_THE_LEVEL = 0.0002, 0.06
"""Between these another draw of the resamples may take p, times the tests of a family, over the
level: 0.05 is two standard errors or more from the rest."""


def verdict_of(difference: float, p: float, adjusted: float, error: float = 0.0) -> str:
    """How a test ended, from its p and that after Holm's adjustment.

    Args:
        error: the standard error that random draws leave in p; 0 for an exact test. It is
            borderline if p is within two of them of the value that would be adjusted to the level.
    """
    limit = LEVEL * p / max(adjusted, p) if p > 0 else LEVEL
    if abs(p - limit) < 2 * error:
        return BORDERLINE
    if adjusted > LEVEL:
        return NOT_SIGNIFICANT
    return BETTER if difference > 0 else WORSE


def error_of_p(drawn: Distribution) -> float:
    """The standard error that the drawn examples leave in p; 0 where no error could change a
    verdict."""
    low, high = NEAR_THE_LEVEL
    return drawn.error_of(Distribution.p) if low < drawn.p() < high else 0.0


@dataclass(frozen=True)
class Side:
    """What stands on one side of a comparison in a column: a row or the mean of several, which may
    be less a baseline.

    Attributes:
        rows: of each row its records, one for each seed.
        against: likewise, the rows whose mean is subtracted; none for the rows as they are.
    """

    rows: tuple[tuple[Record, ...], ...]
    against: tuple[tuple[Record, ...], ...] = ()

    def weighted(self) -> list[tuple[float, tuple[Record, ...]]]:
        """Each row with the factor that it counts with."""
        own = [(1 / len(self.rows), row) for row in self.rows]
        return own + [(-1 / len(self.against), row) for row in self.against]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of its first row."""
        return tuple(record.cell.seed for record in self.rows[0])

    def score(self, column: ScoreColumn) -> float:
        """In percent."""
        total = 0.0
        for weight, row in self.weighted():
            scores = [record.scores[column.evaluation][column.metric] for record in row]
            total += 100 * weight * float(np.mean(scores))
        return total

    @property
    def name(self) -> str:
        """Its rows as tables print them."""
        own = _listed([row[0].called for row in self.rows])
        less = _listed([row[0].called for row in self.against])
        return f"{own} less {less}" if less else own


def _listed(names: Sequence[str]) -> str:
    """``a``; or ``mean of a, b and c``."""
    if len(names) < 2:
        return "".join(names)
    return f"mean of {', '.join(names[:-1])} and {names[-1]}"


Sides = tuple[Side, Side]
"""The two sides of one question."""


def sides_of(first: Sequence[Record], second: Sequence[Record]) -> Sides:
    """A row compared with another: the records of each, one for each seed."""
    return Side((tuple(first),)), Side((tuple(second),))


@dataclass(frozen=True)
class Comparison:
    """One line of the answer; scores and differences in percent.

    Attributes:
        task: the column, by its task and, where that has several, its evaluation set; ``mean`` for
            the mean of several.
        seeds, second_seeds: of the two rows; of a mean whose columns have different ones: none.
        test: mid-p (or exact) McNemar, permutation of examples, or bootstrap of examples with
            Student's t over seeds.
        least: the smallest true difference that four in five such comparisons would find; None
            where the answers do not say.
        borrowed: whether a row of one seed was taken to scatter as the other does.
        adjusted: p after Holm's adjustment over its family: the columns of the same two rows. A
            mean is a test of its own.
        family: how many tests that are.
        names: of the two sides, as tables print their rows.
        error: the standard error that random draws leave in p.
        has_seeds_apart: whether seeds of one of the rows end in results of several kinds.
        detail: more of a mean, where that was asked for.
        no_verdict: why there is no verdict, and p is not shown; "" where there is one.
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
    error: float = 0.0
    has_seeds_apart: bool = False
    detail: MeanDetail | None = None
    no_verdict: str = ""

    @property
    def difference(self) -> float:
        return self.first - self.second

    @property
    def verdict(self) -> str:
        """How the test ended; "" where there is none."""
        if self.no_verdict:
            return ""
        if self.has_seeds_apart:
            return TOO_FEW_SEEDS
        return verdict_of(self.difference, self.p, self.adjusted, self.error)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; without a verdict p is None."""
        values = {**asdict(self), "difference": self.difference, "verdict": self.verdict}
        if self.detail is None:
            del values["detail"]
        if self.no_verdict:
            values |= {"p": None, "adjusted": None}
        return values


MEAN = "mean"
NO_LEAST = (
    "A dash for the minimum detectable difference: the two rows have the same predictions on every "
    "example, or their training runs vary so much that no difference would be found. Agreement on "
    "all examples does not prove that a small difference would be found."
)
ONE_MODEL_EACH = (
    "One model of each row says nothing about other training runs: the test covers the examples "
    "alone."
)
BORROWED = (
    "Where a row of one seed is compared with a row of several seeds, the difference uses all "
    "seeds of both rows, and the variance over seeds is assumed to be the same for both."
)
SEEDS_APART = (
    f"{TOO_FEW_SEEDS.capitalize()}: the seeds of one of the two rows are more than {TIMES:g} "
    "standard deviations of the other rows' seeds apart, so they are of several kinds, and the "
    "mean of so few is no estimate."
)
Pair = tuple[Resampled, Sides]
"""The answers of a column, and what is compared there."""
NO_PAIRS: Mapping[int, Pair] = MappingProxyType({})


@dataclass(frozen=True)
class RowDifference:
    """A row compared with another one in each column that has the predictions of both.

    Attributes:
        row, other: the second one is subtracted from the first one.
        columns: column -> the comparison, with Holm's adjustment over the columns.
        keys: column -> the keys of both rows' records there.
        mean: over the columns of all means; None where one of them is missing, or there is one.
    """

    row: str
    other: str
    columns: Mapping[ScoreColumn, Comparison]
    keys: Mapping[ScoreColumn, tuple[str, ...]]
    mean: Comparison | None = None

    @property
    def tests(self) -> int:
        """How many columns have a verdict."""
        return sum(not line.no_verdict for line in self.columns.values())

    @property
    def all_keys(self) -> tuple[str, ...]:
        """The keys of both rows' records in all columns."""
        keys: list[str] = []
        for of_column in self.keys.values():
            keys += of_column
        return tuple(keys)

    def over(self, averaged: Sequence[ScoreColumn]) -> Comparison | None:
        """The comparison over these columns of all means: that of the column where it is one."""
        return self.columns.get(averaged[0]) if len(averaged) == 1 else self.mean

    def keys_over(self, averaged: Sequence[ScoreColumn]) -> tuple[str, ...]:
        """The keys behind :meth:`over`."""
        return self.keys.get(averaged[0], ()) if len(averaged) == 1 else self.all_keys


def judged(
    lines: Sequence[Comparison], averaged: Mapping[int, Pair] = NO_PAIRS
) -> list[Comparison]:
    """The comparisons of two rows, column by column, with Holm's adjustment over them; behind them
    that of a mean, if there is one.

    The columns are a family of tests and the mean is one test. No other pair is in it, so that a
    verdict on two rows is the same whatever else was compared, or lies in the folder.

    Args:
        averaged: number of a line whose column is in the mean -> its answers and what is compared.
    """
    # what has no verdict is no test
    tested = [number for number, line in enumerate(lines) if not line.no_verdict]
    adjusted = dict(zip(tested, holm([lines[number].p for number in tested]), strict=True))
    family = []
    for number, line in enumerate(lines):
        family.append(replace(line, adjusted=adjusted.get(number, 1.0), family=len(tested)))
    if averaged:
        family.append(_mean_of([lines[number] for number in averaged], list(averaged.values())))
    return family


def _mean_of(lines: Sequence[Comparison], pairs: Sequence[Pair]) -> Comparison:
    """The comparison of the mean of several columns.

    Args:
        lines: the comparisons of its columns.
        pairs: of each column its answers and what is compared.
    """
    drawn = mean_difference(pairs)
    low, high = drawn.interval()
    p = drawn.p()

    # a mean has a minimum detectable difference where each of its columns has one
    least = None
    if all(line.least is not None and line.low < line.high for line in lines):
        least = drawn.least_detectable()
    # and it has seeds where all columns have the same
    first = lines[0]
    has_same_seeds = all(
        (line.seeds, line.second_seeds) == (first.seeds, first.second_seeds) for line in lines
    )
    return Comparison(
        task=MEAN,
        metric=f"{len(lines)} columns",
        examples=sum(line.examples for line in lines),
        seeds=first.seeds if has_same_seeds else (),
        second_seeds=first.second_seeds if has_same_seeds else (),
        borrowed=any(line.borrowed for line in lines),
        first=float(np.mean([line.first for line in lines])),
        second=float(np.mean([line.second for line in lines])),
        low=low,
        high=high,
        test="bootstrap",
        p=p,
        adjusted=p,
        least=least,
        names=first.names,
        error=error_of_p(drawn),
        has_seeds_apart=any(line.has_seeds_apart for line in lines),
        no_verdict=next((line.no_verdict for line in lines if line.no_verdict), ""),
    )


def compared(data: Resampled, sides: Sides, exact: bool = False) -> Comparison:
    """Two sides in one column.

    Two rows of one seed have a test of their own. Otherwise the bootstrap, with Student's t over
    the seeds, says how far 0 lies outside.
    """
    column = data.column
    rows = [row for side in sides for _, row in side.weighted()]
    seeds = max(len(row) for row in rows)
    contrast = _contrast(data, sides).distribution()
    most = _largest_difference(column, sides)

    # the interval, within what the metric allows
    drawn = contrast.within(-most, most).times(100)
    low, high = drawn.interval()

    # the test
    if seeds == 1 and len(rows) == 2:
        test, p, error = _test_of_one_seed(data, rows, exact)
    else:
        test = "bootstrap"
        p = drawn.p()
        error = error_of_p(drawn)

    has_sets = len(rows[0][0].scores) > 1
    return Comparison(
        task=f"{column.shown} {column.evaluation}" if has_sets else column.shown,
        metric=column.metric,
        examples=len(data.labels),
        seeds=sides[0].seeds,
        second_seeds=sides[1].seeds,
        borrowed=any(len(row) == 1 < seeds and not is_one_model(row[0].cell) for row in rows),
        first=sides[0].score(column),
        second=sides[1].score(column),
        low=low,
        high=high,
        test=test,
        p=p,
        least=_least_detectable(data, contrast, seeds == 1 and len(rows) == 2, exact, most),
        names=(sides[0].name, sides[1].name),
        error=error,
        no_verdict=_why_no_verdict(rows),
    )


def _least_detectable(
    data: Resampled, contrast: Distribution, is_of_one_seed: bool, exact: bool, most: float
) -> float | None:
    """The minimum detectable difference, in percent; None where the answers do not say.

    Args:
        contrast: the difference of the two sides, as a share.
        is_of_one_seed: whether two rows of one seed are compared, which McNemar's test does.
        most: the largest difference that the metric allows, as a share.
    """
    # where two rows answer alike, drawing examples moves nothing
    least = None if contrast.is_constant else contrast.least_detectable()
    # shares of right answers still have the gap that McNemar's test could find at best; other
    # metrics have no bound
    is_share = metric_of(data.column.metric).right is not None
    if is_share and (contrast.is_constant or is_of_one_seed):
        bound = least_gap_at_any_disagreement(len(data.labels), exact)
        least = None if bound is None else max(bound, least or 0.0)
    if least is None or least > most:
        return None
    return 100 * least


def _why_no_verdict(rows: Sequence[tuple[Record, ...]]) -> str:
    """Why a comparison of these rows has no verdict; "" where it has one."""
    trained = [len(row) for row in rows if not is_one_model(row[0].cell)]
    return why_no_verdict(rows[0][0].cell.data.slug, max(trained, default=None))


def _test_of_one_seed(
    data: Resampled, rows: Sequence[tuple[Record, ...]], exact: bool
) -> tuple[str, float, float]:
    """The name of the test of two trainings, its p, and the standard error that random draws leave
    in it."""
    metric = metric_of(data.column.metric)
    # the order of the two decides what is drawn: always the same one
    in_order = sorted(rows, key=lambda row: (row[0].drawn_as, row[0].key))
    first, second = (data.predicted[row[0].key] for row in in_order)
    if metric.right:
        only = discordant(metric.right(first, data.labels), metric.right(second, data.labels))
        return f"McNemar, {'exact' if exact else 'mid-p'}", mcnemar(*only, exact), 0.0
    rng = rng_for([data.column], "difference", *(row[0].drawn_as for row in in_order))
    p = permutation(first, second, data.labels, data.column.metric, rng)
    return "permutation", p, float(np.sqrt(p * (1 - p) / RESAMPLES))


def _largest_difference(column: ScoreColumn, sides: Sides) -> float:
    """How far two sides can be apart: of two leads twice as far as of two rows."""
    total = sum(abs(weight) for side in sides for weight, _ in side.weighted())
    return metric_of(column.metric).largest_difference * total / 2


def _contrast(data: Resampled, sides: Sides) -> Resamples:
    """The first side less the second in one column, as shares: each training counts once, whatever
    it is subtracted from."""
    weights: dict[tuple[str, ...], float] = {}
    records: dict[tuple[str, ...], tuple[Record, ...]] = {}
    for sign, side in zip((1, -1), sides, strict=True):
        for weight, row in side.weighted():
            keys = tuple(record.key for record in row)
            weights[keys] = weights.get(keys, 0.0) + sign * weight
            records[keys] = row
    # in one order: to the last digit, what is printed does not hang on that of the names
    return of_contrast(
        [
            Trained(weights[keys], data.stacked(records[keys]), is_one_model(records[keys][0].cell))
            for keys in sorted(weights)
            if weights[keys]
        ]
    )


def contrast_of_mean(pairs: Sequence[Pair]) -> Resamples:
    """The first side less the second on each resample, the mean over these columns, as a share."""
    # in one order, so that the order of a table's columns does not change the last digit
    pairs = sorted(pairs, key=lambda pair: (pair[0].column.task, pair[0].column.evaluation))
    return mean_over_columns([(data.column.task, _contrast(data, sides)) for data, sides in pairs])


def mean_difference(pairs: Sequence[Pair]) -> Distribution:
    """The first side less the second, as other examples and trainings would give it: in percent,
    the mean over these columns."""
    # Student's t of two seeds reaches beyond what the metrics can give. The true difference lies
    # within, so an interval that is cut there covers it as often as before, and every quantile
    # within stays where it was
    most = float(np.mean([_largest_difference(data.column, sides) for data, sides in pairs]))
    return contrast_of_mean(pairs).distribution().within(-most, most).times(100)


def p_in_words(p: float) -> str:
    """Three digits; what is smaller is said to be so."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def comparison_notes(lines: Collection[Comparison]) -> list[str]:
    """What a reader of these comparisons has to know of their seeds and minimum detectable
    differences."""
    notes = list(dict.fromkeys(line.no_verdict for line in lines if line.no_verdict))
    tested = [line for line in lines if not line.no_verdict]
    if any(len(line.seeds) == len(line.second_seeds) == 1 for line in tested):
        notes.append(ONE_MODEL_EACH)
    if any(line.borrowed for line in lines):
        notes.append(BORROWED)
    if any(line.least is None for line in lines):
        notes.append(NO_LEAST)
    if any(line.has_seeds_apart for line in tested):
        notes.append(SEEDS_APART)
    return notes
