"""How many times faster: a ratio from interleaved rounds, with its interval."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.stats.power import LEVEL


@dataclass(frozen=True)
class Ratio:
    """Median of the rounds' ratios with a 95 % interval."""

    median: float
    low: float
    high: float
    rounds: int

    def text(self) -> str:
        return f"{self.median:.2f}x ({self.low:.2f} to {self.high:.2f})"


def ratio(reference: Sequence[float], own: Sequence[float]) -> Ratio:
    """Reference over own, round by round; the interval is that of a median by order statistics.

    It assumes nothing but independent rounds (Conover 1999, section 3.2): the k-th smallest and largest ratio. k is the
    largest number for which n throws of a fair coin give fewer than k heads with a probability of at most LEVEL / 2.

    Raises:
        ValueError: the two have different numbers of rounds, or fewer than 6.
    """
    import numpy as np
    from scipy.stats import binom

    if len(reference) != len(own):
        raise ValueError(f"{len(reference)} rounds of the reference, {len(own)} of the other")
    ratios = sorted(r / o for r, o in zip(reference, own, strict=True))
    n = len(ratios)
    k = int((binom.cdf(np.arange(n // 2 + 1), n, 0.5) <= LEVEL / 2).sum())
    if k == 0:
        raise ValueError(f"{n} rounds are too few for a 95 % interval; at least 6 are needed")
    return Ratio(statistics.median(ratios), ratios[k - 1], ratios[n - k], n)


def enough_rounds_for(rounds: int, share: float) -> bool:
    """Whether at least one of so many values lies above this percentile: 10 rounds for a p90, 100 for a p99."""
    return round(rounds * (1 - share), 9) >= 1  # 10 * (1 - 0.9) is 0.9999999999999998
