"""What breaks off in the middle of a training goes on there, and ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
import tiny
import tiny_training
from interruption import BreaksOff
from safetensors import safe_open
from safetensors.torch import save_file
from small_runs import ends

from bench import api
from bench.files import MODE
from bench.measure.parameters import weights_hash
from bench.progress import Progress
from bench.run import carry_out
from bench.train import training_state
from bench.train.loop import LoopOptions, train_task
from bench.train.numerics import ComputeSettings
from bench.train.training_state import TrainingStates
from bench.workflows.run import run

ROWS = f"finetune:{tiny.SHAPE},microbert:{tiny.SHAPE},theseus"
ALONE = {"methods": f"finetune:{tiny.SHAPE}:start=random", "epochs": 2.0}


@pytest.fixture
def request_(request_):
    usual = {"methods": ROWS, "tasks": "rte", "epochs": 8.0, "threads": 2}
    return lambda results="results", **changes: request_(results, **usual | changes)


@pytest.fixture
def always(monkeypatch):
    """The state is kept after every step."""
    monkeypatch.setattr(training_state, "EVERY_SECONDS", 0.0)


def train(request):
    """A run without its report."""
    return carry_out(api.plan(request), Progress())


def kept_states() -> list[Path]:
    return sorted((training_state.cache_root() / "halfway").glob("*"))


@pytest.mark.parametrize(
    "changes",
    [{}, pytest.param({"checkpoint": "best-on-dev"}, marks=pytest.mark.slow)],
    ids=["last epoch", "best epoch"],
)
@pytest.mark.slow
@pytest.mark.long
def test_a_group_that_breaks_off_twice_ends_as_in_one_go(request_, always, changes, capfd):
    train(request_("whole", **changes))
    broken = request_(**changes)
    for step in (5, 9):
        with pytest.raises(KeyboardInterrupt):
            run(broken, BreaksOff("finetune", step))
        assert len(kept_states()) == 3, "one a student"
    capfd.readouterr()
    train(broken)
    # the step at which it broke off was not kept
    assert "resumes at step 12 of" in capfd.readouterr().err
    assert ends(broken) == ends(request_("whole", **changes))
    assert not kept_states()


@pytest.mark.slow
def test_teachers_and_general_starts_go_on_too(request_, always, monkeypatch, tmp_path, capfd):
    """A start first tells of each of the teacher's three layers."""
    long = {"methods": f"kd:{tiny.SHAPE}", "corpus_tokens": 2_000, "epochs": 2.0}
    train(request_("whole", **long))
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path / "another cache"))
    for title, steps in (("teacher", 3), ("general start", 3 + 3)):
        with pytest.raises(KeyboardInterrupt):
            run(request_(**long), BreaksOff(title, steps))
        assert len(kept_states()) == 1, title
    train(request_(**long))
    assert capfd.readouterr().err.count("resumes at step 2 of") == 2
    assert ends(request_(**long)) == ends(request_("whole", **long))
    assert not kept_states()


def test_a_short_training_writes_nothing(request_):
    with pytest.raises(KeyboardInterrupt):
        run(request_(**ALONE), BreaksOff("finetune", 4))
    assert not kept_states()


@pytest.mark.slow
@pytest.mark.long
def test_other_code_and_reruns_begin_anew_and_other_companions_go_on(
    request_, always, monkeypatch, capfd
):
    with pytest.raises(KeyboardInterrupt):
        run(request_(), BreaksOff("finetune", 5))
    left = kept_states()
    assert len(left) == 3
    with monkeypatch.context() as edited:
        edited.setattr("bench.make.students.digest_of", lambda modules: "edited")
        train(request_("edited"))
    assert "resumes" not in capfd.readouterr().err
    assert kept_states() == left
    train(request_("alone", methods=f"finetune:{tiny.SHAPE}"))
    assert "resumes at step 2 of" in capfd.readouterr().err
    assert len(kept_states()) == 2, "its neighbours' states stay"
    train(request_("two groups"))
    assert capfd.readouterr().err.count("resumes") == 1, (
        "the one that is done begins anew, apart from the two that go on"
    )
    with pytest.raises(KeyboardInterrupt):
        run(request_(), BreaksOff("finetune", 5))
    train(request_(rerun=True))
    assert "resumes" not in capfd.readouterr().err
    assert not kept_states()
    alone = ends(request_("alone"))
    assert ends(request_()) == ends(request_("edited")) == ends(request_("two groups"))
    assert alone.items() <= ends(request_()).items()


@pytest.mark.slow
def test_what_it_was_trained_from_made_again_with_other_weights_begins_anew(
    request_, always, capfd
):
    with pytest.raises(KeyboardInterrupt):
        run(request_(), BreaksOff("finetune", 5))
    for file in (training_state.cache_root() / "starts").glob("*/made.json"):
        file.write_text(json.dumps({**json.loads(file.read_text()), "weights": "0" * 64}))
    assert train(request_()).exit_code == 0
    said = capfd.readouterr().err
    assert said.count("resumes") == 1
    assert said.index("resumes") < said.index("rte: theseus, seed 0: done"), (
        "it is not made from the start"
    )


@pytest.mark.slow
def test_a_torn_file_begins_anew(request_, always, capfd):
    with pytest.raises(KeyboardInterrupt):
        run(request_(**ALONE), BreaksOff("finetune", 4))
    (left,) = kept_states()
    assert left.stat().st_mode & 0o777 == MODE
    left.write_bytes(left.read_bytes()[:-7])
    assert train(request_(**ALONE)).exit_code == 0
    said = capfd.readouterr().err
    assert "resumes" not in said
    assert said.count(f"{left}: this state of a training is not used") == 1


@pytest.mark.slow
def test_a_full_disk_does_not_end_a_training(request_, always, monkeypatch, capfd):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(training_state, "save_file", full)
    assert train(request_(**ALONE)).exit_code == 0
    assert (
        "its state could not be kept ([Errno 28] No space left on device)" in capfd.readouterr().err
    )
    assert not kept_states()


def test_what_nobody_takes_up_is_forgotten_after_a_month(tmp_path):
    old, young = tmp_path / "old.safetensors", tmp_path / "young.safetensors"
    for file in (old, young):
        file.write_bytes(b"x")
    month_ago = time.time() - 31 * 86_400
    os.utime(old, (month_ago, month_ago))
    assert TrainingStates([], folder=tmp_path).resume([], 1) == 0
    assert list(tmp_path.iterdir()) == [young]


class Learns:
    """A student that is under way."""

    label = "student"

    def steps(self, series):
        return 120

    def state(self):
        return {}, {}


def test_writing_takes_at_most_two_percent_of_the_time(tmp_path, monkeypatch):
    now, written = [0.0], []

    def slow(tensors, file, metadata):
        now[0] += 60
        save_file(tensors, file, metadata)

    monkeypatch.setattr(training_state, "save_file", slow)
    monkeypatch.setattr(training_state.os, "replace", lambda old, new: written.append(now[0]))
    state = TrainingStates(["slow disk"], every=300, clock=lambda: now[0], folder=tmp_path)
    for minute in range(120):
        state.save([Learns()], minute)
        now[0] += 60
    assert written[0] == 300 + 60
    assert written[1] - written[0] >= 50 * 60


NEVER = 10**9


@pytest.fixture
def trained(teacher_folder) -> Callable[..., tuple[str, list[str]]]:
    """Trains a tiny student whose state lies in a folder: the hash of its weights, and what was said."""
    data = tiny.encoded(teacher_folder, rows=24)

    def train_in(folder: Path, stop_at: int = NEVER) -> tuple[str, list[str]]:
        said: list[str] = []
        seen = count(1)
        student = tiny_training.trainer("finetune", data)
        states = TrainingStates(
            [["tiny"]],
            said.append,
            every=1e9,
            folder=folder,
            code=["code"],
            is_stopping=lambda: next(seen) >= stop_at,
        )
        options = LoopOptions(0, ComputeSettings(), tiny_training.RECIPE.batch_size, states=states)
        train_task([student], data, None, options)
        return weights_hash(student.student.model), said

    return train_in


@pytest.fixture
def state(trained, tmp_path) -> Path:
    """The state of a training that was stopped after its fifth step of nine."""
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "states", stop_at=5)
    (file,) = (tmp_path / "states").iterdir()
    return file


def flip(file: Path, sound: bytes, place: int, bit: int = 0) -> None:
    """Write the file again with one other bit."""
    data = bytearray(sound)
    data[place] ^= 1 << bit
    file.write_bytes(bytes(data))


def is_begun_anew(file: Path) -> bool:
    """Whether a training of this state would begin with its first step, and says once that the state is not used."""
    said: list[str] = []
    states = TrainingStates(["x"], said.append, folder=file.parent)
    states.files = [file]
    groups = states.groups()
    named = [line for line in said if f"{file}: this state of a training is not used" in line]
    return not states.has_begun and len(groups) == len(named) == len(said) == 1


def test_a_sound_state_is_gone_on_with(trained, state, tmp_path):
    whole, said = trained(tmp_path / "whole")
    assert said == []
    weights, said = trained(state.parent)
    assert weights == whole
    assert said == ["  resumes at step 5 of 9"]


def test_any_wrong_bit_of_a_state_is_noticed(state):
    sound = state.read_bytes()
    header = 8 + int.from_bytes(sound[:8], "little")
    draw = random.Random(0)
    places = {*range(8), *range(8, header, 397), header, len(sound) - 1}
    places |= {draw.randrange(len(sound)) for _ in range(30)}
    for place in sorted(places):
        flip(state, sound, place, draw.randrange(8))
        assert is_begun_anew(state), place


@pytest.mark.parametrize("what", ["weights.", "optimizer.", "random.", '"curves', '"sha256'])
def test_a_wrong_bit_changes_no_weights(what, trained, state, tmp_path):
    """Of what is trained, of the optimiser, of the random numbers, of what is kept as JSON, and of the hash."""
    whole, _ = trained(tmp_path / "whole")
    sound = state.read_bytes()
    size = int.from_bytes(sound[:8], "little")
    header = json.loads(sound[8 : 8 + size])
    held = [entry["data_offsets"] for name, entry in header.items() if name.startswith(what)]
    # a number's second byte: its sign and size stay, so that no guard notices it
    place = 8 + size + held[0][0] + 1 if held else sound.index(what[1:].encode()) + 12
    flip(state, sound, place)
    weights, said = trained(state.parent)
    assert weights == whole
    assert len(said) == 1
    assert "the training begins anew" in said[0]


def test_a_state_without_a_hash_begins_anew_and_says_so(trained, state, tmp_path):
    """Of an earlier version."""
    with safe_open(state, framework="pt") as kept:
        tensors = {name: kept.get_tensor(name) for name in kept.keys()}  # noqa: SIM118
        body = kept.metadata()
    del body["sha256"]
    save_file(tensors, state, body)
    weights, said = trained(state.parent)
    assert weights == trained(tmp_path / "whole")[0]
    assert "it has no hash, so an earlier version wrote it or it is damaged" in said[0]


def test_what_is_no_file_is_no_state(tmp_path):
    """A pipe would be waited for."""
    pipe = tmp_path / "pipe.safetensors"
    os.mkfifo(pipe)
    assert is_begun_anew(pipe)
    folder = tmp_path / "folder.safetensors"
    folder.mkdir()
    assert is_begun_anew(folder)


def test_a_state_is_on_the_disk_before_it_takes_the_place_of_the_last(
    trained, tmp_path, monkeypatch
):
    """Else the file may be empty after the machine stops."""
    happened: list[str] = []
    fsync = os.fsync
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (happened.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (happened.append("replace"), replace(*names)))
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, stop_at=2)
    assert happened == ["fsync", "replace"]
