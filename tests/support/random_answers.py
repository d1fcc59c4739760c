"""Answers of every form, made at random."""

from __future__ import annotations

import numpy as np

from bench.stats.form import CLASSES, SCORE, Form


def some(form: Form, rng: np.random.Generator, examples: int, kinds: int = 3) -> np.ndarray:
    """[examples, *shape] labels or predictions, of so many different classes, values or places."""
    if form == CLASSES:
        return rng.integers(kinds, size=examples)
    assert form == SCORE
    return rng.integers(kinds, size=examples) / 4


def mixed(first: np.ndarray, second: np.ndarray, is_first: np.ndarray) -> np.ndarray:
    """The first's answers where a flag of the example says so, else the second's."""
    return np.where(is_first.reshape(-1, *[1] * (first.ndim - 1)), first, second)
