"""What a test set can tell.

Power of a paired comparison of two classifiers, and the least gap that it would find.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping

LEVEL = 0.05
"""The two-sided level of every test."""
POWER = 0.8
"""The wanted power."""
DISAGREEMENT = 0.1
"""The share of examples on which two good systems usually disagree about being right."""
SPREADS = 40
"""Points at which the spread between seeds is looked at.

400 of them change the power by less than 0.001.
"""


DEVELOPMENT_EXAMPLES: Mapping[tuple[str, str], int] = {
    ("cola", "validation"): 1043,
    ("sst2", "validation"): 872,
    ("mrpc", "validation"): 408,
    ("stsb", "validation"): 1500,
    ("qqp", "validation"): 40430,
    ("mnli", "matched"): 9815,
    ("mnli", "mismatched"): 9832,
    ("qnli", "validation"): 5463,
    ("rte", "validation"): 277,
    ("wnli", "validation"): 71,
    ("squad", "validation"): 10570,
    ("squad_v2", "validation"): 11873,
}
"""(task, evaluation set) of GLUE and SQuAD -> number of examples."""


def development_examples(task: str) -> int:
    """The number of examples of a task's development set; of mnli the matched one."""
    return DEVELOPMENT_EXAMPLES[task, "matched" if task == "mnli" else "validation"]


def power(gap: float, examples: int, disagreement: float = DISAGREEMENT) -> float:
    """Probability that McNemar's test finds a true difference of accuracies ``gap``.

    It is the normal approximation (Connor 1987).

    Args:
        gap, disagreement: shares of the examples, the first at most as large as the second.
    """
    from scipy.stats import norm

    # the variance of one example: the disagreement where there is no difference, less the squared
    # gap where there is this one
    critical = norm.ppf(1 - LEVEL / 2) * math.sqrt(disagreement)
    spread = math.sqrt(max(disagreement - gap * gap, 1e-12))
    return float(norm.cdf((math.sqrt(examples) * abs(gap) - critical) / spread))


def least_gap(examples: int, disagreement: float = DISAGREEMENT) -> float | None:
    """The smallest difference of accuracies found with the wanted power.

    It is None where not even the largest possible one is.
    """
    return _smallest(lambda gap: power(gap, examples, disagreement) >= POWER, disagreement)


def least_gap_at_any_disagreement(examples: int, exact: bool = False) -> float | None:
    """The smallest true difference of accuracies that McNemar's test can find, with this power.

    It is at the most favourable disagreement, with all discordant examples on one side: a lower
    bound for every other disagreement. k such examples have the p-value 0.5**k (mid-p; twice that
    in the exact test), so 5 (6) reach the level of 5 %, and their number is a binomial variable.
    None where even a difference of 1 gives too few.
    """
    from scipy.stats import beta

    sides = 2 if exact else 1
    needed = math.ceil(math.log2(sides / LEVEL))
    if examples < needed:
        return None
    # P(Binomial(n, gap) >= k) is the beta distribution function with (k, n - k + 1) at gap, so its
    # quantile is the gap
    return float(beta.ppf(POWER, needed, examples - needed + 1))


def examples_for(gap: float, disagreement: float = DISAGREEMENT) -> int:
    """Examples that a test set needs to find this gap with the wanted power."""
    # a number that is enough, then the least one below it
    most = 1
    while power(gap, most, disagreement) < POWER:
        most *= 2
    return bisect_left(
        range(most), POWER, lo=1, key=lambda examples: power(gap, examples, disagreement)
    )


def power_of_seeds(
    gap: float,
    examples: int,
    seeds: int,
    spread: float,
    disagreement: float = DISAGREEMENT,
    seed_disagreement: float | None = None,
) -> float:
    """Probability that a comparison over several seeds finds a true difference.

    It is judged as :mod:`bench.stats.paired` does. The chance of trainings on single examples
    averages out over seeds, and is in the spread too: so it is taken out of the disagreement of two
    methods. Then the test's steps are averaged over the spreads that so few seeds can show.

    Args:
        seeds: trainings of each system, two or more.
        spread: standard deviation of one system's accuracy over its seeds.
        disagreement: share of examples on which exactly one of two systems, a training each, is
            right.
        seed_disagreement: the same of two seeds of one system; None where two systems differ as two
            seeds of one do.
    """
    import numpy as np
    from scipy.stats import chi2, norm, t

    if seed_disagreement is None:
        seed_disagreement = disagreement
    # the variances of the difference: of the examples, and of a training's chance on each of them
    of_examples = max(0.0, disagreement - gap * gap - seed_disagreement) / examples
    interaction = seed_disagreement / examples / seeds
    # a spread below the chance on single examples was luck: other seeds show the whole of it
    of_one = max(spread**2 / seeds, interaction / 2)
    # few seeds tell it badly, each system's on its own: sample variances at the middles of SPREADS
    # equal shares
    seen_K = of_one * chi2.ppf((np.arange(SPREADS) + 0.5) / SPREADS, seeds - 1) / (seeds - 1)
    one_KK, other_KK = np.meshgrid(seen_K, seen_K)
    # what the test would take for the variance, and for its degrees of freedom
    variance_KK = of_examples + np.maximum(one_KK + other_KK, interaction)
    freedom_KK = np.minimum((seeds - 1) * variance_KK**2 / (one_KK**2 + other_KK**2), 1e6)
    limit_KK = t.ppf(1 - LEVEL / 2, freedom_KK) * np.sqrt(variance_KK)
    return float(norm.sf((limit_KK - abs(gap)) / math.sqrt(of_examples + 2 * of_one)).mean())


def seeds_for(
    gap: float,
    examples: int,
    spread: float,
    disagreement: float = DISAGREEMENT,
    seed_disagreement: float | None = None,
) -> int | None:
    """Seeds of each system that it takes to find this gap; None where a hundred are too few."""
    shares = spread, disagreement, seed_disagreement
    return next(
        (s for s in range(2, 101) if power_of_seeds(gap, examples, s, *shares) >= POWER), None
    )


def least_gap_of_seeds(
    examples: int,
    seeds: int,
    spread: float,
    disagreement: float = DISAGREEMENT,
    seed_disagreement: float | None = None,
) -> float | None:
    """The smallest difference that so many seeds find with the wanted power.

    It is None where not even the largest possible one is.
    """
    shares = spread, disagreement, seed_disagreement
    return _smallest(
        lambda gap: power_of_seeds(gap, examples, seeds, *shares) >= POWER, disagreement
    )


def _smallest(condition: Callable[[float], bool], most: float) -> float | None:
    """Where ``condition`` begins to hold between 0 and ``most``; None where it holds nowhere."""
    if not condition(most):
        return None
    # halve the interval until it is as narrow as a number
    low = 0.0
    high = most
    for _ in range(60):
        middle = (low + high) / 2
        if middle > 0 and condition(middle):
            high = middle
        else:
            low = middle
    return high
