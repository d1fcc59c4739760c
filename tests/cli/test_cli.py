"""The command line: exit codes, one line for every mistake, never a traceback."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
import typer
from transformers import BertForSequenceClassification

ROOT = Path(__file__).resolve().parents[2]


SAMPLE = "--tasks rte --data sample --teacher embedded"
BAD_INPUT = {
    "run --methods microbrt": "did you mean 'microbert'",
    "run --tasks mrcp": "did you mean 'mrpc'",
    f"run --methods kd {SAMPLE} --augment-times 5": "--augment-times goes with --augment",
    f"run --methods kd {SAMPLE} --set batch_sise=3": "did you mean 'batch_size'",
    f"run --methods kd {SAMPLE} --data smaple": "did you mean 'sample'?",
    f"plan --methods moebert:distil.epochs=2 {SAMPLE}": "go with --recipe paper",
    f"plan --methods kd --set max_length=4096 {SAMPLE}": "reads at most",
    f"plan --methods finetune --precision tf32 --device cpu {SAMPLE}": "only CUDA has it",
    f"plan --methods kd --optimizer sgd --recipe paper {SAMPLE}": "--optimizer goes with --recipe common",
    f"plan --recipe paper --methods kd:pace=3 {SAMPLE}": "type :distil.learning_rate=",
    f"plan --recipe paper --methods kd:distil.optimizer=sgd:distil.eps=0.1 {SAMPLE}": "sgd reads no eps (0.1)",
    f"run --methods kd --results README.md {SAMPLE}": "--results README.md: that is a file; name a folder",
    "store verify --results nowhere": "no such folder",
    "run --seeds one": "whole numbers",
    "run --no-such-option": "No such option",
    "show --why abc --jobs 2": "No such option",  # it had no effect
    "rn": "No such command",
    "run --max-train-rows few": "valid int",
    "run --only students": "--only students: choose teachers or pretraining",
    "run --only teachers --methods kd --data nowhere": "--only teachers trains no rows",
    "show abc --results nowhere": "no record",
    "speed --profile --teacher ./nowhere": "no such folder",
    "run --only pretraining --methods kd --teacher README.md": "--teacher README.md: that is a file; name the folder",
    "speed --methods kd --teacher embedded --backends sdpaa": "did you mean 'sdpa'?",
    "speed --methods kd --task glue --lengths task": "--task glue: name one task",
    "check-method some/file.py:Mine": "name a module as Python imports it",
    "audit docs": "a folder; name a file in it",
    "audit paper.tex --results none": "bench: paper.tex: no such file",
}


@pytest.mark.parametrize("words", BAD_INPUT)
def test_bad_input_is_one_line_and_exit_code_2(bench, monkeypatch, words):
    monkeypatch.chdir(ROOT)
    done = bench(*words.split(" "))
    assert done.returncode == 2, done.stderr
    assert BAD_INPUT[words] in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_name_that_is_typed_wrongly_is_answered_without_torch():
    """A third party's name and a class of one's own pass; what is behind them needs torch."""
    code = (
        "import sys; from bench.cli import main\nsys.path.append('tests/plugin'); sys.modules['torch'] = None\n"
        f"for words in {[['--methods', 'shrinkbert/teacherlogits,mine:Mine,kdd'], ['--methods', 'kd,nowhere:Mine'], ['--tasks', 'rtee'], ['--data', 'smaple'], ['--precision', 'fp33']]}:\n"
        f"    sys.argv = ['bench', 'run', '--methods', 'all', '--tasks', 'rte', '--data', 'sample', '--teacher', 'embedded', *words]\n"
        "    try:\n        main()\n    except SystemExit as end:\n        assert end.code == 2\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = done.stderr.splitlines()
    for line, said in zip(
        lines,
        (
            "did you mean 'kd'",
            "No module named 'nowhere'",
            "did you mean 'rte'",
            "did you mean 'sample'",
            "fp32",
        ),
        strict=True,
    ):
        assert said in line


def test_nothing_measured_is_exit_code_4(bench, tmp_path):
    done = bench("report", "--results", tmp_path / "none")
    assert done.returncode == 4
    assert "no records" in done.stderr


def test_auto_under_ci_is_refused(bench, monkeypatch):
    monkeypatch.setenv("CI", "true")
    done = bench("run", "--tasks", "rte")
    assert done.returncode == 2
    assert "--data sample --teacher embedded" in done.stderr


@pytest.mark.slow
def test_data_shows_and_exports(bench, tmp_path):
    done = bench("data", "--data", "sample", "--tasks", "rte,mnli", "--out", tmp_path / "suite")
    assert done.returncode == 0, done.stderr
    assert "rte/train" in done.stdout
    assert "predictions only" in done.stdout
    again = bench("data", "--data", tmp_path / "suite", "--tasks", "rte,mnli")
    assert [line.split()[3] for line in again.stdout.splitlines()] == [
        line.split()[3] for line in done.stdout.splitlines()[:-1]
    ]


ROW = f"kd:{tiny.SHAPE}:start=random"


@pytest.fixture
def common(tmp_path, teacher_folder, glue_folder):
    """What every command here has."""
    return [
        "--tasks",
        "rte",
        "--data",
        glue_folder,
        "--teacher",
        teacher_folder,
        "--results",
        tmp_path / "r",
    ]


@pytest.fixture
def finished(tmp_path):
    return tiny.save_teacher(tmp_path / "finished", BertForSequenceClassification)


def without_tokenizer(folder):
    for name in ("vocab.txt", "tokenizer_config.json"):
        (folder / name).unlink()
    return folder


def other_words(folder):
    (folder / "vocab.txt").write_text(
        "\n".join([*tiny.SPECIAL, "an", "unrelated", "language"]) + "\n"
    )
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
    [
        (without_tokenizer, "no tokenizer in"),
        (other_words, "does not fit the text"),
        (shutil.rmtree, "no such folder"),
    ],
)
def test_a_finished_model_that_cannot_be_read_is_refused_by_its_own_name(
    bench, common, finished, verb, spoil, says
):
    """In the plan, and with no word about --teacher, which is another model."""
    spoil(finished)
    line = refused(bench(verb, "--methods", f"{ROW},checkpoint:{finished}", *common))
    assert line.startswith(f"bench: checkpoint:{finished}")
    assert says in line
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
    line = refused(
        bench("report", "--results", paper_store.root, "--reports", tmp_path / "p", option, where)
    )
    assert str(tmp_path / "taken") in line
