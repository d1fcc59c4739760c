"""Tasks of one's own: their labels next to those of a finished classifier, and what is said of their data."""

from __future__ import annotations

import json
import re

import pandas
import pytest
import tiny
import torch
from transformers import AutoModelForSequenceClassification, BertForSequenceClassification

from bench.data.table_files import read
from bench.data.tasks import EvaluationSet, Task
from bench.errors import InputError
from bench.plan.request import Request, resolve_auto
from bench.record.store import Store
from bench.user_files import toml_of

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


@pytest.mark.slow
def test_a_saved_student_of_labels_with_blanks_is_a_row(bench, own_task, tmp_path, teacher_folder):
    """It is saved with "very bad" and was refused as "very_bad"."""
    common = [*own_task(), "--teacher", teacher_folder]
    words = ["--methods", f"finetune:{tiny.SHAPE}:start=random", "--epochs", 1, "--save-students", tmp_path / "kept"]
    done = bench("run", *words, *common)
    assert done.returncode == 0, done.stderr
    (student,) = (file.parent for file in (tmp_path / "kept").rglob("[!t]*-seed-*/config.json"))
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
    resolved = resolve_auto(Request(tasks="tickets.toml", teacher=teacher), accelerator=False, is_real=False)
    assert "data" not in " ".join(resolved.notes)
    assert len(resolved.notes) == (teacher == "auto")
    monkeypatch.setenv("CI", "true")
    assert resolve_auto(Request(tasks="a.toml,b.toml", teacher="mine"), False, False).data == "sample"


def _write_wide(file, names):
    if file.suffix == ".parquet":
        pandas.DataFrame({name: ["a"] for name in names}).to_parquet(file)
    elif file.suffix == ".jsonl":
        file.write_text(json.dumps(dict.fromkeys(names, "a")) + "\n")
    elif file.stem == "row":  # a short header above a long row
        file.write_text("text,label\n" + ",".join(names) + "\n")
    else:
        file.write_text((rows := ("\t" if file.suffix == ".tsv" else ",").join(names) + "\n") + rows)


def test_commas_in_a_text_are_no_columns(tmp_path):
    (tmp_path / "a.csv").write_text('text,label\n"' + "yes, " * 2000 + '\nno, ""no""",a\n')
    task = Task("wide", ("text",), ("a", "b"), ("accuracy",), (EvaluationSet("validation", "wide", "validation"),))
    assert len(read([tmp_path / "a.csv"], task, labelled=True)) == 1


def _own(labels=("a", "b")):
    return Task("own", ("text",), tuple(labels), ("accuracy",), (EvaluationSet("validation", "own", "validation"),))


@pytest.mark.parametrize("ending, sign", [("csv", ","), ("tsv", "\t")])
def test_words_that_mean_nothing_to_pandas_are_texts_and_labels(tmp_path, ending, sign):
    words = ["None", "NA", "null", "n/a", "nan"]
    file = tmp_path / f"a.{ending}"
    file.write_text(f"text{sign}label\n" + "".join(f"{word}{sign}{word}\n" for word in words))
    split = read([file], _own(words), labelled=True)
    assert split.first == words
    assert split.labels.tolist() == [0, 1, 2, 3, 4]


def test_a_text_that_is_not_there_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\nyes,a\n,b\n")
    with pytest.raises(InputError, match="row 1: text should be text"):
        read([tmp_path / "a.csv"], _own(), labelled=True)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("names", [(-1, 0, 1), (1, 2, 3), (1, 0)])
def test_numbers_are_the_names_of_labels_that_are_numbers(tmp_path, ending, names):
    table, file = pandas.DataFrame({"text": ["x"] * len(names), "label": names}), tmp_path / f"a.{ending}"
    write = {"csv": table.to_csv, "jsonl": lambda f: table.to_json(f, orient="records", lines=True)}
    write.get(ending, table.to_parquet)(file)
    split = read([file], _own(map(str, names)), labelled=True)
    assert split.labels.tolist() == list(range(len(names)))


@pytest.mark.parametrize(
    "ending, texts",
    [
        ("csv", "text,label\nx,True\ny,False\n"),
        ("jsonl", '{"text": "x", "label": true}\n{"text": "y", "label": false}\n'),
    ],
)
def test_truth_values_are_the_names_of_labels(tmp_path, ending, texts):
    (tmp_path / f"a.{ending}").write_text(texts)
    assert read([tmp_path / f"a.{ending}"], _own(["False", "True"]), labelled=True).labels.tolist() == [1, 0]
    with pytest.raises(InputError, match="found True"):
        read([tmp_path / f"a.{ending}"], _own(), labelled=True)


def test_ids_that_come_twice_are_the_numbers_of_the_rows(tmp_path):
    """A method finds the answers to an example by its id: as for two files that were joined."""
    (tmp_path / "a.csv").write_text("idx,text,label\n0,one,a\n1,two,b\n0,three,a\n")
    assert read([tmp_path / "a.csv"], _own(), labelled=True).ids == [0, 1, 2]
    (tmp_path / "b.csv").write_text("idx,text,label\n7,one,a\n1,two,b\n")
    assert read([tmp_path / "b.csv"], _own(), labelled=True).ids == [7, 1]


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "a.toml").write_text('name = "x"\n', encoding="utf-8-sig")
    assert toml_of(tmp_path / "a.toml", "a.toml") == {"name": "x"}
