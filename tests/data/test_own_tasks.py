"""Tasks of one's own: their labels next to those of a finished classifier, and what is said of their data."""

from __future__ import annotations

import json
import re

import pytest
import tiny
import torch
from transformers import AutoModelForSequenceClassification, BertForSequenceClassification

from bench.plan.request import Request, resolve_auto
from bench.record.store import Store

CLASSES = ["very bad", "Fair", "good"]
TEXTS = [("the cat runs", "good"), ("a dog sleeps", "very bad"), ("the old bird sings", "Fair"), ("fish swims", "good")]


@pytest.fixture
def own_task(tmp_path):
    """Writes the task file, with the labels in the order that is given, and says how it is typed."""
    for name in ("train", "dev"):
        (tmp_path / f"{name}.csv").write_text("text,label\n" + "".join(f"{a},{b}\n" for a, b in TEXTS * 4))

    def write(labels=CLASSES):
        file = tmp_path / "tickets.toml"
        file.write_text('name = "tickets"\ntrain = "train.csv"\nvalidation = "dev.csv"\ntext = ["text"]\n'
                        f'labels = {json.dumps(labels)}\nmetrics = ["accuracy"]\n')  # fmt: skip
        return ["--tasks", file, "--results", tmp_path / "r", "--reports", tmp_path / "p", "--data", "sample"]

    return write


def test_a_saved_student_of_labels_with_blanks_is_a_row(bench, own_task, tmp_path, teacher_folder):
    """It is saved with "very bad" and was refused as "very_bad"."""
    common = [*own_task(), "--teacher", teacher_folder]
    words = ["--methods", f"finetune:{tiny.SHAPE}:start=random", "--epochs", 1, "--save-students", tmp_path / "kept"]
    done = bench("run", *words, *common)
    assert done.returncode == 0, done.stderr
    (student,) = (file.parent for file in (tmp_path / "kept").rglob("config.json"))
    done = bench("run", "--methods", f"checkpoint:{student}", *common)
    assert done.returncode == 0, done.stderr
    assert "own files (tickets)" in done.stdout
    assert "(tickets) (tickets)" not in done.stdout


def test_a_classifier_with_its_labels_in_another_order_is_scored_after_the_advice(
    bench, own_task, tmp_path, teacher_folder
):
    theirs = [CLASSES[2], CLASSES[0], CLASSES[1]]
    folder = tiny.save_teacher(tmp_path / "finished", BertForSequenceClassification, num_labels=3)
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = dict(enumerate(theirs))
    (folder / "config.json").write_text(json.dumps(config))
    words = ["run", "--methods", f"checkpoint:{folder}", "--teacher", teacher_folder]
    refused = bench(*words, *own_task())
    assert refused.returncode == 2
    advised = json.loads(re.search(r"write labels = (\[.*?\]) in tickets\.toml", refused.stderr)[1])
    done = bench(*words, *own_task(advised))
    assert done.returncode == 0, done.stderr
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    read = tiny.tokenizer(folder)([text for text, _ in TEXTS], padding=True, return_tensors="pt")
    with torch.no_grad():
        answers = [theirs[i] for i in model(**read).logits.argmax(-1).tolist()]
    right = sum(answer == label for answer, (_, label) in zip(answers, TEXTS, strict=True)) / len(TEXTS)
    (record,) = (r for r in Store(tmp_path / "r").records() if r.cell.method == "checkpoint")
    assert record.scores["validation"]["accuracy"] == pytest.approx(right)


@pytest.mark.parametrize("teacher", ["auto", "mine"])
def test_nothing_is_said_of_chosen_data_where_all_tasks_bring_theirs(teacher, monkeypatch):
    resolved = resolve_auto(Request(tasks="tickets.toml", teacher=teacher), accelerator=False, hub_answers=False)
    assert "data" not in " ".join(resolved.notes)
    assert len(resolved.notes) == (teacher == "auto")
    monkeypatch.setenv("CI", "true")
    assert resolve_auto(Request(tasks="a.toml,b.toml", teacher="mine"), False, False).data == "sample"
