"""When two systems are shown to be within a margin of each other."""

from __future__ import annotations

import numpy as np
import pytest
from differences_drawn import difference

from bench.stats.distribution import Distribution
from bench.stats.equivalence import MARGIN, is_shown_within


def of_examples(mean, deviation):
    """A difference in points that is known from examples alone."""
    shares = (np.arange(20_000) + 0.5) / 20_000
    from scipy.stats import norm

    return Distribution(norm.ppf(shares, mean, deviation))


@pytest.mark.parametrize("mean", [0.0, -0.5, 0.5])
def test_the_whole_90_interval_has_to_lie_within_the_margin(mean):
    """1.645 standard errors from the nearer end: a little more is not shown."""
    most = (MARGIN - abs(mean)) / 1.645
    assert is_shown_within(of_examples(mean, 0.98 * most))
    assert not is_shown_within(of_examples(mean, 1.02 * most))


def test_scatter_never_helps():
    """Of two rows at one distance, the one that scatters more is not the nearer one."""
    shown = [is_shown_within(of_examples(-0.6, deviation)) for deviation in (0.1, 0.2, 0.3, 2.0)]
    assert shown == [True, True, False, False]


@pytest.mark.simulation
@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_of_systems_a_whole_margin_apart_at_most_5_in_100_are_shown_to_be_within_it(seeds):
    """Two trainings of these sizes whose scores truly differ by the margin."""
    rng = np.random.default_rng(seeds)
    shown = []
    for _ in range(2000):
        # 1,000 resamples of 2,000 examples, and seeds of a standard deviation of 0.3 points
        examples_R = rng.normal(rng.normal(0, 0.25), 0.25, 1000)
        first = MARGIN + examples_R[:, None] + rng.normal(0, 0.3, seeds)
        second = np.zeros((1000, 1)) + rng.normal(0, 0.3, seeds)
        shown.append(is_shown_within(difference(first, second).distribution()))
    assert np.mean(shown) <= 0.06
