"""What a worker on a node does with a step, without Ray, and folders of the cache that travel: whole, or not at all."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import shutil
from concurrent.futures import BrokenExecutor, Future
from dataclasses import replace

import pytest
import tiny

from bench import api
from bench.cache import Slot
from bench.errors import InputError
from bench.make.work import StepResult
from bench.run import remote
from bench.run.display import FileProgress
from bench.run.remote import (
    Start,
    answered,
    enter_run_folder,
    new_run_folder,
    pack,
    resolve,
    unpack,
    weights_of,
)
from bench.run.worker import Worker

SLOT = Slot("teachers", "0123456789abcdef01234567", (), "teacher")


@pytest.fixture
def plan(request_):
    return api.plan(request_(methods=f"kd:{tiny.SHAPE}", tasks="rte"))


def sent(value):
    """What another process would receive."""
    here, there = multiprocessing.Pipe()
    there.send(value)
    return here.recv()


def made(plan, step, tmp_path):
    """The answer of a worker on another node."""
    start = sent(Start.from_plan(plan, tmp_path / "no folder"))
    assert not enter_run_folder(start)
    worker = Worker(start.request, FileProgress())
    return sent(answered(lambda: worker.make(sent(step))))


def test_a_node_that_reads_other_data_refuses(request_, tmp_path):
    data = tiny.write_glue(tmp_path / "own" / "tiny-glue", ("rte",))
    plan = api.plan(request_(methods=f"kd:{tiny.SHAPE}", tasks="rte", data=str(data)))
    tiny.write_glue(data, ("rte",), rows=30)
    answer = made(plan, plan.todo_steps[0], tmp_path)
    assert isinstance(answer, InputError)
    assert str(answer).startswith("node ")
    assert "the examples of train have changed since this run began" in str(answer)


def test_a_node_with_other_code_refuses(plan, tmp_path):
    answer = made(plan, replace(plan.todo_steps[0], code="of another version"), tmp_path)
    assert isinstance(answer, InputError)
    assert "other code than the run began with" in str(answer)


def test_a_node_that_sees_the_mark_shares_the_cache(plan, monkeypatch, tmp_path):
    folder = new_run_folder()
    start = Start.from_plan(plan, folder)
    assert enter_run_folder(start)
    monkeypatch.delenv("BERT_BENCH_CACHE")
    assert enter_run_folder(start), (
        "without a cache of its own it takes that of the run, where it sees it"
    )
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path / "own"))
    assert not enter_run_folder(start)
    shutil.rmtree(folder)
    monkeypatch.delenv("BERT_BENCH_CACHE")
    assert not enter_run_folder(start)


class Unsendable(Exception):
    """An error of a library that cannot be built again from what it says."""

    def __init__(self, one, two) -> None:
        super().__init__("disk")


@pytest.mark.parametrize(
    "raised, is_stopping, error",
    [
        (None, False, None),
        (InputError("no"), False, InputError),
        (Unsendable(1, 2), False, RuntimeError),
        (KeyboardInterrupt(), True, KeyboardInterrupt),
        (KeyboardInterrupt(), False, BrokenExecutor),
    ],
)
def test_an_answer_becomes_what_a_process_of_this_machine_says(raised, is_stopping, error):
    def make():
        if raised is None:
            return StepResult()
        raise raised

    future: Future[StepResult] = Future()
    resolve(future, sent(answered(make)), is_stopping)
    assert (
        future.result() == StepResult() if error is None else isinstance(future.exception(), error)
    )


@pytest.fixture
def machines(tmp_path, monkeypatch):
    """``machines("b")``: from now on this process is that machine, with a cache of its own."""

    def become(name: str):
        cache = tmp_path / name
        monkeypatch.setenv("BERT_BENCH_CACHE", str(cache))
        return SLOT.folder

    return become


@pytest.fixture
def travelling(machines, monkeypatch):
    """A thing of machine a on its way, in parts of three bytes."""
    monkeypatch.setattr(remote, "PART_BYTES", 3)
    folder = machines("a")
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"0123456789")
    (folder / "empty").write_bytes(b"")
    weights = hashlib.sha256(b"0123456789").hexdigest()
    hashes = {"model.safetensors": weights, "empty": hashlib.sha256(b"").hexdigest()}
    (folder / "made.json").write_text(
        json.dumps({"key": SLOT.key, "weights": weights, "files": hashes})
    )
    files = pack(SLOT, bytes)
    machines("b")
    return files


def received(part):
    return part


def test_a_thing_arrives_as_it_was_sent(machines, travelling):
    assert len(travelling["model.safetensors"]) == 4
    assert weights_of(SLOT) is None
    unpack(SLOT, travelling, received)
    theirs, ours = machines("a"), machines("b")
    assert {f.name: f.read_bytes() for f in theirs.iterdir()} == {
        f.name: f.read_bytes() for f in ours.iterdir()
    }
    assert weights_of(SLOT) == hashlib.sha256(b"0123456789").hexdigest()


@pytest.mark.parametrize(
    "damage, message",
    [
        (
            lambda files: files["model.safetensors"].pop(),
            "model.safetensors is not the file that was written",
        ),
        (lambda files: files.update({"../../escaped": [b""]}), "is no plain name"),
        (lambda files: files.pop("model.safetensors"), "model.safetensors cannot be read"),
        (lambda files: files.pop("made.json"), "has no made.json"),
    ],
)
def test_what_is_not_what_was_sent_leaves_nothing(machines, travelling, damage, message, tmp_path):
    damage(travelling)
    with pytest.raises(InputError, match=message):
        unpack(SLOT, travelling, received)
    assert not machines("b").exists()
    assert not list(tmp_path.rglob("escaped"))
    assert not list(machines("b").parent.glob(".tmp-*"))
