"""Answers of every form, made at random."""

from __future__ import annotations

import numpy as np

from bench.stats.form import CLASSES, SCORE, SPANS, TEXT, Form


def some(form: Form, rng: np.random.Generator, examples: int, kinds: int = 3) -> np.ndarray:
    """[examples, *shape] predictions, of so many different classes, values or scores."""
    if form == CLASSES:
        return rng.integers(kinds, size=examples)
    if form == SCORE:
        return rng.integers(kinds, size=examples) / 4
    if form == SPANS:
        exact = rng.integers(2, size=examples)
        margins = rng.integers(-kinds, kinds + 1, size=examples) + 0.5
        return np.stack(
            [exact, np.maximum(exact, rng.random(examples)), margins, *np.zeros((2, examples))], 1
        )
    assert form == TEXT
    words_N2 = rng.integers(1, kinds + 4, size=(examples, 2))  # of a text and of its reference
    grams_NO = np.maximum(words_N2[:, :1] - np.arange(4), 0)
    most_NO = np.minimum(grams_NO, np.maximum(words_N2[:, 1:] - np.arange(4), 0))
    return np.hstack(
        [words_N2, rng.integers(most_NO + 1), grams_NO, rng.integers(5, size=(examples, 1)) / 4]
    )


def labels(form: Form, rng: np.random.Generator, examples: int, kinds: int = 3) -> np.ndarray:
    """[examples] labels."""
    return rng.integers(2, size=examples) if form == SPANS else some(form, rng, examples, kinds)


def right(form: Form, labels: np.ndarray) -> np.ndarray:
    """The predictions that are right of these labels."""
    if form != SPANS:
        return labels.copy()
    return np.stack([labels, labels, 0.5 - labels, 0 * labels, 0 * labels], 1)


def mixed(first: np.ndarray, second: np.ndarray, is_first: np.ndarray) -> np.ndarray:
    """The first's answers where a flag of the example says so, else the second's."""
    return np.where(is_first.reshape(-1, *[1] * (first.ndim - 1)), first, second)
