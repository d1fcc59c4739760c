"""What a test set can tell: power of a paired comparison of two classifiers, and the least gap that it would find."""

from __future__ import annotations

import math

LEVEL, POWER, DISAGREEMENT = 0.05, 0.8, 0.1
"""Two-sided level, wanted power, and the share of examples on which two good systems usually disagree about being right."""


def power(gap: float, examples: int, disagreement: float = DISAGREEMENT, level: float = LEVEL) -> float:
    """Probability that McNemar's test finds a true difference of accuracies ``gap`` (Connor 1987, normal approximation).

    Args:
        gap, disagreement: shares of the examples, the first at most as large as the second.

    Raises:
        ValueError: a gap larger than the disagreement, which no two systems can have.
    """
    from scipy.stats import norm

    if not 0 < abs(gap) <= disagreement <= 1:
        raise ValueError(f"a gap of {gap:g} needs a disagreement between {abs(gap):g} and 1, not {disagreement:g}")
    critical = norm.ppf(1 - level / 2) * math.sqrt(disagreement)
    spread = math.sqrt(max(disagreement - gap * gap, 1e-12))
    return float(norm.cdf((math.sqrt(examples) * abs(gap) - critical) / spread))


def least_gap(examples: int, disagreement: float = DISAGREEMENT, wanted: float = POWER, level: float = LEVEL) -> float:
    """The smallest difference of accuracies found with the wanted power; the disagreement where none is."""
    low, high = 0.0, disagreement
    if power(high, examples, disagreement, level) < wanted:
        return disagreement
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if middle > 0 and power(middle, examples, disagreement, level) >= wanted else (middle, high)
        )
    return high


def examples_for(gap: float, disagreement: float = DISAGREEMENT, wanted: float = POWER, level: float = LEVEL) -> int:
    """Examples that a test set needs to find this gap with the wanted power."""
    most = 1
    while power(gap, most, disagreement, level) < wanted:
        most *= 2
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if power(gap, middle, disagreement, level) >= wanted else (middle, most)
    return most
