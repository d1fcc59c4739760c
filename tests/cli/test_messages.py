"""What a new user reads: whose fault something is, what was chosen for him, what failed, and what to type next."""

from __future__ import annotations

import inspect
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny
import torch
from transformers import BertForSequenceClassification

from bench.make.failure import method_line
from bench.record.store import Store
from methods.kd import KD
from methods.losses import hidden_cosine_tokenmean

ROOT = Path(__file__).resolve().parents[2]

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


def heeds_ctrl_c() -> None:
    """A shell lets what it starts in the background ignore the signal, and all that is started from there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
def test_ctrl_c_says_what_is_kept_and_what_to_type(tmp_path, finished, glue_folder):
    """A real process that gets a real signal in the middle of a training."""
    words = [sys.executable, "-m", "bench", "run", "--methods", ROW, "--tasks", "rte", "--data", str(glue_folder)]
    words += ["--teacher", str(finished), "--epochs", "9000", "--results", str(tmp_path / "r"), "--yes"]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=heeds_ctrl_c) as running:
        until = time.monotonic() + 300
        while not any((tmp_path / "r").rglob("current")) and running.poll() is None and time.monotonic() < until:
            time.sleep(0.2)  # the teacher is scored first; the student is next
        time.sleep(1.0)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=300)[1]
    assert running.returncode == 130, said
    assert "Traceback" not in said, said
    last = said.splitlines()[-1]
    assert last.startswith("bench: interrupted; what was finished is kept. Run the same command again")
    kept = {record.cell.method: record.status for record in Store(tmp_path / "r").records()}
    assert kept in ({"teacher": "ok"}, {"teacher": "ok", "kd": "interrupted"})


@pytest.mark.parametrize(
    ("do", "place"),
    [
        (
            lambda: hidden_cosine_tokenmean(torch.zeros(2, 3), torch.zeros(2, 4)),
            "methods/losses.py, line {}, in hidden_cosine_tokenmean",
        ),
        (lambda: KD(temperature=-1.0), ""),
        (lambda: torch.zeros(2) + torch.zeros(3), ""),
    ],
    ids=["a shape that does not fit", "a message that says what to type", "not in a method"],
)
def test_an_error_names_the_deepest_line_of_the_method(do, place):
    """The lines of torch below it are not its author's to mend."""
    with pytest.raises((RuntimeError, ValueError)) as caught:
        do()
    line = inspect.getsourcelines(hidden_cosine_tokenmean)[1]
    found = method_line(caught.value, "kd")
    assert found in {place.format(line + further) for further in range(8)}


@pytest.mark.parametrize("option", ["--reports", "--json"])
def test_a_file_that_cannot_be_written_is_one_line(bench, paper_store, tmp_path, option):
    """A file stands where a folder is wanted."""
    (tmp_path / "taken").write_text("")
    where = tmp_path / "taken" if option == "--reports" else tmp_path / "taken" / "answer.json"
    line = refused(bench("report", "--results", paper_store.root, "--reports", tmp_path / "p", option, where))
    assert str(tmp_path / "taken") in line
