"""A tuned teacher with its labels in another order stops the run, with the line that mends it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
import tiny
import torch
from transformers import BertForSequenceClassification

from bench.errors import BAD_INPUT, OK
from bench.record.store import Store

ANIMALS = ("cat", "dog", "bird", "fish")
CLASSES = sorted(ANIMALS)
"""As a task read off a file has them: in the alphabet's order."""


@pytest.fixture(scope="module")
def tuned(tmp_path_factory) -> Path:
    """A classifier that is right nearly always, with the right names of its labels."""
    folder = tiny.save_teacher(
        tmp_path_factory.mktemp("tuned") / "t", BertForSequenceClassification, num_labels=4
    )
    model = BertForSequenceClassification.from_pretrained(folder)
    examples = tiny.split(rows=160, num_labels=4, pairs=False)
    read = tiny.tokenizer(folder)(list(examples.first), padding=True, return_tensors="pt")
    labels = torch.from_numpy(examples.labels)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(60):
        loss = model(**read, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (model(**read).logits.argmax(1) == labels).float().mean() > 0.95
    model.config.id2label = dict(enumerate(ANIMALS))
    model.config.label2id = {name: code for code, name in enumerate(ANIMALS)}
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def words(tmp_path, tuned) -> list[object]:
    examples = tiny.split(rows=160, num_labels=4, pairs=False)
    file = tmp_path / "animals.csv"
    with file.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["text", "label"])
        for text, code in zip(examples.first, examples.labels, strict=True):
            rows.writerow([text, ANIMALS[code]])
    typed = [
        "run",
        "--tasks",
        file,
        "--methods",
        f"kd:{tiny.SHAPE}:start=random",
        "--data",
        "sample",
    ]
    typed += ["--teacher", tuned, "--results", tmp_path / "r", "--reports", tmp_path / "p"]
    return [*typed, "--threads", 1, "--epochs", 1, "--yes"]


def rename(folder: Path, names: dict[str, str]) -> None:
    """Give the labels of a configuration other names."""
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = names
    config["label2id"] = {name: int(code) for code, name in names.items()}
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"0": "dog", "1": "cat", "2": "bird", "3": "fish"}, id="two swapped"),
        pytest.param({str(code): f"LABEL_{code}" for code in range(4)}, id="without names"),
    ],
)
def test_a_permuted_teacher_stops_the_run_and_its_message_mends_it(
    bench, words, tuned, tmp_path, wrong
):
    rename(tuned, wrong)
    refused = bench(*words)
    assert refused.returncode == BAD_INPUT
    assert "--accept-suspect-teacher" in refused.stderr
    kept = [
        record.status for record in Store(tmp_path / "r").records() if record.cell.method == "kd"
    ]
    assert kept == ["interrupted"], "nothing was trained"
    assert bench(*words, "--accept-suspect-teacher").returncode == OK
    # what the message says is what mends it
    line = re.search(r'"id2label": (\{[^}]*\})', refused.stderr).group(1)
    rename(tuned, json.loads(line))
    assert json.loads(line) == {str(code): name for code, name in enumerate(ANIMALS)}
    done = bench(*words, "--results", tmp_path / "r2")
    assert done.returncode == OK
    assert "another order" not in done.stderr
