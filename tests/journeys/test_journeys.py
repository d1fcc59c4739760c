"""Stories of a user, typed as commands from beginning to end. Each asserts what the user gets, not how it is said."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pages
import pandas
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForSequenceClassification,
)

import bench as installed
from bench.data.table_files import Split
from bench.errors import BAD_INPUT, CHECK_FAILED, OK
from bench.record.cell import TEACHER
from bench.record.store import Store

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
LABELS = ["very bad", "so so", "very good"]
ANIMALS = ["cat", "dog", "bird"]
"""Which class a sentence has: the animal in it decides."""
SMALL = "layers=1:hidden=64:heads=4:ffn=64:start=random"


@pytest.fixture(autouse=True)
def _in_a_folder_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    yield
    sys.modules.pop("mine", None)
    sys.path[:] = [entry for entry in sys.path if entry != str(tmp_path)]


def reviews(train: int, dev: int, labels: list[str] = LABELS) -> list[tuple[str, str]]:
    """A task of one's own in the current folder: two CSV files and a TOML file; returns the examples of the dev file."""
    draw = random.Random(0)
    for name, rows in (("train", train), ("dev", dev)):
        examples = []
        for _ in range(rows):
            label = draw.randrange(len(labels))
            rest = ", ".join(
                draw.choices(["red", "blue", "old", "young", "in the house", "on the tree"], k=3)
            )
            examples.append((f"the {ANIMALS[label]} is {rest} .", labels[label]))
        with open(f"{name}.csv", "w", newline="") as file:
            csv.writer(file).writerows([("sentence", "label"), *examples])
    Path("reviews.toml").write_text(
        f'name = "reviews"\ntrain = "train.csv"\nvalidation = "dev.csv"\ntext = ["sentence"]\n'
        f'labels = {json.dumps(labels)}\nmetrics = ["accuracy", "macro_f1"]\n'
    )
    return examples


def classifier_of_ones_own(examples: list[tuple[str, str]]) -> Path:
    """A folder as a user has it: a BERT that plain transformers has fine-tuned on the task."""
    folder = tiny.save_teacher(
        Path("classifier"), BertForSequenceClassification, num_labels=len(LABELS), layers=4
    )
    model, tokenizer = BertForSequenceClassification.from_pretrained(folder), tiny.tokenizer(folder)
    codes = torch.tensor([LABELS.index(label) for _, label in examples])
    batch = tokenizer([text for text, _ in examples], padding=True, return_tensors="pt")
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(30):
        model(**batch, labels=codes).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.config.id2label, model.config.label2id = (
        dict(enumerate(LABELS)),
        {name: i for i, name in enumerate(LABELS)},
    )
    model.save_pretrained(folder)
    return folder


def logits(folder: Path, texts: list[str]) -> tuple[np.ndarray, dict[int, str]]:
    """What plain transformers answers, and the names of the classes."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    batch = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        return model(**batch).logits.numpy(), model.config.id2label


def table(folder: str, name: str) -> dict[str, list[str]]:
    """The lines of the only table of this name below a folder of reports, by the row's name."""
    (file,) = Path(folder).rglob(f"{name}.csv")
    with file.open(newline="") as lines:
        return {line[0]: line[1:] for line in csv.reader(lines)}


def test_a_classifier_without_its_head(bench):
    """Its head was lost as it was saved: no plan and no run takes it, as a teacher or as a row. One whose names have a prefix is
    mended by the command that the message names, and then scored as plain transformers scores it."""
    examples = reviews(train=60, dev=60)
    whole = classifier_of_ones_own(examples)
    weights = load_file(whole / "model.safetensors")
    encoder = {name: value for name, value in weights.items() if "classifier" not in name}
    headless, wrapped = Path("headless"), Path("wrapped")
    for folder, tensors in (
        (headless, encoder),
        (wrapped, {f"module.{name}": value for name, value in weights.items()}),
    ):
        shutil.copytree(whole, folder)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    words = ["--tasks", "reviews.toml", "--threads", 1]
    for asked in (
        ["--teacher", headless, "--methods", f"kd:{SMALL}"],
        ["--teacher", whole, "--methods", f"checkpoint:{headless}"],
    ):
        for verb in ("plan", "run"):
            done = bench(verb, *asked, *words)
            assert done.returncode == BAD_INPUT
            assert "classifier.weight" in done.stderr
            assert "BertForSequenceClassification" in done.stderr
    assert not Path("results").exists(), "nothing is half written"

    done = bench("run", "--teacher", whole, "--methods", f"checkpoint:{wrapped}", *words)
    assert done.returncode == BAD_INPUT
    assert "all names begin with 'module.'" in done.stderr
    command = re.search(r"python -m bench (export --convert \S+ --to) NEW-FOLDER", done.stderr)
    assert command
    assert bench(*command[1].split(), "mended").returncode == OK
    done = bench("run", "--teacher", whole, "--methods", "checkpoint:mended", *words)
    assert done.returncode == OK, done.stderr
    answers, _ = logits(whole, [text for text, _ in examples])
    store = Store(Path("results/runs"))
    for record in store.records():
        kept = store.predictions(record)["logits.validation"]
        assert answers == pytest.approx(kept, abs=1e-4)


OPPOSITE = """

def opposite(temperature, weight):
    from methods.core import losses
    from methods.core.terms import soft

    return soft(lambda ours, theirs: losses.soft_kl_batchmean(ours, -theirs, temperature), weight)
"""
"""A mistake in a method: students learn the opposite of their teacher's soft labels."""


def mine(with_a_mistake: bool = False) -> None:
    """The method of docs/contract.md as a file of one's own."""
    code = pages.python_of("contract.md", "class Mine")
    assert "softened(" in code, "the mistake is made there"
    Path("mine.py").write_text(
        code.replace("softened(", "opposite(") + OPPOSITE if with_a_mistake else code
    )


def test_own_classifier_and_own_files(bench):
    """A table, and a student that plain transformers opens and that answers as its record says."""
    examples = reviews(train=200, dev=90)
    classifier = classifier_of_ones_own(examples)
    words = [
        "--methods",
        "theseus,distilbert",
        "--tasks",
        "reviews.toml",
        "--teacher",
        classifier,
        "--epochs",
        8,
    ]
    done = bench("run", *words, "--threads", 1, "--save-students", "students", "--latex")
    assert done.returncode == OK, done.stderr

    texts, truth = [text for text, _ in examples], [label for _, label in examples]
    records = {record.key: record for record in Store(Path("results/runs")).records()}
    (teacher,) = [record for record in records.values() if record.cell.method == TEACHER]
    answers, names = logits(classifier, texts)
    right = np.mean([names[i] == label for i, label in zip(answers.argmax(1), truth, strict=True)])
    assert teacher.scores["validation"]["accuracy"] == pytest.approx(right), (
        "the classifier is the teacher as it is"
    )
    assert right > 0.6

    folders = [path.parent for path in Path("students").rglob("config.json")]
    assert len(folders) == 2
    printed = table("reports/runs", "accuracy")
    for folder in folders:
        record = records[json.loads((folder / "config.json").read_text())["bert_bench"]["record"]]
        answers, names = logits(folder, texts)
        stored = Store(Path("results/runs")).predictions(record)["logits.validation"]
        assert answers == pytest.approx(stored, abs=1e-4)
        assert [names[i] for i in range(3)] == LABELS
        right = 100 * np.mean(
            [names[i] == label for i, label in zip(answers.argmax(1), truth, strict=True)]
        )
        assert float(printed[record.row][0]) == pytest.approx(right, abs=0.01)


def test_a_method_in_a_file(bench):
    """It is checked, trained by two workers with an ablation and two seeds, and comes out as LaTeX and as a DataFrame."""
    mine()
    shape = SMALL.removesuffix(":start=random")
    assert bench("check-method", f"mine:Mine:{shape}").returncode == OK
    data, teacher = tiny.write_glue(Path("glue"), ("rte",)), tiny.save_teacher(Path("teacher"))
    row = f"mine:Mine:{SMALL}"
    words = ["--methods", f"finetune:{SMALL},{row},{row}:-cls", "--tasks", "rte", "--seeds", "0,1"]
    done = bench(
        "run",
        *words,
        "--data",
        data,
        "--teacher",
        teacher,
        "--yes",
        "--epochs",
        1,
        "--jobs",
        2,
        "--latex",
    )
    assert done.returncode == OK, done.stderr

    frame = installed.load("results/runs").query("headline")
    scores = frame[frame["method"] != TEACHER].groupby("row")["score"].agg(["mean", "count"])
    ablation = [name for name in scores.index if name.endswith(":-cls")]
    assert len(scores) == 3
    assert len(ablation) == 1
    assert (scores["count"] == 2).all()
    (latex,) = Path("reports/runs").rglob("accuracy.tex")
    # a long name may be broken behind a setting
    lines = latex.read_text().replace(r"\hspace{0pt}", "").splitlines()
    for name, score in scores["mean"].items():
        row = str(name).replace("_", r"\_")
        (line,) = [line for line in lines if f"{row} &" in line]
        assert f"{score:.1f}" in line, (name, score)


def data_set_of_the_hub(folder: str) -> list[tuple[str, int]]:
    """A folder as the hub has it: two shards, a validation file, and the class once more in words.

    The texts say nothing of the class. Returns the training examples.
    """
    draw = random.Random(0)
    words = ["red", "blue", "old", "young", "house", "tree", "runs", "sleeps"]
    rows = []
    for _ in range(500):
        label = draw.randrange(2)
        text = " ".join(["the", *draw.choices(words, k=9)])
        rows.append({"text": text, "label": label, "label_text": ["negative", "positive"][label]})
    names = ["train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001"]
    parts = [rows[:120], rows[120:300], rows[300:]]
    Path(folder, "data").mkdir(parents=True)
    for name, part in zip(names, parts, strict=True):
        pandas.DataFrame(part).to_parquet(Path(folder, "data", f"{name}.parquet"))
    return [(row["text"], row["label"]) for row in rows[:300]]


def test_a_folder_of_the_hub_with_the_class_in_words(bench):
    """The class in words is no text, all shards are read, and the validation file is scored."""
    examples = data_set_of_the_hub("films")
    done = bench("data", "--tasks", "films", "--data", "sample")
    assert done.returncode == BAD_INPUT, done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert "label_text" in done.stderr
    assert ":text=text" in done.stderr

    shard = Path("films/data/train-00001-of-00002.parquet")
    shard.rename("elsewhere.parquet")
    done = bench("data", "--tasks", "films:text=text", "--data", "sample")
    assert done.returncode == BAD_INPUT
    assert shard.name in done.stderr
    Path("elsewhere.parquet").rename(shard)

    teacher = tiny.save_teacher(Path("teacher"))
    words = ["--methods", f"finetune:{SMALL}", "--tasks", "films:text=text", "--teacher", teacher]
    done = bench("run", *words, "--data", "sample", "--epochs", 5, "--threads", 1, "--yes")
    assert done.returncode == OK, done.stderr
    said = done.stdout + done.stderr
    assert "trained on 300 rows of train-00000-of-00002.parquet and train-00001-of-0" in said
    assert "scored on 200 rows of validation-00000-of-00001.parquet" in said
    (student,) = [r for r in Store(Path("results/runs")).records() if r.cell.method != TEACHER]
    assert student.cell.data.rows == {"train": 300, "validation": 200}
    texts = [text for text, _ in examples]
    one_file = Split(texts, None, np.array([label for _, label in examples]), range(300))
    assert student.cell.data.train == one_file.fingerprint(), "every row, in the shards' order"
    assert student.scores["validation"]["accuracy"] < 0.7, "the texts say nothing of the class"


def test_one_table_of_a_papers_experiment(bench):
    """All of PKD's tables are planned; one of them is trained, with the paper's settings for its task."""
    data = tiny.write_glue(Path("glue"), ("cola", "sst2", "mrpc", "qqp", "mnli", "qnli", "rte"))
    teacher = tiny.save_teacher(Path("teacher"), layers=12)  # as deep as the paper's
    file = ROOT / "methods" / "experiments" / "pkd.toml"
    words = ["--experiment", file, "--data", data, "--teacher", teacher]
    assert bench("plan", *words).returncode == OK
    assert not Path("results").exists(), "a plan trains nothing"
    table_of_two_rows = [
        "--table",
        "skip and last",
        "--tasks",
        "mrpc",
        "--seeds",
        0,
        "--max-train-rows",
        16,
    ]
    done = bench("run", *words, *table_of_two_rows, "--yes")
    assert done.returncode == OK, done.stderr

    students = [r for r in Store(Path("results/runs")).records() if r.cell.method != TEACHER]
    settings = {r.cell.settings["map"]: r.cell.settings for r in students}
    assert settings["skip"]["alpha"] == 0.7, "as the authors' pkd_6layer_mean.csv has it for mrpc"
    assert settings["last"]["beta"] == 10.0, (
        "as the authors' pkd_6layer_last_mean.csv has it for mrpc"
    )
    lines = table("reports/runs", "skip-and-last")
    skip, last = (
        next(r for r in students if r.cell.settings["map"] == which) for which in ("skip", "last")
    )
    difference = 100 * (last.scores["validation"]["f1"] - skip.scores["validation"]["f1"])
    assert any(
        cell and float(cell) == pytest.approx(difference, abs=0.06) for cell in numbers(lines)
    )
    pages = [page.read_text() for page in Path("reports/runs").rglob("README.md")]
    assert any("Expected beside the printed numbers: a little lower" in page for page in pages)


def numbers(lines: dict[str, list[str]]) -> list[str]:
    return [
        cell for line in lines.values() for cell in line if re.fullmatch(r"[+-]?\d+\.\d+", cell)
    ]


@pytest.mark.long
def test_a_gate_finds_a_planted_regression(bench, monkeypatch):
    """An edit of the method that ruins it is found; the unchanged method passes."""
    teacher = classifier_of_ones_own(reviews(train=256, dev=300))
    row = f"mine:Mine:{SMALL}:pace=20"
    words = [
        "run",
        "--methods",
        row,
        "--tasks",
        "reviews.toml",
        "--teacher",
        teacher,
        "--epochs",
        3,
    ]
    words += ["--threads", 1, "--yes"]
    mine()
    assert bench(*words, "--results", "before").returncode == OK
    gate = ["check", "--baseline", "before", "--methods", row, "--tasks", "reviews", "--seeds", 0]
    done = bench(*gate, "--results", "before")
    assert done.returncode == OK, done.stderr

    mine(with_a_mistake=True)
    # what the method prepared before is other code's
    monkeypatch.setenv("BERT_BENCH_CACHE", "cache of the gate")
    after = ["--results", "after"]
    # this one knows the method as it was
    process = started([*words, *after], [*gate, *after, "--summary", "summary.md"])
    said = process.communicate(timeout=300)[1]
    assert process.returncode == CHECK_FAILED, said
    assert len(list(Store(Path("after")).records())) == 2, "the run before it ended well"
    assert "mine:Mine" in Path("summary.md").read_text()


def started(*commands: list[object]) -> subprocess.Popen[str]:
    """Commands one after the other in a process of their own, which ends as the last of them or the first that fails does."""
    code = (
        "import sys\nfrom bench.cli import main\n"
        f"for words in {[[str(word) for word in words] for words in commands]}:\n"
        "    sys.argv = ['bench', *words]\n"
        "    try:\n        main()\n    except SystemExit as end:\n        code = end.code\n"
        "    if code:\n        sys.exit(code)\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    words, pipe = [sys.executable, "-c", code], subprocess.PIPE
    return subprocess.Popen(
        words, env=environment, stderr=pipe, stdout=subprocess.DEVNULL, text=True
    )


@pytest.mark.long
def test_two_runners_and_a_kill_on_one_store(bench):
    """One of two runs is killed in the middle: the other one finishes all, and no cell is trained twice."""
    words = [
        "run",
        "--methods",
        f"finetune:{SMALL},kd:{SMALL}",
        "--tasks",
        "rte",
        "--seeds",
        "0,1,2,3,4,5",
    ]
    words += [
        "--data",
        tiny.write_glue(Path("glue"), ("rte",)),
        "--teacher",
        tiny.save_teacher(Path("teacher")),
    ]
    words += ["--epochs", 60, "--threads", 1, "--jobs", 1, "--yes"]
    runs = [started(words) for _ in range(2)]
    store = Store(Path("results/runs"))
    try:
        end = time.monotonic() + 300
        while not any(record.cell.method != TEACHER for record in store.records()):
            assert time.monotonic() < end
            time.sleep(0.1)
        runs[0].kill()
        before = {record.key: record.finished for record in store.records()}
        said = runs[1].communicate(timeout=300)[1]
    finally:
        for run in runs:
            run.kill()
            run.communicate()
    assert len(before) < 13, "it was killed in the middle"
    assert runs[1].returncode == OK, said
    records = {record.key: record for record in store.records()}
    assert len(records) == 13, "a teacher, and two rows of six seeds"
    assert {key: records[key].finished for key in before} == before, "nothing was lost"
    assert all(len(store.attempts(record)) == 1 for record in records.values()), (
        "each cell was trained once"
    )
    assert all(store.has_predictions(record) for record in records.values())
    assert bench(*words).returncode == OK
    assert {r.key: r.finished for r in store.records()} == {
        k: r.finished for k, r in records.items()
    }, "nothing to do"
