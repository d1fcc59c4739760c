"""The hub: what it gives is taken; that it stalls, breaks off, refuses or cuts a file is one line with the alternative."""

from __future__ import annotations

from pathlib import Path

import pandas
import pytest
import tiny
from local_hub import BREAKS, COMMIT, CUTS_FILES, NAME, NEWER, STALLS, STALLS_IN_FILE, served

from bench.data import checkpoints
from bench.data import hub as reading
from bench.data.corpus import read_corpus
from bench.data.hub import WAITS, downloaded
from bench.errors import InputError
from bench.plan.auto import REAL, without_auto
from bench.record.store import Store
from bench.request import Request


@pytest.fixture
def hub(teacher_folder, tmp_path, monkeypatch):
    checkpoints._from_hub.cache_clear()
    with served(teacher_folder, tmp_path / "hub cache", monkeypatch) as made:
        yield made
    checkpoints._from_hub.cache_clear()


def asked(offline: bool = False):
    return downloaded(
        NAME,
        ["config.json", "*.safetensors"],
        offline,
        f"--teacher {NAME}",
        "use --teacher embedded",
    )


def test_what_a_sound_hub_serves_is_taken_and_kept(hub, teacher_folder):
    folder = asked()
    assert folder.name == COMMIT
    assert {file.name for file in folder.iterdir()} == {"config.json", "model.safetensors"}
    assert (folder / "model.safetensors").read_bytes() == (
        teacher_folder / "model.safetensors"
    ).read_bytes()
    count = len(hub.questions)
    assert asked(offline=True) == folder
    assert len(hub.questions) == count, "offline nobody asks"


@pytest.mark.parametrize(
    "behaviour, words, tries",
    [
        ("401", "answered 401: no such repository, or a private one", 1),
        ("403", "answered 403", 1),
        ("404", "answered 404: it has no such repository", 1),
        ("429", "answered 429: too many questions", 1 + len(WAITS)),
        ("500", "answered 500; try again later", 1 + len(WAITS)),
        (STALLS, "did not answer within", 1 + len(WAITS)),
        (BREAKS, "broke off", 1 + len(WAITS)),
        (STALLS_IN_FILE, "did not answer within", 1 + len(WAITS)),
        (CUTS_FILES, "broke off", 1 + len(WAITS)),
    ],
)
@pytest.mark.slow
def test_a_hub_that_misbehaves_is_one_line_with_the_alternative(
    hub, behaviour, words, tries, monkeypatch
):
    if behaviour == STALLS_IN_FILE:  # its library tries six times, each of ours
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.1)
    hub.behaviour = behaviour
    with pytest.raises(InputError) as refused:
        asked()
    said = str(refused.value)
    assert words in said
    assert said.startswith(f"--teacher {NAME} (")
    assert said.endswith("use --teacher embedded")
    assert len(said.splitlines()) == 1
    first = next(question for question in hub.questions if "/api/" in question)
    assert hub.questions.count(first) == tries


@pytest.mark.parametrize("behaviour", ["500", BREAKS, STALLS])
def test_what_passes_by_itself_is_asked_again(hub, behaviour):
    hub.behaviour, hub.sound_after = behaviour, 1
    assert asked().name == COMMIT


def test_a_cut_file_is_never_taken_for_the_whole_one(hub, teacher_folder):
    hub.behaviour = CUTS_FILES
    with pytest.raises(InputError):
        asked()
    hub.behaviour = ""
    assert (asked() / "model.safetensors").read_bytes() == (
        teacher_folder / "model.safetensors"
    ).read_bytes()


def test_nobody_there_is_one_line_too(hub, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(InputError, match="cannot be reached"):
        asked()
    with pytest.raises(InputError, match="not downloaded before, and offline nobody asks"):
        asked(offline=True)
    with pytest.raises(InputError, match="no name of a repository"):
        downloaded("a/b/c", ["*"], False, "--teacher a/b/c", "use another")


TEXT = "hub:Salesforce/wikitext/wikitext-103-raw-v1"
PART = "the cat runs in the house and the old bird sings"


@pytest.fixture
def text_hub(tmp_path, monkeypatch):
    """A hub with a data set of two files, for runs on real data that name no text."""
    monkeypatch.setattr("bench.request.PUBLIC_TEXT", TEXT)
    folder = tmp_path / "text" / "wikitext-103-raw-v1"
    folder.mkdir(parents=True)
    for shard in range(2):
        texts = ["", f" = {shard} = \n", *[PART] * 200]
        pandas.DataFrame({"text": texts}).to_parquet(
            folder / f"train-{shard:05}-of-00002.parquet", index=False
        )
    with served(tmp_path / "text", tmp_path / "hub cache", monkeypatch) as made:
        yield made


def read_files(hub) -> set[str]:
    return {
        question.rpartition("/")[2]
        for question in hub.questions
        if question.startswith("GET") and "parquet" in question
    }


def test_only_as_much_of_a_data_set_is_read_as_the_budget_needs(text_hub):
    corpus = read_corpus([TEXT], 100)
    assert (corpus.files, read_files(text_hub)) == (
        (f"{TEXT}@{COMMIT}",),
        {"train-00000-of-00002.parquet"},
    )
    assert 800 <= sum(map(len, corpus.documents)) < 800 + len(PART)
    with pytest.raises(InputError, match=r"the hub did not give .*--corpus FILE"):
        read_corpus([TEXT], 10**6, offline=True)
    whole = read_corpus([TEXT], 10**6)
    assert len(whole.documents) == 402
    assert (
        read_corpus([f"{TEXT}@{COMMIT}"], 10**6, offline=True).fingerprint() == whole.fingerprint()
    )


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("hub:wikitext", "hub:NAME/CONFIG"),
        (f"{TEXT[:-2]}v2", "has no file wikitext-103-raw-v2/train"),
    ],
)
def test_a_data_set_that_is_not_there_is_one_line(text_hub, asked, says):
    with pytest.raises(InputError, match=says):
        read_corpus([asked], 10)


@pytest.mark.slow
def test_real_data_pre_train_on_a_public_text_unless_another_is_named(
    bench, text_hub, teacher_folder, glue_folder, tmp_path
):
    """They took generated sentences, so that the first run on real data compared with nothing."""
    common = [
        "--methods",
        f"kd:{tiny.SHAPE}",
        "--tasks",
        "rte",
        "--data",
        glue_folder,
        "--teacher",
        teacher_folder,
    ]
    common += ["--epochs", 1, "--results", tmp_path / "r", "--threads", 1]
    asked = bench("plan", *common, "--offline")
    assert (asked.returncode, len(asked.stderr.splitlines())) == (2, 1)
    assert "--corpus FILE" in asked.stderr
    assert bench("plan", *common, "--offline", "--corpus", "sample").returncode == 0
    more = ["--corpus-tokens", 300, "--reports", tmp_path / "p", "--jobs", 1]
    done = bench("run", *common, *more)
    assert done.returncode == 0, done.stderr
    (record,) = (r for r in Store(tmp_path / "r").records() if r.cell.method == "kd")
    (text,) = (made["text"] for made in record.artefacts.values() if "text" in made)
    assert text == {"files": [f"{TEXT}@{COMMIT}"], "tokens": 300, "passes": 1.0}
    said = "".join(page.read_text() for page in (tmp_path / "p").rglob("README.md"))
    assert f"--corpus {TEXT}@{COMMIT} --corpus-tokens 300" in said
    assert "2 there" in bench("plan", *common, "--corpus-tokens", 300, "--offline").stdout
    assert "to do" in bench("plan", *common, "--corpus-tokens", 300, "--corpus", "sample").stdout


def test_auto_takes_what_was_downloaded_before_where_the_hub_does_not_answer(hub, monkeypatch):
    """A compute node without a network continues the experiment that was begun with one."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr("torch.accelerator.is_available", lambda: True)
    monkeypatch.setattr("bench.plan.auto.HUB_TEACHER", NAME)
    monkeypatch.setitem(REAL, "teacher", NAME)

    def chosen(**typed) -> str:
        checkpoints._from_hub.cache_clear()
        return without_auto(Request(data="sample", **typed)).teacher

    assert chosen(offline=True) == "embedded"
    assert chosen() == NAME, "the hub answers"
    checkpoints.find(NAME)
    hub.behaviour = "500"
    assert chosen() == chosen(offline=True) == NAME
    assert checkpoints.find(NAME).folder.name == COMMIT


@pytest.mark.slow
def test_what_changes_on_the_hub_is_said_and_is_no_other_key(hub, bench, glue_folder, tmp_path):
    """The commit that was read first stays; whoever removes its file, or names another, gets the other one."""
    command = [
        "--methods",
        f"kd:{tiny.SHAPE}:start=random",
        "--tasks",
        "rte",
        "--data",
        glue_folder,
        "--epochs",
        1,
    ]
    command += ["--threads", 1, "--results", tmp_path / "r", "--teacher"]

    def planned(teacher: str, *more: str) -> str:
        checkpoints._from_hub.cache_clear()
        return bench("plan", *command, teacher, *more).stdout

    done = bench("run", *command, NAME, "--reports", tmp_path / "p", "--jobs", 1)
    assert done.returncode == 0, done.stderr
    assert [r.env["hub"] for r in Store(tmp_path / "r").records()] == [{NAME: COMMIT}] * 2
    hub.folder, hub.commit = tiny.save_teacher(tmp_path / "newer", hidden=36), NEWER
    reading._newest.cache_clear()
    printed = planned(NAME)
    assert "2 there" in printed
    (line,) = (line for line in printed.splitlines() if "has changed on the hub" in line)
    assert "has changed on the hub" not in planned(NAME, "--offline"), "offline nobody asks"
    assert "2 to do" in planned(f"{NAME}@{NEWER}")
    Path(line.rpartition("remove ")[2]).unlink()
    assert "2 to do" in planned(NAME)


def test_another_machine_fetches_the_commit_that_was_planned(hub, tmp_path, monkeypatch):
    planned = checkpoints.find(NAME)
    state = {**vars(planned), "folder": tmp_path / "not here"}
    hub.commit = NEWER
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path / "of another machine"))
    checkpoints._from_hub.cache_clear()
    there = object.__new__(checkpoints.Checkpoint)
    there.__setstate__(state)
    assert there.folder.name == COMMIT
