"""Two systems on the same examples: what their difference is, how far chance may have moved it, and tests of it.

Answers are compressed to the distinct patterns (first, second, label) and how often each comes: resampling examples is then
drawing these counts, and a metric of classes is a function of sums over patterns. One seed has patterns of three numbers,
S seeds of 2 S + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bench.stats.metrics import FORMULAS, FROM_CONFUSION
from bench.stats.power import LEVEL, POWER

RESAMPLES = 10_000
"""Of every interval and permutation test, so that one comparison has one interval everywhere."""
CHUNK = 200
"""Resamples of single examples that are scored at once."""


def answers(logits: np.ndarray) -> np.ndarray:
    """[n, C] logits as predicted classes; [n, 1] as predicted values."""
    return np.asarray(logits[:, 0] if logits.shape[1] == 1 else logits.argmax(1))


@dataclass(frozen=True)
class Pairs:
    """Two systems' answers to the same examples of one task.

    Attributes:
        first, second: predicted classes or values, [n] for each seed; in the same order of seeds where both have as many.
        labels: [n].
        fixed: a side that is not trained anew for a seed, such as the teacher of all seeds.
    """

    first: Sequence[np.ndarray]
    second: Sequence[np.ndarray]
    labels: np.ndarray
    metric: str
    fixed: tuple[bool, bool] = (False, False)

    @property
    def seeds(self) -> int:
        """Of the side that has more."""
        return max(len(self.first), len(self.second))

    @cached_property
    def difference(self) -> float:
        """first - second, each the mean over its seeds, between -2 and 2."""
        first, second = (
            np.mean([FORMULAS[self.metric](one, self.labels) for one in side]) for side in (self.first, self.second)
        )
        return float(first - second)

    @cached_property
    def _patterns(self) -> tuple[np.ndarray, np.ndarray]:
        """[K, S + S' + 1] distinct answers with their label, and [K] how many examples have them."""
        rows = np.stack([*self.first, *self.second, self.labels], 1)
        return np.unique(rows, axis=0, return_counts=True)

    @cached_property
    def _indicators(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Of each seed's first and second answers: [K, C * C], one 1 a pattern, at its label and answer."""
        patterns, _ = self._patterns
        classes = np.unique(patterns)
        code = np.searchsorted(classes, patterns)
        cells = len(classes) ** 2
        made = [np.eye(cells)[code[:, -1] * len(classes) + code[:, i]] for i in range(patterns.shape[1] - 1)]
        return made[: len(self.first)], made[len(self.first) :]

    @property
    def _classes(self) -> np.ndarray:
        return np.unique(self._patterns[0])

    def _scores(self, confusion_RM: np.ndarray) -> np.ndarray:
        """[R] the metric of confusion matrices laid flat, [R, C * C]."""
        classes = self._classes
        return FROM_CONFUSION[self.metric](confusion_RM.reshape(-1, len(classes), len(classes)), classes)

    def bootstrap(self, rng: np.random.Generator, resamples: int = RESAMPLES) -> np.ndarray:
        """[resamples] differences over examples drawn with replacement, the same for both systems and all seeds.

        Of several seeds the chance of other trainings is added: see :func:`of_difference`.
        """
        return of_difference(*self.drawn(rng, resamples), rng, self.fixed)

    def drawn(self, rng: np.random.Generator, resamples: int) -> tuple[np.ndarray, np.ndarray]:
        """[resamples, S] and [resamples, S'] scores of the systems on the same drawn examples."""
        if self.metric not in FROM_CONFUSION:
            scores = resampled_scores([*self.first, *self.second], self.labels, self.metric, rng, resamples)
            return scores[:, : len(self.first)], scores[:, len(self.first) :]
        _, counts = self._patterns
        weights_RK = rng.multinomial(counts.sum(), counts / counts.sum(), size=resamples)
        first, second = (np.stack([self._scores(weights_RK @ one) for one in side], 1) for side in self._indicators)
        return first, second

    def permutation(self, rng: np.random.Generator, resamples: int = RESAMPLES) -> float:
        """Two-sided p-value: how often systems that are swapped example by example differ as much; ties count half.

        All seeds of an example are swapped together, so that examples remain the unit.
        """
        if self.metric in FROM_CONFUSION:
            _, counts = self._patterns
            swapped_RK = rng.binomial(counts, 0.5, size=(resamples, len(counts)))
            kept_RK = counts - swapped_RK
            drawn = np.zeros(resamples)
            for a, b in zip(*self._indicators, strict=True):
                drawn += self._scores(kept_RK @ a + swapped_RK @ b) - self._scores(kept_RK @ b + swapped_RK @ a)
        else:
            drawn = np.concatenate([self._swapped(rng, min(CHUNK, resamples - s)) for s in range(0, resamples, CHUNK)])
        drawn = np.abs(drawn / (1 if self.metric not in FROM_CONFUSION else self.seeds))
        observed = abs(self.difference)
        equal = np.isclose(drawn, observed, rtol=0, atol=1e-12)
        # the observed labelling is one of the permutations (Phipson and Smyth 2010)
        return float(((drawn > observed) & ~equal).sum() + 0.5 * (equal.sum() + 1)) / (resamples + 1)

    def _swapped(self, rng: np.random.Generator, resamples: int) -> np.ndarray:
        swap = rng.random((resamples, len(self.labels))) < 0.5
        labels = np.broadcast_to(self.labels, swap.shape)
        total = np.zeros(resamples)
        for a, b in zip(self.first, self.second, strict=True):
            total += correlations(self.metric, np.where(swap, b, a), labels)
            total -= correlations(self.metric, np.where(swap, a, b), labels)
        return total / self.seeds

    def discordant(self) -> tuple[int, int]:
        """Examples that only the first system, and only the second, answers rightly; of one seed."""
        right = self.first[0] == self.labels, self.second[0] == self.labels
        return int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())


def resampled_scores(
    systems: Sequence[np.ndarray],
    labels: np.ndarray,
    metric: str,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
) -> np.ndarray:
    """[resamples, M] scores of M systems, all on the same drawn examples: for many comparisons of one table.

    A system's scores are the same whatever other systems are scored with it.

    Args:
        systems: predicted classes or values, [n] each.
    """
    score = _class_scorer(systems, labels, metric) if metric in FROM_CONFUSION else _scorer(systems, labels, metric)
    made = [score(counts(len(labels), rng, min(CHUNK, resamples - s))) for s in range(0, resamples, CHUNK)]
    return np.concatenate(made)


def counts(examples: int, rng: np.random.Generator, resamples: int) -> np.ndarray:
    """[resamples, examples] how often each example is drawn, of as many draws with replacement as there are examples."""
    drawn_RN = rng.integers(examples, size=(resamples, examples))
    return np.stack([np.bincount(row, minlength=examples) for row in drawn_RN])


def _class_scorer(systems: Sequence[np.ndarray], labels: np.ndarray, metric: str) -> Callable[[np.ndarray], np.ndarray]:
    """Counts of the examples, [R, n] -> [R, M] scores of classes."""
    classes = np.unique(np.concatenate([labels, *systems]))
    size = len(classes)
    true = np.searchsorted(classes, labels) * size
    cells = np.stack([true + np.searchsorted(classes, predicted) for predicted in systems], 1)
    # in float32 the sums of counts are exact up to 2**24 examples
    onehot = (cells[:, :, None] == np.arange(size**2)).astype(np.float32).reshape(len(labels), -1)

    def score(counts_RN: np.ndarray) -> np.ndarray:
        confusions = (counts_RN.astype(np.float32) @ onehot).astype(np.float64).reshape(-1, size, size)
        return FROM_CONFUSION[metric](confusions, classes).reshape(len(counts_RN), -1)

    return score


def _scorer(systems: Sequence[np.ndarray], labels: np.ndarray, metric: str) -> Callable[[np.ndarray], np.ndarray]:
    """Counts of the examples, [R, n] -> [R, M] correlations."""
    prepare = _ranked if metric == "spearman" else _valued
    of_labels, of_systems = prepare(labels), [prepare(predicted) for predicted in systems]

    def score(counts_RN: np.ndarray) -> np.ndarray:
        counts_RN = counts_RN.astype(np.int32)  # whole numbers add up exactly, and in a quarter of the time
        weights_RN = counts_RN.astype(float)
        true_RN = of_labels(counts_RN)
        middle_R, variance_R = _moments(true_RN, weights_RN)
        lever_RN = weights_RN * (true_RN - middle_R[:, None])  # sums to 0, so the other side needs no centring
        found = []
        for given in of_systems:
            x_RN = given(counts_RN)
            scale_R = np.sqrt(_moments(x_RN, weights_RN)[1] * variance_R)
            together_R = np.einsum("rn,rn->r", x_RN, lever_RN)
            found.append(np.divide(together_R, scale_R, out=np.zeros(len(scale_R)), where=scale_R > 0))
        return np.stack(found, 1)

    return score


def _moments(x_RN: np.ndarray, weights_RN: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[R] weighted mean, and weighted sum of squares about it: 0 where all that was drawn is the same but for rounding."""
    total_R = weights_RN.sum(1)
    mean_R = np.einsum("rn,rn->r", x_RN, weights_RN) / total_R
    squares_R = np.einsum("rn,rn,rn->r", x_RN, x_RN, weights_RN)
    about_R = squares_R - total_R * mean_R**2
    return mean_R, np.where(about_R > 1e-12 * squares_R, about_R, 0.0)


def of_difference(
    first_RS: np.ndarray, second_RS: np.ndarray, rng: np.random.Generator, fixed: tuple[bool, bool] = (False, False)
) -> np.ndarray:
    """[R] differences of two systems' means over seeds, as other examples and other trainings would give them.

    With as many seeds on both sides they are matched: what a seed does to both is no difference. Otherwise all seeds of both
    count; a system of one seed is taken to scatter as the other does, whose seeds are all that is known of it.

    Args:
        first_RS, second_RS: scores on each resample, for each seed.
        fixed: a side that is not trained anew for a seed, such as the teacher of all seeds.
    """
    if first_RS.shape[1] == second_RS.shape[1]:
        return over_seeds(first_RS - second_RS, (first_RS, second_RS), rng)
    sides = [
        (side_RS, 1 / side_RS.shape[1] + float(other_RS.shape[1] == 1 and not is_fixed))
        for side_RS, other_RS, is_fixed in ((first_RS, second_RS, fixed[1]), (second_RS, first_RS, fixed[0]))
        if side_RS.shape[1] > 1
    ]
    alone = sum(times * _alone(side_RS) for side_RS, times in sides)
    return _spread(first_RS.mean(1) - second_RS.mean(1), alone, sides, rng)


def over_seeds(value_RS: np.ndarray, trained: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """[R] means over seeds as other examples and other trainings would give them.

    Args:
        value_RS: a difference or ratio on each resample, for each seed.
        trained: [R, S] scores of the systems that were trained anew for each seed.
    """
    seeds = value_RS.shape[1]
    if seeds == 1:
        return value_RS[:, 0]
    sides = [(score_RS, 1 / seeds) for score_RS in trained]
    return _spread(value_RS.mean(1), _alone(value_RS) / seeds, sides, rng)


def _alone(value_RS: np.ndarray) -> float:
    """The variance that a single training's chance on single examples gives its score."""
    return float(np.nanvar(value_RS - value_RS.mean(1)[:, None], axis=0).sum() / (value_RS.shape[1] - 1))


def _spread(
    mean_R: np.ndarray, alone: float, trained: Sequence[tuple[np.ndarray, float]], rng: np.random.Generator
) -> np.ndarray:
    """Resampled means, spread as other trainings would spread them too.

    Two variances are added. That of the examples is of the resampled means, without what a training alone does to single
    examples, which the second has too. That of the trainings is the seeds' own spread, and never less than that chance on single
    examples gives: two seeds that agree by luck would say that there is none. So few seeds tell the spread badly: the sum
    has the degrees of freedom of Satterthwaite (1946) and Welch (1947) and is spread by Student's t. Resampling the seeds
    instead rejects a true null in up to 30 of 100 tables of two seeds, 20 of three; this in at most 8 (the tests).

    Args:
        alone: of the variance of ``mean_R``, what single trainings' chance on single examples gave.
        trained: [R, S] scores of what was trained anew for each seed, and how many times the variance of one training is in
            that of the mean.
    """
    centre, whole = np.nanmean(mean_R), np.nanvar(mean_R)
    of_examples = max(0.0, whole - alone)
    of_trainings = [times * float(np.nanmean(score_RS, 0).var(ddof=1)) for score_RS, times in trained]
    added = max(sum(of_trainings), alone)
    if added <= 1e-12 * whole:  # trainings that answer alike
        return mean_R
    known = [score_RS.shape[1] - 1 for score_RS, _ in trained]
    uncertain = sum(part**2 / k for part, k in zip(of_trainings, known, strict=True)) or np.finfo(float).tiny
    freedom = min((of_examples + added) ** 2 / uncertain, 1e6)
    moved_R = np.sqrt(of_examples / whole) * (mean_R - centre) if whole > 0 else np.zeros_like(mean_R)
    moved_R = moved_R + rng.normal(0, np.sqrt(added), len(mean_R))
    return np.asarray(centre + moved_R * np.sqrt(freedom / rng.chisquare(freedom, len(mean_R))))


def _valued(x_N: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Counts of each example -> its value, less the mean of all: that changes no correlation and little is lost to rounding."""
    return lambda counts_RN: np.broadcast_to(x_N - x_N.mean(dtype=float), counts_RN.shape)


def _ranked(x_N: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Counts of each example -> its rank among the examples so drawn, ties at their middle; sorted only once."""
    _, group_N = np.unique(x_N, return_inverse=True)
    order_N = np.argsort(group_N, kind="stable")
    starts_G = np.flatnonzero(np.diff(group_N[order_N], prepend=-1))
    distinct = len(starts_G) == len(x_N)

    def ranks(counts_RN: np.ndarray) -> np.ndarray:
        size_RG = counts_RN.take(order_N, axis=1)
        if not distinct:
            size_RG = np.add.reduceat(size_RG, starts_G, axis=1)
        twice_RG = 2 * size_RG.cumsum(1, dtype=size_RG.dtype)
        twice_RG -= size_RG - 1
        return twice_RG.take(group_N, axis=1).astype(float) / 2

    return ranks


def correlations(metric: str, predicted_RN: np.ndarray, labels_RN: np.ndarray) -> np.ndarray:
    """[R] Pearson's or Spearman's correlation of each row; 0 where one of the two is constant."""
    if metric == "spearman":
        from scipy.stats import rankdata

        predicted_RN, labels_RN = rankdata(predicted_RN, axis=1), rankdata(labels_RN, axis=1)
    a = predicted_RN - predicted_RN.mean(1, keepdims=True)
    b = labels_RN - labels_RN.mean(1, keepdims=True)
    scale = np.sqrt((a * a).sum(1) * (b * b).sum(1))
    return np.divide((a * b).sum(1), scale, out=np.zeros(len(a)), where=scale > 0)


def interval(samples: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Percentile interval of bootstrap samples."""
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def least_detectable(samples: np.ndarray) -> float:
    """The smallest true difference that such a comparison finds with the usual level and power.

    How far chance reaches at the level, and from there at the power; 2.8 standard errors where chance is normal.
    """
    low, high = interval(samples, 1 - LEVEL)
    below, above = np.quantile(samples, [1 - POWER, POWER])
    return float((high - low + above - below) / 2)


def bootstrap_p(samples: np.ndarray) -> float:
    """Two-sided p-value of no difference: twice the smaller tail beyond 0; samples at 0 count half."""
    zero = np.isclose(samples, 0, rtol=0, atol=1e-12)
    below = ((samples < 0) & ~zero).sum() + 0.5 * zero.sum()
    share = (min(below, len(samples) - below) + 0.5) / (len(samples) + 1)
    return float(min(1.0, 2 * share))


def mcnemar(first_only: int, second_only: int, exact: bool = False) -> float:
    """Two-sided p-value from the discordant examples of two classifiers (McNemar 1947).

    Mid-p by default: the exact conditional test less half the probability of what was seen, which keeps the level and is
    not as timid (Fagerland, Lydersen and Laake 2013); ``exact``: the binomial test.
    """
    from scipy.stats import binom

    total, least = first_only + second_only, min(first_only, second_only)
    if total == 0:
        return 1.0
    if exact:
        return float(min(1.0, 2 * binom.cdf(least, total, 0.5)))
    seen = float(binom.pmf(least, total, 0.5))
    if first_only == second_only:
        return 1.0 - 0.5 * seen
    return float(2 * binom.cdf(least, total, 0.5) - seen)


def seed_half_width(baseline: Sequence[float], runs: int, level: float = 0.95) -> float | None:
    """Half the interval that the baseline's spread over seeds gives the difference to ``runs`` other trainings.

    Student's t with the baseline's degrees of freedom; None where one seed says nothing of the spread.
    """
    if len(baseline) < 2:
        return None
    from scipy.stats import t

    deviation = float(np.std(baseline, ddof=1))
    quantile = float(t.ppf((1 + level) / 2, len(baseline) - 1))
    return quantile * deviation * float(np.sqrt(1 / len(baseline) + 1 / runs))
