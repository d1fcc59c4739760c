"""Speed-ups over several sessions of timing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.stats.ratios import Ratio, pooled


def test_sessions_that_differ_widen_the_interval_beyond_each_of_them():
    """moebert on two days of the same kind of machine."""
    slow = Ratio(1.21, 1.19, 1.22)
    fast = Ratio(1.28, 1.26, 1.29)
    (together,) = pooled([[slow, fast]])
    assert together.sessions == 2
    assert together.median == pytest.approx(math.sqrt(1.21 * 1.28))
    assert together.low < slow.low < fast.high < together.high


def test_one_session_stays_as_it_is_also_beside_systems_of_several():
    one = Ratio(2.05, 2.03, 2.07)
    assert pooled([[one]]) == [one]
    again = pooled([[Ratio(1.2, 1.1, 1.3)] * 2, [one]])
    assert again[1] == one


def test_sessions_that_agree_by_luck_keep_the_spread_of_their_rounds():
    (together,) = pooled([[Ratio(2.0, 1.9, 2.1)] * 3])
    assert together.low < 1.95 < 2.05 < together.high


@pytest.mark.parametrize("sessions, systems", [(2, 1), (2, 5), (4, 3)])
def test_intervals_cover_the_ratio_that_many_sessions_would_give(sessions, systems):
    """Sessions that differ by 4 %, rounds of one by half a percent."""
    rng = np.random.default_rng([sessions, systems])
    covers = []
    for _ in range(2000):
        medians = 2 * np.exp(rng.normal(0, 0.04, (systems, sessions)))
        timed = [[Ratio(own, own * 0.995, own * 1.005) for own in row] for row in medians]
        covers += [own.low <= 2 <= own.high for own in pooled(timed)]
    assert 0.94 <= np.mean(covers) <= 0.96
