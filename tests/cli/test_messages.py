"""What a new user reads: whose fault something is, what was chosen for him, what failed, and what to type next."""

from __future__ import annotations

import inspect
import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import factories
import pytest
import tiny
import torch
import typer
from command import Answer
from transformers import BertForSequenceClassification

from bench.errors import what_to_install
from bench.make.failure import failure_of, method_line
from bench.make.work import FailedCell
from bench.plan.build import build
from bench.plan.request import Request, resolve_auto
from bench.plan.spelling import parse_one
from bench.record.cell import record_key, train_key
from bench.record.store import Store
from bench.workflows.run_summary import failure_lines
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
    request = resolve_auto(Request(**typed), accelerator=False, is_real=False)
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
    assert resolve_auto(Request(**typed), accelerator, is_real=False).notes[0].startswith(why)


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


def test_ctrl_c_at_a_question_starts_nothing(bench, common, monkeypatch):
    def at_the_question(*args, **kwargs):
        raise typer.Abort

    monkeypatch.setattr("bench.cli.run.asking", lambda: at_the_question)
    monkeypatch.setattr("bench.run.ASK_ABOVE_SECONDS", -1)
    answer = bench("run", "--methods", ROW, *common)
    assert (answer.returncode, answer.stderr.splitlines()[-1]) == (2, "bench: not started")


WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
sys.argv = ["bench", *{words}]
import bench.cli
bench.cli.main()
"""


def without(packages: set[str], *words: object) -> Answer:
    """What a command answers where some packages are not installed."""
    code = WITHOUT.format(packages=packages, words=[str(word) for word in words])
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "abc", "--results", "results/reference"),
        ("run", "--methods", "kd", "--tasks", "rte"),
        ("check-method", "kd"),
        ("speed", "--methods", "kd"),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.slow
def test_a_verb_without_torch_says_what_to_install(words):
    line = refused(without({"torch", "transformers"}, *words))
    assert "the package torch is not installed; type: " in line
    assert "-m pip install 'torch>=" in line


@pytest.mark.parametrize(
    "words",
    [("show", "nothing"), ("compare", "kd", "finetune"), ("trace", "86.6"), ("choose",)],
    ids=lambda words: words[0],
)
@pytest.mark.slow
def test_verbs_that_read_need_no_torch(tmp_path, words):
    answer = without({"torch", "transformers", "datasets", "evaluate"}, *words, "--results", tmp_path)
    assert "is not installed" not in answer.stderr
    assert "Traceback" not in answer.stderr


def test_plan_refuses_what_run_refuses(bench, common):
    for verb in ("run", "plan"):
        assert "--methods names no row" in refused(bench(verb, *common, "--methods", ""))
        line = refused(bench(verb, *common, "--methods", ROW, "--augment-times", "5"))
        assert "--augment-times goes with --augment" in line


def test_a_folder_of_records_that_is_not_there_is_named(bench, tmp_path):
    """`choose` said "no table of records; `report` shows what there is", and there was nothing."""
    answer = bench("choose", "--results", tmp_path / "nowhere")
    assert answer.returncode == 4
    assert "there is no such folder; name the folder of records with --results" in answer.stderr


def test_a_plan_makes_no_start_that_nothing_to_do_needs(bench, tmp_path, teacher_folder, glue_folder):
    """Without its records the row needs the general start; another row that begins at random does not."""
    words = ["--tasks", "rte", "--data", glue_folder, "--teacher", teacher_folder, "--results", tmp_path / "r"]
    words += ["--corpus-tokens", "2000"]
    asked = bench("plan", "--methods", f"kd:{tiny.SHAPE}", *words)
    assert "to make from 2,000 tokens" in asked.stdout
    store = Store(tmp_path / "r")
    request = Request(
        methods=f"kd:{tiny.SHAPE}",
        tasks="rte",
        data=str(glue_folder),
        teacher=str(teacher_folder),
        results=tmp_path / "r",
        corpus_tokens=2000,
        threads=1,
    )
    for planned in build(request).cells:
        record = factories.record("teacher" if planned.row is None else "kd", "rte")
        keys = {"key": record_key(planned.cell), "train_key": train_key(planned.cell)}
        store.write(record.model_copy(update={"cell": planned.cell, **keys}), {})
    there = bench("plan", "--methods", f"kd:{tiny.SHAPE}", *words)
    assert "2 there" in there.stdout
    assert "to make from" not in there.stdout
    assert "nothing to do needs it" in there.stdout


def test_an_import_that_fails_in_our_own_code_is_no_matter_of_installing():
    assert what_to_install(ModuleNotFoundError("x", name="bench.nothing")) == ""
    assert what_to_install(ModuleNotFoundError("x", name="nobody_needs_this")) == ""
    assert what_to_install(ImportError("a broken library", name="torch")) == ""
    assert "huggingface-hub" in what_to_install(ModuleNotFoundError("x", name="huggingface_hub.errors"))


def test_an_error_of_many_cells_is_said_once_with_the_cells(bench, common):
    """Four cells, one error: one line with all of them, then where the traceback is."""
    bad = f"{ROW}:temperature=1e30"
    done = bench("run", "--methods", bad, *common, "--tasks", "rte,sst2", "--seeds", "0,1")
    assert done.returncode == 6
    lines = done.stderr.splitlines()
    said = [line for line in lines if "nothing was trained yet" in line]
    (line,) = said
    spelled = parse_one(bad).label
    assert line.startswith(f"failed: rte {spelled} (seeds 0, 1), sst2 {spelled} (seeds 0, 1): ")
    command = lines[-1].split("the traceback: ")[1].split(";")[0]
    assert lines[-1].startswith("4 cells failed")
    shown = bench(*shlex.split(command)[3:])
    assert "Traceback" in json.loads(shown.stdout)["error"]["traceback"]


def test_cells_that_fail_for_other_reasons_have_their_own_lines():
    failures = [
        FailedCell("rte", "a", 0, "x", "1" * 64),
        FailedCell("rte", "b", 0, "y", "2" * 64),
        FailedCell("cola", "a", 0, "x"),
    ]
    assert failure_lines(failures, Path("r"))[:2] == ["failed: rte a, cola a: x", "failed: rte b: y"]


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


def test_a_student_that_does_not_fit_in_memory_says_what_needs_less():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50)
    assert "fewer --jobs, with --set micro_batch=8 (batches" in failure_of(caught.value, "kd").message
    assert failure_of(ValueError("a shape"), "kd").message == "a shape"


def test_a_report_of_no_folder_says_so(bench, tmp_path):
    file = tmp_path / "records.txt"
    file.write_text("")
    for place in (file, tmp_path / "nowhere"):
        done = bench("report", "--results", place)
        assert (done.returncode, f"no records in {place}: there is no such folder" in done.stderr) == (4, True)


@pytest.mark.parametrize("option", ["--reports", "--json"])
def test_a_file_that_cannot_be_written_is_one_line(bench, paper_store, tmp_path, option):
    """A file stands where a folder is wanted."""
    (tmp_path / "taken").write_text("")
    where = tmp_path / "taken" if option == "--reports" else tmp_path / "taken" / "answer.json"
    line = refused(bench("report", "--results", paper_store.root, option, where))
    assert str(tmp_path / "taken") in line


@pytest.mark.parametrize("option", ["--results", "--reports"])
def test_a_file_in_the_place_of_a_folder_is_found_before_anything_starts(bench, common, tmp_path, option):
    (tmp_path / "taken").write_text("")
    line = refused(bench("run", "--methods", ROW, *common, option, tmp_path / "taken"))
    assert line == f"bench: {option} {tmp_path / 'taken'}: that is a file; name a folder"


def test_reports_that_cannot_be_written_are_found_before_anything_starts(bench, common, tmp_path):
    (tmp_path / "taken").write_text("")
    done = bench("run", "--methods", ROW, *common, "--reports", tmp_path / "taken" / "reports")
    assert done.returncode == 2
    assert f"reports cannot be written to {tmp_path / 'taken' / 'reports'}" in done.stderr
    assert not list((tmp_path / "r").rglob("*.json"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--methods", "kd;tinybert"], "rows are separated by commas: kd,tinybert"),
        (["run", "--methods", "kd tinybert"], "rows are separated by commas: kd,tinybert"),
        (
            ["run", "--methods", "kd", "--tasks", "rte", "--data", "smaple", "--teacher", "embedded"],
            "did you mean 'sample'?",
        ),
        (["pretrain", "--methods", "kdd", "--teacher", "./nowhere"], "did you mean 'kd'?"),
        (
            ["pretrain", "--methods", "kd", "--teacher", "README.md"],
            "--teacher README.md: that is a file; name the folder",
        ),
        (
            ["profile", "--methods", "checkpoint:some/folder"],
            "checkpoint:some/folder: a finished model has no settings and no label",
        ),
        (
            ["tune", "--methods", "checkpoint:x", "--tasks", "rte", "--data", "sample"],
            "a finished model has no settings and no label",
        ),
        (["speed", "--methods", "kd", "--teacher", "embedded", "--backends", "sdpaa"], "did you mean 'sdpa'?"),
        (["speed", "--methods", "kd", "--task", "glue", "--lengths", "task"], "--task glue: name one task"),
        (["speed", "--methods", "kd", "--lengths", ","], "--lengths: give numbers of tokens"),
        (["speed", "--methods", "kd", "--backends", ""], "--backends: choose from eager"),
        (["check-method", "some/file.py:Mine"], "name a module as Python imports it"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
@pytest.mark.slow
def test_what_was_typed_wrongly_is_named_with_what_to_type(bench, monkeypatch, words, says):
    monkeypatch.chdir(ROOT)
    assert says in refused(bench(*words))


def test_a_paper_is_looked_for_before_its_records(bench, tmp_path):
    line = refused(bench("audit", tmp_path / "paper.tex", "--results", tmp_path / "none"))
    assert line == f"bench: {tmp_path / 'paper.tex'}: no such file"
    assert "a folder; name a file in it" in refused(bench("audit", tmp_path))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "students"), "--only students: choose teachers or pretraining"),
        (("--only", "pretraining", "--rerun"), "--only pretraining trains no rows: leave out --rerun"),
        (("--only", "teachers", "--experiment", "microbert.toml"), "--only and --experiment do not go together"),
        (("--only", "teachers", "--methods", "kd", "--data", "nowhere"), "--only teachers trains no rows"),
        (("--only", "teachers", "--methods", ",", "--data", "nowhere"), "--only teachers trains no rows"),
    ],
)
def test_a_part_of_a_run_that_there_is_not(bench, words, said):
    assert said in refused(bench("run", *words))


@pytest.mark.parametrize(
    ("further", "named"),
    [
        (["--results", "FOLDER"], "--results"),
        (["--row", "Ours=kd"], "--row"),
        (["page.md"], "FILE"),
        (["--only", "inference"], "--only"),
        (["--unread"], "--unread"),
        (["--markdown", "out.md"], "--markdown"),
    ],
)
def test_a_folder_of_files_is_judged_without_the_options_of_one_audit(bench, tmp_path, further, named):
    assert f"--judge goes alone: leave out {named}" in refused(bench("audit", "--judge", tmp_path, *further))


def test_earlier_names_of_verbs_work_and_are_not_shown(bench):
    shown = bench("--help").stdout
    for name in ("teacher", "pretrain", "check-paper"):
        assert f"\n  {name} " not in shown
        assert "Deprecated: use" in bench(name, "--help").stdout
