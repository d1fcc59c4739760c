"""Things of the cache that travel between machines arrive whole, or not at all."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from bench.errors import InputError
from bench.run import transfer
from bench.run.transfer import content_of, forget, pack, unpack

PLACE = "teachers/0123456789abcdef01234567"


@pytest.fixture
def machines(tmp_path, monkeypatch):
    """``machines("b")``: from now on this process is that machine, with a cache of its own."""

    def become(name: str):
        cache = tmp_path / name
        monkeypatch.setenv("BERT_BENCH_CACHE", str(cache))
        return cache / PLACE

    return become


@pytest.fixture
def sent(machines, monkeypatch):
    """A thing of machine a on its way, in parts of three bytes."""
    monkeypatch.setattr(transfer, "PART_BYTES", 3)
    folder = machines("a")
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"0123456789")
    (folder / "empty").write_bytes(b"")
    weights = hashlib.sha256(b"0123456789").hexdigest()
    (folder / "made.json").write_text(json.dumps({"key": "k", "weights": weights}))
    files = pack(PLACE, bytes)
    machines("b")
    return files


def received(part):
    return part


def test_a_thing_arrives_as_it_was_sent(machines, sent):
    assert [len(file.parts) for file in sent if file.name == "model.safetensors"] == [4]
    assert content_of(PLACE) is None
    unpack(PLACE, sent, received)
    theirs, ours = machines("a"), machines("b")
    assert {f.name: f.read_bytes() for f in theirs.iterdir()} == {f.name: f.read_bytes() for f in ours.iterdir()}
    assert content_of(PLACE) == hashlib.sha256(b"0123456789").hexdigest()


def test_what_arrives_replaces_what_another_run_left(machines, sent):
    folder = machines("b")
    folder.mkdir(parents=True)
    (folder / "made.json").write_text('{"weights": "another"}')
    unpack(PLACE, sent, received)
    assert content_of(PLACE) != "another"
    forget(PLACE)
    assert content_of(PLACE) is None
    assert not folder.exists()


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda file: replace(file, parts=file.parts[:-1]), "was damaged on its way"),
        (lambda file: replace(file, name="../../escaped"), "is no plain name"),
        (lambda file: None, "none of its files has the sha256"),
    ],
)
def test_what_is_not_what_was_sent_leaves_nothing(machines, sent, damage, message, tmp_path):
    files = [damage(file) if file.name == "model.safetensors" else file for file in sent]
    with pytest.raises(InputError, match=message):
        unpack(PLACE, [file for file in files if file is not None], received)
    assert not machines("b").exists()
    assert not list(tmp_path.rglob("escaped"))
    assert not list(machines("b").parent.glob(".tmp-*"))


def test_a_thing_that_does_not_say_what_it_is_is_refused(machines, sent):
    with pytest.raises(InputError, match="without what is known"):
        unpack(PLACE, [file for file in sent if file.name != "made.json"], received)
    assert not machines("b").exists()
