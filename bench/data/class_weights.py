"""Weights of classes in the loss on labels, for tasks whose classes are unequal."""

from __future__ import annotations

import numpy as np


def balanced(labels: np.ndarray, classes: int) -> np.ndarray:
    """[classes] float32 weights, inversely proportional to how many of the [n] codes each class
    has.

    All classes have the same sum of weights, and the mean over the examples is 1, as in
    scikit-learn's ``class_weight="balanced"``. A class without examples has 0.
    """
    counts = np.bincount(labels, minlength=classes).astype(np.float64)
    there = int((counts > 0).sum())
    weights = np.divide(len(labels), there * counts, out=np.zeros(len(counts)), where=counts > 0)
    return weights.astype(np.float32)
