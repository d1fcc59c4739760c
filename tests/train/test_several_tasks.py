"""One student of several tasks: mixed batches, each with its own teacher; a record for each task from one training."""

from __future__ import annotations

import json

import pytest
import tiny
import torch
from transformers import BertForSequenceClassification

import methods
from bench.data.encoding import batches_of_epoch, mixed_batches
from bench.record.cell import record_key, train_key
from bench.record.store import Store
from methods.api import Batch, Out, Setup
from methods.core.artefacts import EnsembleTargets, artefact_name
from methods.core.models import forward
from methods.core.taps import LOGITS, Tap

SMALL = "layers=2:hidden=12:heads=4:ffn=24:start=random"


def test_mixed_batches_visit_every_row_once_and_mix_the_tasks():
    mixed = mixed_batches([40, 100, 7], 8, seed=3, epoch=1)
    for task, size in enumerate((40, 100, 7)):
        of_task = [rows for found, rows in mixed if found == task]
        assert sorted(row for rows in of_task for row in rows) == list(range(size))
        assert sorted(map(tuple, of_task)) == sorted(map(tuple, batches_of_epoch(size, 8, 3, 1)))
    order = [task for task, _ in mixed]
    assert order != sorted(order)
    assert mixed == mixed_batches([40, 100, 7], 8, seed=3, epoch=1)


@pytest.mark.parametrize("labels", [(2, 3, 1)], ids=str)
def test_each_task_answers_in_its_own_form_and_its_fused_model_agrees(teacher_folder, labels):
    kind = methods.get("microbert")
    method = kind(**{**kind.tiny_settings, "tasks": "together", "start": "random"})
    setup = Setup(tiny.config(), max(labels), ("t0", "t1", "t2"), labels_of_tasks=labels)
    student = method.build(setup)
    data = tiny.encoded(teacher_folder, rows=12)
    shipped = method.deploy(student)
    assert list(shipped) == ["t0", "t1", "t2"]
    answers = []
    for task, (name, outputs) in enumerate(zip(setup.tasks, labels, strict=True)):
        batch = data.batch(range(12), task=task)
        with torch.no_grad():
            trained = forward(student.model.eval(), batch, LOGITS).logits
            fused = forward(shipped[name].eval(), data.batch(range(12)), LOGITS).logits
        assert trained.shape == (12, outputs)
        torch.testing.assert_close(fused, trained, rtol=0, atol=1e-5)
        answers.append(trained[:, 0])
    assert not torch.allclose(answers[0], answers[1])  # the router weighs the experts by task


def test_soft_targets_are_looked_up_by_example(teacher_folder):
    method = methods.get("mtdnn")()
    name = artefact_name(EnsembleTargets(3), tiny.config(), "a", several=True)
    assert name == "ensemble_targets.a"
    made = {
        "ids": torch.tensor([7, 3, 5]),
        "targets": torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]),
    }
    setup = Setup(tiny.config(), 2, ("a",), {name: made})
    (stage,) = method.stages(setup)
    data = tiny.encoded(teacher_folder, rows=2).batch(range(2))
    batch = Batch([5, 7], data.token_ids, data.segment_ids, data.layout, data.labels)
    logits = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    value = stage.terms["soft"].fn(batch, Out(data.layout, {Tap("logits"): logits}), None, None)
    log = logits.log_softmax(-1)
    by_hand = -(0.5 * log[0].sum() + 0.9 * log[1, 0] + 0.1 * log[1, 1]) / 2
    torch.testing.assert_close(value, by_hand)
    assert stage.terms["soft"].weight == stage.terms["hard"].weight == 0.5
    code = methods.get("mtdnn")(loss="code").stages(setup)[0].terms
    seen = code["soft"].fn(batch, Out(data.layout, {Tap("logits"): logits}), None, None)
    torch.testing.assert_close(seen, ((logits - made["targets"][[2, 0]]) ** 2).mean())
    assert code["soft"].weight == code["hard"].weight == 1.0


@pytest.mark.slow
def test_one_training_writes_a_record_for_each_task(bench, places, tmp_path):
    rows = ("--methods", f"mtdnn:members=2,microbert:{SMALL}:tasks=together", "--epochs", 1)
    done = bench("run", *rows, "--tasks", "rte,stsb", *places)
    assert done.returncode == 0, done.stderr
    found = [record for record in Store(tmp_path / "r").records() if record.cell.together]
    assert sorted((r.cell.method, r.cell.tasks[0]) for r in found) == [
        (name, task) for name in ("microbert", "mtdnn") for task in ("rte", "stsb")
    ]
    for name in ("microbert", "mtdnn"):
        of_row = [record for record in found if record.cell.method == name]
        assert len({record.train_key for record in of_row}) == 1
        assert len({record.key for record in of_row}) == 2
        assert {record.train.steps for record in of_row} == {of_row[0].train.steps}
    for record in found:
        assert train_key(record.cell) == record.train_key
        assert record_key(record.cell) == record.key
    again = bench("run", *rows, "--tasks", "rte,stsb", *places)
    assert "nothing to do" in again.stderr + again.stdout
    file = tmp_path / "plan.json"
    more = bench(
        "plan", *rows, "--tasks", "rte,stsb,mnli", *places[:6], "--threads", 1, "--json", file
    )
    assert more.returncode == 0, more.stderr
    states = {
        cell["state"] for cell in json.loads(file.read_text())["cells"] if cell["row"] != "teacher"
    }
    assert states == {"to do"}  # a student of other tasks is another student


@pytest.mark.parametrize(
    ("rows", "code", "said"), [("mtdnn", 2, "no ensemble of 3"), ("all", 0, "mtdnn is left out of")]
)
def test_teachers_that_come_tuned_are_no_ensemble(bench, places, tmp_path, rows, code, said):
    folder = tiny.save_teacher(tmp_path / "tuned", BertForSequenceClassification)
    answer = bench("plan", "--methods", rows, "--tasks", "sst2", *places[:6], "--teacher", folder)
    assert answer.returncode == code
    assert said in answer.stdout + answer.stderr
