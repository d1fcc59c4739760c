"""Suspect scores are named: constant answers, below chance, permuted labels, placeholders, dev rows in train."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import tiny

from bench.stats.guards import permuted, suspicions

RNG = np.random.default_rng(0)
LABELS = RNG.integers(3, size=300)


def logits(predicted, classes=3):
    return np.eye(classes, dtype=np.float32)[predicted]


def noisy(labels, share=0.2, classes=3):
    wrong = RNG.random(len(labels)) < share
    return np.where(wrong, RNG.integers(classes, size=len(labels)), labels)


def test_a_sound_score_is_not_suspect():
    assert suspicions(logits(noisy(LABELS)), LABELS) == []


def test_constant_answers():
    (line,) = suspicions(logits(np.ones(300, int)), LABELS, ("a", "b", "c"))
    assert str(line) == "answers b to all 300 examples"
    (line,) = suspicions(np.ones((9, 1), np.float32), np.arange(9.0))
    assert str(line) == "answers the same value to every example"


def test_below_the_larger_class():
    labels = (RNG.random(300) < 0.8).astype(int)
    found = suspicions(logits(noisy(labels, 0.9, 2), 2), labels, ("no", "yes"))
    assert found[0].what.startswith("right less often than always saying yes (")
    assert 0 < float(found[0].figure.removesuffix(" %")) < 80


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 0, 1), (1, 2, 0)])
def test_permuted_labels_are_named_with_the_order_that_mends_them(order):
    """A model of another code base whose class codes mean something else."""
    codes = np.argsort(order)[noisy(LABELS)]  # order[code] is the right label
    assert permuted(codes, LABELS, 3) == order
    line = suspicions(logits(codes), LABELS, ("entailment", "neutral", "contradiction"))[-1]
    assert "labels in another order" in str(line)
    assert suspicions(logits(np.array(order)[codes]), LABELS) == []


def test_chance_is_not_called_a_permutation():
    false = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        false += permuted(rng.integers(3, size=277), rng.integers(3, size=277), 3) is not None
    assert false == 0


def test_placeholder_labels():
    (line,) = suspicions(logits(noisy(LABELS)), np.zeros(300, int), ("a", "b", "c"))
    assert "every label is a: placeholders" in str(line)


def test_a_suspect_cell_is_said_in_the_run_and_in_the_report(bench, teacher_folder, tmp_path):
    glue = tiny.write_glue(tmp_path / "glue", ("rte",))
    file = glue / "rte" / "train-00000-of-00001.parquet"
    table = pandas.read_parquet(file)
    table["label"] = 1  # nothing to learn but one answer
    table.to_parquet(file, index=False)
    done = bench(
        *("run", "--methods", f"finetune:{tiny.SHAPE}:start=random:pace=10", "--tasks", "rte", "--data", glue),
        *("--teacher", teacher_folder, "--epochs", 5, "--results", tmp_path / "r", "--reports", tmp_path / "p"),
    )
    assert done.returncode == 0, done.stderr
    assert "answers not_entailment to all 40 examples" in done.stderr
    assert "answers not_entailment to all 40 examples" in next((tmp_path / "p").glob("*.md")).read_text()


def test_development_rows_in_train_are_counted(bench, teacher_folder, tmp_path):
    glue = tiny.write_glue(tmp_path / "glue", ("sst2",))
    train, dev = (glue / "sst2" / f"{name}-00000-of-00001.parquet" for name in ("train", "validation"))
    leaked = pandas.read_parquet(dev).head(7)
    pandas.concat([pandas.read_parquet(train), leaked]).to_parquet(train, index=False)
    answer = bench("plan", "--methods", "kd", "--tasks", "sst2", "--data", glue, "--teacher", teacher_folder)
    assert answer.returncode == 0, answer.stderr
    assert "7 of 40 examples of validation are also in train" in answer.stdout
    assert "7 also in train" in bench("data", "--tasks", "sst2", "--data", glue).stdout
