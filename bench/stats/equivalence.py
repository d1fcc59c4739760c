"""Whether two systems are shown to be nearly equal: two one-sided tests (Schuirmann 1987).

That no difference is shown does not show that there is none: of two rows at one distance to a third
one, the row whose seeds scatter more would look the better one. Here scatter counts against.
"""

from __future__ import annotations

from bench.stats.distribution import Distribution
from bench.stats.power import LEVEL

MARGIN = 1.0
"""Points. Two systems whose true difference is smaller count as equal for use."""


def is_shown_within(difference: Distribution, margin: float = MARGIN) -> bool:
    """Whether the whole two-sided 90 % interval of a difference lies within the margin.

    Each of two tests at the 5 % level has to reject that the difference reaches the margin: from
    above, and from below.

    Args:
        difference: in points.
        margin: in points.
    """
    low = difference.quantile(LEVEL)
    high = difference.quantile(1 - LEVEL)
    return -margin < low and high < margin
