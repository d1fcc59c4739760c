"""The resampled differences of two systems, made as the reports make them."""

from __future__ import annotations

import numpy as np

from bench.stats.distribution import Distribution
from bench.stats.paired import Resamples, Trained, drawn_scores, of_contrast


def difference(
    first_RS: np.ndarray, second_RS: np.ndarray, fixed: tuple[bool, bool] = (False, False)
) -> Resamples:
    """The first row's mean over seeds less the second's.

    Args:
        first_RS, second_RS: scores on each resample, for each seed.
        fixed: a side that is one model for all seeds, such as the teacher.
    """
    return of_contrast([Trained(1.0, first_RS, fixed[0]), Trained(-1.0, second_RS, fixed[1])])


def bootstrap(
    first, second, labels, metric: str, rng: np.random.Generator, resamples: int
) -> Distribution:
    """Differences over examples drawn with replacement, the same for both systems and all seeds of their answers."""
    drawn_RS = drawn_scores([*first, *second], labels, metric, rng, resamples)
    return difference(drawn_RS[:, : len(first)], drawn_RS[:, len(first) :]).distribution()
