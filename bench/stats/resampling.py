"""How a metric scores many resamples of the same examples at once, as fast as it can.

Letters of shapes: n or N examples, R resamples, M systems, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

IN_CACHE = 2**16
"""Numbers of an array with which a processor computes fastest."""
Scorer = Callable[[np.ndarray], np.ndarray]
"""[R, n] how often each example was drawn -> [R, M] scores."""


NO_ANSWER = 1e-9
"""A number of answers that is none, and yet more than 0."""


@dataclass(frozen=True)
class Repeated:
    """By the metric's plain form on the examples as they were drawn.

    It is slow, and right for every metric.
    """

    score: Callable[[np.ndarray, np.ndarray], float]

    def scorer(self, systems: Sequence[np.ndarray], labels: np.ndarray) -> Scorer:
        """For the answers of M systems, [n, ...] each, to examples with these [n, ...] labels."""

        def drawn(row: np.ndarray) -> list[float]:
            true = np.repeat(labels, row, axis=0)
            return [self.score(np.repeat(system, row, axis=0), true) for system in systems]

        return lambda counts_RN: np.array([drawn(row) for row in counts_RN])

    def of_rows(self, predicted: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """[R, n, ...] answers -> [R] scores with these [n, ...] labels.

        It is for tests that swap answers.
        """
        return np.array([self.score(row, labels) for row in predicted])


@dataclass(frozen=True)
class Mean:
    """For a metric that is the mean of a number for each example.

    Attributes:
        each: (predicted, labels) -> [n].
    """

    each: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def scorer(self, systems: Sequence[np.ndarray], labels: np.ndarray) -> Scorer:
        """As :meth:`Repeated.scorer`."""
        values_NM = np.stack([self.each(system, labels) for system in systems], 1).astype(float)
        return lambda counts_RN: counts_RN @ values_NM / counts_RN.sum(1, keepdims=True)

    def of_rows(self, predicted: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """As :meth:`Repeated.of_rows`."""
        return np.array([self.each(row, labels).mean(dtype=float) for row in predicted])


@dataclass(frozen=True)
class ByClass:
    """For a metric of classes that is a function of three numbers of examples of each class.

    Attributes:
        score_of: [R, C] examples of each class that are answered rightly, that have it as their
            label, and that are answered with it; the [C] classes -> [R].
        keeps_classes: whether a resample has as many examples of each label as there are, and its
            mean is over the classes of all examples. A mean over classes needs it: a resample
            without the only two examples of a class that no system finds would score higher.
    """

    score_of: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    keeps_classes: bool = False

    def scorer(self, systems: Sequence[np.ndarray], labels: np.ndarray) -> Scorer:
        """As :meth:`Repeated.scorer`."""
        classes = np.unique(np.concatenate([labels, *systems]))
        # in float32 the sums of counts are exact up to 2**24 examples
        true_NC, *answered = (
            (codes[:, None] == classes).astype(np.float32) for codes in (labels, *systems)
        )
        columns = np.hstack(
            [true_NC, *answered, *(answered_NC * true_NC for answered_NC in answered)]
        )

        # less than any answer: a class that a system gives by mistake stays one of its classes
        # where a resample has none of these examples, and has F1 of 0 there as it has among all
        floor_MC = NO_ANSWER * np.stack([np.isin(classes, system) for system in systems])

        def score(counts_RN: np.ndarray) -> np.ndarray:
            resamples = len(counts_RN)
            sums = (counts_RN.astype(np.float32) @ columns).reshape(resamples, -1, len(classes))
            true_RC = sums[:, 0].astype(float)
            answered_RMC = sums[:, 1 : 1 + len(systems)]
            hits_RMC = sums[:, 1 + len(systems) :]

            # many systems at once, as many as fit in a processor's cache: they are so many more
            # resamples
            scores_RM = np.empty((resamples, len(systems)))
            together = max(1, IN_CACHE // (resamples * len(classes)))
            for begin in range(0, len(systems), together):
                hits_RMC_part = hits_RMC[:, begin : begin + together]
                answered_RMC_part = answered_RMC[:, begin : begin + together].astype(float)
                if self.keeps_classes:
                    floor = floor_MC[begin : begin + together]
                    answered_RMC_part = np.maximum(answered_RMC_part, floor)
                count = hits_RMC_part.shape[1]
                shape = (resamples * count, len(classes))
                hits_QC = hits_RMC_part.reshape(shape).astype(float)
                answered_QC = answered_RMC_part.reshape(shape)
                true_QC = np.repeat(true_RC, count, axis=0)
                scores_Q = self.score_of(hits_QC, true_QC, answered_QC, classes)
                scores_RM[:, begin : begin + count] = scores_Q.reshape(resamples, count)
            return scores_RM

        return score


@dataclass(frozen=True)
class Correlation:
    """For Pearson's correlation of the answers with the labels, or of the ranks of both."""

    ranked: bool = False

    def scorer(self, systems: Sequence[np.ndarray], labels: np.ndarray) -> Scorer:
        """As :meth:`Repeated.scorer`; 0 where the labels or the answers are constant."""
        prepare = _Ranks if self.ranked else _Values
        of_labels = prepare(labels)
        of_systems = [prepare(predicted) for predicted in systems]

        def score(counts_RN: np.ndarray) -> np.ndarray:
            # as many resamples at once as fit in a processor's cache
            resamples, examples = counts_RN.shape
            together = max(1, IN_CACHE // examples)
            scores_RM = np.zeros((resamples, len(of_systems)))
            for begin in range(0, resamples, together):
                of_part = slice(begin, begin + together)
                # resamples side by side: examples are put in order by copying whole rows, and
                # whole numbers add up exactly
                counts_NR = np.ascontiguousarray(counts_RN[of_part].T, np.int32)
                _correlate(of_labels, of_systems, counts_NR, scores_RM[of_part])
            return scores_RM

        return score

    def of_rows(self, predicted: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """As :meth:`Repeated.of_rows`; 0 where one of the two is constant."""
        predicted_RN = predicted
        labels_RN = np.broadcast_to(labels, predicted.shape)
        if self.ranked:
            from scipy.stats import rankdata

            predicted_RN = rankdata(predicted_RN, axis=1)
            labels_RN = rankdata(labels_RN, axis=1)
        a = predicted_RN - predicted_RN.mean(1, keepdims=True)
        b = labels_RN - labels_RN.mean(1, keepdims=True)
        scale = np.sqrt((a * a).sum(1) * (b * b).sum(1))
        return np.divide((a * b).sum(1), scale, out=np.zeros(len(a)), where=scale > 0)


@dataclass(frozen=True)
class Determination:
    """For the coefficient of determination.

    Attributes:
        lowest: what lower scores count as.
    """

    lowest: float

    def scorer(self, systems: Sequence[np.ndarray], labels: np.ndarray) -> Scorer:
        """As :meth:`Repeated.scorer`; 0 where the labels are constant."""
        of_labels = _Values(labels)
        given_NM = np.stack(systems, 1).astype(float)
        squares_NM = (given_NM - labels[:, None].astype(float)) ** 2

        def score(counts_RN: np.ndarray) -> np.ndarray:
            total_R = of_labels.variance(counts_RN.T)
            return self._of(counts_RN.astype(float) @ squares_NM, total_R[:, None])

        return score

    def of_rows(self, predicted: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """As :meth:`Repeated.of_rows`; 0 where the labels are constant."""
        true = labels.astype(float)
        missed_R = ((predicted.astype(float) - true) ** 2).sum(1)
        return self._of(missed_R, np.full(1, ((true - true.mean()) ** 2).sum()))

    def _of(self, missed: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Sums of squares, of errors and about the mean of the labels -> scores."""
        share = np.divide(missed, total, out=np.ones(missed.shape), where=total > 0)
        return np.maximum(self.lowest, 1 - share)


@dataclass(frozen=True)
class Sums:
    """For a metric of texts that is a function of the sums of their counts.

    Attributes:
        score_of: [R, K] sums -> [R].
    """

    score_of: Callable[[np.ndarray], np.ndarray]

    def scorer(self, systems: Sequence[np.ndarray], labels: np.ndarray) -> Scorer:
        """As :meth:`Repeated.scorer`."""
        counts = [system.astype(float) for system in systems]  # whole numbers: their sums are exact
        return lambda counts_RN: np.stack(
            [self.score_of(counts_RN.astype(float) @ counts_NK) for counts_NK in counts], 1
        )

    def of_rows(self, predicted: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """As :meth:`Repeated.of_rows`."""
        return self.score_of(predicted.sum(1, dtype=float))


Resampling = Repeated | Mean | ByClass | Correlation | Determination | Sums


def _correlate(
    of_labels: _Values, of_systems: Sequence[_Values], counts_NR: np.ndarray, scores_RM: np.ndarray
) -> None:
    """Write the correlations of some resamples into an array of zeros."""
    # what each example weighs in a covariance with the labels: a resample's sum is 0, so that the
    # other side needs no centring
    lever_NR = of_labels.lever(counts_NR)
    of_labels_R = of_labels.variance(counts_NR)
    # ranks of distinct values are tied by drawing alone, alike for all systems
    of_distinct_R = _variance_of_ranks(counts_NR)
    for place, system in enumerate(of_systems):
        variance_R = of_distinct_R if system.is_distinct else system.variance(counts_NR)
        scale_R = np.sqrt(variance_R * of_labels_R)
        together_R = system.covariance(counts_NR, lever_NR)
        np.divide(together_R, scale_R, out=scores_RM[:, place], where=scale_R > 0)


class _Values:
    """Numbers whose correlation is that of their values."""

    is_distinct = False
    """whether they are ranks, and no two are equal"""

    def __init__(self, x_N: np.ndarray) -> None:
        # less the mean of all: that changes no correlation, and little is lost to rounding
        self._x_N = x_N - x_N.mean(dtype=float)

    def lever(self, counts_NR: np.ndarray) -> np.ndarray:
        """[N, R] what each example weighs in a sum of products with these, less their mean."""
        mean_R = self._x_N @ counts_NR / counts_NR.sum(0)
        return counts_NR * (self._x_N[:, None] - mean_R)

    def variance(self, counts_NR: np.ndarray) -> np.ndarray:
        """[R] sum of squares about the mean.

        It is 0 where all that was drawn is the same but for rounding.
        """
        total_R = counts_NR.sum(0)
        mean_R = self._x_N @ counts_NR / total_R
        squares_R = self._x_N**2 @ counts_NR
        about_R = squares_R - total_R * mean_R**2
        return np.where(about_R > 1e-12 * squares_R, about_R, 0.0)

    def covariance(self, counts_NR: np.ndarray, lever_NR: np.ndarray) -> np.ndarray:
        """[R] sum of the products with another side, whose lever this is."""
        return self._x_N @ lever_NR


class _Ranks(_Values):
    """Numbers whose correlation is that of their ranks among the examples drawn.

    Ties have the middle of their ranks. The numbers are sorted once. A value that is drawn s times,
    up to the c-th place, has the ranks c - s + 1 to c, with the middle c - (s - 1) / 2.
    """

    def __init__(self, x_N: np.ndarray) -> None:
        _, self._group_N = np.unique(x_N, return_inverse=True)
        self._order_N = np.argsort(self._group_N, kind="stable")
        self._starts_G = np.flatnonzero(np.diff(self._group_N[self._order_N], prepend=-1))
        self.is_distinct = len(self._starts_G) == len(x_N)

    def _by_value(self, of_examples_NR: np.ndarray) -> np.ndarray:
        """[G, R] the sum over the examples of each value, in the order of the values."""
        in_order_NR = of_examples_NR[self._order_N]
        if self.is_distinct:
            return in_order_NR
        return np.add.reduceat(in_order_NR, self._starts_G, axis=0)

    def _twice_ranks(self, counts_NR: np.ndarray) -> np.ndarray:
        """[G, R] twice the rank of each value, less 1: a whole number."""
        size_GR = self._by_value(counts_NR)
        twice_GR = 2 * size_GR.cumsum(0, dtype=size_GR.dtype)
        twice_GR -= size_GR
        return twice_GR

    def lever(self, counts_NR: np.ndarray) -> np.ndarray:
        """As :meth:`_Values.lever`."""
        rank_NR = (self._twice_ranks(counts_NR)[self._group_N] + 1) / 2
        # the mean of the ranks 1 to n, however they are tied
        middle_R = (counts_NR.sum(0) + 1) / 2
        return counts_NR * (rank_NR - middle_R)

    def variance(self, counts_NR: np.ndarray) -> np.ndarray:
        """[R] sum of squares about the mean."""
        return _variance_of_ranks(self._by_value(counts_NR))

    def covariance(self, counts_NR: np.ndarray, lever_NR: np.ndarray) -> np.ndarray:
        """As :meth:`_Values.covariance`."""
        # a rank is half of this and of 1, and the 1 adds nothing: a lever's sum is 0
        twice_GR = self._twice_ranks(counts_NR)
        return np.einsum("gr,gr->r", twice_GR, self._by_value(lever_NR)) / 2


def _variance_of_ranks(size_GR: np.ndarray) -> np.ndarray:
    """[R] sum of squares of ranks about their mean, of groups of equal values.

    It is (n^3 - n) / 12 of the ranks 1 to n, less as much for each tie.
    """
    size_GR = size_GR.astype(float)
    total_R = size_GR.sum(0)
    cubes_R = np.einsum("gr,gr,gr->r", size_GR, size_GR, size_GR)
    return (total_R**3 - cubes_R) / 12
