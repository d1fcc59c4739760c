"""What a new user reads: whose fault something is, what was chosen for him, what failed, and what to type next."""

from __future__ import annotations

import shutil

import pytest
import tiny
from transformers import BertForSequenceClassification

from bench.plan.request import Request, resolve_auto

ROW = f"kd:{tiny.SHAPE}:start=random"


@pytest.fixture
def common(tmp_path, teacher_folder, glue_folder):
    """What every command here has."""
    return ["--tasks", "rte", "--data", glue_folder, "--teacher", teacher_folder, "--results", tmp_path / "r"]


@pytest.fixture
def finished(tmp_path):
    return tiny.save_teacher(tmp_path / "finished", BertForSequenceClassification)


def without_tokenizer(folder):
    for name in ("vocab.txt", "tokenizer_config.json"):
        (folder / name).unlink()
    return folder


def other_words(folder):
    (folder / "vocab.txt").write_text("\n".join([*tiny.SPECIAL, "an", "unrelated", "language"]) + "\n")
    return folder


def refused(answer) -> str:
    """The one line with which a command stops before it starts."""
    assert answer.returncode == 2, answer.stderr
    (line,) = answer.stderr.strip().splitlines()
    assert "Traceback" not in line
    return line


@pytest.mark.parametrize("verb", ["plan", "run"])
@pytest.mark.parametrize(
    ("spoil", "says"),
    [(without_tokenizer, "no tokenizer in"), (other_words, "does not fit the text"), (shutil.rmtree, "no such folder")],
)
def test_a_finished_model_that_cannot_be_read_is_refused_by_its_own_name(bench, common, finished, verb, spoil, says):
    """In the plan, and with no word about --teacher, which is another model."""
    spoil(finished)
    line = refused(bench(verb, "--methods", f"{ROW},checkpoint:{finished}", *common))
    assert line.startswith(f"bench: checkpoint:{finished}")
    assert says in line
    assert "--teacher" not in line


@pytest.mark.parametrize("name", ["someone/something", "./nowhere"])
def test_a_given_start_that_is_not_there_is_named(bench, common, name):
    line = refused(bench("plan", "--methods", f"tinybert:{tiny.SHAPE}:start_from={name}", *common))
    assert line.startswith(f"bench: start_from={name}: ")
    assert "--teacher" not in line


def test_a_teacher_without_a_tokenizer_is_refused_by_its_folder(bench, common, tmp_path):
    folder = without_tokenizer(tiny.save_teacher(tmp_path / "teacher"))
    line = refused(bench("plan", "--methods", ROW, *common, "--teacher", folder))
    assert line.startswith(f"bench: --teacher {folder}: no tokenizer in {folder}")


@pytest.mark.parametrize(
    ("typed", "chose", "said", "type_"),
    [
        ({}, ("sample", "embedded"), "chose data sample and teacher embedded", "--data hub --teacher bert-base-uncased"),
        ({"data": "glue"}, ("glue", "embedded"), "data glue was typed; there is no accelerator, so auto chose teacher embedded.",
         "type --teacher bert-base-uncased"),
        ({"teacher": "mine"}, ("sample", "mine"), "teacher mine was typed; there is no accelerator, so auto chose data sample.",
         "type --data hub"),
    ],
)  # fmt: skip
def test_auto_says_what_was_typed_and_what_it_chose(typed, chose, said, type_):
    request = resolve_auto(Request(**typed), accelerator=False, hub_answers=False)
    assert (request.data, request.teacher) == chose
    (note,) = request.notes
    assert said in note
    assert note.endswith(type_)


@pytest.mark.parametrize(
    ("typed", "accelerator", "why"),
    [
        ({"device": "cpu"}, False, "--device cpu was typed"),
        ({"offline": True}, True, "--offline was typed"),
        ({}, True, "the hub does not answer"),
        ({}, False, "there is no accelerator"),
    ],
)
def test_auto_gives_the_reason_that_holds(typed, accelerator, why):
    assert resolve_auto(Request(**typed), accelerator, hub_answers=False).notes[0].startswith(f"{why}, so auto chose")
