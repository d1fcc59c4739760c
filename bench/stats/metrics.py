"""GLUE's metrics, and F1 over several classes, as functions of predictions and labels: classes or regression values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def _accuracy(predicted: np.ndarray, true: np.ndarray) -> float:
    return float((predicted == true).mean())


def _f1(predicted: np.ndarray, true: np.ndarray) -> float:
    hits = float(((predicted == 1) & (true == 1)).sum())
    claimed, real = float((predicted == 1).sum()), float((true == 1).sum())
    return 2 * hits / (claimed + real) if claimed + real else 0.0


def _confusion(predicted: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[1, C, C] counts (rows: true) of the classes that occur in either, and the [C] classes."""
    classes, code = np.unique(np.concatenate([true, predicted]), return_inverse=True)
    size, n = len(classes), len(true)
    counts = np.bincount(code[:n] * size + code[n:], minlength=size**2)
    return counts.reshape(1, size, size).astype(float), classes


def _macro_f1(predicted: np.ndarray, true: np.ndarray) -> float:
    return float(_macro_f1_of(*_confusion(predicted, true))[0])


def _weighted_f1(predicted: np.ndarray, true: np.ndarray) -> float:
    return float(_weighted_f1_of(*_confusion(predicted, true))[0])


def _matthews(predicted: np.ndarray, true: np.ndarray) -> float:
    classes = np.unique(np.concatenate([predicted, true]))
    a = (predicted[:, None] == classes).astype(float)
    b = (true[:, None] == classes).astype(float)
    cov = lambda x, y: float((x * y).sum() - (x.sum(0) * y.sum(0)).sum() / len(x))  # noqa: E731
    scale = (cov(a, a) * cov(b, b)) ** 0.5
    return cov(a, b) / scale if scale else 0.0


def _correlation(name: str, predicted: np.ndarray, true: np.ndarray) -> float:
    """A constant prediction has no correlation; it scores 0."""
    if np.ptp(predicted) == 0 or np.ptp(true) == 0:
        return 0.0
    from scipy import stats

    found = stats.pearsonr(predicted, true) if name == "pearson" else stats.spearmanr(predicted, true)
    return float(found.statistic)


FORMULAS = {
    "accuracy": _accuracy,
    "f1": _f1,
    "macro_f1": _macro_f1,
    "weighted_f1": _weighted_f1,
    "matthews": _matthews,
    "pearson": lambda p, t: _correlation("pearson", p, t),
    "spearman": lambda p, t: _correlation("spearman", p, t),
}


def _sums(confusion_RCC: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[R, C] hits, labels and answers of each class. By matrix products: sums over short axes take several times as long."""
    size = confusion_RCC.shape[1]
    flat_RM, cell_M = confusion_RCC.reshape(len(confusion_RCC), -1), np.arange(size**2)
    of_label, of_answer = np.eye(size)[cell_M // size], np.eye(size)[cell_M % size]
    return flat_RM @ (of_label * of_answer), flat_RM @ of_label, flat_RM @ of_answer


def _accuracy_of(confusion_RCC: np.ndarray, classes: np.ndarray) -> np.ndarray:
    hits_RC, true_RC, _ = _sums(confusion_RCC)
    return hits_RC.sum(1) / true_RC.sum(1)


def _f1_by_class(hits_RC: np.ndarray, true_RC: np.ndarray, answered_RC: np.ndarray) -> np.ndarray:
    """[R, C] F1 of every class against all others; 0 for one that is neither among the labels nor among the answers."""
    total_RC = true_RC + answered_RC
    return np.divide(2 * hits_RC, total_RC, out=np.zeros(total_RC.shape), where=total_RC > 0)


def _f1_of(confusion_RCC: np.ndarray, classes: np.ndarray) -> np.ndarray:
    return _f1_by_class(*_sums(confusion_RCC))[:, classes == 1].sum(1)


def _macro_f1_of(confusion_RCC: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Mean over the classes that occur among these labels or answers, as scikit-learn's with zero_division=0.

    Of resampled examples these are the classes that were drawn: a resample scores what the plain form gives the same examples.
    """
    hits_RC, true_RC, answered_RC = _sums(confusion_RCC)
    return _f1_by_class(hits_RC, true_RC, answered_RC).sum(1) / (true_RC + answered_RC > 0).sum(1)


def _weighted_f1_of(confusion_RCC: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Mean over the classes, each with the weight of its labels."""
    hits_RC, true_RC, answered_RC = _sums(confusion_RCC)
    return (_f1_by_class(hits_RC, true_RC, answered_RC) * true_RC).sum(1) / true_RC.sum(1)


def _matthews_of(confusion_RCC: np.ndarray, classes: np.ndarray) -> np.ndarray:
    hits_RC, true_RC, answered_RC = _sums(confusion_RCC)
    n_R = true_RC.sum(1)
    covariance = hits_RC.sum(1) * n_R - (true_RC * answered_RC).sum(1)
    scale = np.sqrt((n_R**2 - (true_RC**2).sum(1)) * (n_R**2 - (answered_RC**2).sum(1)))
    return np.divide(covariance, scale, out=np.zeros(len(n_R)), where=scale > 0)


FROM_CONFUSION: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "accuracy": _accuracy_of,
    "f1": _f1_of,
    "macro_f1": _macro_f1_of,
    "weighted_f1": _weighted_f1_of,
    "matthews": _matthews_of,
}
"""The same metrics of classes from [R, C, C] confusion matrices (rows: true), for the classes named: [R]."""

SIGNED = ("matthews", "pearson", "spearman")
"""Metrics from -1 to 1; the others go from 0 to 1."""


def largest_difference(metric: str) -> float:
    """How far two scores can be apart."""
    return 2.0 if metric in SIGNED else 1.0


def possible_differences(metric: str, drawn: np.ndarray) -> np.ndarray:
    """Drawn differences of two scores, those beyond what the metric can give moved to its end.

    Student's t of two seeds reaches beyond it. The true difference lies within, so an interval that is cut there covers it
    as often as before, and every quantile within stays where it was.
    """
    return np.clip(drawn, -largest_difference(metric), largest_difference(metric))


def possible_ratios(metric: str, drawn: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Drawn ratios of a score to the positive scores ``whole``, likewise: between the metric's ends over these. NaN stays."""
    return np.clip(drawn, (-1.0 if metric in SIGNED else 0.0) / whole, 1.0 / whole)
