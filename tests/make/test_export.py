"""Students that are kept: a folder that opens anywhere and answers as its record says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny
from safetensors import SafetensorError
from transformers import AlbertConfig, AlbertForSequenceClassification, AutoTokenizer

from bench.errors import CELLS_FAILED, OK
from bench.files import MODE
from bench.make import export
from bench.record.store import Store

SMALL = f"{tiny.SHAPE}:start=random"
ROWS = (f"kd:{SMALL}", "moebert", "fastbert:speeds=0.5", "bilstm:words=40:word_width=16:hidden=8:inner=8")


def saved(root: Path) -> list[Path]:
    """Folders of students, without the teachers'."""
    return sorted(path.parent for path in root.rglob("config.json") if not path.parent.name.startswith("teacher-"))


@pytest.mark.slow
def test_a_saved_student_scores_as_its_record(bench, tmp_path, places):
    """Four kinds of models: transformers' own, routed, leaving early, recurrent. Equal to the bit."""
    done = bench("run", "--methods", ",".join(ROWS), "--tasks", "sst2", *places, "--save-students", tmp_path / "s")
    assert done.returncode == OK, done.stderr
    store = Store(tmp_path / "r")
    records = {record.key: record for record in store.records()}
    folders = saved(tmp_path / "s")
    assert len(folders) == len(ROWS) + 1, "fastbert has a row more, for its speed"
    again = bench(
        "run", "--methods", ",".join(f"checkpoint:{folder}" for folder in folders), "--tasks", "sst2", *places
    )
    assert again.returncode == OK, again.stderr
    rescored = {record.cell.label: record for record in store.records() if record.cell.method == "checkpoint"}
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
        text = (folder / "README.md").read_text().rpartition("\n---\n")[2]  # behind what the hub reads
        lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
        code = "\n".join(lines).replace("THIS-FOLDER", str(folder))
        code += "\nprint(logits.shape)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "torch.Size([1, 2])" in done.stdout
        assert ("import methods." in code) == (not folder.name.startswith("kd"))


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("No space left on device")])
@pytest.mark.slow
def test_a_student_that_cannot_be_kept_does_not_lose_its_record(bench, tmp_path, places, monkeypatch, error):
    def full(*args):
        raise error

    monkeypatch.setattr(export, "card", full)
    done = bench("run", "--methods", f"kd:{SMALL}", "--tasks", "rte", *places, "--save-students", tmp_path / "s")
    assert done.returncode == CELLS_FAILED
    assert "trained and recorded, but not saved" in done.stderr
    assert "No space left" in done.stderr
    assert {record.status for record in Store(tmp_path / "r").records()} == {"ok"}
    assert [path for path in (tmp_path / "s").rglob("*") if path.is_file()] == [], "nothing half-written"


def test_any_classifier_of_transformers_is_a_row(bench, tmp_path, places, teacher_folder):
    shape = {
        "embedding_size": 8,
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 24,
    }
    tokenizer = AutoTokenizer.from_pretrained(teacher_folder)
    config = AlbertConfig(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, num_labels=2, **shape)
    AlbertForSequenceClassification(config).save_pretrained(tmp_path / "albert")
    tokenizer.save_pretrained(tmp_path / "albert")
    done = bench("run", "--methods", f"checkpoint:{tmp_path / 'albert'}", "--tasks", "rte", *places)
    assert done.returncode == OK, done.stderr
    (record,) = (r for r in Store(tmp_path / "r").records() if r.row == "checkpoint:albert")
    assert 0 <= record.scores["validation"]["accuracy"] <= 1
    assert record.sizes.macs > 0
