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

from bench.data.own_tasks import expand
from bench.data.sources import source_for
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
    assert {"teacher", "teacher+int8", "linear (TF-IDF)", "kd"} <= sheet.keys()
    assert "predictions:linear" not in page
    teacher = sheet["teacher"]
    assert float(teacher["acc"]) == 100
    assert float(teacher["changed (%)"]) == 0
    timed = [name for name in teacher if name.endswith(("p50", "p95"))]
    assert not any("busy" in name for name in timed), "the same titles on every machine"
    assert "busy cores" in teacher
    of_classes = [name for name in teacher if name.startswith("F1 of ")]
    assert [name.split()[2] for name in of_classes] == sorted(LABELS)
    assert all(float(teacher[name]) == 100 for name in of_classes)
    of_encoders = [name for name in timed if not name.startswith("numpy")]
    assert len(of_encoders) >= 4
    assert all(float(teacher[name]) > 0 for name in of_encoders)
    # the linear model has its time under its own runtime alone
    linear = sheet["linear (TF-IDF)"]
    assert float(linear["numpy, 1 thread: p50 / p95 (ms) p50"]) > 0
    assert not any(linear[name] for name in of_encoders)
    assert not any(teacher[name] for name in timed if name.startswith("numpy"))
    assert float(sheet["teacher+int8"]["MB"]) < float(teacher["MB"])
    assert float(teacher["peak memory, torch (MB)"]) > 0
    assert float(sheet["teacher+int8"]["peak memory, ONNX Runtime (MB)"]) > 0
    assert not sheet["teacher+int8"]["peak memory, torch (MB)"]

    # one estimate, of everything
    assert done.stderr.count("estimate: ") == 1
    assert "behind the plan's time" not in done.stderr
    parts = done.stderr.partition("estimate: ")[2]
    assert "time and memory of 3 models" in parts
    assert "export of the chosen model" in parts

    # the exported file answers as its record, with ONNX Runtime alone
    (chosen,) = Path("chosen").iterdir()
    (said,) = re.findall(r"(\d+) of (\d+) predictions are those of the record", done.stdout)
    assert said[0] == said[1]
    code = lines_of(page).replace("a text", "the cat is old")
    answered = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answered.returncode == 0, answered.stderr
    assert answered.stdout.strip() in LABELS
    assert (chosen / "model.onnx").is_file()

    # asked again with a limit that nobody meets: nothing is trained, and the answer says so
    limit = ("--max-ms", "0.0001", "--metric", "accuracy")
    again = bench("choose", file, "--teacher", folder, "--quick", *limit)
    assert "nothing to do" in again.stderr
    assert "limits: --max-latency 0.0001" in again.stderr
    assert "estimate: " in again.stderr, "times are taken again"
    assert again.returncode == 1
    assert again.stdout.startswith("No row fits.")
    assert "--max-latency alone leaves out" in again.stdout
    page = Path("reports/runs/mine/answer.md").read_text()
    assert "--quick --max-latency 0.0001 --metric accuracy" in page
    assert "--max-latency alone leaves out" in page
    assert "model: " not in again.stdout


def test_numbers_are_answered_in_their_units(bench, tmp_path, teacher_folder):
    texts = sentences(300)
    # a price for each word
    value = {word: 500 * (place % 7) for place, word in enumerate(tiny.WORDS)}
    prices = [1000 + sum(map(value.__getitem__, text.split())) for text in texts]
    file = write_csv(tmp_path / "prices.csv", texts, [f"{price + 0.5}" for price in prices])
    done = bench("choose", file, "--teacher", teacher_folder, "--quick", "--to", "model")
    assert done.returncode == 0, done.stderr
    sheet = read_sheet("reports/runs/prices/answer.csv")
    assert float(sheet["linear (TF-IDF)"]["Spearman"]) > 50
    assert -100 <= float(sheet["teacher"]["R2"]) <= 100
    # the interval stands beside the metric that decides, and not beside another one
    for line in sheet.values():
        assert float(line["R2 low"]) <= float(line["R2"]) <= float(line["R2 high"])
    assert 0 < float(sheet["linear (TF-IDF)"]["mean absolute error"]) < 3000
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
        (["{file}", "--max-mb", "0.0001"], "nothing that is tried can be within these limits"),
        (["{file}", "--threads", "3"], "--threads 3: with a file, 1 and"),
        (["{file}", "--backend", "eager"], "--backend eager: with a file, "),
    ],
)
def test_bad_input_is_named_before_anything_is_trained(bench, tmp_path, words, says):
    file = write_csv(tmp_path / "mine.csv", sentences(60), ["yes", "no"] * 30)
    typed = [word.format(file=file) for word in words]
    done = bench("choose", *typed)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("bench: ") or "\nbench: " in done.stderr
    assert says in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("bench: ")]) == 1
    assert not list(Path("results").rglob("*.json"))


def test_what_cannot_fit_is_not_trained_and_is_named(bench, tmp_path, teacher_folder):
    """The students of four layers have 5 M parameters; the teacher and the linear model are tiny."""
    texts = sentences(200)
    labels = ["yes" if "cat" in text or "dog" in text else "no" for text in texts]
    file = write_csv(tmp_path / "mine.csv", texts, labels)
    done = bench("choose", file, "--teacher", teacher_folder, "--quick", "--max-params", "1")
    assert done.returncode == 0, done.stderr
    assert "no row: trained with one seed" in done.stderr
    assert "limits: --max-params 1" in done.stderr
    for row in ("finetune", "kd"):
        assert re.search(
            rf"{row} is left out: it needs .* M parameters, and --max-params is 1", done.stderr
        )
    rows = {record.cell.label for record in Store(Path("results/runs")).records()}
    assert rows == {"teacher", "predictions:linear (TF-IDF)"}, "they stay as references"
    page = Path("reports/runs/mine/answer.md").read_text()
    assert "kd: not trained, because it needs" in page
    assert set(read_sheet("reports/runs/mine/answer.csv")) == {
        "teacher", "teacher+int8", "linear (TF-IDF)",
    }  # fmt: skip


def test_a_group_is_on_one_side_from_the_file_to_the_answer(bench, tmp_path, teacher_folder):
    texts = sentences(200)
    customers = [f"c{row // 10}" for row in range(len(texts))]
    labels = ["yes" if "cat" in text or "dog" in text else "no" for text in texts]
    file = tmp_path / "mine.csv"
    with file.open("w", newline="", encoding="utf-8") as opened:
        table = csv.writer(opened)
        table.writerow(["text", "label", "customer"])
        table.writerows(zip(texts, labels, customers, strict=True))
    typed = f"{file}:text=text:label=label:group=customer"
    done = bench("choose", typed, "--teacher", teacher_folder, "--quick", "--max-params", "1")
    assert done.returncode == 0, done.stderr
    assert "each customer is on one side of the split" in done.stderr
    (record,) = (
        r
        for r in Store(Path("results/runs")).records()
        if r.cell.method == "teacher" and not r.point
    )
    rows = record.cell.data.rows
    assert rows["train"] + rows["validation"] == len(texts)

    # whose texts were scored, by the hashes that are kept beside the record
    arrays = Store(Path("results/runs")).predictions(record)
    scored = set(arrays["examples.validation"].tolist())
    ((task, _),) = expand(typed)
    source = source_for(task, "sample", offline=True)
    whole = source.load(task, "train"), source.load(task, task.evaluation[0])
    customer_of = dict(zip(texts, customers, strict=True))
    trained, held = ({customer_of[text] for text in split.first} for split in whole)
    assert not trained & held
    assert scored == set(whole[1].example_hashes().tolist())
