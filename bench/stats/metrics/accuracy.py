"""The share of examples whose class is predicted."""

from __future__ import annotations

import numpy as np

from bench.stats.form import CLASSES
from bench.stats.metrics import Metric
from bench.stats.metrics.confusion import _sums
from bench.stats.resampling import Confusion


def _accuracy(predicted: np.ndarray, true: np.ndarray) -> float:
    return float((predicted == true).mean())


def _accuracy_of(confusion_RCC: np.ndarray, classes: np.ndarray) -> np.ndarray:
    hits_RC, true_RC, _ = _sums(confusion_RCC)
    return hits_RC.sum(1) / true_RC.sum(1)


ACCURACY = Metric(
    "accuracy",
    "acc",
    CLASSES,
    score=_accuracy,
    resampled_by=Confusion(_accuracy_of),
    right=lambda predicted, true: np.asarray(predicted == true),
)
