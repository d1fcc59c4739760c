"""The resampled differences of two systems, made as the reports make them."""

from __future__ import annotations

import numpy as np

from bench.stats.distribution import Distribution
from bench.stats.paired import drawn_scores, of_difference


def bootstrap(
    first, second, labels, metric: str, rng: np.random.Generator, resamples: int
) -> Distribution:
    """Differences over examples drawn with replacement, the same for both systems and all seeds of their answers."""
    drawn_RS = drawn_scores([*first, *second], labels, metric, rng, resamples)
    return of_difference(drawn_RS[:, : len(first)], drawn_RS[:, len(first) :]).distribution()
