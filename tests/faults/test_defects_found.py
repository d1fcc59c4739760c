"""Defects that kills and failing file systems found: each stays mended."""

from __future__ import annotations

import errno
import fcntl
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import factories
import pytest
import tiny

from bench.errors import CELLS_FAILED
from bench.files import write_atomically
from bench.make import record as recording
from bench.record.cell_locks import CellLocks
from bench.record.store import Store


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Inside, the system refuses a write beyond this size: as on a full disk, it names no file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_cannot_be_written_is_named(tmp_path):
    file = tmp_path / "record.json"
    write_atomically(file, b"before")
    with files_of_at_most(1000), pytest.raises(OSError) as refused:
        write_atomically(file, b"x" * 5000)
    assert refused.value.errno == errno.EFBIG
    assert refused.value.filename == str(file)
    assert file.read_bytes() == b"before"
    assert [one.name for one in tmp_path.iterdir()] == ["record.json"], "nothing is left behind"


def test_a_full_disk_is_one_line_in_the_command_line(bench, tmp_path):
    file = tmp_path / "answer.json"
    with files_of_at_most(10):
        answer = bench("compare", "--power", "--tasks", "rte", "--gap", 1.0, "--json", file)
    assert answer.returncode == 2
    assert answer.stderr.splitlines() == [
        f"bench: {file}: File too large; name another file or folder, or mend this one"
    ]
    assert not file.exists()


@pytest.mark.slow
def test_a_number_that_is_none_fails_its_cell_and_no_other(bench, monkeypatch, tmp_path, places):
    """A record with NaN could not be read again, so it is not written; that must not end the run."""
    known, seen = recording.environment, []

    def environment(device: str, deterministic: bool) -> dict:
        seen.append(device)
        return {**known(device), **({"load": float("nan")} if len(seen) == 2 else {})}

    monkeypatch.setattr(recording, "environment", environment)
    rows = f"finetune:{tiny.SHAPE}:start=random,kd:{tiny.SHAPE}:start=random"
    done = bench("run", "--methods", rows, "--tasks", "rte", "--epochs", 1, *places)
    assert done.returncode == CELLS_FAILED
    assert "1 cell failed; the traceback: python -m bench show " in done.stderr
    found = {record.cell.method: record for record in Store(tmp_path / "r").records()}
    assert {name: record.status for name, record in found.items()} == {
        "teacher": "ok",
        "finetune": "failed",
        "kd": "ok",
    }
    assert "env: load is NaN or infinite" in found["finetune"].error.message


@pytest.mark.parametrize("fails", ["current", "attempt-1.json"])
def test_a_disk_that_fails_once_leaves_one_attempt(fails, tmp_path, monkeypatch):
    """What is written and only not pointed to is not written a second time; what is not written is."""
    from bench.record import store as stores

    write, failed = stores.write_atomically, []

    def once(path, data):
        if path.name == fails and not failed:
            failed.append(path)
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        write(path, data)

    monkeypatch.setattr(stores, "write_atomically", once)
    store, record = stores.Store(tmp_path), factories.record("kd")
    with pytest.raises(OSError):
        store.write(record)
    path = store.write(record)
    assert [file.name for file in path.parent.glob("attempt-*.json")] == ["attempt-1.json"]
    assert (path.parent / "current").read_text().split()[0] == "attempt-1.json"
    assert store.write(record).name == "attempt-2.json"  # asked for again, it is another attempt


def test_a_lock_that_is_not_given_back_ends_no_run(tmp_path, monkeypatch):
    """Some versions of the library of locks let an error of the system through."""
    claims = CellLocks(tmp_path)
    assert claims.take("a" * 64)
    monkeypatch.setattr(
        fcntl,
        "flock",
        lambda *given: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")),
    )
    claims.release("a" * 64)


def test_a_record_can_be_written_after_a_lock_that_was_not_given_back(tmp_path, monkeypatch):
    store, record, real = Store(tmp_path), factories.record("kd"), fcntl.flock

    def broken(file, operation):
        if operation == fcntl.LOCK_UN:
            raise OSError(errno.EIO, "Input/output error")
        return real(file, operation)

    monkeypatch.setattr(fcntl, "flock", broken)
    with pytest.raises(OSError):
        store.write(record)
    monkeypatch.setattr(fcntl, "flock", real)
    path = store.write(record)
    assert [file.name for file in path.parent.glob("attempt-*.json")] == ["attempt-1.json"]
