"""What makes a score suspect: constant answers, scores no better than these, labels that look permuted, placeholder labels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.stats.form import CLASSES, SPANS
from bench.stats.metrics import Metric, metric_of
from bench.stats.paired import mcnemar

CERTAIN = 1e-4
"""p-value below which another order of the labels is said to fit better."""
ROUNDING = 1e-12
"""By how much two equal scores may differ."""
MOST_CLASSES = 5
"""Classes of which every order is tried."""


@dataclass(frozen=True)
class Suspicion:
    """Something wrong with answers: ``what`` reads the same for every row that it is true of, ``figure`` is one row's own."""

    what: str
    figure: str = ""
    baseline: float | None = None
    """of a low score: what one answer to every example scores at best, from -1 to 1"""

    def __str__(self) -> str:
        return f"{self.what}: {self.figure}" if self.figure else self.what


def suspicions(logits: np.ndarray, labels: np.ndarray, names: Sequence[str], metric: str) -> list[Suspicion]:
    """Each thing wrong with these answers, logits and labels as a record keeps them; none for a sound score.

    Args:
        names: of the classes, in the order of their codes; their numbers are used for what has no name.
        metric: the name of the one by which the answers are compared with one answer to every example.
    """
    measure = metric_of(metric)
    if measure.form == CLASSES:
        return _of_classes(logits, labels, names, measure)
    return _of_others(measure.form.predicted(logits), labels, logits.shape[-1], measure)


def _of_classes(logits: np.ndarray, labels: np.ndarray, names: Sequence[str], metric: Metric) -> list[Suspicion]:
    predicted, classes = metric.form.predicted(logits), logits.shape[1]
    name = lambda code: names[code] if code < len(names) else str(code)  # noqa: E731
    if len(np.unique(labels)) == 1:
        only = name(int(labels[0]))
        return [Suspicion(f"every label is {only}: placeholders, as in a test split whose labels are not public?")]
    n, found = len(labels), []
    score = metric.score(predicted, labels)
    single, baseline = metric.form.constant(labels, classes, metric.score)
    if len(np.unique(predicted)) == 1:
        found.append(Suspicion(f"predicts {name(int(predicted[0]))} for all {n:,} examples"))
    elif score <= baseline + ROUNDING:
        always = "a constant prediction" if metric.is_signed else f"always predicting {name(int(single))}"
        found.append(
            Suspicion(f"no better than {always} ({metric.name} {100 * baseline:.1f})", f"{100 * score:.1f}", baseline)
        )
    order = permuted(predicted, labels, classes)
    if order is not None:
        share = float((predicted == labels).mean())
        chance = CLASSES.constant(labels, classes, metric_of("accuracy").score)[1]
        mended = float((np.array(order)[predicted] == labels).mean())
        pairs = ", ".join(f"{name(code)} as {name(other)}" for code, other in enumerate(order) if code != other)
        if mended > chance:
            order_named = f"labels in another order? Right far more often if one reads {pairs}"
            found.append(Suspicion(order_named, f"{100 * mended:.1f} % instead of {100 * share:.1f} %"))
    return found


def _of_others(predicted: np.ndarray, labels: np.ndarray, outputs: int, metric: Metric) -> list[Suspicion]:
    """What is wrong with values."""
    answer, found = metric.form.answer, []
    labels_vary = metric.form == SPANS or len(np.unique(labels, axis=0)) > 1  # all questions may have an answer
    if len(np.unique(predicted, axis=0)) == 1:
        found.append(Suspicion(f"predicts the same {answer} for every example"))
    elif labels_vary:
        score, (_, baseline) = metric.score(predicted, labels), metric.form.constant(labels, outputs, metric.score)
        if score <= baseline + ROUNDING:
            what = f"no better than {metric.form.baseline} ({metric.name} {100 * baseline:.1f})"
            found.append(Suspicion(what, f"{100 * score:.1f}", baseline))
    return found if labels_vary else [*found, Suspicion("every label is the same: a placeholder?")]


def permuted(predicted: np.ndarray, labels: np.ndarray, classes: int) -> tuple[int, ...] | None:
    """The order of the classes that fits far better than the given one, if there is such: ``order[code]`` is what it means.

    By the exact McNemar test at 1e-4, divided by the number of orders tried.
    """
    if classes > MOST_CLASSES:
        return None
    orders = list(itertools.permutations(range(classes)))
    best = max(orders, key=lambda order: (np.array(order)[predicted] == labels).sum())
    if best == orders[0]:
        return None
    now, then = predicted == labels, np.array(best)[predicted] == labels
    p = mcnemar(int((then & ~now).sum()), int((now & ~then).sum()), exact=True)
    return best if p < CERTAIN / len(orders) else None
