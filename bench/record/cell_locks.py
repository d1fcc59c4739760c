"""Which process works on which cell of a results folder, so that two runs do not train one cell twice: one file lock a key.

<root>/.claims/<key>.lock   locked by the process that works on this cell; it stays there when it is free
               <key>.by     that process and its host, for people

The system ends a lock with its process, also after ``kill -9``. Promised for the processes of one host: a network file system may hide
one host's locks from another.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import warnings
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from bench.errors import InputError
from bench.files import MODE

FOLDER = ".claims"
NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
"""what a file system without file locks answers"""


class CellLocks:
    """The locks of one process. A held one is an open file: take it when work begins, release it after the record is written.

    Attributes:
        warning: one sentence for the user where the file system has no working locks, else ""; then everybody gets every lock.

    Raises:
        InputError: the folder cannot be written.
    """

    def __init__(self, root: Path) -> None:
        self.folder, self.warning = root / FOLDER, ""
        self._held: dict[str, BaseFileLock] = {}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / ".gitignore").write_text("*\n", encoding="utf-8")
        except OSError as error:
            raise self._cannot_write(error) from None

    def take(self, key: str) -> bool:
        """Lock a cell without waiting; False where another holds it.

        Look for the cell's record again afterwards: the holder before may have written it just now.
        """
        if key in self._held or self.warning:
            return True
        lock = self._locked(key)
        if lock is not None:
            self._held[key] = lock
            with contextlib.suppress(OSError):
                self._signature(key).write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
        return lock is not None or bool(self.warning)

    def release(self, key: str) -> None:
        """Give a lock back; nothing happens if this object does not hold it."""
        if (lock := self._held.pop(key, None)) is not None:
            with contextlib.suppress(OSError):  # a lock that the system does not give back ends with the process
                self._signature(key).unlink(missing_ok=True)
                lock.release()

    def holder(self, key: str) -> str:
        """Who holds a lock, for people; "" if nobody does."""
        lock = None if key in self._held or self.warning else self._locked(key)
        if lock is not None:
            lock.release()
        if lock is not None or (self.warning and key not in self._held):
            return ""
        try:
            return self._signature(key).read_text(encoding="utf-8") or "another process"
        except (OSError, UnicodeDecodeError):
            return "another process"

    def __enter__(self) -> CellLocks:
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._held):
            self.release(key)

    def _signature(self, key: str) -> Path:
        """Not the locked file itself: a system may hide its text from others."""
        return self.folder / f"{key}.by"

    def _locked(self, key: str) -> BaseFileLock | None:
        """The lock, held; None where another object holds it, or where there are no locks."""
        lock = FileLock(self.folder / f"{key}.lock", mode=MODE, thread_local=False)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some versions fall back to a marker file, which outlives its process
                lock.acquire(blocking=False)
            if not isinstance(lock, SoftFileLock):
                return lock
            lock.release()
        except Timeout:
            return None
        except (OSError, NotImplementedError) as error:
            if isinstance(error, OSError) and error.errno not in NO_LOCKS:
                raise self._cannot_write(error) from None
        self.warning = (
            f"the file system of {self.folder.parent} has no working file locks: two runs on this folder at once may train the "
            f"same cell twice"
        )
        return None

    def _cannot_write(self, error: OSError) -> InputError:
        return InputError(
            f"locks of cells cannot be written to {self.folder}: {error.strerror}; choose another folder, or mend this one"
        )
