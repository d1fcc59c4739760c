"""A task named by its data alone: what is read off a file or a data set of the hub, and what is refused in one line."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas
import pytest
import tiny
from transformers import BertForSequenceClassification

from bench.data import label_kinds
from bench.data.encoding import encode
from bench.data.own_tasks import expand
from bench.data.sources import source_for
from bench.data.table_files import Split
from bench.errors import InputError
from bench.plan.build import build
from bench.record.store import Store
from bench.request import Request
from bench.workflows.backends import batches_of

ROWS = {
    "title": [f"title {i}" for i in range(50)],
    "body": [f"body {i}" for i in range(50)],
    "stars": [i % 3 + 1 for i in range(50)],
}


def task_of(typed):
    ((task, by_name),) = expand(str(typed))
    assert by_name
    return task


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_one_file_is_a_task_and_every_row_is_trained_on_or_scored(tmp_path, ending):
    file, table = tmp_path / f"reviews.{ending}", pandas.DataFrame(ROWS)
    {
        "csv": lambda: table.to_csv(file, index=False),
        "tsv": lambda: table.to_csv(file, index=False, sep="\t"),
        "jsonl": lambda: table.to_json(file, orient="records", lines=True),
        "json": lambda: table.to_json(file, orient="records"),
        "parquet": lambda: table.to_parquet(file),
    }[ending]()
    task = task_of(f"{file}:text=title+body:label=stars")
    assert (task.name, task.columns, task.labels) == ("reviews", ("title", "body"), ("1", "2", "3"))
    assert task.metrics[0] == "accuracy"
    assert task.file == f"reviews.{ending}:text=title+body:label=stars"  # as a command repeats it
    source = source_for(task, "hub", offline=True)
    train, scored = source.load(task, "train"), source.load(task, task.evaluation[0])
    assert len(scored) == 10
    assert sorted([*train.first, *scored.first]) == sorted(ROWS["title"])
    assert train.first == source.load(task, "train").first
    row = ROWS["title"].index(scored.first[0])
    assert scored.labels[0] == ROWS["stars"][row] - 1


def test_a_file_of_four_rows_has_no_fifth_to_score(tmp_path):
    pandas.DataFrame(ROWS).head(4).to_csv(tmp_path / "few.csv", index=False)
    task = task_of(f"{tmp_path / 'few.csv'}:text=title:label=stars")
    with pytest.raises(InputError, match="has 4 rows; scoring a fifth of them needs at least 5"):
        source_for(task, "hub", offline=True).load(task, "train")


def test_a_second_file_is_scored_and_columns_can_be_named(tmp_path):
    for name, rows in (("train", 30), ("dev", 7)):
        pandas.DataFrame(
            {"text": ["a b"] * rows, "other": ["x"] * rows, "label": [0.5 * i for i in range(rows)]}
        ).to_csv(tmp_path / f"{name}.csv", index=False)
    task = task_of(f"{tmp_path / 'train.csv'}:text=text:validation=dev.csv")
    assert task.name == tmp_path.name  # train.csv is called like its folder
    assert task.regression
    assert task.metrics == ("r2", "spearman", "pearson")
    source = source_for(task, "hub", offline=True)
    assert (len(source.load(task, "train")), len(source.load(task, task.evaluation[0]))) == (30, 7)


@pytest.mark.parametrize(
    "typed, says",
    [
        ("", "no column 'label'"),
        (":label=stars:text=nothing", "no column 'nothing'"),
        (":label=text", "50 different values"),
        (":label=stars:text=text+text", "one column of text, or two"),
        (":lable=stars", "did you mean 'label'"),
        (":label=stars:label=stars", "write label once"),
        (":label=stars:validation=gone.csv", "no file"),
        (
            ":label=stars:validation=x.csv",
            "validation names what is trained on; name another, or leave it out",
        ),
        (
            ":label=stars:name=sst2",
            "belongs to a task of this program; choose another, with :name=NAME",
        ),
        (":label=stars:name=reviews-half-dev", "choose another end"),
        (":label=stars:name=../x", "letters, digits"),
        (":label=stars:metrics=acuracy", "metric 'acuracy' is not known; did you mean 'accuracy'"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, typed, says, monkeypatch):
    monkeypatch.setattr(label_kinds, "MOST_CLASSES", 20)
    pandas.DataFrame(ROWS).rename(columns={"title": "text", "body": "text_pair"}).to_csv(
        tmp_path / "x.csv", index=False
    )
    with pytest.raises(InputError, match=says) as refused:
        expand(f"{tmp_path / 'x.csv'}{typed}")
    assert "\n" not in str(refused.value)


def test_a_word_among_decimals_makes_no_classes_of_them(tmp_path):
    scores = ["nan" if row == 30 else row + 0.5 for row in range(50)]
    pandas.DataFrame({"title": ROWS["title"], "score": scores}).to_csv(
        tmp_path / "x.csv", index=False
    )
    with pytest.raises(InputError, match="row 30: score is 'nan', but a number in most rows"):
        expand(f"{tmp_path / 'x.csv'}:label=score")
    whole = ["nan" if row == 30 else row % 5 for row in range(50)]
    pandas.DataFrame({"title": ROWS["title"], "score": whole}).to_csv(
        tmp_path / "whole.csv", index=False
    )
    with pytest.raises(InputError, match="row 30: score is 'nan'"):
        expand(f"{tmp_path / 'whole.csv'}:label=score")
    stars = pandas.DataFrame(
        {"title": ROWS["title"], "stars": ["none", "1", "2", "NA", "1.0"] * 10}
    )
    stars.to_csv(tmp_path / "stars.csv", index=False)
    assert task_of(f"{tmp_path / 'stars.csv'}:label=stars").labels == (
        "1",
        "1.0",
        "2",
        "NA",
        "none",
    )


def test_a_named_column_of_numbers_is_text_and_a_second_file_needs_the_same_columns(tmp_path):
    pandas.DataFrame({"text": [f"{i:03}" for i in range(10)], "label": [0, 1] * 5}).to_csv(
        tmp_path / "x.csv", index=False
    )
    (tmp_path / "v.csv").write_text("body,label\n1,0\n")
    task = task_of(f"{tmp_path / 'x.csv'}:text=text:validation=v.csv")
    source = source_for(task, "hub", offline=True)
    assert source.load(task, "train").first[:2] == ["000", "001"]
    with pytest.raises(
        InputError,
        match=r"v.csv has no column 'text' .*; all files of a task have the same columns",
    ):
        source.load(task, task.evaluation[0])


@pytest.mark.parametrize("label, labels", [("0.5", ""), ("yes", 'labels = ["no", "yes"]\n')])
def test_training_examples_of_one_label_are_refused(tmp_path, teacher_folder, label, labels):
    for name in ("t.csv", "v.csv"):
        (tmp_path / name).write_text("text,label\n" + f"the cat runs,{label}\n" * 12)
    metric = "accuracy" if labels else "spearman"
    (tmp_path / "one.toml").write_text(
        f'name = "one"\ntrain = "t.csv"\nvalidation = "v.csv"\ntext = ["text"]\n{labels}metrics = ["{metric}"]\n'
    )
    asked = Request(
        "kd", str(tmp_path / "one.toml"), teacher=str(teacher_folder), results=tmp_path / "r"
    )
    with pytest.raises(
        InputError, match=rf"all 12 training examples in .*t.csv have the label {label}"
    ):
        build(asked)


def test_a_data_set_of_the_hub_brings_the_names_of_its_classes(tmp_path, monkeypatch):
    import pyarrow
    import pyarrow.parquet as pq

    features = {
        "text": {"dtype": "string", "_type": "Value"},
        "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
    }
    for split, rows in (("train", 12), ("test", 4)):
        for shard in range(2):
            table = pyarrow.table(
                {
                    "text": [f"{split} {shard} {i}" for i in range(rows)],
                    "label": np.arange(rows) % 2,
                }
            )
            folder = tmp_path / "plain_text" / split
            folder.mkdir(parents=True, exist_ok=True)
            said = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
            pq.write_table(table.replace_schema_metadata(said), folder / f"000{shard}.parquet")
    monkeypatch.setattr("bench.data.hub.downloaded", lambda *args, **more: tmp_path)
    task = task_of("hub:someone/films/plain_text")
    assert (task.name, task.labels, task.columns) == ("films", ("neg", "pos"), ("text",))
    source = source_for(task, "hub", offline=True)
    assert (len(source.load(task, "train")), len(source.load(task, task.evaluation[0]))) == (24, 8)
    assert task.file == "hub:someone/films/plain_text"
    with pytest.raises(InputError, match="no configuration 'default'"):
        expand("hub:someone/plays")


@pytest.mark.parametrize(
    "truncation, kept",
    [("head", range(9)), ("tail", range(31, 40)), ("both", [0, 1, *range(33, 40)])],
)
def test_what_stays_of_a_long_text(teacher_folder, truncation, kept):
    """Of 40 words and room for 9, between [CLS] and [SEP]; a short text stays whole."""
    words = [tiny.WORDS[i] for i in range(40)]
    tokenizer = tiny.tokenizer(teacher_folder)
    # as that of a student is saved whose task has another truncation
    tokenizer.truncation_side = "left"
    split = Split([" ".join(words), "the cat"], None, None, [0, 1])
    encoded = encode(tokenizer, split, 11, truncation)
    assert tokenizer.decode(encoded.tokens[0]).split() == [
        "[CLS]",
        *(words[i] for i in kept),
        "[SEP]",
    ]
    assert [len(row) for row in encoded.segments] == [11, 4]


def long_tasks(folder):
    """A file of a task of long texts, once for each end of a text that stays."""
    rows = pandas.DataFrame({"body": ["the cat runs " * 30] * 24, "stars": ["no", "yes"] * 12})
    for name in ("t.csv", "v.csv"):
        rows.to_csv(folder / name, index=False)
    for truncation in ("head", "tail", "both"):
        (folder / "long.toml").write_text(
            'name = "long"\ntrain = "t.csv"\nvalidation = "v.csv"\ntext = ["body"]\nlabels = ["no", "yes"]\n'
            f'label = "stars"\nmetrics = ["accuracy"]\nmax_length = 40\ntruncation = "{truncation}"\n'
        )
        yield folder / "long.toml"


def test_a_task_file_says_what_stays_and_its_key_does_too(bench, tmp_path, teacher_folder):
    keys = set()
    for file in long_tasks(tmp_path):
        words = ["plan", "--methods", f"finetune:start=random:{tiny.SHAPE}", "--tasks", file]
        words += ["--teacher", teacher_folder, "--device", "cpu", "--results", tmp_path / "r"]
        done = bench(*words, "--json", tmp_path / "plan.json")
        assert done.returncode == 0, done.stderr
        keys |= {cell["key"] for cell in json.loads((tmp_path / "plan.json").read_text())["cells"]}
    assert len(keys) == 6, "a teacher and a student of each"


def test_what_a_tuned_teacher_answers_to_other_ends_of_a_text_is_kept_apart(tmp_path):
    """Its key has no recipe: outputs and what is computed from rows would be shared."""
    teacher = tiny.save_teacher(tmp_path / "tuned", BertForSequenceClassification)
    slots = set()
    for file in long_tasks(tmp_path):
        asked = {
            "methods": f"kd:{tiny.SHAPE}:start=random,moebert",
            "tasks": str(file),
            "device": "cpu",
        }
        plan = build(
            Request(**asked, teacher=str(teacher), teacher_outputs="fp32", results=tmp_path / "r")
        )
        note = "long: the labels of .* have no names; they are taken in the task's order: no, yes"
        assert any(re.fullmatch(note, said) for said in plan.notes)
        slots |= {step.slot.key for step in plan.steps.values() if step.slot is not None}
    assert len(slots) == 6, "outputs and importances of each"


def test_the_rest_of_a_long_text_is_read_by_backends_too(teacher_folder):
    tokenizer = tiny.tokenizer(teacher_folder)
    split = Split([" ".join(tiny.WORDS[:20] * 2), "the cat"], None, np.array([0, 1]), [0, 1])
    ((ids, mask),), _ = batches_of(tokenizer, split, ["input_ids", "attention_mask"], 2, 11, "tail")
    assert [row[own == 1].tolist() for row, own in zip(ids, mask, strict=True)] == [
        list(row) for row in encode(tokenizer, split, 11, "tail").tokens
    ]


@pytest.mark.slow
def test_a_task_whose_metrics_have_changed_is_scored_by_them(bench, tmp_path, teacher_folder):
    rows = {"body": ["the cat runs", "a dog sings"] * 12, "stars": [0, 1] * 12}
    for name in ("t.csv", "v.csv"):
        pandas.DataFrame(rows).to_csv(tmp_path / name, index=False)
    words = ["--tasks", tmp_path / "t.toml", "--teacher", teacher_folder]
    words += ["--results", tmp_path / "r", "--reports", tmp_path / "p"]
    for metric, row in (("accuracy", "finetune"), ("f1", "kd")):
        (tmp_path / "t.toml").write_text(
            'name = "mine"\ntrain = "t.csv"\nvalidation = "v.csv"\ntext = ["body"]\nlabels = ["0", "1"]\nlabel = "stars"\n'
            f'metrics = ["{metric}"]\n'
        )
        done = bench(
            "run",
            "--methods",
            f"{row}:{tiny.SHAPE}:start=random",
            *words,
            "--epochs",
            1,
            "--device",
            "cpu",
        )
        assert done.returncode == 0, done.stderr
    teacher, *_ = [r for r in Store(tmp_path / "r").records() if r.row == "teacher"]
    assert list(teacher.scores["validation"]) == ["f1"]
    assert bench("report", "--results", tmp_path / "r", "--reports", tmp_path / "p").returncode == 0


def test_a_plan_says_how_many_texts_are_cut(tmp_path, teacher_folder):
    for name, words in (("long", 200), ("short", 20)):
        texts = [f"{i} " + "the cat " * (words // 2) for i in range(40)]
        pandas.DataFrame({"text": texts, "label": [0, 1] * 20}).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    plan = build(
        Request(
            "kd",
            f"{tmp_path}/long.csv,{tmp_path}/short.csv",
            teacher=str(teacher_folder),
            data="sample",
        )
    )
    assert [note for note in plan.notes if "cut" in note] == [
        "long: 100 % of its texts are longer than 128 tokens and are cut (max_length)"
    ]


def test_classes_that_differ_in_blanks_or_capitals_alone_are_refused(tmp_path):
    labels = ["good", "bad", "good ", "bad"] * 10
    pandas.DataFrame({"text": ROWS["title"][:40], "label": labels}).to_csv(
        tmp_path / "x.csv", index=False
    )
    with pytest.raises(InputError, match="has 'good' and 'good ', which would be two classes"):
        task_of(f"{tmp_path}/x.csv")
