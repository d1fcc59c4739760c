"""What makes a score suspect: constant answers, scores below chance, labels that look permuted, placeholder labels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.stats.paired import answers, mcnemar

CERTAIN = 1e-4
"""p-value below which another order of the labels is said to fit better."""
MOST_CLASSES = 5
"""Classes of which every order is tried."""


@dataclass(frozen=True)
class Suspicion:
    """Something wrong with answers: ``what`` reads the same for every row that it is true of, ``figure`` is one row's own."""

    what: str
    figure: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.figure}" if self.figure else self.what


def suspicions(logits: np.ndarray, labels: np.ndarray, names: Sequence[str] = ()) -> list[Suspicion]:
    """Each thing wrong with these answers, [n, C] beside [n] labels; none for a sound score.

    Args:
        names: of the classes, in the order of their codes; their numbers are used without.
    """
    predicted = answers(logits)
    if logits.shape[1] == 1:
        found = [Suspicion("answers the same value to every example")] if np.ptp(predicted) == 0 else []
        return found + ([Suspicion("every label is the same: a placeholder?")] if np.ptp(labels) == 0 else [])
    name = lambda code: names[code] if code < len(names) else str(code)  # noqa: E731
    if len(np.unique(labels)) == 1:
        only = name(int(labels[0]))
        return [Suspicion(f"every label is {only}: placeholders, as in a test split whose labels are not public?")]
    n, found = len(labels), []
    share = float((predicted == labels).mean())
    largest = int(np.bincount(labels).argmax())
    chance = float((labels == largest).mean())
    if len(np.unique(predicted)) == 1:
        found.append(Suspicion(f"answers {name(int(predicted[0]))} to all {n:,} examples"))
    elif share < chance:
        floor = f"right less often than always saying {name(largest)} ({100 * chance:.1f} % of the examples)"
        found.append(Suspicion(floor, f"{100 * share:.1f} %"))
    order = permuted(predicted, labels, logits.shape[1])
    if order is not None:
        mended = float((np.array(order)[predicted] == labels).mean())
        pairs = ", ".join(f"{name(code)} as {name(other)}" for code, other in enumerate(order) if code != other)
        if mended > chance:
            order_named = f"labels in another order? Right far more often if one reads {pairs}"
            found.append(Suspicion(order_named, f"{100 * mended:.1f} % instead of {100 * share:.1f} %"))
    return found


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
