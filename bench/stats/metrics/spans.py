"""EM and F1 of SQuAD, Rajpurkar et al. 2016 and 2018: means over questions of the answers' scores.

An answer is a row of :data:`bench.stats.form.SPANS`. The two ``best`` metrics choose the no-answer
threshold on the scored set itself, as the official script of version 2.0 does for its best_exact
and best_f1.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from bench.stats.form import SPANS
from bench.stats.metrics import Metric
from bench.stats.resampling import Mean

EXACT, F1, MARGIN = range(3)


def _each(column: int, predicted: np.ndarray, answerable: np.ndarray) -> np.ndarray:
    """[n] what each answer scores: no answer is right where there is none, and wrong elsewhere."""
    return np.where(predicted[:, MARGIN] > 0, answerable == 0, predicted[:, column])


def _mean(column: int, predicted: np.ndarray, answerable: np.ndarray) -> float:
    return float(_each(column, predicted, answerable).mean())


def _best(column: int, predicted: np.ndarray, answerable: np.ndarray) -> float:
    """The score with the best threshold.

    From no answer at all, the answers of the smallest margins are given one after the other.
    """
    # answers in the order in which a rising threshold would give them
    order = np.argsort(predicted[:, MARGIN], kind="stable")
    # an answer to a question that has none loses what no answer would score
    gains = np.where(answerable == 0, -1.0, predicted[:, column])[order].cumsum()
    return float((answerable == 0).sum() + max(0.0, gains.max())) / len(predicted)


def _right(predicted: np.ndarray, answerable: np.ndarray) -> np.ndarray:
    return np.asarray(_each(EXACT, predicted, answerable) == 1)


EXACT_MATCH = Metric(
    "exact_match",
    "EM",
    SPANS,
    score=partial(_mean, EXACT),
    resampled_by=Mean(partial(_each, EXACT)),
    right=_right,
)
ANSWER_F1 = Metric(
    "answer_f1", "answer F1", SPANS, score=partial(_mean, F1), resampled_by=Mean(partial(_each, F1))
)
BEST_EXACT_MATCH = Metric("best_exact_match", "best EM", SPANS, score=partial(_best, EXACT))
BEST_ANSWER_F1 = Metric("best_answer_f1", "best answer F1", SPANS, score=partial(_best, F1))
