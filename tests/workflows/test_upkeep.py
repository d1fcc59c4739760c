"""Upkeep of records and of the cache: what is not as it was written is noticed, said, and mended where that can be."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import cache
from bench.cache import WEIGHTS, Slot, damage_reason, keep
from bench.files import sha256_of
from bench.record.schema import Record
from bench.record.set_aside import ADOPTED, SET_ASIDE
from bench.record.store import Store
from bench.report.load import load as bench_load

SLOT = Slot("teachers", "a" * 64, (), "teacher")


def make(folder: Path) -> dict[str, str]:
    """A teacher as libraries write it: the weights for their owner alone."""
    (folder / "config.json").write_text('{"num_attention_heads": 12}')
    (folder / WEIGHTS).write_bytes(b"weights")
    (folder / WEIGHTS).chmod(0o600)
    return {"weights": sha256_of(folder / WEIGHTS)}


def a_folder_in_its_place(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGE = {
    "edited": lambda file: file.write_text('{"num_attention_heads": 6}'),
    "null": lambda file: file.write_text("null"),
    "gone": lambda file: file.unlink(),
    "unreadable": a_folder_in_its_place,
}


@pytest.mark.parametrize("name", ["config.json", WEIGHTS])
@pytest.mark.parametrize("damage", DAMAGE)
def test_every_file_of_a_cached_folder_is_checked_and_it_is_made_again(monkeypatch, name, damage):
    monkeypatch.setattr(cache, "_CHECKED", set())
    keep(SLOT, make)
    assert damage_reason(SLOT.folder) == ""
    DAMAGE[damage](SLOT.folder / name)
    assert f"its {name} " in damage_reason(SLOT.folder)
    cache._CHECKED.clear()
    said: list[str] = []
    keep(SLOT, make, say=said.append)
    assert len(said) == 1
    assert "12" in (SLOT.folder / "config.json").read_text()
    assert damage_reason(SLOT.folder) == ""


def test_files_of_the_cache_have_the_permissions_that_the_user_chose():
    """The umask is read when Python starts."""
    code = (
        "import os, pathlib; os.umask(0o027)\n"
        "from bench.cache import Slot, keep\n"
        "def make(folder): file = folder / 'model.safetensors'; file.touch(0o600); return {'weights': '0'}\n"
        "slot = Slot('teachers', 'a' * 64, (), 'teacher'); keep(slot, make)\n"
        "print(*{f'{path.stat().st_mode & 0o777:o}' for path in slot.folder.iterdir()})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["640"], done.stderr


def digit_changed(store: Store) -> tuple[Record, Path]:
    """A record of a row of three seeds, and its file, in which one digit is another."""
    record = next(r for r in store.records() if r.cell.method == "kd")
    file = store.folder(record.cell) / "attempt-1.json"
    file.write_text(file.read_text().replace('"sequence_length": 128', '"sequence_length": 129', 1))
    assert "129" in file.read_text()
    return record, file


def test_a_record_with_one_changed_digit_is_set_aside_and_put_aside_on_demand(
    bench, answered_store
):
    root = answered_store.root
    record, file = digit_changed(answered_store)
    reader = Store(root)
    assert reader.find(record.cell) is None
    assert [(note.kind, note.path) for note in reader.notes] == [(SET_ASIDE, file)]
    assert "sha256 in `current`" in reader.notes[0].why
    assert reader.attempts(record) == {}
    found = bench("store", "verify", "--results", root)
    assert found.returncode == 1
    assert "1 broken" in found.stdout
    assert bench("store", "repair", "--results", root).returncode == 0
    assert bench("store", "verify", "--results", root).returncode == 0
    assert Store(root).find(record.cell) is None


def test_no_reader_uses_a_record_with_one_changed_digit(bench, answered_store):
    """It says so in one line, and the other seeds of its row are used."""
    root = answered_store.root
    record, file = digit_changed(answered_store)
    table = bench_load(root)
    assert record.key not in set(table["key"])
    assert len(table[(table["row"] == "kd") & (table["task"] == "rte")]) == 2
    for words in (["compare", "kd", "finetune"], ["choose"], ["show", "--trace", "76.0"]):
        answer = bench(*words, "--results", root)
        lines = [line for line in answer.stderr.splitlines() if "set aside" in line]
        assert len(lines) == 1, answer.stderr
        assert str(file) in lines[0]
    shown = bench("show", record.key, "--results", root)
    assert shown.returncode == 2
    assert "sha256 in `current`" in shown.stderr


def test_an_earlier_attempt_takes_the_place_of_one_that_was_changed(answered_store):
    record = next(answered_store.records())
    arrays = answered_store.predictions(record)
    answered_store.write(record, arrays)
    file = answered_store.folder(record.cell) / "attempt-2.json"
    file.write_text(file.read_text().replace('"seconds_own"', ' "seconds_own"', 1))
    reader = Store(answered_store.root)
    assert reader.find(record.cell) is not None
    assert [note.kind for note in reader.notes] == [SET_ASIDE, ADOPTED]
    assert list(reader.attempts(record)) == ["attempt-1"]


def test_predictions_that_are_gone_are_nothing_broken_that_repair_leaves(bench, answered_store):
    next(answered_store.root.rglob("attempt-*.npz")).unlink()
    words = ["--results", answered_store.root]
    assert bench("store", "verify", *words).returncode == 1
    answer = bench("store", "repair", *words)
    assert "no answers" in answer.stdout
    assert answer.returncode == 0


@pytest.fixture
def unreadable(monkeypatch) -> Callable[[Path], None]:
    """Makes a folder one that nobody can list. Root can list all, so there the system's call says it."""

    def make(folder: Path) -> None:
        folder.chmod(0o000)
        if os.access(folder, os.R_OK):
            scandir = os.scandir

            def refusing(path="."):
                if Path(path) == folder:
                    raise PermissionError(errno.EACCES, "Permission denied", str(folder))
                return scandir(path)

            monkeypatch.setattr(os, "scandir", refusing)

    made: list[Path] = []
    yield lambda folder: (made.append(folder), make(folder))
    for folder in made:
        folder.chmod(0o755)


@pytest.mark.parametrize("level", [1, 2, 3, 4], ids=["data", "task", "row", "cell"])
def test_verify_goes_on_after_a_folder_that_cannot_be_read(
    bench, answered_store, unreadable, level
):
    """The folder is named, what lies elsewhere is looked at, and a broken record there is found."""
    root = answered_store.root
    cells = answered_store.cells()
    closed = Path(root, *cells[0].relative_to(root).parts[:level])
    inside = [cell for cell in cells if cell.is_relative_to(closed)]
    others = [cell for cell in cells if cell not in inside]
    if others:
        (others[-1] / "attempt-1.json").write_text("{")
    unreadable(closed)
    found = bench("store", "verify", "--results", root)
    assert found.returncode == 1
    lines = [line for line in found.stdout.splitlines() if line.startswith("unreadable: ")]
    assert lines == [
        f"unreadable: {closed}: the folder cannot be read: Permission denied; nothing in it is used"
    ]
    assert ("1 broken" in found.stdout) == bool(others)
    if others:
        assert f"records, ok: {len(others) - 1}" in found.stdout
    reader = Store(root)
    read = list(reader.records())
    if level < 4:  # in a cell's folder the names alone cannot be read
        assert len(read) == max(0, len(others) - 1)


def test_repair_leaves_a_folder_that_cannot_be_read_and_gc_lists_nothing(
    bench, answered_store, unreadable
):
    """What the cache has for the records in it would look needed by none."""
    closed = answered_store.cells()[0].parent
    unreadable(closed)
    assert bench("store", "repair", "--results", answered_store.root).returncode == 1
    assert closed.is_dir()
    asked = bench("store", "gc", "--results", answered_store.root, "--yes")
    assert asked.returncode == 2
    assert f"unreadable: {closed}" in asked.stderr
    assert "make it readable before anything is removed" in asked.stderr


def test_an_unreadable_folder_of_the_cache_is_named_too(bench, answered_store, unreadable):
    slot_folder = Path(os.environ["BERT_BENCH_CACHE"]) / "teachers" / "a"
    slot_folder.mkdir(parents=True)
    unreadable(slot_folder)
    found = bench("store", "verify", "--results", answered_store.root)
    assert found.returncode == 1
    assert found.stdout.splitlines()[-1] == "1 unreadable"
