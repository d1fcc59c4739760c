"""Predictions of somebody else's system: whatever the form of their files, each answer meets its own example, or is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import factories
import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.analysis.written_predictions import write_predictions
from bench.data.predictions import read_predictions
from bench.data.spans import read_questions
from bench.data.table_files import Split
from bench.data.tasks import GLUE, KNOWN
from bench.errors import InputError
from bench.record.store import Store
from bench.record.task_facts import TaskFacts

SIZE = 6
SAVE = {
    "tsv": lambda table, file: table.to_csv(file, sep="\t", index=False),
    "csv": lambda table, file: table.to_csv(file, index=False),
    "jsonl": lambda table, file: table.to_json(file, orient="records", lines=True),
    "parquet": lambda table, file: table.to_parquet(file, index=False),
}


def examples(labels, ids=range(SIZE)) -> Split:
    return Split([f"text {i}" for i in range(SIZE)], None, np.array(labels), list(ids))


def read(folder, task, *splits) -> dict:
    evaluation = dict(zip([each.name for each in KNOWN[task].evaluation], splits, strict=False))
    (alone,) = read_predictions(folder, KNOWN[task], evaluation, "predictions:ours")
    return alone.logits


@given(
    answers=st.lists(st.integers(0, 2), min_size=SIZE, max_size=SIZE),
    order=st.permutations(range(SIZE)),
    form=st.sampled_from(sorted(SAVE)),
    called=st.sampled_from(["code", "name", "logits", "probabilities", "percents", "one of each"]),
    name=st.sampled_from(["index", "idx"]),
    named=st.permutations(range(SIZE)),
)
def test_every_answer_meets_its_example(
    tmp_path_factory, answers, order, form, called, name, named
):
    ids = range(SIZE) if name == "index" else named
    folder, names = tmp_path_factory.mktemp("ours"), GLUE["mnli"].labels
    scores = np.eye(3)[answers] * 4 + np.arange(3) / 10
    probabilities = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    columns = {
        "code": {"prediction": answers},
        "name": {"prediction": [names[answer] for answer in answers]},
        "logits": dict(zip(names, scores.T, strict=True)),
        "probabilities": dict(zip(names, probabilities.T.round(2), strict=True)),
        "percents": dict(zip(names, (100 * probabilities.T).round(1), strict=True)),
        "one of each": dict(zip(names, np.eye(3)[answers].T, strict=True)),
    }[called]
    labels = [names[place % 3] for place in range(SIZE)]
    table = pandas.DataFrame({name: list(ids), "label": labels, **columns}).iloc[list(order)]
    SAVE[form](table, folder / f"MNLI-m.{form}")
    got = read(folder, "mnli", examples([place % 3 for place in range(SIZE)], named))["matched"]
    assert got.argmax(1).tolist() == answers
    if called in ("probabilities", "percents"):
        np.testing.assert_allclose(np.exp(got), probabilities, atol=0.01)
    if called in ("code", "name", "one of each"):
        assert np.array_equal(got, np.eye(3)[answers]), "classes alone: no probabilities"
    if called == "logits":
        np.testing.assert_allclose(got, scores, rtol=1e-6)


def test_numbers_stay_numbers_and_each_seed_is_a_model(tmp_path):
    for seed in (7, 42):
        (tmp_path / f"seed-{seed}").mkdir()
        (tmp_path / f"seed-{seed}" / "STS-B.tsv").write_text(
            "prediction\n" + "\n".join(str(seed / 10 + i) for i in range(SIZE))
        )
    both = read_predictions(
        tmp_path, GLUE["stsb"], {"validation": examples(np.arange(SIZE) / 2)}, "predictions:ours"
    )
    assert [each.seed for each in both] == [7, 42]
    assert both[0].sha256 == both[1].sha256, "one system"
    np.testing.assert_allclose(both[1].logits["validation"][:, 0], 4.2 + np.arange(SIZE), rtol=1e-6)


RIGHT = {"index": list(range(SIZE)), "prediction": [0, 1, 0, 1, 0, 1], "label": [1, 1, 0, 0, 1, 0]}
WRONG = {
    "a row is missing": ({name: values[:-1] for name, values in RIGHT.items()}, "has 5 rows; mrpc has 6"),
    "an index twice": (RIGHT | {"index": [0, 1, 2, 3, 4, 4]}, "4 is there twice"),
    "an index of nothing": (RIGHT | {"index": [1, 2, 3, 4, 5, 6]}, "6 is none of the examples, which are 0 to 5"),
    "an index that is none": (RIGHT | {"index": [[0], [1], [2], [3], [4], [5]]}, "should be a whole number"),
    "two answers": (RIGHT | {"not_equivalent": [0.0] * 6, "equivalent": [1.5] * 6}, "row 0: prediction is not_equivalent, and equivalent has"),
    "a row of no probabilities": (
        {"not_equivalent": [0.5] * 6, "equivalent": [0.5, 0.5, 0.5, 0.5, 0.5, 1.5]},
        "row 5: most rows are probabilities, and this one sums to 2",
    ),
    "shifted by one": (RIGHT | {"label": [1, 0, 0, 1, 0, 1]}, "labels are not the task's, in 4 of 6 examples, the first for example 1"),
    "other codes": (RIGHT | {"label": [0, 0, 1, 1, 0, 1]}, "in 6 of 6 examples"),
    "no such class": (RIGHT | {"prediction": [0, 1, 0, 1, 0, 2]}, "row 5: label 2 of mrpc"),
    "not public": (RIGHT | {"prediction": [0, 1, 0, 1, 0, -1]}, "row 5: label -1"),
    "no answers": ({"index": RIGHT["index"], "answer": RIGHT["label"]}, "has no column prediction, or one for each class: "),
    "an empty cell": (RIGHT | {"prediction": [0, 1, None, 1, 0, 1]}, "row 2: prediction is empty"),
}  # fmt: skip


@pytest.mark.parametrize(("columns", "said"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_these_answers_is_refused(tmp_path, columns, said):
    (tmp_path / "mrpc.jsonl").write_text(
        "\n".join(
            json.dumps(dict(zip(columns, row, strict=True)))
            for row in zip(*columns.values(), strict=True)
        )
    )
    with pytest.raises(InputError, match=said) as refused:
        read(tmp_path, "mrpc", examples(RIGHT["label"]))
    assert "mrpc.jsonl" in str(refused.value)
    assert "\n" not in str(refused.value)


BEYOND = r"beyond what 32-bit numbers hold \(3\.4e38\)"


@pytest.mark.parametrize("number", [3.5e38, -1e39, 1e308])
def test_numbers_beyond_32_bits_are_refused_with_their_row(tmp_path, number):
    """They would be infinite in the record, and readers would set it aside."""
    first, second = GLUE["mrpc"].labels
    scores = {first: [0.0, 0.5, number, 0.2, 0.1, 0.3], second: [0.1, 0.2, 0.3, -0.4, 0.5, 0.6]}
    pandas.DataFrame(scores).to_csv(tmp_path / "mrpc.tsv", sep="\t", index=False)
    with pytest.raises(InputError, match=rf"mrpc\.tsv, row 2: a number is {BEYOND}"):
        read(tmp_path, "mrpc", examples(RIGHT["label"]))
    values = {"prediction": [0.0, 1.0, 2.0, number, 4.0, 5.0]}
    pandas.DataFrame(values).to_csv(tmp_path / "stsb.tsv", sep="\t", index=False)
    with pytest.raises(InputError, match=rf"row 3: .* is {BEYOND}"):
        read(tmp_path, "stsb", examples(np.arange(SIZE, dtype=np.float32)))


def test_the_largest_32_bit_number_is_read(tmp_path):
    largest = float(np.finfo(np.float32).max)
    values = {"prediction": [0.0, 1.0, 2.0, largest, 4.0, 5.0]}
    pandas.DataFrame(values).to_csv(tmp_path / "stsb.tsv", sep="\t", index=False)
    logits = read(tmp_path, "stsb", examples(np.arange(SIZE, dtype=np.float32)))
    assert logits["validation"][3, 0] == np.float32(largest)


def test_a_folder_without_the_task_says_what_it_has(tmp_path):
    (tmp_path / "rte.tsv").write_text("prediction\n0\n")
    with pytest.raises(
        InputError, match=r"no file of mrpc in it, like mrpc\.tsv; it has: rte\.tsv"
    ):
        read(tmp_path, "mrpc", examples(RIGHT["label"]))


def test_what_is_there_twice_or_in_two_ways_is_refused(tmp_path):
    file = "prediction\n" + "\n".join("010101")
    (tmp_path / "mrpc.tsv").write_text(file)
    (tmp_path / "MRPC.csv").write_text(file)
    with pytest.raises(InputError, match="have one name"):
        read(tmp_path, "mrpc", examples(RIGHT["label"]))
    (tmp_path / "MRPC.csv").unlink()
    for name, said in (
        ("0", "folders of seeds and files beside them"),
        ("seed-0", "are both of seed 0"),
    ):
        (tmp_path / name).mkdir()
        with pytest.raises(InputError, match=said):
            read(tmp_path, "mrpc", examples(RIGHT["label"]))
        (tmp_path / "mrpc.tsv").unlink(missing_ok=True)


def test_a_seed_without_the_task_is_left_out_and_one_with_half_of_it_is_not(tmp_path):
    """As a training that failed leaves it."""
    for seed in "01":
        (tmp_path / seed).mkdir()
    file = "prediction\n" + "\n".join("012012")
    (tmp_path / "1" / "mnli-m.tsv").write_text(file)
    splits = {name: examples([0, 1, 2, 0, 1, 2]) for name in ("matched", "mismatched")}
    with pytest.raises(InputError, match=r"no file mnli-mm\.tsv"):
        read_predictions(tmp_path, GLUE["mnli"], splits, "predictions:ours")
    (tmp_path / "1" / "mnli-mm.tsv").write_text(file)
    assert [
        each.seed for each in read_predictions(tmp_path, GLUE["mnli"], splits, "predictions:ours")
    ] == [1]


@pytest.fixture
def questions(tmp_path):
    """Two questions on one text and one without an answer, in the official form."""
    text = "The cat sat on the mat in Paris."
    asked = [
        ("b", "who ?", [(4, "cat")]),
        ("a", "where ?", [(12, "on the mat"), (26, "Paris")]),
        ("c", "why ?", []),
    ]
    qas = [
        {
            "id": name,
            "question": words,
            "answers": [{"answer_start": at, "text": right} for at, right in given],
        }
        for name, words, given in asked
    ]
    file = tmp_path / "dev.json"
    file.write_text(json.dumps({"data": [{"paragraphs": [{"context": text, "qas": qas}]}]}))
    return read_questions([file], True)


def test_answers_to_questions_are_graded_by_their_ids(tmp_path, questions):
    (tmp_path / "squad_v2.json").write_text(json.dumps({"c": "", "a": "the Paris", "b": "cat sat"}))
    (rows,) = read(tmp_path, "squad_v2", questions).values()
    assert rows[:, :3].tolist() == [[0, pytest.approx(2 / 3), -1], [1, 1, -1], [1, 1, 1]]
    assert rows[0, 3:].tolist() == [4, 11]
    assert rows[1, 3:].tolist() == [-1, -1]  # "the Paris" stands nowhere


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": "x", "b": "y"}', "has no answer to squad_v2: 1 ids, like c"),
        (
            '{"a": "x", "b": "y", "c": "", "z": ""}',
            "answers what is no question of squad_v2: 1 ids, like z",
        ),
        ('{"a": 1, "b": "y", "c": ""}', "should be a JSON object with the text of each answer"),
        ('{"a": ', "is no JSON"),
    ],
)
def test_answers_to_other_questions_are_refused(tmp_path, questions, text, says):
    (tmp_path / "squad_v2.json").write_text(text)
    with pytest.raises(InputError, match=says):
        read(tmp_path, "squad_v2", questions)


def test_classes_that_begin_like_formulas_are_written_and_read_again(tmp_path):
    """What we write shows them with an apostrophe; a spreadsheet may have saved them without it."""
    names = ("=SUM(A1)", "-", "@home", "'quoted")
    labels = np.array([0, 1, 2, 3, 0, 2])
    task = replace(KNOWN["sst2"], name="mine", labels=names)
    told = TaskFacts(form="classes", labels=names, metrics=("accuracy",))
    record = factories.record("kd", "mine").model_copy(update={"task": told})
    logits = np.eye(4, dtype=np.float32)[[0, 1, 2, 3, 1, 2]]
    arrays = {"logits.validation": logits, "labels.validation": labels}
    Store(tmp_path / "r").write(*factories.consistent(record, arrays))
    (file,), _ = write_predictions(tmp_path / "r", "kd", tmp_path / "theirs")
    written = (tmp_path / "theirs" / file).read_text()
    assert not re.search(r"(^|\t)[=@]", written, re.MULTILINE)
    for text in (written, written.replace("\t'=", "\t=").replace("\t'@", "\t@")):
        (tmp_path / "theirs" / file).write_text(text)
        evaluation = {"validation": examples(labels)}
        (read_again,) = read_predictions(tmp_path / "theirs", task, evaluation, "predictions:ours")
        np.testing.assert_array_equal(read_again.logits["validation"], logits)
