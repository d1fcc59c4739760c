"""What a reviewer asks of a mean: power, partial conjunction, pairs of runs."""

from __future__ import annotations

import numpy as np
import pytest
from differences_drawn import difference

from bench.stats.mean_detail import power_at, runs_won, shown_tasks
from bench.stats.paired import Resamples, mean_over_columns

LEVEL = 0.05


def contrast(of_examples, of_seeds, seeds=3):
    """A difference whose resamples and trainings have exactly these standard errors."""
    drawn = np.random.default_rng(0).normal(0, 1, 4000)
    mean_R = of_examples * (drawn - drawn.mean()) / drawn.std()
    return Resamples(mean_R, 0.0, ((of_seeds**2, seeds - 1),) if of_seeds else ())


def test_the_power_of_known_variances_is_that_of_a_normal_test():
    """At 2.8 standard errors 80 of 100; without a difference the level."""
    assert power_at(contrast(0.01, 0.0), 0.028) == pytest.approx(0.8, abs=0.01)
    assert power_at(contrast(0.01, 0.0), 0.0) == pytest.approx(LEVEL, abs=0.005)


def test_doubtful_variances_find_less_where_seeds_decide():
    one = contrast(0.005, 0.01)
    assert power_at(one, 0.04, doubtful=True) < power_at(one, 0.04)
    assert power_at(contrast(0.01, 0.001), 0.04, doubtful=True) > 0.9, "where examples decide"


@pytest.mark.simulation
@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_power_is_that_of_simulated_comparisons(seeds):
    """Four columns of two rows, whose true variances are known."""
    rng = np.random.default_rng(seeds)
    found = []
    known = []
    for _ in range(500):
        parts = []
        for column in range(4):
            examples_R = rng.normal(rng.normal(0, 0.01), 0.01, 400)
            first_RS = 0.02 + examples_R[:, None] + rng.normal(0, 0.01, seeds)
            second_RS = np.zeros((400, 1)) + rng.normal(0, 0.01, seeds)
            parts.append((str(column), difference(first_RS, second_RS)))
            exact = ((0.01**2 / seeds, seeds - 1),) * 2
            known.append((str(column), Resamples(examples_R - examples_R.mean(), 0.0, exact)))
        found.append(mean_over_columns(parts).distribution().p() < LEVEL)
    expected = power_at(mean_over_columns(known[:4]), 0.02)
    assert np.mean(found) == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize(
    "p, tasks",
    [([0.6, 0.5, 0.4], 0), ([0.001, 0.6, 0.7], 1), ([0.001, 0.001, 0.9], 2), ([0.01] * 3, 3)],
)
def test_partial_conjunction_counts_tasks_that_are_shown(p, tasks):
    assert shown_tasks(p) == tasks


def test_partial_conjunction_says_too_much_in_at_most_5_of_100():
    """Of four tasks one has a difference: two are called shown by chance alone."""
    rng = np.random.default_rng(0)
    drawn = rng.random((2000, 4))
    drawn[:, 0] /= 1000
    assert np.mean([shown_tasks(list(own)) >= 2 for own in drawn]) <= LEVEL / 2 + 0.01


def test_pairs_of_runs():
    assert runs_won(np.array([2.0, 3.0]), np.array([1.0, 2.0, 4.0])) == 3.5
