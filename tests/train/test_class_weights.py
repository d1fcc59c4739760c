"""Weights of classes: in the loss on labels of teacher and students, in the key, and nowhere else."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pandas
import pytest
import tiny
import torch
import torch.nn.functional as F

import methods
from bench.conformance.tiny_bench import Bench, learned_weights
from bench.data.class_weights import balanced
from bench.data.own_tasks import expand
from bench.errors import BAD_INPUT, OK, InputError
from bench.make.task_data import TaskData
from bench.plan.spelling import parse_one
from bench.record.store import Store
from methods.api import Out
from methods.core import losses
from methods.core.masked import masked_tokens
from methods.core.taps import Tap

ROWS = f"finetune:{tiny.SHAPE}:start=random"


def test_weights_are_those_of_scikit_learn():
    from sklearn.utils.class_weight import compute_class_weight

    labels = np.repeat(np.arange(4), [60, 25, 13, 2])
    expected = compute_class_weight("balanced", classes=np.arange(4), y=labels)
    np.testing.assert_allclose(balanced(labels, 4), expected, rtol=1e-6)
    assert balanced(labels, 6)[4:].tolist() == [0, 0], "a class without examples"
    assert balanced(labels, 4)[labels].mean() == pytest.approx(1)


def test_the_loss_is_the_weighted_mean_and_parts_of_a_batch_add_up_to_it():
    torch.manual_seed(0)
    logits, labels = torch.randn(8, 3), torch.tensor([0, 0, 0, 0, 0, 1, 1, 2])
    weights = torch.from_numpy(balanced(labels.numpy(), 3))[labels]
    each = F.cross_entropy(logits, labels, reduction="none")
    whole = losses.hard(logits, labels, weights)
    assert whole == pytest.approx((each * weights).sum() / 8)
    parts = [losses.hard(logits[s], labels[s], weights[s]) for s in (slice(0, 4), slice(4, 8))]
    assert whole == pytest.approx(sum(parts) / 2)


@pytest.mark.parametrize("name", ["finetune", "kd", "pkd", "tinybert", "microbert", "mtdnn"])
def test_only_the_loss_on_labels_has_the_weights(name):
    """Without its loss on labels a method learns the same bits, whatever the classes weigh."""
    kind = methods.get(name)
    has_start = any(field.name == "start" for field in fields(kind))
    shape = {**kind.tiny_settings, **({"start": "random"} if has_start else {})}

    def learned(weighted: bool, dropped=()) -> str:
        bench = Bench(kind(**shape), 2)
        if weighted:
            bench.data = replace(bench.data, class_weights=torch.tensor([9.0, 0.1]))
        return learned_weights(bench.trained(dropped=dropped))

    if "hard" in kind.terms:
        assert learned(True) != learned(False)
    if len(kind.terms) > 1:
        dropped = ("hard",) if "hard" in kind.terms else ()
        assert learned(True, dropped) == learned(False, dropped)


def test_masked_words_have_no_weights(teacher_folder):
    examples = replace(tiny.encoded(teacher_folder), class_weights=torch.tensor([9.0, 0.1]))
    batch = examples.batch(range(8))
    assert sorted(set(batch.label_weights.tolist())) == pytest.approx([0.1, 9.0])
    batch = replace(batch, masked_positions=torch.tensor([1, 4]), masked_ids=torch.tensor([5, 6]))
    states = torch.randn(batch.layout.total, 4)
    head = torch.nn.ModuleDict({"head": torch.nn.Linear(4, 30)})
    term = masked_tokens("head", 1)
    values = [
        term.fn(each, Out(each.layout, {Tap("hidden", 1): states}), Out(each.layout), head)
        for each in (batch, replace(batch, label_weights=None))
    ]
    assert values[0] == values[1]


def rare(folder, name="rare"):
    """Texts of which every tenth is of the rare class."""
    rows = tiny.split(rows=100, num_labels=2, pairs=False)
    keep = [i for i, label in enumerate(rows.labels) if label == 0 or i % 5 == 0]
    texts = [f"{rows.first[i]} {i}" for i in keep]
    labels = ["usual" if rows.labels[i] == 0 else "rare" for i in keep]
    pandas.DataFrame({"text": texts, "label": labels}).to_csv(folder / f"{name}.csv", index=False)
    return folder / f"{name}.csv"


def weights_of(bench, folder, teacher, typed, name):
    """Row -> hash of its weights and its key, of a run on this task."""
    done = bench(
        "run", "--tasks", typed, "--methods", ROWS, "--teacher", teacher, "--results",
        folder / name, "--reports", folder / "p", "--threads", 1, "--epochs", 2,
    )  # fmt: skip
    assert done.returncode == OK, done.stderr
    records = Store(folder / name).records()
    return {r.row: (r.weights, r.train_key, r.cell.recipe.get("class_weights")) for r in records}


@pytest.mark.slow
def test_teacher_and_students_learn_with_them_and_the_key_says_it(
    bench, tmp_path, teacher_folder, monkeypatch
):
    file = rare(tmp_path)
    plain = weights_of(bench, tmp_path, teacher_folder, file, "plain")
    weighted = weights_of(bench, tmp_path, teacher_folder, f"{file}:weights=balanced", "weighted")
    assert plain.keys() == weighted.keys() == {"teacher", parse_one(ROWS).spelling}
    for row, (weights, key, said) in weighted.items():
        assert (said, plain[row][2]) == ("balanced", None)
        assert key != plain[row][1]
        assert weights != plain[row][0]

    # the planted bug: weights are dropped on the way, and what is learned is what it was
    monkeypatch.setattr(TaskData, "_weighted", lambda self, examples: examples)
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path / "cache"))
    broken = weights_of(bench, tmp_path, teacher_folder, f"{file}:weights=balanced", "broken")
    assert [w for w, _, _ in broken.values()] == [w for w, _, _ in plain.values()]


def test_the_plan_says_it_and_what_has_no_classes_is_refused(bench, tmp_path, teacher_folder):
    file = rare(tmp_path)
    planned = bench(
        "plan", "--tasks", f"{file}:weights=balanced", "--methods", ROWS, "--teacher",
        teacher_folder, "--results", tmp_path / "r",
    )  # fmt: skip
    assert planned.returncode == OK, planned.stderr
    assert "classes weigh more the fewer examples they have" in planned.stdout
    prices = pandas.DataFrame({"text": [f"a {i}" for i in range(20)], "label": np.arange(20) / 7})
    prices.to_csv(tmp_path / "prices.csv", index=False)
    (tmp_path / "prices.toml").write_text(
        'name = "prices"\ntrain = "prices.csv"\nvalidation = "rare.csv"\ntext = ["text"]\n'
        'metrics = ["r2"]\nweights = "balanced"\n'
    )
    for typed, says in (
        (str(tmp_path / "prices.toml"), "weights=balanced is for classes"),
        (f"{file}:weights=evenly", "evenly"),
        (f"{tmp_path / 'prices.csv'}:weights=balanced", "weights=balanced is for classes"),
    ):
        refused = bench("plan", "--tasks", typed, "--methods", ROWS, "--teacher", teacher_folder)
        assert refused.returncode == BAD_INPUT
        assert says in refused.stderr
        with pytest.raises(InputError):
            expand(typed)
