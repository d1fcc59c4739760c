"""How alike a student and its teacher answer, and how far its probabilities can be trusted.

Two students of one accuracy can err on different examples: whoever replaces a model in use wants to
know how many answers change. No torch.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

BINS = 15


def fidelity(student: np.ndarray, teacher: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """How alike a student and its teacher answer.

    Args:
        student, teacher: [n, C] logits.
        labels: [n] classes.

    Returns:
        Shares of the examples, by name. ``agreement``: both give the same class. ``lost``: the
        teacher was right and the student is not; ``gained``: the other way round.

        ``kl``: KL(teacher || student) in nats, mean over examples. ``calibration``: the student's
        expected calibration error, and ``calibration_scaled`` after its logits were divided by a
        temperature (Guo et al. 2017), fitted on the other half of the examples. These three are nan
        where the student's answers are classes without probabilities: 1 for one and 0 for all
        others.
    """
    ours = student.argmax(1)
    theirs = teacher.argmax(1)
    counts = {
        "agreement": float(np.mean(ours == theirs)),
        "lost": float(np.mean((theirs == labels) & (ours != labels))),
        "gained": float(np.mean((theirs != labels) & (ours == labels))),
    }
    # classes without probabilities
    if np.array_equal(student, np.eye(student.shape[1])[ours]):
        return counts | dict.fromkeys(("kl", "calibration", "calibration_scaled"), float("nan"))
    log_ours = log_softmax(student.astype(float), axis=1)
    log_theirs = log_softmax(teacher.astype(float), axis=1)

    # the temperature of each half is fitted on the other one
    halves = np.arange(len(labels)) % 2
    scaled = np.empty_like(log_ours)
    for half in (0, 1):
        is_here = halves == half
        fitted = temperature(student[~is_here], labels[~is_here])
        scaled[is_here] = student[is_here] / fitted
    return counts | {
        "kl": float((np.exp(log_theirs) * (log_theirs - log_ours)).sum(1).mean()),
        "calibration": calibration_error(student, labels),
        "calibration_scaled": calibration_error(scaled, labels),
    }


def calibration_error(logits: np.ndarray, labels: np.ndarray, bins: int = BINS) -> float:
    """Expected calibration error (Guo et al. 2017, equation 3).

    Examples are in bins of equal width by the probability of the class that is answered. It is the
    mean of |accuracy - probability| over bins, weighted by their examples.
    """
    confidence = np.exp(log_softmax(logits.astype(float), axis=1)).max(1)
    # with right minus confidence summed in each bin, the weights n_b / n and the means over a bin
    # cancel
    gap = (logits.argmax(1) == labels) - confidence
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    return float(np.abs(np.bincount(place, gap, bins)).sum() / len(labels))


def temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """What logits [n, C] are divided by so that the cross-entropy with classes [n] is least.

    It is between e^-3 and e^3.
    """
    places = np.arange(len(labels))
    largest = logits.max(1, keepdims=True)

    def loss(exponent: float) -> float:
        # scipy's log_softmax at the right class alone, bit for bit: each student asks fifty times
        divisor = np.exp(exponent)
        below_largest = logits / divisor - largest / divisor
        normaliser = np.log(np.exp(below_largest).sum(1))
        return -float((below_largest[places, labels] - normaliser).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))
