"""How many times faster: a ratio from interleaved rounds, with its interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """Median of the rounds' ratios with a 95 % interval."""

    median: float
    low: float
    high: float
    rounds: int

    def text(self) -> str:
        return f"{self.median:.2f}x ({self.low:.2f} to {self.high:.2f})"


def ratio(reference: Sequence[float], own: Sequence[float], level: float = 0.95) -> Ratio:
    """Reference over own, round by round; the interval is that of a median by order statistics.

    It assumes nothing but independent rounds (Conover 1999, section 3.2): the k-th smallest and largest ratio,
    with k the largest for which a fair coin falls on fewer than k heads in at most half of 1 - level of n throws.

    Raises:
        ValueError: the two have different numbers of rounds, or too few for an interval of that level (6 for 95 %).
    """
    if len(reference) != len(own):
        raise ValueError(f"{len(reference)} rounds of the reference, {len(own)} of the other")
    ratios = sorted(r / o for r, o in zip(reference, own, strict=True))
    n, below, k = len(ratios), 0.0, 0
    while k <= n and (below := below + math.comb(n, k) * 0.5**n) <= (1 - level) / 2:
        k += 1
    if k == 0:
        raise ValueError(f"{n} rounds are too few for a {level:.0%} interval; at least 6 are needed")
    return Ratio(statistics.median(ratios), ratios[k - 1], ratios[n - k], n)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
