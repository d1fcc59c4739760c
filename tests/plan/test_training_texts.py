"""What the pre-training reads of a user's own tasks: their training texts, and nothing that is scored or a label."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas
import pytest
import tiny

from bench.errors import InputError
from bench.plan.build import build
from bench.plan.from_record import request_from_record
from bench.plan.plan import ArtefactPlan, Plan
from bench.plan.training_texts import MOST_PASSES, TrainingTexts
from bench.record.store import Store
from bench.request import Request

LABELS = ["meow", "woof", "tweet", "blub"]
"""Words that are in no text."""
TRAIN = tiny.split(rows=60, num_labels=4, pairs=False, seed=1)
SCORED = [f"the fish swims in the river number {row}" for row in range(12)]


def write(folder: Path, name: str = "pets", texts: list[str] | None = None, first: int = 0) -> Path:
    """A task with a validation file, whose texts are in no training row."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    texts = list(TRAIN.first) if texts is None else texts
    labels = [LABELS[(row + first) % 4] for row in range(len(texts))]
    scored = [LABELS[row % 4] for row in range(len(SCORED))]
    frame = pandas.DataFrame({"text": texts, "label": labels})
    frame.to_csv(folder / name / "train.csv", index=False)
    frame = pandas.DataFrame({"text": SCORED, "label": scored})
    frame.to_csv(folder / name / "dev.csv", index=False)
    return folder / name


def planned(tasks: object, teacher: Path, folder: Path, **more: object) -> Plan:
    asked = Request(
        methods=f"kd:{tiny.SHAPE}", tasks=str(tasks), teacher=str(teacher), results=folder / "r",
        threads=1, **{"data": "sample", **more},
    )  # fmt: skip
    return build(asked)


def start(plan: Plan) -> ArtefactPlan:
    return next(entry for entry in plan.artefacts if entry.text is not None)


def documents(plan: Plan) -> list[str]:
    text = start(plan).text
    assert text is not None
    assert isinstance(text.corpus, TrainingTexts)
    return list(text.corpus.documents)


def test_no_label_and_no_scored_text_is_read(tmp_path, teacher_folder):
    plan = planned(write(tmp_path), teacher_folder, tmp_path)
    read = documents(plan)
    assert sorted(read) == sorted(set(TRAIN.first))
    assert not set(read) & set(SCORED)
    assert not any(label in text for text in read for label in LABELS)
    (note,) = [note for note in plan.notes if "pre-training reads" in note]
    assert f"the {len(read)} training texts of pets" in note
    assert f"{MOST_PASSES:.1f} times; that is 50%" in note


def test_the_start_depends_on_the_training_texts_alone(tmp_path, teacher_folder):
    """Labels and scored texts are in no key of it."""
    key = start(planned(write(tmp_path / "a"), teacher_folder, tmp_path)).key
    other_labels = write(tmp_path / "b", first=1)
    assert start(planned(other_labels, teacher_folder, tmp_path)).key == key
    other_scored = write(tmp_path / "c")
    frame = pandas.read_csv(other_scored / "dev.csv")
    frame.head(8).to_csv(other_scored / "dev.csv", index=False)
    assert start(planned(other_scored, teacher_folder, tmp_path)).key == key
    other_text = write(tmp_path / "d", texts=["a bird sings on the tree", *TRAIN.first[1:]])
    assert start(planned(other_text, teacher_folder, tmp_path)).key != key


def test_a_search_does_not_read_what_it_holds_back(tmp_path, teacher_folder):
    plan = planned(write(tmp_path), teacher_folder, tmp_path, held_back=True)
    (task,) = plan.tasks
    held = set(task.evaluation["held-back"].first) - set(task.train.first)
    assert held
    assert not held & set(documents(plan))


def test_of_several_tasks_all_texts_are_read_in_any_order(tmp_path, teacher_folder):
    more = ["we sleep in a big house", "they run to the old tree", "you and he swim slow"] * 4
    one = write(tmp_path, "pets")
    other = write(tmp_path, "walks", [f"{text} {row}" for row, text in enumerate(more)])
    both = planned(f"{one},{other}", teacher_folder, tmp_path)
    assert len(documents(both)) == len(set(TRAIN.first)) + len(more)
    assert start(planned(f"{other},{one}", teacher_folder, tmp_path)).key == start(both).key
    # alone each begins with its own texts, and the plan of both says it
    alone = planned(one, teacher_folder, tmp_path)
    assert start(alone).key != start(both).key
    said = "a run of other files together begins otherwise, and has other records"
    assert any(said in note for note in both.notes)
    assert not any(said in note for note in alone.notes)


def test_other_texts_stay_what_they_were(tmp_path, teacher_folder):
    """A typed text, and a start that GLUE's tasks share."""
    own = write(tmp_path)
    typed = planned(own, teacher_folder, tmp_path, corpus=("sample",))
    assert not start(typed).text.corpus.tasks
    glue = str(tiny.write_glue(tmp_path / "glue", ("rte",)))
    alone = planned("rte", teacher_folder, tmp_path, data=glue)
    mixed = planned(f"rte,{own}", teacher_folder, tmp_path, data=glue)
    assert start(mixed).key == start(alone).key == start(typed).key
    assert any("does not read the texts of pets, because rte" in note for note in mixed.notes)


def test_texts_of_two_words_are_no_text_to_learn_from(tmp_path, teacher_folder):
    short = write(tmp_path, texts=[f"{word} cat" for word in tiny.WORDS[:40]])
    plan = planned(short, teacher_folder, tmp_path)
    assert not start(plan).text.corpus.tasks
    assert any("shorter than four tokens" in note for note in plan.notes)


def test_how_much_is_read(tmp_path, teacher_folder):
    plan = planned(write(tmp_path), teacher_folder, tmp_path)
    tokens = start(plan).text.corpus.total
    assert start(plan).text.budget == MOST_PASSES * tokens
    fewer = planned(write(tmp_path), teacher_folder, tmp_path, corpus_tokens=tokens)
    assert start(fewer).text.budget == tokens
    assert any("1.0 times; that is 25%" in note for note in fewer.notes)
    # of much text not all is read
    much = replace(start(plan).text.corpus, total=10_000_000)
    assert much.budget == 4_000_000


@pytest.mark.slow
def test_the_record_says_it_and_is_found_again(bench, tmp_path, teacher_folder):
    one = write(tmp_path, "pets")
    other = write(tmp_path, "birds", list(reversed(TRAIN.first)))
    typed = [
        "--teacher", teacher_folder, "--methods", f"kd:{tiny.SHAPE}", "--threads", 1,
        "--results", tmp_path / "r", "--reports", tmp_path / "p", "--yes", "--epochs", 1,
    ]  # fmt: skip
    done = bench("run", "--tasks", f"{one},{other}", *typed)
    assert done.returncode == 0, done.stderr
    records = [r for r in Store(tmp_path / "r").records() if r.row.startswith("kd")]
    assert len(records) == 2
    for record in records:
        text = record.artefacts["general_start"]["text"]
        assert text["training_texts_of"] == ["birds", "pets"]
        assert text["passes"] == pytest.approx(MOST_PASSES, rel=0.1)
    # with one of the two files the text would be another one
    alone = Request(tasks=str(one), teacher=str(teacher_folder), results=tmp_path / "r")
    with pytest.raises(InputError, match="read the training texts of birds, pets"):
        request_from_record(records[0], alone, ["tasks"])
    both = request_from_record(records[0], replace(alone, tasks=f"{one},{other}"), ["tasks"])
    assert {record.key for record in records} <= {each.key for each in build(both).cells}
    # and the report's command finds them
    pages = [page.read_text() for page in (tmp_path / "p").rglob("*.md")]
    assert any("tokens of the training texts of birds, pets, without labels" in p for p in pages)
    assert not any("--corpus sample" in page for page in pages)
