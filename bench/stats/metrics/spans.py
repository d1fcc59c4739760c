"""SQuAD's two metrics (Rajpurkar et al. 2016) on the tokens of spans: exactly the same span, and F1 of the tokens in both.

SQuAD's own compare words after lower-casing and without articles, with the best of several answers.
"""

from __future__ import annotations

import numpy as np

from bench.stats.form import SPAN
from bench.stats.metrics import Metric
from bench.stats.resampling import Mean


def _same(predicted_N2: np.ndarray, true_N2: np.ndarray) -> np.ndarray:
    """[n] whether both ends are right."""
    return np.asarray((predicted_N2 == true_N2).all(1))


def _overlap(predicted_N2: np.ndarray, true_N2: np.ndarray) -> np.ndarray:
    """[n] F1 of each span's tokens: twice the tokens in both over the tokens of the two."""
    last, first = np.minimum(predicted_N2[:, 1], true_N2[:, 1]), np.maximum(predicted_N2[:, 0], true_N2[:, 0])
    both = np.maximum(last - first + 1, 0)
    tokens = (predicted_N2[:, 1] - predicted_N2[:, 0] + 1) + (true_N2[:, 1] - true_N2[:, 0] + 1)
    return np.asarray(2 * both / tokens)


EXACT_MATCH = Metric(
    "exact_match", "EM", SPAN, score=lambda p, t: float(_same(p, t).mean()), resampled_by=Mean(_same), right=_same
)
TOKEN_F1 = Metric(
    "token_f1", "token F1", SPAN, score=lambda p, t: float(_overlap(p, t).mean()), resampled_by=Mean(_overlap)
)
