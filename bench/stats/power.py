"""What a test set can tell: power of a paired comparison of two classifiers, and the least gap that it would find."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping

LEVEL, POWER, DISAGREEMENT = 0.05, 0.8, 0.1
"""Two-sided level, wanted power, and the share of examples on which two good systems usually disagree about being right."""


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
    """Of a task's development set; of mnli the matched one."""
    return DEVELOPMENT_EXAMPLES[task, "matched" if task == "mnli" else "validation"]


def power(gap: float, examples: int, disagreement: float = DISAGREEMENT) -> float:
    """Probability that McNemar's test finds a true difference of accuracies ``gap`` (Connor 1987, normal approximation).

    Args:
        gap, disagreement: shares of the examples, the first at most as large as the second.

    Raises:
        ValueError: a gap larger than the disagreement, which no two systems can have.
    """
    from scipy.stats import norm

    if not 0 < abs(gap) <= disagreement <= 1:
        raise ValueError(f"a gap of {gap:g} needs a disagreement between {abs(gap):g} and 1, not {disagreement:g}")
    critical = norm.ppf(1 - LEVEL / 2) * math.sqrt(disagreement)
    spread = math.sqrt(max(disagreement - gap * gap, 1e-12))
    return float(norm.cdf((math.sqrt(examples) * abs(gap) - critical) / spread))


def least_gap(examples: int, disagreement: float = DISAGREEMENT) -> float | None:
    """The smallest difference of accuracies found with the wanted power; None where not even the largest possible one is."""
    return _smallest(lambda gap: power(gap, examples, disagreement) >= POWER, disagreement)


def least_gap_at_any_disagreement(examples: int, exact: bool = False) -> float | None:
    """The smallest true difference of accuracies that McNemar's test can find with the wanted power: at the most favourable
    disagreement, with all discordant examples on one side. It is a lower bound for every other disagreement.

    k such examples have the p-value 0.5**k (mid-p; twice that in the exact test), so 5 (6) reach the level of 5 %, and their
    number is a binomial variable. None where even a difference of 1 gives too few.
    """
    from scipy.stats import beta

    needed = math.ceil(math.log2((2 if exact else 1) / LEVEL))
    # P(Binomial(n, gap) >= k) is the beta distribution function with (k, n - k + 1) at gap, so its quantile is the gap
    return float(beta.ppf(POWER, needed, examples - needed + 1)) if examples >= needed else None


def examples_for(gap: float, disagreement: float = DISAGREEMENT) -> int:
    """Examples that a test set needs to find this gap with the wanted power."""
    most = 1
    while power(gap, most, disagreement) < POWER:
        most *= 2
    return bisect_left(range(most), POWER, lo=1, key=lambda examples: power(gap, examples, disagreement))


def power_of_seeds(gap: float, examples: int, seeds: int, spread: float, disagreement: float = DISAGREEMENT) -> float:
    """Probability that a comparison over several seeds finds a true difference, judged as bench.stats.paired does.

    The examples' variance and that of both systems' trainings, with Welch's and Satterthwaite's degrees of freedom.

    Args:
        seeds: trainings of each system, two or more.
        spread: standard deviation of one system's accuracy over its seeds.

    Raises:
        ValueError: as :func:`power`; fewer than two seeds, or no spread.
    """
    from scipy.stats import nct, t

    if seeds < 2 or spread <= 0:
        raise ValueError("the spread of one training cannot be told: give two seeds or more and a spread above 0")
    if not 0 < abs(gap) <= disagreement <= 1:
        raise ValueError(f"a gap of {gap:g} needs a disagreement between {abs(gap):g} and 1, not {disagreement:g}")
    of_examples, of_one = (disagreement - gap * gap) / examples, spread**2 / seeds
    whole = of_examples + 2 * of_one
    freedom = (seeds - 1) * whole**2 / (2 * of_one**2)
    return float(nct.sf(t.ppf(1 - LEVEL / 2, freedom), freedom, abs(gap) / math.sqrt(whole)))


def seeds_for(gap: float, examples: int, spread: float, disagreement: float = DISAGREEMENT) -> int | None:
    """Seeds of each system that it takes to find this gap; None where a hundred are too few: then it needs more examples."""
    enough = (s for s in range(2, 101) if power_of_seeds(gap, examples, s, spread, disagreement) >= POWER)
    return next(enough, None)


def least_gap_of_seeds(examples: int, seeds: int, spread: float, disagreement: float = DISAGREEMENT) -> float | None:
    """The smallest difference that so many seeds find with the wanted power; None where not even the largest possible one is."""
    return _smallest(lambda gap: power_of_seeds(gap, examples, seeds, spread, disagreement) >= POWER, disagreement)


def _smallest(condition: Callable[[float], bool], most: float) -> float | None:
    """Where ``condition`` begins to hold between 0 and ``most``; None where it does not hold there either."""
    if not condition(most):
        return None
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if middle > 0 and condition(middle) else (middle, high)
    return high
