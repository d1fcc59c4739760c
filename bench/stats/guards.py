"""What makes a score suspect.

Constant answers, scores no better than these, labels that look permuted, and placeholder labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bench.stats.form import CLASSES, SCORE, SPANS
from bench.stats.metrics import metric_of
from bench.stats.paired import mcnemar

CERTAIN = 1e-4
"""p-value below which another order of the labels is said to fit better."""
ROUNDING = 1e-12
"""By how much two equal scores may differ."""
NEARLY_CONSTANT = 0.01
"""Predicted values that spread less than this share of the labels' spread are as good as one."""


NEVER_PREDICTED_FROM = 5
"""Examples of a class from which on it is suspect that a model never predicts it."""
MOST_NAMED = 8
"""Classes that one suspicion names."""


class Suspicion(NamedTuple):
    """Something wrong with answers.

    ``what`` reads the same for every row that it is true of, ``figure`` is one row's own.
    """

    what: str
    figure: str = ""
    baseline: float | None = None
    """of a low score: what one answer to every example scores at best, from -1 to 1"""
    is_partial: bool = False
    """whether other answers may be sound: it is said, and leaves the row in comparisons"""

    def __str__(self) -> str:
        return f"{self.what}: {self.figure}" if self.figure else self.what


def suspicions(
    logits: np.ndarray, labels: np.ndarray, names: Sequence[str], metric: str
) -> list[Suspicion]:
    """Each thing wrong with these answers; none for a sound score.

    Args:
        logits, labels: as a record keeps them.
        names: of the classes, in the order of their codes. A class without a name is called by its
            number.
        metric: the name of the one by which the answers are compared with one answer to every
            example.
    """
    form = metric_of(metric).form
    predicted = form.predicted(logits)
    name = _Names(tuple(names))
    # all questions may have an answer
    labels_vary = form == SPANS or not _is_constant(labels)

    # without real labels nothing can be said of classes
    if form == CLASSES and not labels_vary:
        only = name(int(labels[0]))
        return [
            Suspicion(
                f"every label is {only}: placeholders, as in a test split whose labels are not "
                "public?"
            )
        ]

    # at most one of these, of which the first explains the others
    suspect = []
    if _is_constant(predicted):
        answer = f"the same {form.answer} for every example"
        if form == CLASSES:
            answer = f"{name(int(predicted[0]))} for all {len(labels):,} examples"
        suspect.append(Suspicion(f"predicts {answer}"))
    elif form == SCORE and labels_vary and _is_nearly_constant(predicted, labels):
        what = "predicts nearly the same value for every example: standard deviation"
        spread = f"{np.std(predicted):.3g} where the labels' is {np.std(labels):.3g}"
        suspect.append(Suspicion(what, spread))
    elif labels_vary:
        suspect += _no_better_than_constant(predicted, labels, logits.shape[-1], metric, name)

    if not labels_vary:
        suspect.append(Suspicion("every label is the same: a placeholder?"))
    if form == CLASSES:
        suspect += _never_predicted(predicted, labels, name)
        suspect += _in_another_order(predicted, labels, logits.shape[-1], name)
    return suspect


class _Names(NamedTuple):
    """What the classes of a task are called."""

    names: tuple[str, ...]

    def __call__(self, code: int) -> str:
        return self.names[code] if code < len(self.names) else str(code)


def _no_better_than_constant(
    predicted: np.ndarray, labels: np.ndarray, outputs: int, metric: str, name: _Names
) -> list[Suspicion]:
    """At most one suspicion: that one answer to every example scores as much."""
    measure = metric_of(metric)
    score = measure.score(predicted, labels)
    constant, baseline = measure.form.constant(labels, outputs, measure.score)
    if score > baseline + ROUNDING:
        return []
    # of a correlation all constant answers score 0
    always = measure.form.baseline
    if measure.form == CLASSES and measure.is_signed:
        always = "a constant prediction"
    elif measure.form == CLASSES:
        always = f"always predicting {name(int(constant))}"
    what = f"no better than {always} ({metric} {100 * baseline:.1f})"
    return [Suspicion(what, f"{100 * score:.1f}", baseline)]


def _in_another_order(
    predicted: np.ndarray, labels: np.ndarray, classes: int, name: _Names
) -> list[Suspicion]:
    """At most one suspicion: that the labels fit far better in another order."""
    order = permuted(predicted, labels, classes)
    if order is None:
        return []
    share = 100 * float((predicted == labels).mean())
    mended = 100 * float((np.array(order)[predicted] == labels).mean())
    # answers that know nothing may fit in any order
    _, baseline = CLASSES.constant(labels, classes, metric_of("accuracy").score)
    if mended <= 100 * baseline:
        return []
    moved = [code for code, other in enumerate(order) if code != other]
    pairs = ", ".join(f"{name(code)} as {name(order[code])}" for code in moved)
    what = f"labels in another order? Right far more often if one reads {pairs}"
    return [Suspicion(what, f"{mended:.1f} % instead of {share:.1f} %")]


def _never_predicted(predicted: np.ndarray, labels: np.ndarray, name: _Names) -> list[Suspicion]:
    """At most one suspicion, which names the classes of some examples that no example is given.

    One answer to every example is another suspicion.
    """
    if len(np.unique(predicted)) == 1:
        return []
    codes, counts = np.unique(labels, return_counts=True)
    is_missed = (counts >= NEVER_PREDICTED_FROM) & ~np.isin(codes, predicted)
    # the largest ones first
    missed = sorted(
        zip(codes[is_missed], counts[is_missed], strict=True),
        key=lambda pair: -pair[1],
    )
    if not missed:
        return []
    named = [f"{name(int(code))} ({count:,})" for code, count in missed[:MOST_NAMED]]
    if len(missed) > MOST_NAMED:
        named.append(f"{len(missed) - MOST_NAMED} more classes")
    what = f"never predicts {', '.join(named)} of {len(labels):,} examples"
    return [Suspicion(what, is_partial=True)]


def _is_nearly_constant(predicted: np.ndarray, labels: np.ndarray) -> bool:
    """Whether predicted values of a regression hardly differ, on the scale of the labels."""
    return bool(np.std(predicted) < NEARLY_CONSTANT * np.std(labels))


def _is_constant(values: np.ndarray) -> bool:
    """Whether all of them are the first one."""
    return bool((values == values[0]).all())


def permuted(predicted: np.ndarray, labels: np.ndarray, classes: int) -> tuple[int, ...] | None:
    """The order of the classes that fits far better than the given one, if there is such.

    Each class that is read as another one has to be predicted, and to fit better so: a class that
    a weak model never predicts is no permutation. The exact McNemar test has to be below 1e-4
    divided by ``classes ** moved``, which is more than the orders that move so many classes.

    Returns:
        ``order[code]`` is what a predicted code means; None where the given order stands.
    """
    from scipy.optimize import linear_sum_assignment

    # how often each class is predicted where each is right
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (predicted, labels), 1)
    # of orders that fit equally well the one that moves the fewest classes
    _, order = linear_sum_assignment(counts * (classes + 1) + np.eye(classes), maximize=True)
    moved = [code for code in range(classes) if order[code] != code]
    if not moved or any(counts[code, order[code]] <= counts[code, code] for code in moved):
        return None
    # whether the other order is right more often than chance would have it
    now = predicted == labels
    then = order[predicted] == labels
    p = mcnemar(int((then & ~now).sum()), int((now & ~then).sum()), exact=True)
    if p >= CERTAIN / classes ** len(moved):
        return None
    return tuple(int(code) for code in order)
