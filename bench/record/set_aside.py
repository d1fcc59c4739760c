"""Files that a command does not use: each file is named once, with the reason, and the command goes
on. No torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from bench.errors import one_line

SET_ASIDE = "set aside"
"""The command goes on without the file."""
UNREADABLE = "unreadable"
"""The command goes on without what is in the folder."""
ADOPTED = "adopted"
"""The file is used although no ``current`` names it."""
WITHOUT_ANSWERS = "without answers"
"""Its scores are used, and tests leave it out."""
DEPTH = 5
"""Names in the path of a record's file below its root: data, tasks, method, key, file."""


class Note(NamedTuple):
    """One file that is not as it should be, and what this command does about it."""

    kind: str
    path: Path
    why: str

    def sentence(self, root: Path | None = None) -> str:
        """One line, with the path from ``root``, or the whole path."""
        inside = root is not None and self.path.is_relative_to(root)
        place = self.path.relative_to(root) if inside and root is not None else self.path
        return one_line(f"{self.kind}: {place.as_posix()}: {self.why}")


def unreadable(folder: Path, error: OSError) -> Note:
    """That a folder cannot be read, and why."""
    why = f"the folder cannot be read: {error.strerror}; nothing in it is used"
    return Note(UNREADABLE, folder, why)


def sentences(notes: Iterable[Note], root: Path, folders: Collection[str]) -> list[str]:
    """For a reader of a report: the files of a folder of records that the report does not use, or
    uses only in part; a line each, sorted by path.

    Args:
        folders: of the data that the report is of, below ``root``; what lies in no folder of data
            is said in every report.
    """
    kept = []
    for note in notes:
        inside = note.path.relative_to(root).parts if note.path.is_relative_to(root) else ()
        if len(inside) < DEPTH or inside[0] in folders:
            kept.append(note.sentence(root))
    return sorted(kept)


_listener: ContextVar[Callable[[Note], None] | None] = ContextVar(
    "who is told what is not used", default=None
)


@contextmanager
def notes_sent_to(listener: Callable[[Note], None]) -> Iterator[None]:
    """Inside, every note of this command is passed to ``listener``, each once."""
    told: set[Note] = set()

    def once(note: Note) -> None:
        if note not in told:
            told.add(note)
            listener(note)

    token = _listener.set(once)
    try:
        yield
    finally:
        _listener.reset(token)


def notify(note: Note) -> None:
    """Pass a note to the listener. A script or a worker has none: there the store keeps its
    notes."""
    if (listener := _listener.get()) is not None:
        listener(note)
