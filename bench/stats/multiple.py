"""Many comparisons in one table: p-values that keep the table's error, not each cell's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment (1979): the share of tables with any false rejection stays below the level."""
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = largest
    return [float(value) for value in adjusted]
