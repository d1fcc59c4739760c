"""Every metric and every form of answer holds what it promises, and a new metric is one file."""

from __future__ import annotations

import itertools
import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pages
import pytest
import random_answers
import torch
from hypothesis import given
from hypothesis import strategies as st

import bench.stats.metrics as registry
from bench.analysis.gate_acceptances import budgets_of
from bench.data.tasks import from_toml
from bench.errors import InputError
from bench.report.score_column import ScoreColumn
from bench.stats.form import CLASSES, FORMS, SCORE, SPANS, TEXT, misshapen
from bench.stats.guards import suspicions
from bench.stats.metrics import METRICS, OF_ONE_CLASS, Metric, fitting, label_of
from bench.stats.paired import counts_by_label, interval, permutation, resampled_scores
from bench.stats.resampling import ByClass, Repeated
from methods.core import losses

ROOT = Path(__file__).resolve().parents[2]
EVERY_METRIC = pytest.mark.parametrize(
    "metric", list(METRICS.values()), ids=lambda metric: metric.name
)
EVERY_FORM = pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.name)


@EVERY_METRIC
@given(seed=st.integers(0, 999), examples=st.integers(1, 40), kinds=st.integers(1, 5))
def test_a_metric_stays_in_its_range_and_gives_its_most_to_right_answers(
    metric, seed, examples, kinds
):
    rng = np.random.default_rng(seed)
    labels = random_answers.labels(metric.form, rng, examples, kinds)
    predicted = random_answers.some(metric.form, rng, examples, kinds)
    assert metric.low - 1e-9 <= metric.score(predicted, labels) <= metric.high + 1e-9
    if metric.form == TEXT:  # its answers hold what they have in common with the reference
        return
    best = metric.score(random_answers.right(metric.form, labels), labels)
    assert (
        best == pytest.approx(metric.high)
        or (best == 0 and len(np.unique(labels)) <= 1)
        or metric.name in OF_ONE_CLASS
    )


@EVERY_METRIC
@given(seed=st.integers(0, 999), examples=st.integers(2, 30))
def test_the_fast_form_gives_what_the_plain_one_gives_the_same_examples(metric, seed, examples):
    rng = np.random.default_rng(seed)
    labels = random_answers.labels(metric.form, rng, examples)
    systems = [random_answers.some(metric.form, rng, examples) for _ in range(2)]
    times = np.stack(
        [np.bincount(rng.integers(examples, size=examples), minlength=examples) for _ in range(5)]
    )
    resampling = metric.resampling
    if isinstance(resampling, ByClass):  # those that keep all classes have another test below
        resampling = replace(resampling, keeps_classes=False)
    fast = resampling.scorer(systems, labels)(times)
    np.testing.assert_allclose(
        fast, Repeated(metric.score).scorer(systems, labels)(times), atol=1e-9
    )
    if not isinstance(metric.resampling, ByClass):
        rows = metric.resampling.of_rows(np.stack(systems), labels)
        np.testing.assert_allclose(rows, [metric.score(one, labels) for one in systems], atol=1e-9)


RARE_LABELS = np.repeat(np.arange(4), [140, 140, 50, 2])
"""Like the tickets of an engineer: two of 332 examples have a class that no row finds."""


def test_no_class_vanishes_from_a_resample_of_macro_f1():
    """Without the rare class a resample would gain a third: its interval ended ten points too high."""
    found = np.where(RARE_LABELS == 3, 0, RARE_LABELS)
    drawn = resampled_scores([found], RARE_LABELS, "macro_f1", np.random.default_rng(0), 2000)
    score = METRICS["macro_f1"].score(found, RARE_LABELS)
    low, high = interval(drawn[:, 0])
    assert low <= score <= high
    assert drawn.max() <= 0.75, "one of four classes has F1 of 0 in every resample"
    # the same for a class that no example has, and one is given by mistake
    mistaken = np.where(np.arange(332) == 5, 4, RARE_LABELS)
    drawn = resampled_scores([mistaken], RARE_LABELS, "macro_f1", np.random.default_rng(0), 500)
    assert drawn.max() <= 0.8


@given(seed=st.integers(0, 999))
def test_a_resample_of_macro_f1_scores_what_the_plain_form_gives_its_examples(seed):
    """Where no class is given by mistake alone: then each resample has all classes."""
    rng = np.random.default_rng(seed)
    labels = np.r_[np.arange(3), rng.integers(3, size=20)]
    systems = [rng.integers(3, size=23) for _ in range(2)]
    times = counts_by_label(labels, 23, rng, 5)
    for label in range(3):
        of_label = labels == label
        assert (times[:, of_label].sum(1) == of_label.sum()).all()
    metric = METRICS["macro_f1"]
    np.testing.assert_allclose(
        metric.resampling.scorer(systems, labels)(times),
        Repeated(metric.score).scorer(systems, labels)(times),
        atol=1e-9,
    )


@pytest.mark.parametrize("name", [metric.name for metric in fitting(CLASSES)])
def test_many_classes_take_no_more_memory_than_their_number(name):
    rng = np.random.default_rng(0)
    labels, *systems = rng.integers(150, size=(3, 1000))
    tracemalloc.start()
    resampled_scores(systems, labels, name, rng, 200)
    permutation(*systems, labels, name, rng, 200)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # a confusion matrix for each example would be 180 MB


@EVERY_METRIC
def test_swapping_answers_is_the_enumeration_of_all_swaps(metric):
    rng = np.random.default_rng(5)
    labels = random_answers.labels(metric.form, rng, 7)
    right = random_answers.right(metric.form, labels)
    first, second = (
        random_answers.mixed(right, random_answers.some(metric.form, rng, 7), rng.random(7) < 0.6),
        right[::-1].copy(),
    )
    observed, drawn = abs(metric.score(first, labels) - metric.score(second, labels)), []
    for swap in itertools.product([False, True], repeat=7):
        a, b = (
            random_answers.mixed(x, y, np.array(swap))
            for x, y in ((second, first), (first, second))
        )
        drawn.append(abs(metric.score(a, labels) - metric.score(b, labels)))
    equal = np.isclose(drawn, observed)
    expected = ((np.array(drawn) > observed) & ~equal).mean() + 0.5 * equal.mean()
    found = permutation(first, second, labels, metric.name, np.random.default_rng(0), 3000)
    assert found == pytest.approx(expected, abs=0.05)


@EVERY_METRIC
def test_the_share_of_right_answers_is_the_score(metric):
    if metric.right is None:
        return
    rng = np.random.default_rng(1)
    labels, predicted = (
        random_answers.labels(metric.form, rng, 50),
        random_answers.some(metric.form, rng, 50),
    )
    right = metric.right(predicted, labels)
    assert right.shape == (50,)
    assert metric.score(predicted, labels) == pytest.approx(right.mean())


def test_names_and_ranges_that_cannot_be_printed_are_refused():
    for change in ({"name": "Macro F1"}, {"low": -2.0}, {"high": 0.0}, {"high": 100.0}):
        with pytest.raises(ValueError):
            replace(METRICS["accuracy"], **change)
    with pytest.raises(ValueError, match="two metrics"):
        registry.register(replace(METRICS["accuracy"], label="another"))
    with pytest.raises(InputError, match="did you mean 'accuracy'"):
        registry.metric_of("acuracy")


@EVERY_FORM
def test_an_arrays_shape_is_that_of_its_form(form):
    labels = random_answers.labels(form, np.random.default_rng(0), 8)
    outputs = form.outputs(("a", "b", "c"))
    logits = np.zeros((8, outputs), np.float32)
    assert form.predicted(logits).shape == (8, *form.shape)
    assert labels.shape == (8,) or form == TEXT
    arrays = {"logits": logits, "labels": labels}
    assert misshapen(form, arrays, 8, outputs) == ""
    assert misshapen(form, {"logits": logits}, 8, outputs) == "", "a set without public labels"
    assert "labels of shape" in misshapen(form, arrays | {"labels": labels[:7]}, 8, outputs)
    assert "logits of shape" in misshapen(form, arrays | {"logits": logits[..., None]}, 8, outputs)
    assert "logits of shape" in misshapen(
        form, arrays | {"logits": logits[..., :1].repeat(4, -1)}, 8, outputs
    )


@pytest.mark.parametrize("form", [CLASSES, SCORE])
def test_the_loss_on_labels_is_the_named_one(form):
    rng = np.random.default_rng(2)
    labels = torch.from_numpy(random_answers.labels(form, rng, 6).astype(form.dtype))
    logits = torch.randn(6, form.outputs(("a", "b", "c")))
    given = logits[:, 0] if form == SCORE else logits
    assert torch.equal(
        losses.hard(logits, labels), getattr(torch.nn.functional, form.loss)(given, labels)
    )


@EVERY_FORM
@given(seed=st.integers(0, 99))
def test_the_constant_answer_scores_what_it_says_and_no_label_scores_more(form, seed):
    labels = random_answers.labels(form, np.random.default_rng(seed), 20)
    for metric in fitting(form):
        answer, score = form.constant(labels, 3, metric.score)
        given = lambda one: np.broadcast_to(one, (20, *form.shape))  # noqa: E731
        assert metric.score(given(answer), labels) == score
        if form != SPANS and (metric.right or metric.is_signed):
            assert all(metric.score(given(one), labels) <= score + 1e-12 for one in labels)


@pytest.fixture
def balanced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Metric]:
    """The metric that docs/extend.md shows, as a new file of the folder."""
    (tmp_path / "balanced.py").write_text(pages.python_of("extend.md", "BALANCED_ACCURACY"))
    monkeypatch.setattr(registry, "__path__", [*registry.__path__, str(tmp_path)])
    registry.discover()
    try:
        yield METRICS["balanced_accuracy"]
    finally:
        del METRICS["balanced_accuracy"], sys.modules["bench.stats.metrics.balanced"]


def test_a_new_metric_is_one_file(balanced, tmp_path):
    """A task file may name it; it is scored, resampled, guarded, given a budget and printed."""
    from bench.train.prediction import score

    for name in ("train.csv", "dev.csv"):
        (tmp_path / name).write_text("sentence,label\nfine,yes\n")
    file = tmp_path / "mine.toml"
    text = 'name = "mine"\ntrain = "train.csv"\nvalidation = "dev.csv"\ntext = ["sentence"]\n'
    file.write_text(text + 'labels = ["no", "yes"]\nmetrics = ["balanced_accuracy"]\n')
    assert from_toml(file).metrics == ("balanced_accuracy",)
    file.write_text(text + 'metrics = ["balanced_accuracy"]\n')
    with pytest.raises(InputError, match="does not fit; for this task: pearson, spearman"):
        from_toml(file)

    labels = np.repeat([0, 1], [30, 10])
    logits = {
        row: np.eye(2, dtype=np.float32)[np.r_[[0] * a, [1] * (40 - a)]]
        for row, a in (("kd", 24), ("pkd", 34))
    }
    assert score(logits["kd"], labels, ("balanced_accuracy",)) == {
        "balanced_accuracy": pytest.approx(0.9)
    }
    assert suspicions(logits["kd"], labels, (), "balanced_accuracy") == []

    assert ScoreColumn("mine", "validation", "balanced_accuracy").title == "mine (balanced acc)"
    predicted = [CLASSES.predicted(each) for each in logits.values()]
    assert resampled_scores(
        predicted, labels, "balanced_accuracy", np.random.default_rng(0), 300
    ).shape == (300, 2)
    assert budgets_of(["balanced_accuracy=2"]) == {"balanced_accuracy": 2.0}
    assert (
        "| balanced_accuracy | balanced acc | classification | 0 to 1 | permutation |"
        in registry.table()
    )


def test_a_metric_of_one_class_says_which_one():
    own = ("abusive", "fine")
    assert [label_of(name, own) for name in ("f1", "f1_of_class_0", "macro_f1", "accuracy")] == [
        "F1 (of fine)",
        "F1 (of abusive)",
        "macro F1",
        "acc",
    ]
    assert label_of("f1") == "F1"
    assert ScoreColumn("mrpc", "validation", "f1").title == "mrpc (F1)"
    column = ScoreColumn("abuse", "validation", "f1", own)
    assert column.title == "abuse (F1 of fine)"
    assert column == ScoreColumn("abuse", "validation", "f1"), "names are no part of what it is"
