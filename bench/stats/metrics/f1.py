"""F1: of class 1 alone, as GLUE has it for MRPC and QQP, and two means over several classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.stats.form import CLASSES
from bench.stats.metrics import Metric
from bench.stats.resampling import ByClass


def _f1(predicted: np.ndarray, true: np.ndarray) -> float:
    # 2 x hits / (claimed + real), which is the harmonic mean of precision and recall
    hits = float(((predicted == 1) & (true == 1)).sum())
    claimed = float((predicted == 1).sum())
    real = float((true == 1).sum())
    return 2 * hits / (claimed + real) if claimed + real else 0.0


def _counts(
    predicted: np.ndarray, true: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What :class:`bench.stats.resampling.ByClass` counts of these examples, [1, C] each.

    The last array has the [C] classes that occur.
    """
    # labels and answers by their place among the classes that occur
    classes, code = np.unique(np.concatenate([true, predicted]), return_inverse=True)
    labelled, answered = np.split(code, 2)

    # of each class: right answers, labels, answers
    def count(codes: np.ndarray) -> np.ndarray:
        return np.bincount(codes, minlength=len(classes))[None].astype(float)

    hits = labelled[labelled == answered]
    return count(hits), count(labelled), count(answered), classes


def _macro_f1(predicted: np.ndarray, true: np.ndarray) -> float:
    return float(_macro_f1_of(*_counts(predicted, true))[0])


def _weighted_f1(predicted: np.ndarray, true: np.ndarray) -> float:
    return float(_weighted_f1_of(*_counts(predicted, true))[0])


def _f1_by_class(hits_RC: np.ndarray, true_RC: np.ndarray, answered_RC: np.ndarray) -> np.ndarray:
    """[R, C] F1 of every class against all others.

    It is 0 for one that is neither among the labels nor among the answers.
    """
    total_RC = true_RC + answered_RC
    return np.divide(2 * hits_RC, total_RC, out=np.zeros(total_RC.shape), where=total_RC > 0)


def _f1_of(
    hits_RC: np.ndarray, true_RC: np.ndarray, answered_RC: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    return _f1_by_class(hits_RC, true_RC, answered_RC)[:, classes == 1].sum(1)


def _macro_f1_of(
    hits_RC: np.ndarray, true_RC: np.ndarray, answered_RC: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    """Mean over the classes that occur among these labels or answers.

    It is scikit-learn's with zero_division=0.

    Resamples keep all classes (:attr:`bench.stats.resampling.ByClass.keeps_classes`): else one
    without the examples of a class that is never found would score higher than all examples.
    """
    return _f1_by_class(hits_RC, true_RC, answered_RC).sum(1) / (true_RC + answered_RC > 0).sum(1)


def _weighted_f1_of(
    hits_RC: np.ndarray, true_RC: np.ndarray, answered_RC: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    """Mean over the classes, each with the weight of its labels."""
    return (_f1_by_class(hits_RC, true_RC, answered_RC) * true_RC).sum(1) / true_RC.sum(1)


def _of_two_classes(names: Sequence[str]) -> str:
    if len(names) <= 2:
        return ""
    return (
        f"is the F1 of class 1 alone and says nothing of the other {len(names) - 1} classes; "
        f"choose macro_f1 or weighted_f1"
    )


F1 = Metric("f1", "F1", CLASSES, score=_f1, resampled_by=ByClass(_f1_of), misfit=_of_two_classes)
MACRO_F1 = Metric(
    "macro_f1",
    "macro F1",
    CLASSES,
    score=_macro_f1,
    resampled_by=ByClass(_macro_f1_of, keeps_classes=True),
)
WEIGHTED_F1 = Metric(
    "weighted_f1", "weighted F1", CLASSES, score=_weighted_f1, resampled_by=ByClass(_weighted_f1_of)
)
