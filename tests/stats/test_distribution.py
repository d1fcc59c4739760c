"""Quantiles that are computed: those of Student's t where it is known, the same for other draws, and cut where nothing can be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bench.stats.distribution import Distribution

NORMAL_R = stats.norm.ppf((np.arange(10_000) + 0.5) / 10_000)
"""Resamples that have the shape of a normal variable exactly."""
SHARES = [0.01, 0.025, 0.2, 0.5, 0.975]


@pytest.mark.parametrize("freedom", [1, 2.2, 4, 30, 1e6])
@pytest.mark.parametrize("of_examples", [0.0, 0.5, 3.0])
def test_normal_examples_and_trainings_give_student_s_t(freedom, of_examples):
    drawn = Distribution(3 + of_examples * NORMAL_R, 1.0, 2.0, freedom)
    error = np.sqrt(2 + of_examples**2)
    expected = 3 + error * stats.t.ppf(SHARES, freedom)
    found = [drawn.quantile(share) for share in SHARES]
    np.testing.assert_allclose(found, expected, rtol=0.01, atol=0.01 * error)
    assert drawn.p() == pytest.approx(2 * stats.t.sf(3 / error, freedom), abs=5e-4)
    assert [drawn.below(value) for value in found] == pytest.approx(SHARES, abs=1e-6)


def test_other_draws_of_the_trainings_are_not_there_to_move_an_end():
    """Three seeds of 38, 40 and 65: 10,000 draws of Student's t had their upper end between -2.7 and +3.9."""
    ends = []
    for seed in range(5):
        examples_R = np.random.default_rng(seed).normal(-35, 1.6, 10_000)
        ends.append(Distribution(examples_R, 0.98, 77.0, 2.2).interval())
    assert np.ptp(ends, axis=0) == pytest.approx(0, abs=0.15)


def test_the_error_of_p_is_that_of_other_examples_drawn():
    def drawn(seed, resamples):
        examples_R = np.random.default_rng(seed).normal(2, 1, resamples)
        return Distribution(examples_R, 1.0, 0.1, 20)

    found = [drawn(seed, 2000).p() for seed in range(150)]
    said = [drawn(seed, 2000).error_of(Distribution.p) for seed in range(10)]
    assert np.mean(said) == pytest.approx(np.std(found), rel=0.3)


def test_without_trainings_it_is_the_resamples_themselves():
    examples_R = np.random.default_rng(0).integers(-3, 9, 999) / 10
    drawn = Distribution(examples_R)
    assert drawn.interval() == tuple(np.quantile(examples_R, [0.025, 0.975]))
    assert drawn.below(0.3) == (np.mean(examples_R < 0.3) + np.mean(examples_R <= 0.3)) / 2


def test_a_multiple_and_a_cut():
    drawn = Distribution(0.01 * NORMAL_R, 1.0, 0.04, 1.0)
    cut = drawn.within(-1, 0.5)
    assert cut.interval() == (-1, 0.5)
    low, high = cut.times(-100).interval()
    assert (low, high) == pytest.approx((-50, 100))
    assert cut.quantile(0.4) == drawn.quantile(0.4), "what lies within stays where it was"


def test_draws_are_of_the_same_distribution():
    drawn = Distribution(NORMAL_R, 0.9, 0.7, 6.0)
    sample = drawn.draws(np.random.default_rng(3))
    for share in (0.025, 0.3, 0.9):
        assert np.mean(sample < drawn.quantile(share)) == pytest.approx(share, abs=0.015)
