"""What a new user reads: whose fault something is, what was chosen for him, what failed, and what to type next."""

from __future__ import annotations

import shutil

import pytest
import tiny
import typer
from transformers import BertForSequenceClassification

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


def test_ctrl_c_at_a_question_starts_nothing(bench, common, monkeypatch):
    def at_the_question(*args, **kwargs):
        raise typer.Abort

    monkeypatch.setattr("bench.cli.run.asking", lambda: at_the_question)
    monkeypatch.setattr("bench.run.ASK_ABOVE_SECONDS", -1)
    answer = bench("run", "--methods", ROW, *common)
    assert (answer.returncode, answer.stderr.splitlines()[-1]) == (2, "bench: not started")


@pytest.mark.parametrize("option", ["--reports", "--json"])
def test_a_file_that_cannot_be_written_is_one_line(bench, paper_store, tmp_path, option):
    """A file stands where a folder is wanted."""
    (tmp_path / "taken").write_text("")
    where = tmp_path / "taken" if option == "--reports" else tmp_path / "taken" / "answer.json"
    line = refused(bench("report", "--results", paper_store.root, "--reports", tmp_path / "p", option, where))
    assert str(tmp_path / "taken") in line
