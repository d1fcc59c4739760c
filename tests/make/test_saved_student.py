"""Students that are kept: a folder that opens anywhere and answers as its record says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from safetensors import SafetensorError
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
)

from bench.data.checkpoints import put_in_order
from bench.errors import CELLS_FAILED, OK, InputError
from bench.files import MODE
from bench.make import saved_student
from bench.record.store import Store

SMALL = f"{tiny.SHAPE}:start=random"
ROWS = (
    f"kd:{SMALL}",
    "moebert",
    "fastbert:speeds=0.5",
    "bilstm:words=40:word_width=16:hidden=8:inner=8",
)


def saved(root: Path) -> list[Path]:
    """Folders of students, without the teachers'."""
    return sorted(
        path.parent
        for path in root.rglob("config.json")
        if not path.parent.name.startswith("teacher-")
    )


@pytest.mark.slow
def test_a_saved_student_scores_as_its_record(bench, tmp_path, places):
    """Four kinds of models: transformers' own, routed, leaving early, recurrent. Equal to the bit."""
    done = bench(
        "run",
        "--methods",
        ",".join(ROWS),
        "--tasks",
        "sst2",
        *places,
        "--save-students",
        tmp_path / "s",
    )
    assert done.returncode == OK, done.stderr
    store = Store(tmp_path / "r")
    records = {record.key: record for record in store.records()}
    folders = saved(tmp_path / "s")
    assert len(folders) == len(ROWS) + 1, "fastbert has a row more, for its speed"
    again = bench(
        "run",
        "--methods",
        ",".join(f"checkpoint:{folder}" for folder in folders),
        "--tasks",
        "sst2",
        *places,
    )
    assert again.returncode == OK, again.stderr
    rescored = {
        record.cell.label: record
        for record in store.records()
        if record.cell.method == "checkpoint"
    }
    for folder in folders:
        assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {MODE}
        config = json.loads((folder / "config.json").read_text())
        record = records[config["bert_bench"]["record"]]
        second = rescored[f"checkpoint:{folder.name}"]
        assert second.scores == record.scores
        assert second.weights == record.weights
        ours, theirs = store.predictions(record), store.predictions(second)
        assert np.array_equal(ours["logits.validation"], theirs["logits.validation"]), folder.name
        assert list(config["id2label"].values()) == ["negative", "positive"]
        card = (folder / "README.md").read_text()
        assert record.key in card
        assert str(record.weights) in card
        assert f"accuracy {100 * record.scores['validation']['accuracy']:.1f} %" in card


@pytest.mark.slow
@pytest.mark.long
def test_what_the_card_says_opens_the_model(bench, tmp_path, places):
    """Typed in a fresh interpreter, as somebody who finds the folder would."""
    bench(
        "run",
        "--methods",
        f"kd:{SMALL},moebert,{ROWS[-1]}",
        "--tasks",
        "rte",
        *places,
        "--save-students",
        tmp_path / "s",
    )
    folders = saved(tmp_path / "s")
    assert len(folders) == 3
    for folder in folders:
        # behind what the hub reads
        text = (folder / "README.md").read_text().rpartition("\n---\n")[2]
        lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
        code = "\n".join(lines).replace("THIS-FOLDER", str(folder))
        code += "\nprint(logits.shape)"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "torch.Size([1, 2])" in done.stdout
        assert ("import methods." in code) == (not folder.name.startswith("kd"))


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), SafetensorError("No space left on device")]
)
@pytest.mark.slow
def test_a_student_that_cannot_be_kept_does_not_lose_its_record(
    bench, tmp_path, places, monkeypatch, error
):
    def full(*args):
        raise error

    monkeypatch.setattr(saved_student, "card", full)
    done = bench(
        "run",
        "--methods",
        f"kd:{SMALL}",
        "--tasks",
        "rte",
        *places,
        "--save-students",
        tmp_path / "s",
    )
    assert done.returncode == CELLS_FAILED
    assert "trained and recorded, but not saved" in done.stderr
    assert "No space left" in done.stderr
    assert {record.status for record in Store(tmp_path / "r").records()} == {"ok"}
    assert [path for path in (tmp_path / "s").rglob("*") if path.is_file()] == [], (
        "nothing half-written"
    )


def test_any_classifier_of_transformers_is_a_row(bench, tmp_path, places, teacher_folder):
    shape = {
        "embedding_size": 8,
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 24,
    }
    tokenizer = AutoTokenizer.from_pretrained(teacher_folder)
    config = AlbertConfig(
        vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, num_labels=2, **shape
    )
    AlbertForSequenceClassification(config).save_pretrained(tmp_path / "albert")
    tokenizer.save_pretrained(tmp_path / "albert")
    done = bench("run", "--methods", f"checkpoint:{tmp_path / 'albert'}", "--tasks", "rte", *places)
    assert done.returncode == OK, done.stderr
    (record,) = (r for r in Store(tmp_path / "r").records() if r.row == "checkpoint:albert")
    assert 0 <= record.scores["validation"]["accuracy"] <= 1
    assert record.sizes.macs > 0


def turned(folder: Path, place: Path) -> Path:
    """The same classifier with its labels, and the rows of its head, in the other order."""
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        for parameter in model.classifier.parameters():
            parameter.copy_(parameter.flip(0))
    names = list(model.config.id2label.values())[::-1]
    model.config.id2label, model.config.label2id = (
        dict(enumerate(names)),
        {name: i for i, name in enumerate(names)},
    )
    model.save_pretrained(place)
    AutoTokenizer.from_pretrained(folder).save_pretrained(place)
    return place


@pytest.mark.slow
def test_a_model_with_its_labels_in_another_order_scores_the_same_and_leaves_in_8_bits(
    bench, tmp_path, places
):
    pytest.importorskip("onnxruntime")
    done = bench(
        "run",
        "--methods",
        f"kd:{SMALL}",
        "--tasks",
        "rte",
        *places,
        "--save-students",
        tmp_path / "s",
    )
    assert done.returncode == OK, done.stderr
    (folder,) = saved(tmp_path / "s")
    tokenizer, long = AutoTokenizer.from_pretrained(folder), "word " * 1000
    assert len(tokenizer(long, truncation=True)["input_ids"]) == 128
    other = turned(folder, tmp_path / "turned")
    rows = ",".join(f"checkpoint:{each}+int8" for each in (folder, other))
    assert bench("run", "--methods", rows, "--tasks", "rte", *places).returncode == OK
    store = Store(tmp_path / "r")
    records = {
        record.row: record for record in store.records() if record.cell.method == "checkpoint"
    }
    logits = {
        row: store.predictions(record)["logits.validation"] for row, record in records.items()
    }
    assert len(logits) == 4
    for point in ("", "+int8"):
        assert np.array_equal(
            logits[f"checkpoint:{folder.name}{point}"], logits[f"checkpoint:turned{point}"]
        )
    record = records["checkpoint:turned+int8"]
    words = [
        "export",
        record.key[:16],
        "--format",
        "onnx-int8",
        *places[:4],
        "--results",
        tmp_path / "r",
    ]
    refused = bench(*words, "--to", tmp_path / "out")
    assert "add --from with its folder" in refused.stderr
    done = bench(*words, "--to", tmp_path / "out", "--from", other)
    assert done.returncode == OK, done.stderr + done.stdout
    assert "0 of" in done.stdout
    card = (tmp_path / "out" / "README.md").read_text()
    assert "embeddings are in 8 bits" in card
    assert f"accuracy {100 * record.scores['validation']['accuracy']:.1f} %" in card


def test_labels_are_ordered_by_their_numbers_not_by_their_place_in_the_file():
    names = [f"class {i}" for i in range(12)]
    shape = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    model = BertForSequenceClassification(BertConfig(vocab_size=9, num_labels=12, **shape))
    model.config.id2label = {i: names[i] for i in sorted(range(12), key=str)}
    before = model.classifier.weight.clone()
    put_in_order(model, names, "it")
    assert torch.equal(model.classifier.weight, before)
    put_in_order(model, names[::-1], "it")
    assert torch.equal(model.classifier.weight, before.flip(0))
    model.second = torch.nn.Linear(8, 12)
    with pytest.raises(InputError, match="another order"):
        put_in_order(model, names, "it")


@pytest.mark.slow
def test_a_teacher_that_came_tuned_leaves_as_a_graph(bench, tmp_path, places):
    """As choose says it for the teacher's row."""
    pytest.importorskip("onnxruntime")
    done = bench(
        "run",
        "--methods",
        f"kd:{SMALL}",
        "--tasks",
        "rte",
        *places,
        "--save-students",
        tmp_path / "s",
    )
    (folder,) = saved(tmp_path / "s")
    given = [
        folder if str(places[places.index("--teacher") + 1]) == str(word) else word
        for word in places
    ]
    assert bench("run", "--methods", "teacher+int8", "--tasks", "rte", *given).returncode == OK
    records = [r for r in Store(tmp_path / "r").records() if r.cell.teacher.origin == "given"]
    assert {record.row for record in records} == {"teacher", "teacher+int8"}
    for record in records:
        form = "onnx-int8" if record.point else "onnx"
        words = ["export", record.key[:16], "--to", tmp_path / form, "--format", form, *given[:4]]
        done = bench(*words, "--results", tmp_path / "r")
        assert done.returncode == OK, done.stderr + done.stdout
        assert "0 of" in done.stdout
