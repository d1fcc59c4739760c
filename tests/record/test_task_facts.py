"""What a record says of its task: written with it, filled in for older ones, in no key, and enough for a report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench.data.tasks import GLUE, WRITTEN, Task
from bench.errors import CellError
from bench.make.record import check_shapes
from bench.record.cell import record_key, train_key
from bench.record.schema import load
from bench.record.task_facts import facts_of

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = sorted((ROOT / "results" / "reference").glob("*/*/*/*/attempt-*.json"))
OWN = Task("mine", ("text",), ("low", "mid", "high"), ("macro_f1", "accuracy"), ())


def test_committed_records_say_their_task_and_keep_their_keys():
    assert len(COMMITTED) > 100
    for file in COMMITTED[::7]:
        text = file.read_text()
        record = load(text, str(file))
        if "folder-glue" in file.parts:  # all others are younger than the field
            assert "task" not in json.loads(text), "committed records are not rewritten"
        assert record.task == facts_of((GLUE | WRITTEN)[record.cell.tasks[0]])
        assert (record.key, record.train_key) == (record_key(record.cell, record.point), train_key(record.cell))


def test_answers_of_another_form_are_no_score():
    with pytest.raises(CellError, match=r"mine dev: logits of shape \[4, 2\]; classification has \[4, 3\]"):
        check_shapes(OWN, "dev", np.zeros((4, 2)), np.zeros(4, int))
    check_shapes(OWN, "dev", np.zeros((4, 3)), None)
