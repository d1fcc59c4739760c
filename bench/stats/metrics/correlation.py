"""Pearson's and Spearman's correlation of predicted values with the labels, GLUE's for STS-B."""

from __future__ import annotations

import warnings

import numpy as np

from bench.stats.form import SCORE
from bench.stats.metrics import Metric
from bench.stats.resampling import Correlation


def _correlation(name: str, predicted: np.ndarray, true: np.ndarray) -> float:
    """A constant prediction has no correlation; it scores 0."""
    if np.ptp(predicted) == 0 or np.ptp(true) == 0:
        return 0.0
    from scipy import stats

    # scipy is imported here: a metric's file needs numpy alone
    correlate = stats.pearsonr if name == "pearson" else stats.spearmanr
    with warnings.catch_warnings():
        # nearly constant answers are named as suspect wherever they are scored
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        correlation = correlate(predicted, true)
    return float(correlation.statistic)


PEARSON = Metric(
    "pearson",
    "Pearson",
    SCORE,
    score=lambda p, t: _correlation("pearson", p, t),
    low=-1.0,
    resampled_by=Correlation(),
)
SPEARMAN = Metric(
    "spearman",
    "Spearman",
    SCORE,
    score=lambda p, t: _correlation("spearman", p, t),
    low=-1.0,
    resampled_by=Correlation(ranked=True),
)
