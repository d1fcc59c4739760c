"""Matthews' correlation of classes, as GLUE has it for CoLA.

Matthews 1975; of several classes Gorodkin 2004.
"""

from __future__ import annotations

import numpy as np

from bench.stats.form import CLASSES
from bench.stats.metrics import Metric
from bench.stats.resampling import ByClass


def _matthews(predicted: np.ndarray, true: np.ndarray) -> float:
    classes = np.unique(np.concatenate([predicted, true]))
    # Gorodkin's correlation of the two [n, C] tables of indicators
    a = (predicted[:, None] == classes).astype(float)
    b = (true[:, None] == classes).astype(float)
    cov = lambda x, y: float((x * y).sum() - (x.sum(0) * y.sum(0)).sum() / len(x))  # noqa: E731
    scale = (cov(a, a) * cov(b, b)) ** 0.5
    return cov(a, b) / scale if scale else 0.0


def _matthews_of(
    hits_RC: np.ndarray, true_RC: np.ndarray, answered_RC: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    # the same from counts: both covariances are times the number of examples
    n_R = true_RC.sum(1)
    covariance = hits_RC.sum(1) * n_R - (true_RC * answered_RC).sum(1)
    scale = np.sqrt((n_R**2 - (true_RC**2).sum(1)) * (n_R**2 - (answered_RC**2).sum(1)))
    return np.divide(covariance, scale, out=np.zeros(len(n_R)), where=scale > 0)


MATTHEWS = Metric(
    "matthews", "Matthews", CLASSES, score=_matthews, low=-1.0, resampled_by=ByClass(_matthews_of)
)
