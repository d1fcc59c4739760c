"""Agreement with the teacher and calibration, against cases whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from bench.stats.fidelity import calibration_error, fidelity, temperature


def drawn(scale: float, n: int = 40_000, seed: int = 0):
    """Logits whose softmax is the truth once they are divided by ``scale``, and classes drawn from it."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 3))
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (chances.cumsum(1) < rng.random((n, 1))).sum(1)
    return scale * logits, labels


def test_flips_are_counted_both_ways():
    teacher = np.array([[2.0, 0], [2, 0], [0, 2], [0, 2], [2, 0]])
    student = np.array([[2.0, 0], [0, 2], [2, 0], [0, 2], [0, 2]])
    answer = fidelity(student, teacher, np.array([0, 0, 0, 1, 1]))
    assert (answer["agreement"], answer["lost"], answer["gained"]) == pytest.approx((0.4, 0.2, 0.4))


def test_a_student_that_answers_like_its_teacher_loses_nothing():
    logits, labels = drawn(1.0, 500)
    answer = fidelity(logits + 7.0, logits, labels)  # softmax does not see the shift
    assert answer["agreement"] == 1
    assert answer["lost"] == answer["gained"] == 0
    assert answer["kl"] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_the_temperature_is_the_one_that_the_labels_were_drawn_with(scale):
    logits, labels = drawn(scale)
    assert temperature(logits, labels) == pytest.approx(scale, rel=0.05)


def test_calibration_sees_who_is_too_sure_and_a_temperature_mends_it():
    honest, labels = drawn(1.0)
    assert calibration_error(honest, labels) < 0.01
    sure = fidelity(4 * honest, honest, labels)
    assert sure["calibration"] > 0.1
    assert sure["calibration_scaled"] < 0.01


def test_calibration_of_one_bin_is_the_distance_of_accuracy_and_confidence():
    logits = np.tile([np.log(9.0), 0.0], (10, 1))  # 0.9 for class 0
    labels = np.array([0] * 6 + [1] * 4)
    assert calibration_error(logits, labels) == pytest.approx(0.3)
