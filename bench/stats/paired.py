"""How far the scores of two models on the same examples may differ by chance of the examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.stats.metrics import FORMULAS

RESAMPLES = 1000


def answers(logits: np.ndarray) -> np.ndarray:
    """[n, C] logits as predicted classes; [n, 1] as predicted values."""
    return np.asarray(logits[:, 0] if logits.shape[1] == 1 else logits.argmax(1))


def sampling_half_width(
    old: Sequence[np.ndarray], new: Sequence[np.ndarray], labels: np.ndarray, metric: str, level: float = 0.95
) -> float:
    """Half the bootstrap interval of the mean difference new - old over pairs of models, resampling examples.

    Args:
        old, new: logits of as many models each, [n, C], on the same n examples.

    Raises:
        KeyError: a metric without a definition here.
    """
    score = FORMULAS[metric]
    befores, afters = [answers(x) for x in old], [answers(x) for x in new]
    rng = np.random.default_rng(0)
    differences = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        rows = rng.integers(len(labels), size=len(labels))
        differences[i] = np.mean(
            [score(a[rows], labels[rows]) - score(b[rows], labels[rows]) for a, b in zip(afters, befores, strict=True)]
        )
    low, high = np.quantile(differences, [(1 - level) / 2, (1 + level) / 2])
    return float(high - low) / 2


def seed_half_width(baseline: Sequence[float], runs: int, level: float = 0.95) -> float | None:
    """Half the interval that the baseline's spread over seeds gives the difference to ``runs`` other trainings.

    Student's t with the baseline's degrees of freedom; None where one seed says nothing of the spread.
    """
    if len(baseline) < 2:
        return None
    from scipy.stats import t

    deviation = float(np.std(baseline, ddof=1))
    quantile = float(t.ppf((1 + level) / 2, len(baseline) - 1))
    return quantile * deviation * float(np.sqrt(1 / len(baseline) + 1 / runs))
