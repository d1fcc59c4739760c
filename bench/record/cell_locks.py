"""Which process works on which cell of a results folder, so that two runs do not train one cell
twice: one file lock a key.

<root>/.claims/<key>.lock   locked by the process that works on this cell

The file stays there when it is free.
The system ends a lock with its process, also after ``kill -9``. Promised for the processes of one
host: a network file system may hide one host's locks from another.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from bench.files import MODE

FOLDER = ".claims"


class CellLocks:
    """The locks of one process. A held one is an open file: take it when work begins, release it
    after the record is written."""

    def __init__(self, root: Path) -> None:
        self.folder = root / FOLDER
        self._held: dict[str, BaseFileLock] = {}
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / ".gitignore").write_text("*\n", encoding="utf-8")

    def take(self, key: str) -> bool:
        """Lock a cell without waiting; False where another holds it.

        Look for the cell's record again afterwards: the holder before may have written it just now.
        """
        if key not in self._held:
            lock = FileLock(self.folder / f"{key}.lock", mode=MODE, thread_local=False)
            try:
                lock.acquire(blocking=False)
            except Timeout:
                return False
            self._held[key] = lock
        return True

    def release(self, key: str) -> None:
        """Give a lock back; nothing happens if this object does not hold it."""
        if (lock := self._held.pop(key, None)) is not None:
            # a lock that the system does not give back ends with the process
            with contextlib.suppress(OSError):
                lock.release()

    def __enter__(self) -> CellLocks:
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._held):
            self.release(key)
