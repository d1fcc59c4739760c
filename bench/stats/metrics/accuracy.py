"""The share of examples whose class is predicted."""

from __future__ import annotations

import numpy as np

from bench.stats.form import CLASSES
from bench.stats.metrics import Metric
from bench.stats.resampling import ByClass


def _accuracy(predicted: np.ndarray, true: np.ndarray) -> float:
    return float((predicted == true).mean())


def _accuracy_of(
    hits_RC: np.ndarray, true_RC: np.ndarray, answered_RC: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    return hits_RC.sum(1) / true_RC.sum(1)


ACCURACY = Metric(
    "accuracy",
    "acc",
    CLASSES,
    score=_accuracy,
    resampled_by=ByClass(_accuracy_of),
    right=lambda predicted, true: np.asarray(predicted == true),
)
