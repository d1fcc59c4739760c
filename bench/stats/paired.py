"""How far the scores of two models on the same examples may differ by chance of the examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Pairs:
    """Two systems' answers to the same examples of one task, seed by seed.

    Attributes:
        first, second: predicted classes or values, [n] for each seed, in the same order of seeds.
        labels: [n].
    """

    first: Sequence[np.ndarray]
    second: Sequence[np.ndarray]
    labels: np.ndarray
    metric: str

    def difference(self) -> float:
        """first - second, mean over seeds, between -2 and 2."""
        return float(np.mean(self._by_seed(np.arange(len(self.labels)), range(len(self.first)))))

    def _by_seed(self, rows: np.ndarray, seeds: Sequence[int]) -> list[float]:
        score = FORMULAS[self.metric]
        return [
            score(self.first[seed][rows], self.labels[rows]) - score(self.second[seed][rows], self.labels[rows])
            for seed in seeds
        ]

    def resampled(self, resamples: int, rng: np.random.Generator) -> np.ndarray:
        """[resamples] differences over examples drawn with replacement, the same for both systems and all seeds.

        With several seeds these are drawn with replacement too: the second level of the bootstrap.
        """
        drawn, n, seeds = np.empty(resamples), len(self.labels), len(self.first)
        for i in range(resamples):
            rows = rng.integers(n, size=n)
            drawn[i] = np.mean(self._by_seed(rows, rng.integers(seeds, size=seeds).tolist() if seeds > 1 else [0]))
        return drawn


def interval(samples: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Percentile interval of bootstrap samples."""
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
