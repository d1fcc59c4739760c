"""How many times faster: a ratio from interleaved rounds, with its interval."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.stats.power import LEVEL

FEWEST_ROUNDS = 6
"""That have a 95 % interval of their median."""


@dataclass(frozen=True)
class Ratio:
    """Median of the rounds' ratios with a 95 % interval."""

    median: float
    low: float
    high: float

    def text(self) -> str:
        return f"{self.median:.2f}x ({self.low:.2f} to {self.high:.2f})"


def ratio(reference: Sequence[float], own: Sequence[float]) -> Ratio:
    """Reference over own, round by round; the interval is that of a median by order statistics.

    It assumes nothing but independent rounds (Conover 1999, section 3.2).

    Raises:
        ValueError: the two have different numbers of rounds, or fewer than 6.
    """
    from scipy.stats import quantile_test

    ratios = [r / o for r, o in zip(reference, own, strict=True)]
    if len(ratios) < FEWEST_ROUNDS:
        raise ValueError(
            f"{len(ratios)} rounds are too few for a 95 % interval; at least {FEWEST_ROUNDS} are needed"
        )
    low, high = quantile_test(ratios, q=1.0, p=0.5).confidence_interval(1 - LEVEL)
    return Ratio(statistics.median(ratios), float(low), float(high))


def enough_rounds_for(rounds: int, share: float) -> bool:
    """Whether at least one of so many values lies above this percentile: 10 rounds for a p90, 100 for a p99."""
    return round(rounds * (1 - share), 9) >= 1  # 10 * (1 - 0.9) is 0.9999999999999998
