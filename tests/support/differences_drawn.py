"""The resampled differences of two systems, made as the reports make them."""

from __future__ import annotations

import numpy as np

from bench.stats.paired import Pairs, of_difference


def bootstrap(
    pairs: Pairs, rng: np.random.Generator, resamples: int, fixed: tuple[bool, bool] = (False, False)
) -> np.ndarray:
    """[resamples] differences over examples drawn with replacement, the same for both systems and all seeds."""
    return of_difference(*pairs.drawn(rng, resamples), rng, fixed)
