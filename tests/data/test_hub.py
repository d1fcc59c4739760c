"""The hub: what it gives is taken; that it stalls, breaks off, refuses or cuts a file is one line with the alternative."""

from __future__ import annotations

import pytest
from local_hub import BREAKS, COMMIT, CUTS_FILES, NAME, STALLS, STALLS_IN_FILE, served

from bench.data import checkpoints
from bench.data.hub import WAITS, downloaded
from bench.errors import InputError


@pytest.fixture
def hub(teacher_folder, tmp_path, monkeypatch):
    checkpoints._from_hub.cache_clear()
    with served(teacher_folder, tmp_path / "hub cache", monkeypatch) as made:
        yield made
    checkpoints._from_hub.cache_clear()


def asked(offline: bool = False):
    return downloaded(NAME, ["config.json", "*.safetensors"], offline, f"--teacher {NAME}", "use --teacher embedded")


def test_what_a_sound_hub_serves_is_taken_and_kept(hub, teacher_folder):
    folder = asked()
    assert folder.name == COMMIT
    assert {file.name for file in folder.iterdir()} == {"config.json", "model.safetensors"}
    assert (folder / "model.safetensors").read_bytes() == (teacher_folder / "model.safetensors").read_bytes()
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
def test_a_hub_that_misbehaves_is_one_line_with_the_alternative(hub, behaviour, words, tries):
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
    assert (asked() / "model.safetensors").read_bytes() == (teacher_folder / "model.safetensors").read_bytes()


def test_a_teacher_of_such_a_hub_is_refused_in_the_command_line(hub, bench):
    hub.behaviour = "500"
    answer = bench("plan", "--methods", "finetune", "--tasks", "rte", "--data", "sample", "--teacher", NAME)
    assert answer.returncode == 2
    assert answer.stderr.count("\n") == 1
    assert "the hub did not give it (it answered 500; try again later); use --teacher embedded" in answer.stderr


def test_nobody_there_is_one_line_too(hub, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(InputError, match="cannot be reached"):
        asked()
    with pytest.raises(InputError, match="not downloaded before, and offline nobody asks"):
        asked(offline=True)
    with pytest.raises(InputError, match="no name of a repository"):
        downloaded("a/b/c", ["*"], False, "--teacher a/b/c", "use another")
