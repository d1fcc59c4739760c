"""What a record says of its task: written with it, filled in for older ones, in no key, and enough for a report."""

from __future__ import annotations

import json
from pathlib import Path

import factories
import numpy as np
import pytest

from bench.data.tasks import GLUE, WRITTEN, Task
from bench.errors import CellError
from bench.make.record import check_shapes, empty, now
from bench.record.cell import record_key, train_key
from bench.record.schema import load
from bench.record.store import Store
from bench.record.task_facts import facts_of, facts_of_older_record
from bench.report.groups import groups
from bench.report.resampled import faults_of

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = sorted((ROOT / "results" / "reference").glob("*/*/*/*/attempt-*.json"))
OWN = Task("mine", ("text",), ("low", "mid", "high"), ("macro_f1", "accuracy"), ())


@pytest.mark.parametrize("name", GLUE)
def test_an_older_record_of_glue_gets_the_facts_of_its_table(name):
    found, task = facts_of_older_record((name,), {}), GLUE[name]
    assert (found.labels, found.metrics, found.form) == (task.labels, task.metrics, task.form.name)
    assert found.unlabelled == (("ax",) if name == "mnli" else ())


def test_committed_records_say_their_task_and_keep_their_keys():
    assert len(COMMITTED) > 100
    for file in COMMITTED[::7]:
        text = file.read_text()
        record = load(text, str(file))
        if "folder-glue" in file.parts:  # all others are younger than the field
            assert "task" not in json.loads(text), "committed records are not rewritten"
        assert record.task == facts_of((GLUE | WRITTEN)[record.cell.tasks[0]])
        assert (record.key, record.train_key) == (record_key(record.cell, record.point), train_key(record.cell))


def test_a_record_says_its_task_in_the_file_and_nowhere_in_its_keys(tmp_path):
    cell = factories.record("kd", "rte").cell
    keys = record_key(cell), train_key(cell)
    record = empty(cell, "failed", now(), OWN)
    assert (record.key, record.train_key) == keys
    file = Store(tmp_path).write(record)
    assert json.loads(file.read_text())["task"] == {
        "form": "classes",
        "labels": ["low", "mid", "high"],
        "metrics": ["macro_f1", "accuracy"],
        "unlabelled": [],
    }
    assert load(file.read_text(), "") == record


def test_a_report_names_the_classes_of_ones_own_task(tmp_path):
    """Of a task that no table knows, with answers that are all the last class."""
    labels, record = np.arange(30) % 3, factories.record("kd", "mine", score=0.2)
    arrays = {"logits.validation": np.eye(3)[np.full(30, 2)], "labels.validation": labels}
    scores = {"validation": {"macro_f1": 1 / 6}}
    store = Store(tmp_path)
    store.write(
        record.model_copy(update={"task": facts_of(OWN), "scores": scores}),
        arrays | {"examples.validation": np.arange(30)},
    )
    (group,) = groups(store.records())
    ((_, faults),) = faults_of(group, store).items()
    assert list(faults) == ["predicts high for all 30 examples"]


def test_answers_of_another_form_are_no_score():
    with pytest.raises(CellError, match=r"mine dev: logits of shape \[4, 2\]; classification has \[4, 3\]"):
        check_shapes(OWN, "dev", np.zeros((4, 2)), np.zeros(4, int))
    check_shapes(OWN, "dev", np.zeros((4, 3)), None)
