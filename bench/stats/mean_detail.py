"""What a reviewer asks of a mean over several tasks, beyond its interval. No torch.

Letters of shapes: D simulated data sets, T sources of variance between trainings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.stats.paired import Resamples
from bench.stats.power import LEVEL

DATA_SETS = 20_000
"""Simulated comparisons behind a power: its standard error is 0.4 percentage points at most."""


@dataclass(frozen=True)
class WithoutColumn:
    """The mean difference of all columns but one, in points, with its 95 % interval."""

    column: str
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class MeanDetail:
    """More of a mean difference.

    Attributes:
        power: how often such a comparison would be significant if the true difference were the
            one that was seen, from 0 to 1, and the variances too.
        power_of_doubt: likewise, if the variances are as doubtful as so few seeds leave them.
        won, runs: pairs of a run of each row in which the first one's mean is higher, of how many;
            ties count half. A run is one seed on all columns. None for means of several rows.
        tasks, of_tasks: on at least how many tasks a difference of the mean's sign is shown, of how
            many.
        without: the mean with one column left out, for each.
    """

    power: float
    power_of_doubt: float
    won: float | None
    runs: int | None
    tasks: int
    of_tasks: int
    without: tuple[WithoutColumn, ...]


def power_at(mean: Resamples, difference: float, doubtful: bool = False) -> float:
    """The probability that a comparison like this one is significant at this true difference.

    Comparisons are simulated. In each, examples and trainings move the difference, and the
    variances between trainings are estimated anew, each with its own degrees of freedom: so few
    seeds may by luck hide a difference or show it.

    Args:
        mean: the difference in shares, with its variances.
        difference: in shares.
        doubtful: whether the true variances are drawn as well, as far from those that were seen as
            their degrees of freedom allow; otherwise they are those that were seen.
    """
    from scipy.stats import t

    # one simulation: the same comparison has the same power everywhere
    rng = np.random.default_rng(0)
    # the true variances: of the examples, and of each source of trainings
    of_examples = max(0.0, float(np.nanvar(mean.mean_R)) - mean.interaction)
    freedom_T = np.array([freedom for _, freedom in mean.trained], dtype=float)
    shape = (DATA_SETS, len(freedom_T))
    variance_DT = np.tile([variance for variance, _ in mean.trained], (DATA_SETS, 1))
    if doubtful:
        variance_DT = variance_DT * freedom_T / rng.chisquare(freedom_T, shape)
    true_D = of_examples + np.maximum(variance_DT.sum(1), mean.interaction)
    if not true_D.all():
        return float(difference != 0)

    # what the comparison would see, and how it would estimate its variance
    seen_D = rng.normal(difference, np.sqrt(true_D), DATA_SETS)
    estimate_DT = variance_DT * rng.chisquare(freedom_T, shape) / freedom_T
    added_D = np.maximum(estimate_DT.sum(1), mean.interaction)
    # and whether it would find the difference: Student's t, Satterthwaite's degrees of freedom
    total_D = of_examples + added_D
    uncertain_D = (estimate_DT**2 / freedom_T).sum(1)
    freedom_D = total_D**2 / np.maximum(uncertain_D, np.finfo(float).tiny)
    limit_D = t.ppf(1 - LEVEL / 2, freedom_D) * np.sqrt(total_D)
    return float((np.abs(seen_D) > limit_D).mean())


def shown_tasks(one_sided: Sequence[float]) -> int:
    """On at least how many tasks there is a difference of one sign: partial conjunction.

    The largest number u for which "at most u - 1 tasks have one" is rejected, by Fisher's
    combination of all but the u - 1 smallest p (Benjamini and Heller 2008; Dror et al. 2017), and
    for all smaller numbers too. Tasks are independent: other examples, other trainings. The level
    is 2.5 %, since the sign is seen before it is asked about.

    Args:
        one_sided: p of each task, of a difference of this sign.
    """
    from scipy.stats import combine_pvalues

    in_order = sorted(one_sided)
    # leave out the smallest one, the two smallest ones ... until the rest shows nothing
    for known in range(len(in_order)):
        rest = np.maximum(in_order[known:], np.finfo(float).tiny)
        if combine_pvalues(rest).pvalue > LEVEL / 2:
            return known
    return len(in_order)


def runs_won(first: np.ndarray, second: np.ndarray) -> float:
    """In how many of all pairs of runs the first system scores higher; ties count half.

    Args:
        first, second: [runs] scores.
    """
    apart = first[:, None] - second[None, :]
    return float((apart > 0).sum() + 0.5 * (apart == 0).sum())
