"""Rows in 8 bits: scored from the same weights as their full row, once, and with the answers of the exported file."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas
import pytest
import tiny
from transformers import BertConfig, BertForSequenceClassification

from bench.analysis.choose import choose
from bench.errors import BAD_INPUT, OK
from bench.measure.backends import write_onnx
from bench.plan.spelling import parse_one
from bench.record.cell import IN_8_BITS, LINEAR_IN_8_BITS, LINEAR_ONLY, record_key
from bench.record.cell_differences import newest
from bench.record.schema import Record
from bench.record.store import Store
from methods.core.models import inputs_of

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


def test_a_file_in_8_bits_is_as_small_as_its_weights_in_8_bits(tmp_path):
    """4 layers of width 312 with BERT's vocabulary: an embedding left in fp32 would be two thirds."""
    shape = {"hidden_size": 312, "num_hidden_layers": 4, "intermediate_size": 1200}
    model = BertForSequenceClassification(BertConfig(num_labels=3, **shape))
    write_onnx(model, tmp_path / "model.onnx", inputs_of(model), in_8_bits=True)
    matrices = sum(p.numel() for p in model.parameters() if p.ndim == 2)
    vectors = sum(p.numel() for p in model.parameters() if p.ndim < 2)
    expected = matrices + 4 * vectors
    assert (tmp_path / "model.onnx").stat().st_size == pytest.approx(expected, rel=0.1)


@pytest.mark.slow
def test_where_the_file_must_be_small_the_row_in_8_bits_is_chosen_and_its_export_line_works(
    bench, tmp_path, teacher_folder, monkeypatch
):
    """The printed line, as it is, in the folder of the file and the teacher."""
    shutil.copytree(teacher_folder, tmp_path / "tiny-bert")
    file = tmp_path / "animals.csv"
    rows = tiny.split(120, pairs=False)
    pandas.DataFrame({"text": rows.first, "label": rows.labels}).to_csv(file, index=False)
    monkeypatch.chdir(tmp_path)
    row = parse_one("finetune:start=random:hidden=96:heads=4:ffn=192:layers=1:pace=20").spelling
    done = bench(
        "run", "--tasks", "animals.csv", "--teacher", "tiny-bert", "--results", "r",
        "--reports", "p", "--methods", f"{row}+int8", "--epochs", 10, "--set", "batch_size=8",
    )  # fmt: skip
    assert done.returncode == OK, done.stderr
    rows = by_row(Store(tmp_path / "r"))
    full, rounded = rows[row], rows[f"{row}+int8"]
    assert rounded.sizes.megabytes < full.sizes.megabytes / 2
    limit = (full.sizes.megabytes + rounded.sizes.megabytes) / 2
    (choice,) = choose(Path("r"), {"megabytes": limit})
    assert choice.chosen.label == rounded.row
    (line,) = choice.export
    exported = bench(*shlex.split(line)[3:])
    assert exported.returncode == OK, exported.stderr
    assert "0 of 24 predictions changed" in exported.stdout


def in_older_8_bits(record: Record) -> Record:
    key = record_key(record.cell, LINEAR_IN_8_BITS)
    return record.model_copy(update={"point": LINEAR_IN_8_BITS, "key": key})


@pytest.mark.slow
def test_records_of_8_bits_in_linear_layers_alone_are_read_and_said_to_be_stale(
    bench, tmp_path, places
):
    typed = ("run", "--tasks", "rte", *places, "--methods")
    assert bench(*typed, KD).returncode == OK
    store = Store(tmp_path / "r")
    older = in_older_8_bits(by_row(store)[KD])
    store.write(older, store.predictions(by_row(store)[KD]))
    assert older.row == f"{KD}+int8"
    assert bench("report", "--results", tmp_path / "r", "--reports", tmp_path / "q").returncode == 0
    (page,) = (tmp_path / "q").rglob("*/README.md")
    assert page.read_text().count(f"{LINEAR_ONLY}; embeddings are in fp32") == 1
    (choice,) = choose(tmp_path / "r", {})
    assert choice.left_out[f"{KD}+int8"].startswith(LINEAR_ONLY)
    for verb in (("export", older.key[:10], "--to", tmp_path / "x", "--format", "onnx-int8"),
                 ("verify", older.key[:10])):  # fmt: skip
        refused = bench(*verb, *places[:6])
        assert refused.returncode == BAD_INPUT
        assert LINEAR_ONLY in refused.stderr

    # typed again, the row gets a record of today, which is shown in its place
    assert bench(*typed, f"{KD}+int8").returncode == OK
    new = next(r for r in Store(tmp_path / "r").records() if r.point == IN_8_BITS)
    shown, left = newest(Store(tmp_path / "r").records())
    assert new in shown
    assert [record.key for record, _ in left] == [older.key]
    (choice,) = choose(tmp_path / "r", {})
    assert f"{KD}+int8" in {row.label for row in choice.candidates} | set(choice.left_out)
    assert LINEAR_ONLY not in choice.left_out.get(f"{KD}+int8", "")


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
