"""The gate's statistics: whether a score is as good as before.

A score passes when a loss above the margin is excluded, regresses when a loss is certain, and is
inconclusive between the two: test sets are finite, and so are seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.analysis.gate_result import PASSED, REGRESSED, UNCLEAR
from bench.record.schema import Record
from bench.record.store import Store
from bench.stats.metrics import metric_of
from bench.stats.paired import (
    RESAMPLES,
    discordant,
    drawn_scores,
    interval,
    mcnemar,
    seed_half_width,
)

MANY_SEEDS = 4
"""From so many seeds on a quarter of the resamples is drawn: each takes longer, because the seeds
have more distinct patterns of answers."""


@dataclass(frozen=True)
class ComparedRecords:
    """One seed of a row, before and now."""

    old: Record
    new: Record

    @property
    def is_identical(self) -> bool:
        """Whether the weights and all scores are the same."""
        return self.old.weights == self.new.weights and self.old.scores == self.new.scores


@dataclass(frozen=True)
class ScoreChange:
    """A mean score over seeds, before and now.

    Attributes:
        before, after: in percent.
        difference: after less before, in points.
        half: half the 95 % interval of the difference, in points.
        has_seed_noise: whether the interval has the variance over seeds; that of one seed is not
            known.
        p: one-sided p-value of a loss, by a test on the examples.
    """

    before: float
    after: float
    difference: float
    half: float
    has_seed_noise: bool
    p: float


def score_change(
    olds: Sequence[Record],
    compared: Sequence[ComparedRecords],
    old_store: Store,
    new_store: Store,
    evaluation: str,
    metric: str,
) -> ScoreChange:
    """How one score of a row changed.

    Args:
        olds: all seeds of the baseline: they tell the variance over seeds.
        compared: the seeds that are compared.
    """
    # the means over seeds
    before = float(np.mean([pair.old.scores[evaluation][metric] for pair in compared]))
    after = float(np.mean([pair.new.scores[evaluation][metric] for pair in compared]))
    difference = 100 * (after - before)

    # what the examples leave open: both models answered the same ones
    old_arrays = [old_store.predictions(pair.old) for pair in compared]
    new_arrays = [new_store.predictions(pair.new) for pair in compared]
    predicted = metric_of(metric).form.predicted
    then = [predicted(arrays[f"logits.{evaluation}"]) for arrays in old_arrays]
    now = [predicted(arrays[f"logits.{evaluation}"]) for arrays in new_arrays]
    labels = old_arrays[0][f"labels.{evaluation}"]
    of_examples, p = chance(now, then, labels, metric, difference)

    # what the seeds leave open
    of_seeds = seed_half_width(
        [100 * old.scores[evaluation][metric] for old in olds], len(compared)
    )
    return ScoreChange(
        before=100 * before,
        after=100 * after,
        difference=difference,
        half=math.hypot(of_examples, of_seeds or 0.0),
        has_seed_noise=of_seeds is not None,
        p=p,
    )


def chance(
    now: Sequence[np.ndarray],
    then: Sequence[np.ndarray],
    labels: np.ndarray,
    metric: str,
    difference: float,
) -> tuple[float, float]:
    """Half the 95 % interval that the examples give the difference, in points; and the one-sided
    p-value of a loss.

    The p-value of one seed and a metric of right answers is by McNemar's mid-p, else from the
    spread of the bootstrap.

    Args:
        now, then: predicted answers of each seed.
    """
    resamples = RESAMPLES if len(now) < MANY_SEEDS else RESAMPLES // 4
    drawn_RS = drawn_scores([*now, *then], labels, metric, np.random.default_rng(0), resamples)
    drawn = 100 * (drawn_RS[:, : len(now)] - drawn_RS[:, len(now) :]).mean(1)
    low, high = interval(drawn)
    half = (high - low) / 2

    # a gain is no loss
    if difference >= 0:
        return half, 1.0
    right = metric_of(metric).right
    if len(now) == 1 and right:
        return half, mcnemar(*discordant(right(now[0], labels), right(then[0], labels))) / 2
    spread = float(np.std(drawn))
    # all resamples have the same loss
    if not spread > 0:
        return half, 0.0

    from scipy.stats import norm

    return half, float(norm.sf(-difference / spread))


def verdict(difference: float, half: float, margin: float, is_certain: bool = True) -> str:
    """Certainly worse, and by a test at the gate's level: regressed. Not worse by more than the
    margin: passed. Else inconclusive.

    Args:
        is_certain: whether the test of a loss rejects at the level left to this comparison.
    """
    if difference + half < 0 and is_certain:
        return REGRESSED
    if difference - half >= -margin:
        return PASSED
    return UNCLEAR
