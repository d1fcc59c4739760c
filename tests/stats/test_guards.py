"""Suspect scores are named; agreement with the teacher and calibration against cases whose answers are known."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from bench.stats.fidelity import calibration_error, fidelity, temperature
from bench.stats.form import CLASSES
from bench.stats.guards import permuted, suspicions
from bench.stats.metrics import fitting

RNG = np.random.default_rng(0)
LABELS = RNG.integers(3, size=300)


def logits(predicted, classes=3):
    return np.eye(classes, dtype=np.float32)[predicted]


def noisy(labels, share=0.2, classes=3):
    wrong = RNG.random(len(labels)) < share
    return np.where(wrong, RNG.integers(classes, size=len(labels)), labels)


def test_a_sound_score_is_not_suspect_and_constant_answers_and_placeholders_are():
    for metric in ("accuracy", "macro_f1", "weighted_f1", "matthews"):
        assert suspicions(logits(noisy(LABELS)), LABELS, (), metric) == []
    (line,) = suspicions(logits(np.ones(300, int)), LABELS, ("a", "b", "c"), "accuracy")
    assert str(line) == "predicts b for all 300 examples"
    (line,) = suspicions(np.ones((9, 1), np.float32), np.arange(9.0), (), "spearman")
    assert str(line) == "predicts the same value for every example"
    (line,) = suspicions(logits(noisy(LABELS)), np.zeros(300, int), ("a", "b", "c"), "accuracy")
    assert "every label is a: placeholders" in str(line)


def test_no_better_than_one_answer_to_every_example():
    labels = (RNG.random(300) < 0.8).astype(int)
    found = suspicions(logits(noisy(labels, 0.9, 2), 2), labels, ("no", "yes"), "accuracy")
    share = 100 * labels.mean()
    assert found[0].what == f"no better than always predicting yes (accuracy {share:.1f})"
    assert 0 < float(found[0].figure) < share
    (line,) = suspicions(-np.arange(9.0)[:, None], np.arange(9.0), (), "pearson")
    assert str(line) == "no better than one value for every example (pearson 0.0): -100.0"


def test_the_columns_own_metric_decides_what_is_too_low():
    """Of 60 examples of class 0 two thirds are right, of 240 of class 1 three quarters: fine by Matthews, low by accuracy and F1."""
    labels = np.repeat([0, 1], [60, 240])
    guessed = np.where(np.arange(300) < 40, 0, 1)
    guessed[60:120] = 0  # 40 of 60 of class 0 are right, 180 of 240 of class 1: 73.3 %
    assert suspicions(logits(guessed, 2), labels, ("no", "yes"), "matthews") == []
    (by_accuracy,) = suspicions(logits(guessed, 2), labels, ("no", "yes"), "accuracy")
    assert str(by_accuracy) == "no better than always predicting yes (accuracy 80.0): 73.3"
    (by_f1,) = suspicions(logits(guessed, 2), labels, ("no", "yes"), "f1")
    assert str(by_f1) == "no better than always predicting yes (f1 88.9): 81.8"
    below = suspicions(
        logits(np.r_[np.ones(59, int), 0, np.zeros(1, int), np.ones(239, int)], 2),
        labels,
        (),
        "matthews",
    )
    assert below == [], "one of each class found"
    (line,) = suspicions(
        logits(np.r_[np.ones(60, int), 0, np.ones(239, int)], 2), labels, ("no", "yes"), "matthews"
    )
    assert line.what == "no better than a constant prediction (matthews 0.0)"


def test_a_class_that_is_never_predicted_is_named_from_five_examples_on():
    """Twelve classes like an engineer's tickets: two of 6 and 12 examples are never said, one of 4 neither."""
    sizes = [60, 50, 40, 40, 30, 30, 30, 20, 10, 12, 6, 4]
    labels = np.repeat(np.arange(12), sizes)
    names = [f"c{code}" for code in range(12)]
    predicted = np.where(labels >= 9, 0, labels)
    (line,) = suspicions(logits(predicted, 12), labels, names, "accuracy")
    assert str(line) == "never predicts c9 (12), c10 (6) of 332 examples"
    assert line.is_partial, "the other classes may be sound"
    # one example that is given the class is enough, even a wrong one
    predicted[:2] = 9, 10
    assert suspicions(logits(predicted, 12), labels, names, "macro_f1") == []
    # four examples of a class say little
    assert suspicions(logits(np.where(labels == 11, 0, labels), 12), labels, names, "f1") == []


def test_many_missed_classes_are_counted_and_a_constant_is_named_once():
    labels = np.repeat(np.arange(50), 6)
    (line,) = suspicions(logits(np.where(labels < 20, 49, labels), 50), labels, (), "accuracy")
    assert line.what.startswith("never predicts 0 (6), 1 (6), ")
    assert line.what.endswith("7 (6), 12 more classes of 300 examples")
    (line,) = suspicions(logits(np.zeros(300, int), 50), labels, (), "accuracy")
    assert str(line) == "predicts 0 for all 300 examples"
    assert not line.is_partial


@pytest.mark.parametrize("metric", fitting(CLASSES), ids=lambda metric: metric.name)
def test_the_best_single_class_beats_every_constant(metric):
    labels = np.random.default_rng(3).choice(3, 200, p=[0.5, 0.3, 0.2])
    best, score = CLASSES.constant(labels, 3, metric.score)
    assert score == max(metric.score(np.full(200, code), labels) for code in range(3))
    assert best == {"f1": 1}.get(metric.name, 0)


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 0, 1), (1, 2, 0)])
def test_permuted_labels_are_named_with_the_order_that_mends_them(order):
    """A model of another code base whose class codes mean something else."""
    codes = np.argsort(order)[noisy(LABELS)]  # order[code] is the right label
    assert permuted(codes, LABELS, 3) == order
    line = suspicions(
        logits(codes), LABELS, ("entailment", "neutral", "contradiction"), "accuracy"
    )[-1]
    assert "labels in another order" in str(line)
    assert suspicions(logits(np.array(order)[codes]), LABELS, (), "accuracy") == []


def test_chance_is_not_called_a_permutation():
    false = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        false += permuted(rng.integers(3, size=277), rng.integers(3, size=277), 3) is not None
    assert false == 0


def test_two_of_many_classes_that_are_swapped_are_found():
    labels = RNG.integers(12, size=332)
    swapped = np.arange(12)
    swapped[[3, 7]] = 7, 3
    found = permuted(swapped[noisy(labels, 0.05, 12)], labels, 12)
    assert found == tuple(swapped)


def test_a_class_that_a_weak_model_never_predicts_is_no_permutation():
    """Of 12 classes two are always said to be two others, which are rarer."""
    labels = np.repeat(np.arange(12), [60, 60, *[20] * 10])
    predicted = labels.copy()
    predicted[labels == 0] = 5
    predicted[labels == 1] = 6
    assert permuted(predicted, labels, 12) is None


def test_development_rows_in_train_are_counted(bench, teacher_folder, tmp_path):
    glue = tiny.write_glue(tmp_path / "glue", ("sst2",))
    train, dev = (
        glue / "sst2" / f"{name}-00000-of-00001.parquet" for name in ("train", "validation")
    )
    leaked = pandas.read_parquet(dev).head(7)
    pandas.concat([pandas.read_parquet(train), leaked]).to_parquet(train, index=False)
    answer = bench(
        "plan", "--methods", "kd", "--tasks", "sst2", "--data", glue, "--teacher", teacher_folder
    )
    assert answer.returncode == 0, answer.stderr
    assert "7 of 40 examples of validation are also in train" in answer.stdout
    assert "7 also in train" in bench("data", "--tasks", "sst2", "--data", glue).stdout


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
    logits, labels = drawn(1.0, 500)
    alike = fidelity(logits + 7.0, logits, labels)  # softmax does not see the shift
    assert [alike[name] for name in ("agreement", "lost", "gained", "kl")] == pytest.approx(
        [1, 0, 0, 0], abs=1e-12
    )


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_the_temperature_is_the_one_that_the_labels_were_drawn_with(scale):
    logits, labels = drawn(scale)
    assert temperature(logits, labels) == pytest.approx(scale, rel=0.05)


@given(st.integers(0, 2**32), st.integers(2, 5), st.sampled_from(["float32", "float64"]))
def test_the_temperature_is_that_of_scipys_log_softmax_to_the_bit(seed, classes, dtype):
    """Reports keep their digits although each student's is found forty times as fast."""
    rng = np.random.default_rng(seed)
    logits = (4 * rng.normal(size=(31, classes))).astype(dtype)
    labels = rng.integers(classes, size=31)

    def loss(exponent: float) -> float:
        scaled = log_softmax(logits / np.exp(exponent), axis=1)
        return -float(scaled[np.arange(31), labels].mean())

    found = minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded")
    assert temperature(logits, labels) == float(np.exp(found.x))


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
