"""The store: nothing half-written, attempts kept, one current."""

from __future__ import annotations

import hashlib
from pathlib import Path

import factories
import numpy as np
import pytest

from bench.errors import InputError
from bench.record.schema import load
from bench.record.store import Store

FROZEN = Path(__file__).parents[1] / "records" / "v1"


@pytest.fixture
def record():
    return load((FROZEN / "ok.json").read_text(), "ok.json")


def test_what_is_written_is_found(tmp_path, record):
    store = Store(tmp_path)
    arrays = {
        "logits.validation": np.arange(6, dtype=np.float32).reshape(3, 2),
        "labels.validation": np.array([0, 1, 1]),
    }
    record, arrays = factories.consistent(record, arrays)
    file = store.write(record, arrays)
    kept = record.model_copy(update={"answers": hashlib.sha256(file.with_suffix(".npz").read_bytes()).hexdigest()})
    assert store.find(record.cell) == kept
    assert list(store.records()) == [kept]
    np.testing.assert_array_equal(store.predictions(record)["logits.validation"], arrays["logits.validation"])


def test_a_second_attempt_keeps_the_first(tmp_path, record):
    store = Store(tmp_path)
    first = store.write(record)
    second = store.write(record.model_copy(update={"finished": "later"}))
    assert (first.name, second.name) == ("attempt-1.json", "attempt-2.json")
    assert first.is_file()
    assert [r.finished for r in store.records()] == ["later"]


def test_a_misspelt_key_gets_the_nearest_one(tmp_path):
    store = Store(tmp_path)
    written = factories.record("kd")
    store.write(written)
    key = written.key[:12]
    wrong = key[:5] + ("0" if key[5] != "0" else "1") + key[6:]
    with pytest.raises(InputError, match=f"did you mean {key}"):
        store.one(wrong)
    with pytest.raises(InputError) as nothing_alike:
        store.one("zzzzzzzz")
    assert "did you mean" not in str(nothing_alike.value)
