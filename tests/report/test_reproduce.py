"""The commands that reports and pages print: they are complete, find every record of their tables, and ask for no other."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import factories
import pages
import pytest
import tiny
import torch
from conftest import SHARED

from bench.make.saved_student import scoring_again
from bench.record.cell import TEACHER, record_key
from bench.record.code import other_version
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.experiment_page import PaperTable, write_experiment
from bench.report.reproduce import commands, experiment_command, verifying
from bench.report.studies import Folder, Reads, groups, studies, study_of
from bench.report.study import Study
from bench.report.write import write_reports

ROOT = pages.ROOT
REFERENCE, MAIN_TABLE, UNTUNED = (
    Path("results/reference"),
    Path("results/h200"),
    Path("results/untuned"),
)
REVIEWS = SHARED / "extra" / "imdb" / "plain_text" / "train-00000-of-00001.parquet"


@pytest.fixture
def at_root(monkeypatch: pytest.MonkeyPatch, embedded: None) -> None:
    """Where a reader of a clone types."""
    monkeypatch.chdir(ROOT)


@pytest.fixture
def real(shared_glue: Path) -> None:
    if not REVIEWS.is_file():
        pytest.skip(
            "needs the IMDb reviews in ../shared/extra/imdb, of which the general starts were made"
        )


def in_place(words: list[str]) -> list[str]:
    """A printed command with the places of real GLUE, of questions and of the reviews, whose names alone it has."""
    folders = {"glue": SHARED / "glue", "squad": SHARED / "extra" / "squad"}
    there = {
        "--data": lambda name: str(folders.get(name, name)),
        "--corpus": lambda _: str(REVIEWS),
    }
    return [there.get(before, str)(word) for before, word in zip(["", *words], words, strict=False)]


def planned(bench, tmp_path: Path, words: list[str]) -> dict[str, str]:
    """Key of every cell that a `run` of these words asks for -> its state."""
    verb, *options = in_place(words)
    assert verb == "run"
    answer = bench("plan", *options, "--json", tmp_path / "plan.json")
    assert answer.returncode == 0, answer.stderr
    return {
        cell["key"]: cell["state"]
        for cell in json.loads((tmp_path / "plan.json").read_text())["cells"]
    }


def of_reference(real: bool) -> list[Study]:
    store = Store(REFERENCE)
    folder = Folder(store, list(store.records()))
    all_studies = [study_of(g, folder, reads=Reads.NOTHING) for g in groups(folder.records)]
    found = [g for g in all_studies if g.cell.data.slug.startswith("folder-") == real]
    assert found
    return found


def check_group(bench, tmp_path: Path, group: Study) -> None:
    """Its commands ask for its records and for nothing else; a row's keys are compared without its operating point."""
    asked: dict[str, str] = {}
    for command in commands(group):
        asked |= planned(bench, tmp_path, shlex.split(command)[3:])
    shown = {record_key(record.cell) for record in group.records if not other_version(record)}
    assert shown <= set(asked), group.title
    check_states(asked, group.records)


def check_states(asked: dict[str, str], records: Iterable[Record]) -> None:
    """All is there, but for what these records have of an older version of a method: the report says so."""
    older = {record_key(record.cell) for record in records if other_version(record)}
    assert Counter(asked.values()) == Counter(there=len(asked) - len(older)) + Counter(
        {"to do": len(older)}
    )


def test_commands_of_the_sample_suites_report_find_its_records(bench, tmp_path, at_root):
    for group in of_reference(real=False):
        check_group(bench, tmp_path, group)


@pytest.mark.slow
@pytest.mark.long
def test_commands_of_the_reports_of_real_glue_find_their_records(bench, tmp_path, at_root, real):
    for group in of_reference(real=True):
        check_group(bench, tmp_path, group)


def test_the_command_of_the_sample_suites_report_finds_its_rows(bench, tmp_path, at_root):
    typed = pages.commands((ROOT / "docs" / "results.md").read_text())
    (words,) = (
        words for words in typed if words[0] == "run" and {"sample", str(REFERENCE)} <= set(words)
    )
    asked = planned(bench, tmp_path, words)
    records = [r for r in Store(REFERENCE).records() if r.key in asked]
    check_states(asked, records)
    assert {r.called for r in records} == {
        "teacher",
        *words[words.index("--methods") + 1].split(","),
    }


def words_of(command: str) -> dict[str, str]:
    """Options and values of a command."""
    words = shlex.split(command)[4:]
    return dict(zip(words[::2], words[1::2], strict=True))


@pytest.mark.slow
def test_the_commands_of_a_gpus_table_find_its_records(bench, tmp_path, at_root, real, monkeypatch):
    """Planned as on a machine with a GPU."""
    monkeypatch.setattr(
        "bench.measure.devices.device_of", lambda name, deterministic: torch.device(name)
    )
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (80 * 10**9, 80 * 10**9))
    store = Store(UNTUNED)
    (group,) = groups(
        record for record in store.records() if record.cell.data.slug == "folder-glue"
    )
    group = study_of(group, Folder(store, list(store.records())), reads=Reads.NOTHING)
    check_group(bench, tmp_path, group)


def test_the_command_above_the_main_table_is_its_reports(at_root):
    text = (ROOT / "docs" / "results.md").read_text()
    table = next(
        table
        for table in pages.MARKED.finditer(text)
        if "reports/glue-20000-rows" in (table["report"] or "")
    )
    typed = words_of(
        shlex.join(["python", "-m", "bench", *pages.commands(text[: table.start()])[-1]])
    )
    store = Store(MAIN_TABLE)
    (group,) = groups(
        record for record in store.records() if record.cell.data.slug == "folder-glue"
    )
    group = study_of(group, Folder(store, list(store.records())), reads=Reads.NOTHING)
    own = words_of(*commands(group))
    assert set(typed.pop("--methods").split(",")) == set(own.pop("--methods").split(","))
    assert typed.items() <= own.items()
    assert own.keys() - typed.keys() == {"--epochs"}  # the recipe's


def test_each_command_asks_for_its_rows_tasks_and_seeds_alone():
    """Rows of other tasks or seeds would make a reader train what the table does not show."""
    records = [
        factories.record("kd", task, seed, 0.6) for task in ("rte", "mnli") for seed in (0, 1, 2)
    ]
    records += [factories.record("pkd", "rte", 0, 0.6)]
    records += [factories.record("tinybert", "rte", seed, 0.6) for seed in (0, 1)] + [
        factories.record("tinybert", "mnli", 0, 0.6)
    ]
    (group,) = studies(records)
    asked = [words_of(command) for command in commands(group)]
    assert [(a["--methods"], a["--tasks"], a["--seeds"]) for a in asked] == [
        ("kd", "mnli,rte", "0,1,2"),
        ("pkd", "rte", "0"),
        ("tinybert", "rte", "0,1"),
        ("tinybert", "mnli", "0"),
    ]
    for one in asked:
        assert {
            "--threads",
            "--device",
            "--results",
            "--data",
            "--teacher",
            "--recipe",
            "--epochs",
        } <= set(one)


def test_rows_whose_starts_had_other_texts_have_commands_of_their_own(tmp_path):
    """One command has one --corpus."""

    def from_text(label: str, key: str, *files: str) -> Record:
        start = {"key": key * 64, "text": {"files": list(files), "tokens": 300}}
        return factories.record(label).model_copy(update={"artefacts": {"general_start": start}})

    records = [
        from_text("kd", "a", "a.txt"),
        from_text("pkd", "b", "b.txt", "c.txt"),
        from_text("microbert", "c"),
    ]
    (group,) = groups([*records, factories.record("plain")])
    group = study_of(group, Folder(Store(tmp_path), records), reads=Reads.NOTHING)
    found = commands(group)
    assert sorted(re.findall(r"--corpus \S+|--corpus-tokens \d+", " ".join(found))) == [
        *("--corpus a.txt", "--corpus b.txt", "--corpus c.txt", "--corpus sample"),
        *["--corpus-tokens 300"] * 3,
    ]
    assert (
        sum(
            "plain" in words_of(command.replace("--corpus c.txt ", ""))["--methods"]
            for command in found
        )
        == 1
    )


def test_a_report_of_teachers_alone_names_the_command_that_makes_them():
    (group,) = studies([factories.record(TEACHER)])
    (command,) = commands(group)
    assert command.startswith("python -m bench run --only teachers --tasks rte --data ")
    assert "--methods" not in command
    assert "--seeds" not in command


def test_commands_say_where_their_records_are(tmp_path, monkeypatch):
    """Typed at the same place, `show`, `show --trace` and `verify` find what the report shows."""
    store = Store(tmp_path / "deep" / "records")
    store.write(factories.record())
    monkeypatch.chdir(tmp_path)
    (report,) = write_reports(store, tmp_path / "p")
    text = report.read_text()
    found = re.findall(r"`(python -m bench [^`]+)`", text)
    assert {command.split()[3] for command in found} == {"run", "show", "verify"}
    assert any(command.split()[4] == "--trace" for command in found)
    assert all("--results deep/records" in command for command in found)
    monkeypatch.chdir(tmp_path / "p")
    (again,) = write_reports(store, tmp_path / "q")
    assert "--results records" in again.read_text()
    assert str(tmp_path) not in again.read_text()


@pytest.mark.parametrize(("files", "typed"), [(["reviews.txt"], "reviews.txt"), ([], "sample")])
def test_an_old_start_is_of_the_text_that_a_newer_record_of_the_folder_names(
    tmp_path, files, typed
):
    """A table of old records alone asks for the corpus too, where any record of the folder knows it."""
    start = {"key": "d" * 64, "train": {"steps": 1, "tokens": 1, "seconds_own": 1.0}}
    old = factories.record("kd").model_copy(update={"artefacts": {"general_start": start}})
    text = {"text": {"files": files, "tokens": 300}}
    new = factories.record("kd", "mnli", precision="bf16").model_copy(
        update={"artefacts": {"general_start": start | text}}
    )
    store = Store(tmp_path)
    for record in (old, new):
        store.write(record)
    (group,) = groups([old])
    alone = study_of(group)
    together = study_of(group, Folder(store, list(store.records())), reads=Reads.NOTHING)
    assert "--corpus" not in commands(alone)[0]
    for command in (
        commands(together)[0],
        verifying(together),
        experiment_command(together, Path("e.toml"), "", ""),
    ):
        assert f"--corpus {typed} --corpus-tokens 300" in command


@pytest.mark.slow
def test_a_task_of_ones_own_is_named_by_its_file(bench, tmp_path, teacher_folder, monkeypatch):
    """Typed where the files are, the command finds the record; a file may have another name than its task."""
    monkeypatch.chdir(tmp_path)
    Path(teacher_folder.name).symlink_to(teacher_folder)
    rows = "sentence,label\n" + "the cat runs,positive\na dog sleeps,negative\n" * 20
    for name in ("train.csv", "dev.csv"):
        Path(name).write_text(rows)
    Path("my file.toml").write_text(
        'name = "reviews"\ntrain = "train.csv"\nvalidation = "dev.csv"\ntext = ["sentence"]\n'
        'labels = ["negative", "positive"]\nmetrics = ["accuracy"]\n'
    )
    words = [
        "--methods",
        f"finetune:{tiny.SHAPE}:start=random",
        "--tasks",
        "my file.toml",
        "--epochs",
        1,
    ]
    done = bench(
        "run", *words, "--teacher", teacher_folder, "--results", "r", "--reports", "p", "--yes"
    )
    assert done.returncode == 0, done.stderr
    (report,) = Path("p").glob("*/*/README.md")
    (command,) = re.findall(r"- command: `python -m bench (.*)`", report.read_text())
    assert set(planned(bench, tmp_path, shlex.split(command)).values()) == {"there"}, command
    (record,) = [r for r in Store(Path("r")).records() if r.cell.method != TEACHER]
    (verifying,) = re.findall(r"`python -m bench (verify KEY [^`]*)`", report.read_text())
    verified = bench(*shlex.split(verifying.replace("KEY", record.key[:10])))
    assert verified.stdout.startswith("bitwise equal"), (verifying, verified.stderr)
    without = bench("verify", record.key[:10], "--results", "r", "--teacher", teacher_folder)
    assert (without.returncode, "add --tasks FOLDER/my file.toml" in without.stderr) == (2, True), (
        without.stderr
    )
    older = factories.changed(record, data={"task_file": ""})
    assert older.key == record.key
    (group,) = studies([older])
    assert words_of(commands(group)[0])["--tasks"] == "reviews.toml"


def test_the_report_of_an_experiment_has_command_seeds_and_a_title_of_its_own(
    paper_store, tmp_path, monkeypatch
):
    """Nobody takes it for the paper's results; a record that two tables show is counted once."""
    monkeypatch.chdir(tmp_path)
    cells = [r.cell for r in factories.paper() if r.cell.tasks == ("rte",)]
    shown = (
        {record_key(cell): {} for cell in cells},
        [cell.label for cell in cells if cell.method != "teacher"],
    )
    sections = [PaperTable("one", "accuracy", *shown), PaperTable("two", "differences", *shown)]
    typed = (tmp_path / "experiments" / "e.toml", "one,two", "rte")
    (report,) = write_experiment("A paper", sections, paper_store, tmp_path / "p", False, typed)
    text = report.read_text()
    assert text.startswith("# A paper; our own runs\n")
    assert "; seeds 0, 1." in text
    (command,) = re.findall(r"- command: `(.*)`", text)
    said = words_of(command)
    assert (said["--experiment"], said["--table"], said["--tasks"]) == (
        "experiments/e.toml",
        "one,two",
        "rte",
    )
    assert (said["--seeds"], said["--results"]) == ("0,1", "results")
    done = len(
        {record_key(cell) for cell in cells}
        & {r.key for r in factories.paper() if r.status == "ok"}
    )
    assert f"- {done} records;" in text


def test_examples_in_the_help_are_complete():
    """Options that exist, and a record that is there."""
    from typer.main import get_command

    from bench.cli import app
    from bench.cli.program import with_form

    known = get_command(app).commands
    verbs = {name: verb for name, verb in known.items() if name != "store"}  # store is a group
    keys = [record.key for record in Store(ROOT / REFERENCE).records()]
    for verb in verbs.values():
        (words,) = pages.commands(f"    {verb.epilog.removeprefix('Example: ')}\n")
        name, *words = with_form(words, known)
        assert name == verb.name
        assert {w for w in words if w.startswith("--")} <= {
            name for option in verb.params for name in option.opts
        }
        if verb.name in ("show", "show --why", "verify"):
            assert len([key for key in keys if key.startswith(words[0])]) == 1


def test_the_card_of_a_kept_student_says_with_which_data_it_is_scored():
    cell = factories.record("kd").cell
    assert scoring_again(cell) == (
        "python -m bench run --methods checkpoint:THIS-FOLDER --tasks rte --data tiny-glue --teacher tiny-bert"
    )
    own = cell.data.model_copy(update={"slug": "own-reviews", "task_file": "r.toml"})
    own_cell = cell.model_copy(update={"data": own, "tasks": ("reviews",)})
    assert scoring_again(own_cell).endswith("--tasks r.toml --teacher tiny-bert")
