"""Which columns are taken for the text and its pair: said in one line, or asked for."""

from __future__ import annotations

import json
import random
import uuid

import pandas
import pytest

from bench.data.columns import are_named_as_a_pair
from bench.data.own_tasks import expand
from bench.errors import InputError
from bench.plan.build import build
from bench.plan.show import as_json, describe
from bench.request import Request

ROWS = 60
TEXTS = [f"the cat number {i} runs" for i in range(ROWS)]
OTHERS = [f"a dog sees cat {i}" for i in range(ROWS)]
CODES = [(i * i + i // 7) % 2 for i in range(ROWS)]


def file_of(folder, **columns):
    file = folder / "mine.jsonl"
    pandas.DataFrame(columns).to_json(file, orient="records", lines=True)
    return file


def task_of(typed):
    ((task, _),) = expand(str(typed))
    return task


WORDS = {
    "the class in words": [["negative", "positive"][code] for code in CODES],
    "finer than the class": [
        ["bad", "good"][code] + " very" * (i % 2) for i, code in enumerate(CODES)
    ],
    "a number in words": [f"class {code}" for code in CODES],
}
IDS = {
    "short": [f"u-{i}" for i in range(ROWS)],
    "uuid": [str(uuid.UUID(int=random.Random(i).getrandbits(128))) for i in range(ROWS)],
    "sha256": [f"{i:064x}" for i in range(ROWS)],
    "page": [f"https://example.org/{i}" for i in range(ROWS)],
}


@pytest.mark.parametrize("values", WORDS.values(), ids=WORDS)
@pytest.mark.parametrize("name", ["label_text", "text_pair", "reason"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_column_that_says_the_class_is_no_text_whatever_it_is_called(
    tmp_path, values, name, is_first
):
    columns = {name: values, "text": TEXTS} if is_first else {"text": TEXTS, name: values}
    file = file_of(tmp_path, **columns, label=CODES)
    with pytest.raises(
        InputError, match=f"'{name}' has one value for each label.*; add :text=text$"
    ):
        task_of(file)
    assert task_of(f"{file}:text=text").columns == ("text",)
    assert task_of(f"{file}:text={name}+text").columns == (name, "text")


@pytest.mark.parametrize("values", IDS.values(), ids=IDS)
@pytest.mark.parametrize("name", ["uid", "text2"])
def test_a_column_that_names_the_rows_is_no_text(tmp_path, values, name):
    file = file_of(tmp_path, **{name: values}, text=TEXTS, label=CODES)
    with pytest.raises(InputError, match=f"'{name}' .* seems to name the rows; add :text=text$"):
        task_of(file)
    alone = file_of(tmp_path, **{name: values}, label=CODES)
    with pytest.raises(InputError, match=f"only column of text, '{name}', .* add :text={name}"):
        task_of(alone)
    assert task_of(f"{alone}:text={name}").columns == (name,)


def test_texts_without_blanks_are_texts(tmp_path):
    """Chinese has none, and names of people are all different words."""
    chinese = [chr(0x4E00 + i) * 9 for i in range(ROWS)]
    pair = file_of(tmp_path, sentence1=chinese, sentence2=chinese[::-1], label=CODES)
    assert task_of(pair).columns == ("sentence1", "sentence2")
    names = ["Ann" + chr(97 + i % 26) * (1 + i // 26) for i in range(ROWS)]
    (tmp_path / "names").mkdir()
    assert task_of(file_of(tmp_path / "names", name=names, label=CODES)).columns == ("name",)


def test_the_only_text_may_not_be_the_class(tmp_path):
    file = file_of(tmp_path, number=range(ROWS), sentiment=WORDS["the class in words"], label=CODES)
    with pytest.raises(
        InputError, match="only column of text, 'sentiment', has one value for each"
    ):
        task_of(file)


def test_texts_that_are_not_called_like_a_pair_are_asked_for(tmp_path):
    file = file_of(tmp_path, text=TEXTS, reason=OTHERS, label=CODES)
    ways = r"add :text=text, or :text=reason, or :text=text\+reason for a pair"
    with pytest.raises(InputError, match=f"not called like a pair, .*; {ways}"):
        task_of(file)


def test_of_more_columns_the_pair_is_offered(tmp_path):
    rows = {"premise": TEXTS, "uid": IDS["short"], "hypothesis": OTHERS, "label": CODES}
    with pytest.raises(InputError, match=r"'uid' has another.*; add :text=premise\+hypothesis"):
        task_of(file_of(tmp_path, **rows))
    with pytest.raises(InputError, match="Of text are: none; add :text=COLUMN"):
        task_of(file_of(tmp_path, number=range(ROWS), label=CODES))


def test_scores_are_no_function_of_every_column(tmp_path):
    """Where each row has a label of its own, all columns follow from it: that says nothing."""
    scores = [i / 7 for i in range(ROWS)]
    task = task_of(file_of(tmp_path, sentence1=TEXTS, sentence2=OTHERS, label=scores))
    assert (task.columns, task.regression) == (("sentence1", "sentence2"), True)


@pytest.mark.parametrize(
    "names",
    [
        "sentence1 sentence2",
        "Sentence_A sentence_b",
        "premise hypothesis",
        "hypothesis premise",
        "question sentence",
        "question1 question2",
        "text text2",
        "text text_pair",
        "s1 s2",
        "first_sentence second_sentence",
        "left right",
        "query passage",
    ],
)
def test_names_of_pairs(names):
    assert are_named_as_a_pair(*names.split())


@pytest.mark.parametrize(
    "names",
    ["text label_text", "title body", "text uid", "text reason", "review sentiment"],
)
def test_names_of_no_pairs(names):
    assert not are_named_as_a_pair(*names.split())


def test_plan_run_and_data_say_what_was_taken_for_what(bench, tmp_path, teacher_folder):
    file = file_of(tmp_path, premise=TEXTS, hypothesis=OTHERS, label=CODES)
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(f"cat {i},{i}.5\n" for i in range(9)))
    (tmp_path / "scores.toml").write_text(
        'name = "scores"\ntrain = "t.csv"\nvalidation = "mine.csv"\ntext = ["text"]\n'
        'metrics = ["spearman"]\n'
    )
    (tmp_path / "mine.csv").write_text("text,label\na dog,1\nthe cat,2.5\n")
    lines = [
        "mine: text premise, pair hypothesis, label label; 2 classes (0, 1); scored by acc, F1 (of 1)",
        "scores: text text, label label; regression; scored by Spearman",
    ]
    typed = f"{file},{tmp_path / 'scores.toml'}"
    plan = build(Request("kd", typed, teacher=str(teacher_folder), data="sample"))
    assert [line.strip() for line in describe(plan).splitlines()].count(lines[0]) == 1
    assert json.loads(json.dumps(as_json(plan)))["taken"] == {
        "mine": lines[0],
        "scores": lines[1],
    }
    answer = bench("data", "--tasks", typed, "--data", "sample")
    assert [line for line in answer.stdout.splitlines() if line in lines] == lines


def test_a_data_set_of_the_hub_is_asked_for_its_text_too(tmp_path, monkeypatch):
    folder = tmp_path / "default" / "train"
    folder.mkdir(parents=True)
    rows = {"text": TEXTS, "label": CODES, "label_text": WORDS["the class in words"]}
    pandas.DataFrame(rows).to_parquet(folder / "0000.parquet")
    monkeypatch.setattr("bench.data.hub.downloaded", lambda *args, **more: tmp_path)
    with pytest.raises(InputError, match="hub:someone/films: which column is the text"):
        task_of("hub:someone/films")
    assert task_of("hub:someone/films:text=text").columns == ("text",)
