"""Two systems on the same examples: their difference, how far chance may have moved it, and tests.

There are two ways to resample examples. :func:`resampled_scores` draws examples: for all intervals
of reports, ``compare`` and ``choose``. For metrics of classes :func:`patterns` compresses answers
to the distinct ones (all answers and the label), and what is drawn is how often each comes: for the
gate and the permutation test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bench.stats.distribution import AS_GOOD_AS_KNOWN, CONFIDENCE, Distribution
from bench.stats.form import ROUNDED, SPANS, Form, differing
from bench.stats.metrics import metric_of
from bench.stats.resampling import ByClass

RESAMPLES = 10_000
"""Every interval and permutation test has so many: one comparison has one interval everywhere."""
CHUNK = 200
"""Resamples of single examples that are scored at once."""


def patterns(
    answers: Sequence[np.ndarray], labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct patterns of [n] answers and labels of classes.

    Returns:
        [K] examples that have each of them; for all answers, then for the labels, [K, C] 1 for the
        class that they name there; and the [C] classes.
    """
    rows_KS, counts_K = np.unique(np.stack([*answers, labels], 1), axis=0, return_counts=True)
    classes = np.unique(rows_KS)
    return counts_K, (rows_KS.T[:, :, None] == classes).astype(float), classes


def drawn_scores(
    systems: Sequence[np.ndarray],
    labels: np.ndarray,
    metric: str,
    rng: np.random.Generator,
    resamples: int,
) -> np.ndarray:
    """[resamples, M] scores of M systems on the same drawn examples.

    Metrics of classes are scored by how often each pattern of answers is drawn.
    """
    by = metric_of(metric).resampling
    if not isinstance(by, ByClass) or by.keeps_classes:
        return resampled_scores(systems, labels, metric, rng, resamples)
    counts_K, (*answered, true_KC), classes = patterns(systems, labels)
    # how often each pattern is drawn, of as many draws as there are examples
    weights_RK = rng.multinomial(counts_K.sum(), counts_K / counts_K.sum(), size=resamples)
    true_RC = weights_RK @ true_KC
    scores = []
    for answered_KC in answered:
        hits_RC = weights_RK @ (answered_KC * true_KC)
        scores.append(by.score_of(hits_RC, true_RC, weights_RK @ answered_KC, classes))
    return np.stack(scores, 1)


def permutation(
    first: np.ndarray,
    second: np.ndarray,
    labels: np.ndarray,
    metric: str,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
) -> float:
    """Two-sided p-value of two systems' answers.

    It is how often systems that are swapped example by example differ as much; ties count half.

    Args:
        first, second: predicted answers, [n, ...].
        labels: [n, ...].
        metric: the name of one that is registered.
    """
    if np.array_equal(first, second):
        return 1.0  # swapping changes nothing: all are ties, which would count half
    measure = metric_of(metric)
    by = measure.resampling
    if isinstance(by, ByClass):
        drawn_R = _swapped_patterns(first, second, labels, by, rng, resamples)
    else:
        drawn_R = _swapped_examples(first, second, labels, by.of_rows, rng, resamples)
    # how often they differ as much as the two do
    drawn_R = np.abs(drawn_R)
    observed = abs(measure.score(first, labels) - measure.score(second, labels))
    is_equal_R = np.isclose(drawn_R, observed, rtol=0, atol=1e-12)
    larger = ((drawn_R > observed) & ~is_equal_R).sum()
    # the observed labelling is one of the permutations (Phipson and Smyth 2010)
    return float(larger + 0.5 * (is_equal_R.sum() + 1)) / (resamples + 1)


def _swapped_patterns(
    first: np.ndarray,
    second: np.ndarray,
    labels: np.ndarray,
    by: ByClass,
    rng: np.random.Generator,
    resamples: int,
) -> np.ndarray:
    """[resamples] differences of systems that are swapped in some examples of each pattern."""
    # of each pattern, so many examples are swapped
    counts_K, (a_KC, b_KC, true_KC), classes = patterns([first, second], labels)
    true_RC = np.broadcast_to(counts_K @ true_KC, (resamples, len(classes)))
    swapped_RK = rng.binomial(counts_K, 0.5, size=(resamples, len(counts_K)))
    kept_RK = counts_K - swapped_RK

    def score(kept_KC: np.ndarray, other_KC: np.ndarray) -> np.ndarray:
        hits_RC = kept_RK @ (kept_KC * true_KC) + swapped_RK @ (other_KC * true_KC)
        answered_RC = kept_RK @ kept_KC + swapped_RK @ other_KC
        return by.score_of(hits_RC, true_RC, answered_RC, classes)

    return score(a_KC, b_KC) - score(b_KC, a_KC)


def _swapped_examples(
    first: np.ndarray,
    second: np.ndarray,
    labels: np.ndarray,
    scores_of: Callable[[np.ndarray, np.ndarray], np.ndarray],
    rng: np.random.Generator,
    resamples: int,
) -> np.ndarray:
    """[resamples] differences of systems that are swapped example by example.

    Args:
        scores_of: [R, n, ...] answers and [n, ...] labels -> [R] scores.
    """
    parts = []
    for begin in range(0, resamples, CHUNK):
        count = min(CHUNK, resamples - begin)
        swap = rng.random((count, len(labels))) < 0.5
        # an answer of several numbers is swapped as a whole
        swap = swap.reshape(*swap.shape, *[1] * (first.ndim - 1))
        one_R = scores_of(np.where(swap, second, first), labels)
        other_R = scores_of(np.where(swap, first, second), labels)
        parts.append(one_R - other_R)
    return np.concatenate(parts)


def discordant(first: np.ndarray, second: np.ndarray) -> tuple[int, int]:
    """How many examples only the first system answers rightly, and only the second.

    Args:
        first, second: [n] whether each answer is right.
    """
    return int((first & ~second).sum()), int((second & ~first).sum())


def resampled_scores(
    systems: Sequence[np.ndarray],
    labels: np.ndarray,
    metric: str,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
) -> np.ndarray:
    """[resamples, M] scores of M systems on the same drawn examples: for all pairs of a table.

    A system's scores are the same whatever other systems are scored with it.

    Args:
        systems: predicted answers, [n, ...] each.
        metric: the name of one that is registered.
    """
    return np.ascontiguousarray(scores_by_system(systems, labels, metric, rng, resamples).T)


def scores_by_system(
    systems: Sequence[np.ndarray],
    labels: np.ndarray,
    metric: str,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
) -> np.ndarray:
    """[M, resamples] as :func:`resampled_scores`; one system's scores lie side by side."""
    # a mean over classes needs as many examples of each in every resample
    by = metric_of(metric).resampling
    score = by.scorer(systems, labels)
    draw = counts
    if isinstance(by, ByClass) and by.keeps_classes:
        draw = partial(counts_by_label, labels)
    scores_MR = np.empty((len(systems), resamples))
    for begin in range(0, resamples, CHUNK):
        counts_RN = draw(len(labels), rng, min(CHUNK, resamples - begin))
        scores_MR[:, begin : begin + CHUNK] = score(counts_RN).T
    return scores_MR


def counts_by_label(
    labels: np.ndarray, examples: int, rng: np.random.Generator, resamples: int
) -> np.ndarray:
    """As :func:`counts`, but as many draws of the examples of each label as there are of them.

    Args:
        labels: [examples] codes.
    """
    # the examples of each label are drawn by themselves
    counts_RN = np.zeros((resamples, examples), np.int64)
    for label in np.unique(labels):
        of_label = np.flatnonzero(labels == label)
        counts_RN[:, of_label] = counts(len(of_label), rng, resamples)
    return counts_RN


def counts(examples: int, rng: np.random.Generator, resamples: int) -> np.ndarray:
    """[resamples, examples] how often each example is drawn.

    There are as many draws with replacement as there are examples.
    """
    drawn_RN = rng.integers(examples, size=(resamples, examples))
    return np.stack([np.bincount(row, minlength=examples) for row in drawn_RN])


class Resamples(NamedTuple):
    """A mean over seeds on resampled examples, and the variance that other trainings would give it.

    Attributes:
        interaction: the part of the variance of ``mean_R`` that comes from the chance of the
            trainings on single examples.
        trained: of each side that was trained anew for each seed: the variance that its seeds give
            the mean, and their degrees of freedom.
    """

    mean_R: np.ndarray
    interaction: float = 0.0
    trained: tuple[tuple[float, int], ...] = ()

    def distribution(self) -> Distribution:
        """The mean as other examples and other trainings would move it.

        Resamples without a value are left out. Two variances are added, that of the examples and
        that of the trainings. The variance of the resampled means is that of the examples and the
        interaction of training and example. The variance between seeds has the interaction too, so
        it is subtracted once. The variance between seeds is never taken to be less than the
        interaction: two seeds that agree by luck would say that there is none. So few seeds tell
        the spread badly: the sum has the degrees of freedom of Satterthwaite (1946) and Welch
        (1947) and is spread by Student's t. Resampling the seeds instead rejects a true null in up
        to 30 of 100 tables of two seeds, 20 of three; this in at most 8 (the tests).
        """
        # the variance of the examples, and what the trainings add
        known_R = self.mean_R[~np.isnan(self.mean_R)]
        of_means = float(known_R.var())
        of_examples = max(0.0, of_means - self.interaction)
        added = max(sum(variance for variance, _ in self.trained), self.interaction)
        if added <= 1e-12 * of_means:  # trainings that answer alike
            return Distribution(known_R)

        # without variance between seeds the degrees of freedom are infinite
        uncertain = sum(variance**2 / known for variance, known in self.trained)
        if not uncertain:
            uncertain = np.finfo(float).tiny
        freedom = min((of_examples + added) ** 2 / uncertain, AS_GOOD_AS_KNOWN)

        # the resamples are left with the spread of the examples alone
        shrunk = float(np.sqrt(of_examples / of_means)) if of_means > 0 else 0.0
        return Distribution(known_R, shrunk, added, freedom)


class Trained(NamedTuple):
    """The trainings of one row in a comparison of two rows or more."""

    weight: float
    """how often it counts: 1 and -1 in a difference of two rows, a third each where three are
    averaged"""
    score_RS: np.ndarray
    """[resamples, seeds]"""
    is_fixed: bool = False
    """whether it is one model for all seeds, such as the teacher"""


def of_contrast(rows: Sequence[Trained]) -> Resamples:
    """Weighted sums of rows' means over seeds: a difference, a mean of several, a difference of
    differences.

    Each row's trainings are one source of chance, however often it counts: a baseline that several
    leads share is drawn once. So no row may stand here twice. With as many seeds in all rows they
    are matched: on single examples, what a seed does to all is no difference. The variances of
    their seeds are added all the same: that of paired differences has false alarms with two seeds
    (tests/stats/test_paired_seeds.py). Otherwise all seeds
    of all rows count; a row of one seed is taken to scatter as the others do on average, whose
    seeds are all that is known of it.
    """
    # as many seeds in all rows: they are matched
    counts = {row.score_RS.shape[1] for row in rows}
    if len(counts) == 1:
        (seeds,) = counts
        value_RS = sum(row.weight * row.score_RS for row in rows)
        assert isinstance(value_RS, np.ndarray)
        if seeds == 1:
            return Resamples(value_RS[:, 0])
        trained = tuple(_between_seeds(row.score_RS, row.weight**2 / seeds) for row in rows)
        return Resamples(value_RS.mean(1), _interaction_variance(value_RS) / seeds, trained)

    # else each row scatters by itself; those of one seed borrow what the others show
    mean_R = np.sum([row.weight * row.score_RS.mean(1) for row in rows], axis=0)
    repeated = [row for row in rows if row.score_RS.shape[1] > 1]
    single = [row for row in rows if row.score_RS.shape[1] == 1 and not row.is_fixed]
    borrowed = sum(row.weight**2 for row in single) / len(repeated)
    interaction = 0.0
    sides = []
    for row in repeated:
        times = row.weight**2 / row.score_RS.shape[1] + borrowed
        interaction += times * _interaction_variance(row.score_RS)
        sides.append(_between_seeds(row.score_RS, times))
    return Resamples(mean_R, interaction, tuple(sides))


def over_seeds(value_RS: np.ndarray, *trained: np.ndarray) -> Resamples:
    """Means over seeds of a score, difference or ratio.

    Args:
        value_RS: it, on each resample, for each seed.
        trained: [R, S] scores of the systems that were trained anew for each seed.
    """
    seeds = value_RS.shape[1]
    if seeds == 1:
        return Resamples(value_RS[:, 0])
    sides = tuple(_between_seeds(score_RS, 1 / seeds) for score_RS in trained)
    return Resamples(value_RS.mean(1), _interaction_variance(value_RS) / seeds, sides)


def mean_over_columns(parts: Sequence[tuple[str, Resamples]]) -> Resamples:
    """The mean of a value over columns, each with the task whose trainings it has.

    Tasks have examples and trainings of their own, so their variances are added. The columns of one
    task are of the same trainings, which may move them together: their standard deviations are
    added.
    """
    count = len(parts)
    if count == 1:
        return parts[0][1]
    by_task: dict[str, list[Resamples]] = {}
    for task, column in parts:
        by_task.setdefault(task, []).append(column)

    # the variance of the mean from each side's seeds, task by task
    trained: list[tuple[float, int]] = []
    for columns in by_task.values():
        for sides in zip(*(column.trained for column in columns), strict=True):
            deviation = sum(np.sqrt(variance) for variance, _ in sides) / count
            _, freedom = sides[0]
            trained.append((deviation**2, freedom))

    # where the seeds of a column agree by luck, its interaction stands for them, in the mean too;
    # it is known as well as the examples are
    for _, column in parts:
        lacking = column.interaction - sum(variance for variance, _ in column.trained)
        if lacking > 0:
            trained.append((lacking / count**2, 10**6))

    # a ratio to a score of 0 is none; where no column has one, neither has the mean
    stacked_CR = np.stack([column.mean_R for _, column in parts])
    known_R = (~np.isnan(stacked_CR)).sum(0)
    mean_R = np.where(known_R > 0, np.nansum(stacked_CR, 0) / np.maximum(known_R, 1), np.nan)
    interaction = sum(column.interaction for _, column in parts) / count**2
    return Resamples(mean_R, interaction, tuple(trained))


def _interaction_variance(value_RS: np.ndarray) -> float:
    """The variance of a training's score that comes from its chance on single examples.

    It is the interaction of training and example.
    """
    about_mean_RS = value_RS - value_RS.mean(1)[:, None]
    return float(np.nanvar(about_mean_RS, axis=0).sum() / (value_RS.shape[1] - 1))


def _between_seeds(score_RS: np.ndarray, times: float) -> tuple[float, int]:
    """So many times the variance of one training's score, and its degrees of freedom."""
    of_seeds_S = np.nanmean(score_RS, 0)
    return times * float(of_seeds_S.var(ddof=1)), len(of_seeds_S) - 1


def interval(samples: np.ndarray) -> tuple[float, float]:
    """Percentile interval of bootstrap samples."""
    low, high = np.quantile(samples, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def holm(values: Sequence[float]) -> list[float]:
    """p-values of a table's comparisons with Holm's step-down adjustment (1979).

    The share of tables with any false rejection stays below the level.
    """
    # the smallest p counts as often as there are comparisons, the next once less ...
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    # and none is below the one before it
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = largest
    return [float(value) for value in adjusted]


def mcnemar(first_only: int, second_only: int, exact: bool = False) -> float:
    """Two-sided p-value from the discordant examples of two classifiers (McNemar 1947).

    Mid-p by default: the exact conditional test less half the probability of what was seen, which
    keeps the level and is not as timid (Fagerland, Lydersen and Laake 2013); ``exact``: the
    binomial test.
    """
    from scipy.stats import binom

    total = first_only + second_only
    least = min(first_only, second_only)
    if total == 0:
        return 1.0
    if exact:
        return float(min(1.0, 2 * binom.cdf(least, total, 0.5)))
    # mid-p: with as many on both sides the two tails overlap in what was seen
    seen = float(binom.pmf(least, total, 0.5))
    if first_only == second_only:
        return 1.0 - 0.5 * seen
    return float(2 * binom.cdf(least, total, 0.5) - seen)


def seed_half_width(baseline: Sequence[float], runs: int) -> float | None:
    """Half the interval that a spread over seeds gives a difference of two means of ``runs`` seeds.

    Both means are of trainings of the baseline. It is by Student's t with the baseline's degrees of
    freedom; None where one seed says nothing of the spread.
    """
    if len(baseline) < 2:
        return None
    from scipy.stats import t

    # the difference of two means has twice the variance of one
    deviation = float(np.std(baseline, ddof=1))
    quantile = float(t.ppf((1 + CONFIDENCE) / 2, len(baseline) - 1))
    return quantile * deviation * float(np.sqrt(2 / runs))


def changed_answers(
    form: Form, reference: np.ndarray, answers: np.ndarray, within: float = ROUNDED
) -> dict[str, Any]:
    """How many answers are others than the reference's.

    Returns:
        ``changed`` of how many ``examples``, with Wilson's ``interval`` of their share; and the
        ``largest_difference`` of what models give, where that is what is kept: not of questions.
    """
    from scipy.stats import binomtest

    reference = reference.reshape(answers.shape)
    differs = differing(form, reference, answers, within)
    changed = int(differs.sum())
    share = binomtest(changed, len(differs)).proportion_ci(0.95, method="wilson")
    found: dict[str, Any] = {
        "examples": len(differs),
        "changed": changed,
        "interval": [float(share.low), float(share.high)],
    }
    if form != SPANS:
        found["largest_difference"] = float(np.abs(reference - answers).max())
    return found
