"""The store: a folder of records, one file an attempt, with an atomic pointer to the current one.

<root>/<data>/<tasks>/<method>/<key>/attempt-1.json   the record
                                     attempt-1.npz    logits, labels, example hashes (no text)
                                     current          the name of the attempt that counts, and the
                                                      sha256 of its record

A file that cannot be used is set aside: it is named once (:mod:`bench.record.set_aside`), and
readers go on without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import LISTED, InputError, nearest
from bench.files import entries_of, lock_of, read_at_most, sha256_of, slug, write_atomically
from bench.record import raw_predictions
from bench.record.cell import Cell, record_key, train_key
from bench.record.free_parts import not_finite
from bench.record.schema import Record, load
from bench.record.set_aside import (
    ADOPTED,
    SET_ASIDE,
    UNREADABLE,
    WITHOUT_ANSWERS,
    Note,
    notify,
    unreadable,
)

if TYPE_CHECKING:
    import numpy as np

KEY_DIGITS = 16
ALIKE = 0.75
"""How much of a key has to be right, at least, for another one to be suggested."""
POINTER = "current"
ATTEMPT = re.compile(r"attempt-([0-9]{1,9})\.json")
CELLS = "*/*/*/*"
"""The folders of cells, from the root of a store."""
LARGEST_POINTER = 4096
LARGEST_RECORD = 2**26
"""Bytes that are read of a ``current`` and of a record: a record has some ten thousand."""
KEPT_IN_MEMORY = 2**27
"""Bytes of raw answers that a store keeps, so that a table reads no file twice; what comes after
them is read each time."""


Attempt = tuple[str, str, str | None, str]
"""Begin, end, weights and status of an attempt: by these it is known again."""
Stamp = tuple[tuple[int, int] | None, ...]
"""By what a record is known to be unchanged: time and size of its file, of its answers and of
``current``; None for what is not there."""


class Store:
    """Records below one folder.

    Attributes:
        notes: what of the folder was not used as it is, in the order in which it was met.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes: list[Note] = []
        self._read: dict[Path, tuple[Stamp, Record | None]] = {}
        """file -> by what it is known to be unchanged, and its record"""
        self._answers = raw_predictions.Kept(KEPT_IN_MEMORY)
        self._not_current: dict[Path, tuple[Attempt, Path]] = {}
        """folder of a cell -> an attempt that was written although the file ``current`` could not
        be"""

    def note(self, note: Note) -> None:
        """Remember what is not used as it is, and tell whoever listens."""
        if note not in self.notes:
            self.notes.append(note)
            notify(note)

    # --- folders and files

    def folder(self, cell: Cell, point: str = "") -> Path:
        return self._folder_of(cell, record_key(cell, point))

    def _folder_of(self, cell: Cell, key: str) -> Path:
        """The folder of a cell whose key is known: to compute it takes longer than to read the
        record."""
        method = slug(cell.method + "".join(f"-no-{term}" for term in cell.dropped))
        tasks = slug("+".join(cell.tasks))
        return self.root.joinpath(slug(cell.data.slug), tasks, method, key[:KEY_DIGITS])

    def cells(self) -> list[Path]:
        """The folders of all cells. One that cannot be read is noted, and the others are found."""
        folders = [self.root]
        for _ in CELLS.split("/"):
            inner = [entry for folder in folders for entry in self._entries_of(folder)]
            folders = [Path(entry.path) for entry in inner if _is_folder(entry)]
        return sorted(folders)

    def attempts_in(self, folder: Path) -> list[Path]:
        """The attempts of a cell, the newest first."""
        numbers: dict[Path, int] = {}
        for entry in self._entries_of(folder):
            if match := ATTEMPT.fullmatch(entry.name):
                numbers[folder / entry.name] = int(match[1])
        return sorted(numbers, key=numbers.__getitem__, reverse=True)

    def _entries_of(self, folder: Path) -> list[os.DirEntry[str]]:
        """The entries of a folder; none where it cannot be read, which is noted."""
        return entries_of(folder, lambda error: self.note(unreadable(folder, error)))

    def current_attempt(self, folder: Path) -> Path | None:
        """The attempt that counts in a cell's folder: the one that ``current`` names.

        Where that cannot be used, it is the newest finished one that can; it is adopted, and said
        to be. A run that is killed between the two writings leaves an attempt that no ``current``
        names. So where there is no ``current`` at all, a failed attempt is adopted too.
        """
        pointer = folder / POINTER
        named = self._named(pointer)
        if named is not None and self.opened(named) is not None:
            return named
        usable = {"ok"}
        why = "what `current` names was set aside"
        if not os.path.lexists(pointer):
            usable = {"ok", "failed"}
            why = "no `current` names it"
        why += "; the next `run`, or `bench store repair`, writes `current` anew"
        for file in self.attempts_in(folder):
            record = self.opened(file)
            if record is not None and record.status in usable:
                self.note(Note(ADOPTED, file, why))
                return file
        return None

    def _named(self, pointer: Path) -> Path | None:
        """The attempt that a ``current`` names.

        Returns:
            None where there is no ``current``, or what it says is set aside.
        """
        try:
            name, _ = _pointed(pointer)
            file = pointer.parent / name
            if not ATTEMPT.fullmatch(name):
                wrong = f"it does not name an attempt, but {name[:40]!r}"
            elif not os.path.lexists(file):
                wrong = f"it points to {name}, which is not there"
            else:
                return file
        except FileNotFoundError:
            return None
        except OSError as error:
            # then what has to be mended is the folder
            if not os.access(pointer.parent, os.R_OK | os.X_OK):
                self.note(unreadable(pointer.parent, error))
                return None
            wrong = f"it cannot be read: {error.strerror}"
        except UnicodeDecodeError:
            wrong = "it cannot be read: it is not text"
        self.note(Note(SET_ASIDE, pointer, wrong))
        return None

    # --- reading

    def opened(self, file: Path) -> Record | None:
        """One attempt, if it can be used; else it is set aside. Read again only where a file
        changed."""
        pointer = file.with_name(POINTER)
        stamp = (_stamp(file), _stamp(file.with_suffix(".npz")), _stamp(pointer))
        if file not in self._read or self._read[file][0] != stamp:
            self._answers.drop(file.with_suffix(".npz"))
            record = None
            try:
                data = read_at_most(file, LARGEST_RECORD)
                record = load(data, "it")
                wrong = _changed(file, data) or self._wrong(record, file)
            except OSError as error:
                wrong = f"it cannot be read: {error.strerror}"
            except (InputError, raw_predictions.Unreadable) as error:
                wrong = str(error)
            if wrong:
                self.note(Note(SET_ASIDE, file, wrong))
                record = None
            self._read[file] = stamp, record
        return self._read[file][1]

    def _wrong(self, record: Record, file: Path) -> str:
        """Why a record cannot be the one of its folder and its answers; "" where it can. That
        answers are gone is noted, and is no fault of the record.

        Raises:
            Unreadable: its answers.
        """
        try:
            key = record_key(record.cell, record.point)
            is_in_place = record.key == key and record.train_key == train_key(record.cell)
            is_in_place = is_in_place and self._folder_of(record.cell, key) == file.parent
        except (ValueError, TypeError, RecursionError) as error:
            return f"its cell has no key ({error})"
        if not is_in_place:
            return "its fields are those of another cell than its key and its folder say"
        kept = file.with_suffix(".npz")
        if record.status == "ok" and os.path.lexists(kept):
            sets = (*record.scores, *record.predicted)
            arrays = raw_predictions.read(kept, sets, record.answers)
            wrong = raw_predictions.fault(record, arrays)
            if not wrong:
                self._answers.keep(kept, record.answers, arrays)
            return wrong
        if record.status == "ok" and record.answers is not None:
            again = "it keeps its scores, and tests leave it out; --rerun makes the answers again"
            self.note(Note(WITHOUT_ANSWERS, file, f"{kept.name} is gone; {again}"))
        return ""

    def _current(self, folder: Path) -> Record | None:
        file = self.current_attempt(folder)
        return None if file is None else self.opened(file)

    def find(self, cell: Cell, point: str = "") -> Record | None:
        """The current record of this cell, or None."""
        return self._current(self.folder(cell, point))

    def set_aside_reason(self, cell: Cell) -> str:
        """Why what lies in a cell's folder was set aside; "" where nothing was."""
        folder = self.folder(cell)
        return "; ".join(
            note.why
            for note in self.notes
            if note.kind in (SET_ASIDE, UNREADABLE) and folder in (note.path, note.path.parent)
        )

    def records(self) -> Iterator[Record]:
        """The current record of every cell, in the order of their paths. What cannot be used is in
        :attr:`notes`."""
        yield from self._records_in(self.cells())

    def _records_in(self, folders: Iterable[Path]) -> Iterator[Record]:
        """The current record of each of these cells that has one."""
        yield from filter(None, map(self._current, folders))

    def _holds(self, folder: Path, text: bytes) -> bool:
        """Whether this stands in the file of some attempt, however that is to be read."""
        for file in self.attempts_in(folder):
            with contextlib.suppress(OSError):
                if file.is_file() and text in file.read_bytes():
                    return True
        return False

    def attempts(self, record: Record) -> dict[str, Record]:
        """Every finished attempt of this record's question whose raw answers are there, by its
        name."""
        files = self.attempts_in(self._folder_of(record.cell, record.key))[::-1]
        opened = {
            file.stem: self.opened(file) for file in files if file.with_suffix(".npz").is_file()
        }
        return {
            name: attempt
            for name, attempt in opened.items()
            if attempt is not None and attempt.status == "ok"
        }

    def has_predictions(self, record: Record) -> bool:
        """Whether the raw answers of the current attempt are there."""
        file = self.current_attempt(self._folder_of(record.cell, record.key))
        return file is not None and file.with_suffix(".npz").is_file()

    def stored_predictions(self, record: Record) -> dict[str, np.ndarray] | None:
        """As :meth:`predictions` of the current attempt; None where they are not there."""
        file = self.current_attempt(self._folder_of(record.cell, record.key))
        if file is None:
            return None
        kept = self._answers.of(file.with_suffix(".npz"), record.answers)
        if kept is None and file.with_suffix(".npz").is_file():
            return self._predictions_in(file, record)
        return kept

    def predictions(self, record: Record, attempt: str = "") -> dict[str, np.ndarray]:
        """``logits.<set>``, ``labels.<set>`` and ``examples.<set>`` of an attempt, or of the
        current one.

        Args:
            record: of this very attempt: it says the sha256 of the answers.
            attempt: its name; "" for the current one.

        Raises:
            InputError: they are gone, or cannot be read.
        """
        folder = self._folder_of(record.cell, record.key)
        file = folder / f"{attempt}.json" if attempt else self.current_attempt(folder)
        if file is None:
            raise InputError(f"no attempt in {folder} can be used; `run` trains the cell again")
        return self._predictions_in(file, record)

    def _predictions_in(self, file: Path, record: Record) -> dict[str, np.ndarray]:
        """The answers beside a record's file.

        Raises:
            InputError: they are gone, or cannot be read.
        """
        try:
            sets = (*record.scores, *record.predicted)
            return raw_predictions.read(file.with_suffix(".npz"), sets, record.answers)
        except raw_predictions.Unreadable as error:
            raise InputError(f"{file}: {error}; run it again with --rerun") from None

    def find_by_key(self, key: str, trained: bool = False) -> Record:
        """The one record whose key begins so. Only what may be meant is read.

        Args:
            trained: whether a training's key will do, where no record's key begins so.

        Raises:
            InputError: none or several.
        """
        cells = self.cells()
        # a folder has the name that its record's key begins with
        named = [folder for folder in cells if folder.name.startswith(key[:KEY_DIGITS])]
        fitting = [r for r in self._records_in(named) if r.key.startswith(key)]
        if not fitting and trained:
            quoted = f'"{key}'.encode(errors="surrogateescape")
            holding = [folder for folder in cells if self._holds(folder, quoted)]
            fitting = [r for r in self._records_in(holding) if r.train_key.startswith(key)]
        if len(fitting) == 1:
            return fitting[0]
        raise self._none_or_several(key, fitting, cells)

    def _none_or_several(
        self, key: str, fitting: Sequence[Record], cells: Sequence[Path]
    ) -> InputError:
        """The error where a key does not begin that of exactly one record."""
        if fitting:
            listed = [
                f"{r.key[:16]} {'+'.join(r.cell.tasks)} {r.cell.label} seed {r.cell.seed}"
                for r in fitting
            ]
            listed[LISTED:] = ["..."] if len(listed) > LISTED else []
            return InputError(
                f"{len(fitting)} records in {self.root} begin with {key}; "
                f"type more of one: {', '.join(listed)}"
            )
        aside = [
            note
            for note in self.notes
            if key and note.path.parent.name.startswith(key[:KEY_DIGITS])
        ]
        if aside:
            return InputError(f"no record of {key} can be used; {aside[0].sentence()}")
        near = nearest(key[:KEY_DIGITS], {folder.name[: len(key)] for folder in cells}, ALIKE)
        meant = f"did you mean {near}? " if near else ""
        return InputError(
            f"no record in {self.root} has a key that begins with {key}; {meant}the tables "
            "'Records of each number' in the reports list the keys"
        )

    # --- writing

    def write(self, record: Record, arrays: Mapping[str, np.ndarray] | None = None) -> Path:
        """Add an attempt and make it the current one. Earlier attempts stay.

        If this fails after the attempt was written, the same call again only makes it the current
        one.

        Raises:
            ValueError: readers would set it aside: it contains NaN or an infinity, a field is
                not of its form, or its scores do not follow from its answers.
        """
        if wrong := _unreadable(record, arrays or {}):
            raise ValueError(wrong)
        folder = self.folder(record.cell, record.point)
        folder.mkdir(parents=True, exist_ok=True)
        attempt = (record.started, record.finished, record.weights, record.status)
        with lock_of(folder / ".lock"):
            written, file = self._not_current.pop(folder, (None, None))
            if file is None or written != attempt:
                file = folder / f"attempt-{1 + _last_number(folder)}.json"
                if arrays:
                    data, sha256 = raw_predictions.pack(arrays)
                    record = record.model_copy(update={"answers": sha256})
                    write_atomically(file.with_suffix(".npz"), data)
                write_atomically(file, (record.model_dump_json(indent=1) + "\n").encode())
            self._not_current[folder] = attempt, file
            _point(file)
        del self._not_current[folder]
        return file

    def write_pointers(self) -> Iterator[tuple[Path, str]]:
        """Write each ``current`` that is missing or names nothing, as after a kill between the two
        writings; yields it, and the attempt that it names now."""
        for folder in self.cells():
            if self._named(folder / POINTER) is None:
                with lock_of(folder / ".lock"):  # a run that is between the two writings goes first
                    file = self.current_attempt(folder)
                    if file is not None and self._named(folder / POINTER) is None:
                        _point(file)
                        yield folder / POINTER, file.name


def nothing_in(root: Path) -> str:
    """What is wrong with a folder without records, and what to type."""
    if any(root.glob(CELLS)):
        return f"no record in {root} can be used; `bench store verify --results {root}` says why"
    if root.is_dir():
        return f"no records in {root}; type: python -m bench run --methods all --tasks glue"
    return (
        f"no records in {root}: there is no such folder; name the folder of records with --results"
    )


def _unreadable(record: Record, arrays: Mapping[str, np.ndarray]) -> str:
    """Why readers would set a record and its answers aside; "" where they would not."""
    if wrong := not_finite(record.model_dump()):
        return f"{wrong} is NaN or infinite, and records have finite numbers only"
    try:
        load(record.model_dump_json(), "its record")
    except InputError as error:
        return str(error)
    if record.status != "ok" or not arrays:
        return ""
    return raw_predictions.fault(record, arrays)


def _point(file: Path) -> None:
    """Make an attempt the current one of its cell."""
    write_atomically(file.with_name(POINTER), f"{file.name} {sha256_of(file)}\n".encode())


def _last_number(folder: Path) -> int:
    """The highest number of an attempt in a cell's folder, 0 where there is none; a broken attempt
    keeps its number."""
    last = 0
    for path in folder.glob("attempt-*"):
        match = re.match(r"attempt-([0-9]{1,9})\.", path.name)
        if match:
            last = max(last, int(match[1]))
    return last


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    # of a link, where what it points to cannot be looked at
    except OSError:
        return False


def _pointed(pointer: Path) -> tuple[str, str]:
    """The content of a ``current``: the name of an attempt, and the sha256 of its record.

    Older ones do not have the sha256.

    Raises:
        OSError, UnicodeDecodeError: it cannot be read.
    """
    text = read_at_most(pointer, LARGEST_POINTER).decode("utf-8")
    name, _, sha256 = text.strip().partition(" ")
    return name, sha256


def _changed(file: Path, data: bytes) -> str:
    """Why the bytes of a record are not those that were written.

    The file ``current`` has the sha256 of the record that it names.

    Returns:
        "" where they are those, or nobody knows.
    """
    try:
        name, sha256 = _pointed(file.with_name(POINTER))
    # the pointer itself is set aside where the current attempt is looked for
    except (OSError, UnicodeDecodeError):
        return ""
    if name != file.name or not sha256 or hashlib.sha256(data).hexdigest() == sha256:
        return ""
    return "it is not the record that was written (sha256 in `current`)"


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
