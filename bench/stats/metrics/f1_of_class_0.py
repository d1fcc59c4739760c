"""F1 of the first of two classes, as a task may choose it. ``f1`` is that of the second."""

from __future__ import annotations

import numpy as np

from bench.stats.form import CLASSES
from bench.stats.metrics import Metric
from bench.stats.metrics.f1 import F1
from bench.stats.resampling import ByClass


def _f1_of_class_0(predicted: np.ndarray, true: np.ndarray) -> float:
    hits = float(((predicted == 0) & (true == 0)).sum())
    total = float((predicted == 0).sum() + (true == 0).sum())
    return 2 * hits / total if total else 0.0


def _f1_of_class_0_of(
    hits_RC: np.ndarray, true_RC: np.ndarray, answered_RC: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    # a class that occurs nowhere in a resample has no column, and scores 0
    hits_R = hits_RC[:, classes == 0].sum(1)
    total_R = (true_RC + answered_RC)[:, classes == 0].sum(1)
    return np.divide(2 * hits_R, total_R, out=np.zeros(len(hits_RC)), where=total_R > 0)


F1_OF_CLASS_0 = Metric(
    "f1_of_class_0",
    "F1 of class 0",
    CLASSES,
    score=_f1_of_class_0,
    resampled_by=ByClass(_f1_of_class_0_of),
    misfit=F1.misfit,
)
