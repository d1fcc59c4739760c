"""What makes a score suspect: constant answers, scores no better than these, labels that look permuted, placeholder labels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.stats.metrics import FORMULAS, SIGNED
from bench.stats.paired import answers, mcnemar

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
    """Each thing wrong with these answers, [n, C] beside [n] labels; none for a sound score.

    Args:
        names: of the classes, in the order of their codes; their numbers are used for what has no name.
        metric: by which the answers are compared with one answer to every example; for C = 1 a correlation.
    """
    predicted = answers(logits)
    if logits.shape[1] == 1:
        return _of_values(predicted, labels, metric)
    name = lambda code: names[code] if code < len(names) else str(code)  # noqa: E731
    if len(np.unique(labels)) == 1:
        only = name(int(labels[0]))
        return [Suspicion(f"every label is {only}: placeholders, as in a test split whose labels are not public?")]
    n, found = len(labels), []
    score = FORMULAS[metric](predicted, labels)
    single, baseline = best_single_class(labels, logits.shape[1], metric)
    if len(np.unique(predicted)) == 1:
        found.append(Suspicion(f"answers {name(int(predicted[0]))} to all {n:,} examples"))
    elif score <= baseline + ROUNDING:
        always = "one answer to every example" if metric in SIGNED else f"always saying {name(single)}"
        found.append(
            Suspicion(f"no better than {always} ({metric} {100 * baseline:.1f})", f"{100 * score:.1f}", baseline)
        )
    order = permuted(predicted, labels, logits.shape[1])
    if order is not None:
        share, chance = float((predicted == labels).mean()), best_single_class(labels, logits.shape[1], "accuracy")[1]
        mended = float((np.array(order)[predicted] == labels).mean())
        pairs = ", ".join(f"{name(code)} as {name(other)}" for code, other in enumerate(order) if code != other)
        if mended > chance:
            order_named = f"labels in another order? Right far more often if one reads {pairs}"
            found.append(Suspicion(order_named, f"{100 * mended:.1f} % instead of {100 * share:.1f} %"))
    return found


def _of_values(predicted: np.ndarray, labels: np.ndarray, metric: str) -> list[Suspicion]:
    """What is wrong with a regression's values: any constant one has a correlation of 0."""
    found = []
    if np.ptp(predicted) == 0:
        found.append(Suspicion("answers the same value to every example"))
    elif np.ptp(labels) > 0 and (score := FORMULAS[metric](predicted, labels)) <= 0:
        found.append(Suspicion(f"no better than one value for every example ({metric} 0.0)", f"{100 * score:.1f}", 0.0))
    return found + ([Suspicion("every label is the same: a placeholder?")] if np.ptp(labels) == 0 else [])


def best_single_class(labels: np.ndarray, classes: int, metric: str) -> tuple[int, float]:
    """The class that, said to every example, scores most by this metric; and that score, from 0 to 1."""
    scores = [FORMULAS[metric](np.full(len(labels), code), labels) for code in range(classes)]
    best = int(np.argmax(scores))
    return best, scores[best]


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
