"""Whether rows that share seeds may have the variance of their paired differences: simulated, and rejected.

Two rows of equal true means are scored on the same examples. Their seeds move both together, not at
all, or against each other. Three rules give the variance that trainings add:

- sum: the variances of both rows, as the program has it.
- paired: the variance of the differences seed by seed.
- smaller: whichever of the two is smaller, which a reader would choose who looks for power.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from differences_drawn import difference

from bench.stats.paired import Resamples, mean_over_columns, over_seeds

LEVEL = 0.05
TOGETHER = (-0.5, 0.0, 0.5, 0.9)
"""Correlations of the two rows' seeds."""
OF_EXAMPLES = (0.3, 1.0, 3.0)
"""Standard errors that examples give the difference, in standard deviations of the seeds."""


@dataclass(frozen=True)
class Setting:
    """Trainings of two rows; numbers in standard deviations of the seeds.

    Attributes:
        seeds: of each row.
        together: correlation of the two rows' seeds.
        of_examples: the standard error that examples give the difference.
        columns: of the mean that is tested.
        gap: the true difference.
    """

    seeds: int
    together: float
    of_examples: float
    columns: int = 1
    gap: float = 0.0


def called_different(rng, setting) -> dict[str, bool]:
    """Rule -> whether it calls the two rows different, in one simulated table."""
    parts = {"sum": [], "paired": [], "smaller": []}
    covariance = np.array([[1.0, setting.together], [setting.together, 1.0]])
    for column in range(setting.columns):
        examples_R = rng.normal(rng.normal(0, setting.of_examples), setting.of_examples, 400)
        first, second = rng.multivariate_normal([0, 0], covariance, setting.seeds).T
        first_RS = setting.gap + first + examples_R[:, None]
        second_RS = second + np.zeros((400, 1))
        apart = difference(first_RS, second_RS)
        value_RS = first_RS - second_RS
        paired = over_seeds(value_RS, value_RS)
        parts["sum"].append((str(column), apart))
        parts["paired"].append((str(column), paired))
        parts["smaller"].append((str(column), min(apart, paired, key=variance)))
    return {rule: mean_over_columns(own).distribution().p() < LEVEL for rule, own in parts.items()}


def variance(part: Resamples) -> float:
    """What the trainings add."""
    return sum(own for own, _ in part.trained)


def shares(setting, tables) -> dict[str, float]:
    """Rule -> the share of simulated tables in which it calls the rows different."""
    rng = np.random.default_rng([setting.seeds, setting.columns, TOGETHER.index(setting.together)])
    found = [called_different(rng, setting) for _ in range(tables)]
    return {rule: float(np.mean([own[rule] for own in found])) for rule in found[0]}


def highest(seeds, columns, together, tables=400) -> dict[str, float]:
    """Rule -> its largest share of false alarms in these settings."""
    settings = [Setting(seeds, *own, columns) for own in product(together, OF_EXAMPLES)]
    found = [shares(setting, tables) for setting in settings]
    return {rule: max(own[rule] for own in found) for rule in found[0]}


@pytest.mark.simulation
@pytest.mark.parametrize("seeds, columns", [(2, 1), (3, 1), (5, 1), (3, 4)])
def test_the_sum_keeps_the_level_and_the_smaller_of_two_does_not(seeds, columns):
    """Rows whose seeds move together or not at all: 8 in 100 and what 400 tables leave open."""
    found = highest(seeds, columns, [own for own in TOGETHER if own >= 0])
    assert found["sum"] <= 0.085
    if columns == 1:
        assert found["smaller"] > found["sum"]


@pytest.mark.simulation
def test_paired_differences_of_two_seeds_do_not_keep_the_level():
    """One degree of freedom, where examples add little: more than 10 false alarms in 100."""
    assert highest(2, 1, [0.0, 0.5])["paired"] > 0.1


@pytest.mark.simulation
def test_paired_differences_find_less_where_seeds_do_not_move_rows_together():
    """Of three seeds: two degrees of freedom in place of four."""
    alone = shares(Setting(3, 0.0, 0.3, gap=2.8 * np.sqrt(0.3**2 + 2 / 3)), 600)
    together = shares(Setting(3, 0.9, 0.3, gap=2.8 * np.sqrt(0.3**2 + 0.2 / 3)), 600)
    assert alone["paired"] < alone["sum"]
    assert together["paired"] > together["sum"] + 0.2
