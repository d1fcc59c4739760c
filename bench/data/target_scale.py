"""The scale of a regression's targets, which are standardised while students are trained.

A head begins near 0 and its learning rate is chosen for targets near 1. On prices of thousands
it would hardly move, and all predictions would be one value. What is scored, saved and exported
answers in the labels' own units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from bench.data.table_files import Split
from bench.data.tasks import Task


@dataclass(frozen=True)
class TargetScale:
    """Mean and standard deviation of the labels of a task's training examples."""

    mean: float
    deviation: float

    def standardised(self, labels: np.ndarray) -> np.ndarray:
        """[n] float32 labels in units of the standard deviation, around 0."""
        units = (labels.astype(np.float64) - self.mean) / self.deviation
        return units.astype(np.float32)

    def of_split(self, split: Split) -> Split:
        """The same examples with standardised labels."""
        assert split.labels is not None, "training examples have labels"
        return replace(split, labels=self.standardised(split.labels))

    def __str__(self) -> str:
        return f"mean {self.mean:,.4g}, standard deviation {self.deviation:,.4g}"


def scale_of(task: Task, train: Split) -> TargetScale | None:
    """The scale of a task's targets; None for classes, and for GLUE's own regression.

    STS-B is trained on its scores from 0 to 5 as they are, as papers do.

    Args:
        train: the examples that are trained on, with their labels as they come.
    """
    is_own_regression = task.regression and not task.spans and bool(task.file)
    if not is_own_regression or train.labels is None:
        return None
    # fsum rounds once: every machine has the same scale to the bit, and so the same keys
    labels = [float(label) for label in train.labels]
    mean = math.fsum(labels) / len(labels)
    variance = math.fsum((label - mean) ** 2 for label in labels) / len(labels)
    # labels that are all equal have no scale of their own
    return TargetScale(mean, math.sqrt(variance) or 1.0)
