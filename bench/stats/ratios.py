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
    """The quantile between ordered values, by linear interpolation as numpy's default; of 0.5 the median.

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("no values have no percentile")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def resolved(rounds: int, share: float) -> bool:
    """Whether so many values have one beyond this share of them: 10 for a p90, 100 for a p99."""
    return round(rounds * (1 - share), 9) >= 1
