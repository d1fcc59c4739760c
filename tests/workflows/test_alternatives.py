"""One command from a file of examples to an answer: the page, the sheet, the sentence, and a model whose answers are checked."""

from __future__ import annotations

import csv
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from command import Command
from transformers import AutoTokenizer, BertForSequenceClassification

from bench.record.store import Store
from bench.workflows import time_trained

pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")
pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytestmark = pytest.mark.slow
LABELS = ("animal", "house", "river")


@pytest.fixture
def bench(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time_trained, "ROUNDS", 8)
    return Command(monkeypatch, capsys)


def sentences(count: int) -> list[str]:
    """Different texts of six words of the tiny vocabulary."""
    draw = random.Random(0)
    return sorted({" ".join(draw.choices(tiny.WORDS, k=6)) for _ in range(count)})


def write_csv(file, texts, labels):
    with file.open("w", newline="", encoding="utf-8") as opened:
        table = csv.writer(opened)
        table.writerow(["text", "label"])
        table.writerows(zip(texts, labels, strict=True))
    return file


@pytest.fixture
def tuned(tmp_path):
    """A tuned classifier, and a file whose labels are its own answers: no other model is as good."""
    folder = tiny.save_teacher(
        tmp_path / "tuned", BertForSequenceClassification, 3, layers=2, hidden=96
    )
    model = BertForSequenceClassification.from_pretrained(folder).eval()
    texts = sentences(600)
    encoded = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.normal_(std=0.2)
        # the classes are about as frequent
        model.classifier.bias -= model(**encoded).logits.mean(0)
        highest = model(**encoded).logits.topk(2)
    # those of which it is sure, so that rounding changes none
    is_sure = highest.values[:, 0] - highest.values[:, 1] > 1
    texts = [text for text, sure in zip(texts, is_sure.tolist(), strict=True) if sure]
    codes = highest.indices[is_sure, 0].tolist()
    assert min(codes.count(code) for code in range(3)) > 20
    model.config.id2label = dict(enumerate(LABELS))
    model.config.label2id = {name: code for code, name in enumerate(LABELS)}
    model.save_pretrained(folder)
    return folder, write_csv(tmp_path / "mine.csv", texts, [LABELS[code] for code in codes])


def read_sheet(file):
    with Path(file).open(newline="", encoding="utf-8") as opened:
        return {row["System"]: row for row in csv.DictReader(opened)}


def lines_of(page):
    """The Python that a page ends with."""
    return re.search(r"```python\n(.*)\n```", page, re.DOTALL)[1]


def test_a_tuned_classifier_is_quantised_and_not_distilled(bench, tuned):
    folder, file = tuned
    done = bench("choose", f"{file}:text=text:label=label", "--teacher", folder, "--quick")
    assert done.returncode == 0, done.stderr
    sentence = done.stdout.splitlines()[0]
    assert sentence.startswith("Int8 of the teacher keeps ")
    assert "distilled" in sentence
    assert sentence.endswith("One seed: no verdict about methods.")
    assert "estimate: " in done.stderr, "the plan says how long it takes"

    page = Path("reports/runs/mine/answer.md").read_text()
    assert sentence in page
    assert "F1 by class" in page
    sheet = read_sheet("reports/runs/mine/answer.csv")
    assert {"teacher", "teacher+int8", "predictions:linear (TF-IDF)", "kd"} <= sheet.keys()
    teacher = sheet["teacher"]
    assert float(teacher["acc"]) == 100
    assert float(teacher["changed (%)"]) == 0
    timed = [name for name in teacher if name.endswith(("p50", "p95"))]
    assert len(timed) >= 4
    assert all(float(teacher[name]) > 0 for name in timed)
    assert float(sheet["teacher+int8"]["MB"]) < float(teacher["MB"])

    # the exported file answers as its record, with ONNX Runtime alone
    (chosen,) = Path("chosen").iterdir()
    (said,) = re.findall(r"(\d+) of (\d+) predictions are those of the record", done.stdout)
    assert said[0] == said[1]
    code = lines_of(page).replace("a text", "the cat is old")
    answered = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answered.returncode == 0, answered.stderr
    assert answered.stdout.strip() in LABELS
    assert (chosen / "model.onnx").is_file()

    # asked again with a limit: nothing is trained, and the folder is written anew
    limit = ("--max-params", "0.001", "--metric", "accuracy")
    again = bench("choose", file, "--teacher", folder, "--quick", *limit)
    assert "nothing to do" in again.stderr
    assert again.returncode == 1
    assert again.stdout.startswith("No row fits.")
    page = Path("reports/runs/mine/answer.md").read_text()
    assert "--quick --max-params 0.001 --metric accuracy" in page
    assert "--max-params alone leaves out" in page


def test_numbers_are_answered_in_their_units(bench, tmp_path, teacher_folder):
    texts = sentences(300)
    # a price for each word
    value = {word: 500 * (place % 7) for place, word in enumerate(tiny.WORDS)}
    prices = [1000 + sum(map(value.__getitem__, text.split())) for text in texts]
    file = write_csv(tmp_path / "prices.csv", texts, [f"{price + 0.5}" for price in prices])
    done = bench("choose", file, "--teacher", teacher_folder, "--quick", "--to", "model")
    assert done.returncode == 0, done.stderr
    sheet = read_sheet("reports/runs/prices/answer.csv")
    assert float(sheet["predictions:linear (TF-IDF)"]["Spearman"]) > 50
    assert -100 <= float(sheet["teacher"]["R2"]) <= 100
    assert 0 < float(sheet["predictions:linear (TF-IDF)"]["mean absolute error"]) < 3000
    assert "F1 by class" not in Path("reports/runs/prices/answer.md").read_text()
    assert "predictions are those of the record" in done.stdout
    (record,) = (r for r in Store(Path("results/runs")).records() if r.cell.method == "predictions")
    answers = Store(Path("results/runs")).predictions(record)["logits.validation"]
    assert np.median(answers) > 1000

    # the folder of another model is not overwritten
    Path("model/record.txt").write_text("another\n")
    again = bench("choose", file, "--teacher", teacher_folder, "--quick", "--to", "model")
    assert (again.returncode, "is there already" in again.stderr) == (2, True)


@pytest.mark.parametrize(
    "words, says",
    [
        (["nowhere.csv"], "nowhere.csv"),
        (["{file}", "--quick", "--full"], "--quick and --full"),
        (["{file}", "--tasks", "rte"], "--tasks"),
        (["{file}", "--max-mb", "-1"], "--max-mb"),
        (["{file}", "--min-retain", "0.97"], "--min-retain"),
        (["{file}", "--teacher", "nowhere"], "nowhere"),
        (["{file}:label=price"], "price"),
        (["{file}", "--metric", "spearman"], "spearman"),
        (["rte"], "rte"),
        (["{file},{file}:name=other"], "one file"),
        (["--quick"], "--quick goes with a file"),
        (["{file}", "--to", "."], "is there already"),
    ],
)
def test_bad_input_is_named_before_anything_is_trained(bench, tmp_path, words, says):
    file = write_csv(tmp_path / "mine.csv", sentences(60), ["yes", "no"] * 30)
    typed = [word.format(file=file) for word in words]
    done = bench("choose", *typed)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("bench: ") or "\nbench: " in done.stderr
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(Path("results").rglob("*.json"))
