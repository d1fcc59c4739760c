"""Means and spreads over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation (n - 1) of n values; one value has no deviation."""

    mean: float
    deviation: float | None
    n: int

    def text(self, digits: int = 1) -> str:
        """``81.2`` for one seed, ``81.2 ± 0.4`` for more."""
        spread = "" if self.deviation is None else f" ± {self.deviation:.{digits}f}"
        return f"{self.mean:.{digits}f}{spread}"


def summarise(values: Sequence[float]) -> Summary:
    """Raises ValueError for no values: nothing has no mean."""
    if not values:
        raise ValueError("no values to summarise")
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Summary(statistics.fmean(values), deviation, len(values))
