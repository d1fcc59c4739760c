"""Rows in 8 bits: scored from the same weights as their full row, once, and with the answers of the exported file."""

from __future__ import annotations

import numpy as np
import pytest
import tiny

from bench.errors import BAD_INPUT, OK
from bench.plan.spelling import parse_one
from bench.record.store import Store

pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")
pytest.importorskip("onnx")
KD = parse_one(f"kd:{tiny.SHAPE}:start=random").spelling
WORDS = parse_one("bilstm:words=40:word_width=16:hidden=8:inner=8").spelling


def by_row(store: Store) -> dict[str, object]:
    return {record.row: record for record in store.records()}


@pytest.mark.slow
def test_a_row_in_8_bits_has_the_weights_of_its_row_and_the_answers_of_the_exported_file(
    bench, tmp_path, places
):
    typed = ("run", "--tasks", "rte", *places, "--save-students", tmp_path / "s", "--methods")
    done = bench(*typed, f"{KD}+int8,teacher+int8")
    assert done.returncode == OK, done.stderr
    store = Store(tmp_path / "r")
    rows = by_row(store)
    for row in (KD, "teacher"):
        full, rounded = rows[row], rows[f"{row}+int8"]
        assert rounded.weights == full.weights
        ours, theirs = store.predictions(rounded), store.predictions(full)
        assert np.array_equal(ours["examples.validation"], theirs["examples.validation"])
        gap = np.abs(ours["logits.validation"] - theirs["logits.validation"]).max()
        assert 0 < gap < 0.2 * np.abs(theirs["logits.validation"]).max()
    again = bench(*typed, f"{KD}+int8,teacher+int8")
    assert again.returncode == OK
    assert by_row(store)[f"{KD}+int8"] == rows[f"{KD}+int8"], "what is finished is not made again"
    folder = next((tmp_path / "s").rglob("kd*/config.json")).parent
    key = rows[f"{KD}+int8"].key[:10]
    exported = bench(
        "export", key, "--to", tmp_path / "onnx", "--format", "onnx-int8", "--from", folder, *places[:6],
        "--json", tmp_path / "e.json",
    )  # fmt: skip
    assert exported.returncode == OK, exported.stderr
    assert "0 of 40 predictions changed" in exported.stdout
    assert rows[f"{KD}+int8"].sizes.file_bytes == (tmp_path / "onnx" / "model.onnx").stat().st_size
    assert (
        bench("export", key, "--to", tmp_path / "hf", "--from", folder, *places[:6]).returncode
        == BAD_INPUT
    )


@pytest.mark.parametrize(
    ("row", "why"), [(WORDS, "it reads words"), ("fastbert", "leave it early")]
)
def test_a_student_without_a_graph_is_refused_before_it_is_trained(bench, places, row, why):
    done = bench("plan", "--tasks", "rte", *places[:6], "--methods", f"{row}+int8")
    assert done.returncode == BAD_INPUT
    assert f"{parse_one(row).spelling}+int8: ONNX has no graph of this student" in done.stderr
    assert why in done.stderr


def test_of_all_rows_those_with_a_graph_are_planned_in_8_bits(bench, places):
    planned = bench("plan", "--tasks", "rte", *places[:6], "--methods", "kd,all+int8")
    assert planned.returncode == OK, planned.stderr
    assert (
        "fastbert+int8 is left out of `--methods all+int8`: fastbert+int8: ONNX has no graph"
        in planned.stdout
    )


@pytest.mark.slow
def test_a_kept_student_is_scored_in_8_bits_without_training_it_again(
    bench, tmp_path, places, monkeypatch
):
    typed = ("run", "--tasks", "rte", *places, "--save-students", tmp_path / "s", "--methods")
    assert bench(*typed, KD).returncode == OK
    before = by_row(Store(tmp_path / "r"))[KD]
    monkeypatch.setattr(
        "bench.make.students.build", lambda *args: pytest.fail("it was trained again")
    )
    assert bench(*typed, f"{KD}+int8").returncode == OK
    rows = by_row(Store(tmp_path / "r"))
    assert rows[KD] == before
    assert rows[f"{KD}+int8"].train == before.train
