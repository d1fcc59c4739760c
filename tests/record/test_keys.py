"""Identity: what is in a key and what is not, and frozen examples that stay readable; and what a record says of its task."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.data.tasks import GLUE, WRITTEN, Task
from bench.errors import CellError
from bench.make.record import check_shapes
from bench.record.cell import Cell, record_key, train_key
from bench.record.keys import canonical, digest
from bench.record.recipe import Recipe
from bench.record.schema import load

FROZEN = Path(__file__).parents[1] / "records" / "v1"


def cell(**changes) -> Cell:
    """That of a frozen record, with changes; ``numeric__threads`` is the threads of its numeric part."""
    body = json.loads((FROZEN / "ok.json").read_text())["cell"]
    for path, value in changes.items():
        *parts, last = path.split("__")
        place = body
        for part in parts:
            place = place[part]
        place[last] = value
    return Cell.model_validate(body)


@pytest.mark.parametrize("file", sorted(FROZEN.glob("*.json")), ids=lambda f: f.stem)
def test_frozen_records_keep_their_keys(file):
    record = load(file.read_text(), file.name)
    assert train_key(record.cell) == record.train_key
    assert record_key(record.cell, record.point) == record.key


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 7},
        {"method": "other"},
        {"version": 99},
        {"settings__layers": 6},
        {"dropped": ("dis",)},
        {"tasks": ("mrpc",)},
        {"data__train": "0" * 64},
        {"data__max_train_rows": 5},
        {"teacher__base": "0" * 64},
        {"teacher__key": "0" * 64},
        {"tokenizer": "0" * 64},
        {"artefacts": {"general_start": "0" * 64}},
        {"recipe__learning_rate": 1e-5},
        {"numeric__precision": "bf16"},
        {"numeric__threads": 8},
        {"numeric__device": "cuda"},
    ],
    ids=lambda c: next(iter(c)),
)
def test_what_determines_the_weights_is_in_the_key(change):
    assert train_key(cell(**change)) != train_key(cell())
    assert train_key(cell(numeric__device="cpu")) == train_key(cell()), (
        "the usual device is in no key"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"label": "x"},
        {"ablation_of": "x"},
        {"data__name": "x"},
        {"data__slug": "x"},
        {"teacher__name": "x"},
    ],
    ids=lambda c: next(iter(c)),
)
def test_names_are_not_in_the_key(change):
    assert record_key(cell(**change)) == record_key(cell())


def test_the_evaluation_set_is_in_the_record_key_only():
    other = cell(data__evaluation={"validation": "0" * 64})
    assert train_key(other) == train_key(cell())
    assert record_key(other) != record_key(cell())
    assert record_key(cell(), "0.5") != record_key(cell(), "")


@pytest.mark.parametrize(
    "change",
    [
        {"betas": (0.9, 0.98)},
        {"optimizer": "sgd"},
        {"eps": 1e-6},
        {"stage_optimizers": (("distil", "adamax"),)},
    ],
    ids=lambda c: next(iter(c)),
)
def test_a_recipes_younger_fields_are_in_its_identity_only_where_they_are_not_the_usual_ones(
    change,
):
    usual, other = Recipe(), Recipe(**change)
    assert not set(change) & set(usual.as_dict())
    assert Recipe(**json.loads(canonical(other.as_dict()))) == other
    assert digest(other.as_dict()) != digest(usual.as_dict())


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=json_values)
@pytest.mark.slow
def test_canonical_json_survives_a_round_trip(value):
    assert canonical(json.loads(canonical(value))) == canonical(value)


def test_equal_numbers_are_written_alike_and_order_does_not_matter():
    assert digest({"a": 2.0, "b": (1, 2)}) == digest({"b": [1, 2], "a": 2})
    with pytest.raises(ValueError):
        digest(float("nan"))


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
        assert record.task == (GLUE | WRITTEN)[record.cell.tasks[0]].facts()
        assert (record.key, record.train_key) == (
            record_key(record.cell, record.point),
            train_key(record.cell),
        )


def test_answers_of_another_form_are_no_score():
    with pytest.raises(
        CellError, match=r"mine dev: logits of shape \[4, 2\]; classification has \[4, 3\]"
    ):
        check_shapes(OWN, "dev", np.zeros((4, 2)), np.zeros(4, int))
    check_shapes(OWN, "dev", np.zeros((4, 3)), None)
