"""GLUE's metrics as functions of predictions and labels: classes, or the values of a regression."""

from __future__ import annotations

import numpy as np


def _accuracy(predicted: np.ndarray, true: np.ndarray) -> float:
    return float((predicted == true).mean())


def _f1(predicted: np.ndarray, true: np.ndarray) -> float:
    hits = float(((predicted == 1) & (true == 1)).sum())
    claimed, real = float((predicted == 1).sum()), float((true == 1).sum())
    return 2 * hits / (claimed + real) if claimed + real else 0.0


def _matthews(predicted: np.ndarray, true: np.ndarray) -> float:
    classes = np.unique(np.concatenate([predicted, true]))
    a = (predicted[:, None] == classes).astype(float)
    b = (true[:, None] == classes).astype(float)
    cov = lambda x, y: float((x * y).sum() - (x.sum(0) * y.sum(0)).sum() / len(x))  # noqa: E731
    scale = (cov(a, a) * cov(b, b)) ** 0.5
    return cov(a, b) / scale if scale else 0.0


def _correlation(name: str, predicted: np.ndarray, true: np.ndarray) -> float:
    """A constant prediction has no correlation; it scores 0."""
    if np.ptp(predicted) == 0 or np.ptp(true) == 0:
        return 0.0
    from scipy import stats

    found = stats.pearsonr(predicted, true) if name == "pearson" else stats.spearmanr(predicted, true)
    return float(found.statistic)


FORMULAS = {
    "accuracy": _accuracy,
    "f1": _f1,
    "matthews": _matthews,
    "pearson": lambda p, t: _correlation("pearson", p, t),
    "spearman": lambda p, t: _correlation("spearman", p, t),
}
