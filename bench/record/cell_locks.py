"""Locks on cells: which process works on which cell of a results folder, so that two runs do not train one cell twice.

A held lock is called a claim.

<root>/.claims/<key>.lock   locked by the process that works on this cell
               <key>.by     its process number, the time and the host: for people
               guard        locked while a claim is being taken or released, for about a millisecond
               .gitignore   keeps the folder out of git

A claim is a lock of the operating system. It ends with its process, also after ``kill -9``: no claim is ever stale.

A lock file that nobody needs is removed, else thousands of cells would leave thousands of files. To remove a lock file
is a race: another process may have opened it, and would then lock a file that no longer has a name, while a third
process makes a new one. Here every process opens and removes lock files under the guard alone, so whoever removes a
file knows that no other process is about to lock it. The guard itself is never removed. Whatever a killed process
leaves is removed by the next one that opens the folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import re
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from bench.errors import InputError

FOLDER = ".claims"
GUARD, LOCK, BY, PROBE = "guard", ".lock", ".by", "probe-"
KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
GUARD_SECONDS = 2.0
"""how long one waits for the guard; a process that was stopped inside it must not stop all others"""
GUARD_POLL_SECONDS = 0.002
PROBE_IS_OLD_SECONDS = 3600.0
NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
"""what a file system without file locks answers"""


class CellLocks:
    """The claims of one process on the cells of one results folder. They end with the process, or by :meth:`release`.

    A held claim is one open file. Take it when the work on its cell begins and release it after the record is written,
    so that a run holds as many as it has workers, not as many as it has cells: systems often allow 1,024 open files.

    Promised for the processes of one host. A network file system may hide one host's locks from another host.

    A started process (``subprocess``, or ``multiprocessing`` by ``spawn``) does not inherit the claims. Do not use one
    object in a process made by ``fork``: there it takes nothing and releases nothing.

    Attributes:
        warning: one sentence for the user where the file system has no working file locks, else "".

    Raises:
        InputError: the folder cannot be written.
    """

    def __init__(self, root: Path) -> None:
        self.folder = root / FOLDER
        self.warning = ""
        self._held: dict[str, BaseFileLock] = {}
        self._process = os.getpid()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not (self.folder / ".gitignore").is_file():
                (self.folder / ".gitignore").write_text("*\n", encoding="utf-8")
            if not _locks_are_honoured(self.folder):
                self._go_without_locks()
        except OSError as error:
            raise self._cannot_write(error) from None
        if self.are_honoured:
            self._remove_leftovers()

    @property
    def are_honoured(self) -> bool:
        """Whether a claim keeps others out. If not, :meth:`take` says True to everybody."""
        return not self.warning

    def take(self, key: str) -> bool:
        """Claim a cell, without waiting for its holder.

        Look for the cell's record again afterwards: the holder before may have written it just now.

        Args:
            key: letters, digits, ``_``, ``-`` and ``.``, no ``.`` first; for instance a record's key.

        Returns:
            True if this object now holds the claim, also if it did before; False if any other object, in this process
            or another, holds it, or if the guard was not free for GUARD_SECONDS: ask again later. True for everybody
            where :attr:`are_honoured` is False.

        Raises:
            InputError: the folder cannot be written.
        """
        if os.getpid() != self._process:
            raise RuntimeError("claims belong to the process that made them, not to one that it forked")
        file = self._file(key, LOCK)
        if not self.are_honoured:
            return True
        try:
            with self._guarded() as guarded:
                if key in self._held:
                    return True
                lock = _try_to_lock(file) if guarded else None
                if lock is not None:
                    self._held[key] = lock
                    self._sign(key)
                return lock is not None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise self._cannot_write(error) from None
            self._go_without_locks()  # it gave locks when this run began, and gives none now
            return True

    def release(self, key: str) -> None:
        """Give a claim back; nothing happens if this object does not hold it."""
        if os.getpid() != self._process:
            return
        lock = self._held.pop(key, None)
        if lock is None:
            return
        try:
            with contextlib.suppress(OSError), self._guarded() as guarded:
                self._end(key, lock, remove=guarded)
        finally:
            # does nothing the second time; needed where the guard could not be opened. A lock that the system does not give
            # back ends with the process
            with contextlib.suppress(OSError):
                lock.release()

    def release_all(self) -> None:
        """Give back every claim that this object holds."""
        for key in list(self._held):
            self.release(key)

    def __enter__(self) -> CellLocks:
        return self

    def __exit__(self, *_: object) -> None:
        self.release_all()

    def holder(self, key: str) -> str:
        """Who holds a claim, for people: ``process 123 on this host since 12:03``.

        Returns:
            "" if nobody holds it; ``another process`` if that one's words cannot be read.
        """
        file = self._file(key, LOCK)
        if not self.are_honoured or not file.exists():
            return ""
        if key not in self._held and self._remove_if_free(key):
            return ""
        return self._signature(key)

    def _file(self, key: str, suffix: str) -> Path:
        if not KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no key of a claim: it has to be a file name of letters, digits, _, - and .")
        return self.folder / f"{key}{suffix}"

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[bool]:
        """True inside: no other process or thread takes or releases a claim meanwhile. False: the guard was not free.

        A new lock object each time: with an object of its own, another thread has to wait as another process has.
        """
        guard = FileLock(self.folder / GUARD, thread_local=False)
        try:
            guard.acquire(timeout=GUARD_SECONDS, poll_interval=GUARD_POLL_SECONDS)
            guarded = True
        except Timeout:
            guarded = False
        try:
            yield guarded
        finally:
            guard.release()

    def _cannot_write(self, error: OSError) -> InputError:
        return InputError(
            f"claims of cells cannot be written to {self.folder}: {error.strerror}; choose another folder, or mend this one"
        )

    def _go_without_locks(self) -> None:
        self.warning = (
            f"the file system of {self.folder.parent} has no working file locks: "
            "two runs on this folder at once may train the same cell twice"
        )

    def _end(self, key: str, lock: BaseFileLock, remove: bool) -> None:
        """Unlock, and remove the files; the lock's file only under the guard."""
        with contextlib.suppress(OSError):
            self._file(key, BY).unlink(missing_ok=True)
        lock.release()  # before the file is removed: Windows removes no open file
        if remove:
            self._file(key, LOCK).unlink(missing_ok=True)

    def _remove_if_free(self, key: str) -> bool:
        """Remove what a killed process left of a claim; whether nobody holds it."""
        with contextlib.suppress(OSError), self._guarded() as guarded:
            lock = _try_to_lock(self._file(key, LOCK)) if guarded else None
            if lock is not None:
                self._end(key, lock, remove=True)
                return True
        return False

    def _remove_leftovers(self) -> None:
        for file in list(self.folder.iterdir()):
            if file.suffix in (LOCK, BY) and KEY.fullmatch(file.stem):
                self._remove_if_free(file.stem)
            elif file.name.startswith(PROBE):
                with contextlib.suppress(OSError):
                    if time.time() - file.stat().st_mtime > PROBE_IS_OLD_SECONDS:
                        file.unlink()

    def _sign(self, key: str) -> None:
        """Not into the locked file: some versions of filelock empty it when they try it, and Windows hides its text."""
        with contextlib.suppress(OSError):
            self._file(key, BY).write_text(f"{os.getpid()} {time.time():.0f} {platform.node()}", encoding="utf-8")

    def _signature(self, key: str) -> str:
        try:
            process, since, host = self._file(key, BY).read_text(encoding="utf-8").split(" ", 2)
            begun, now = time.localtime(int(since)), time.localtime()
        except (OSError, ValueError, OverflowError):
            return "another process"
        shown = time.strftime("%H:%M" if begun[:3] == now[:3] else "%Y-%m-%d %H:%M", begun)
        return f"process {process} on {'this host' if host == platform.node() else f'host {host}'} since {shown}"


def _try_to_lock(file: Path) -> BaseFileLock | None:
    """The lock, held; None if another lock object, of any process, holds it."""
    lock = FileLock(file, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock


def _locks_are_honoured(folder: Path) -> bool:
    """Whether a file of one's own can be locked once, and not a second time by another lock object.

    Where there are no locks, versions of filelock differ: they raise the system's error or NotImplementedError, never get
    the lock, or make a marker file and warn. The marker outlives its process, so it is no lock for us.
    """
    handle, name = tempfile.mkstemp(dir=folder, prefix=PROBE)
    os.close(handle)
    locks: list[BaseFileLock | None] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            locks = [_try_to_lock(Path(name))]
            locks.append(_try_to_lock(Path(name)))
        return locks[0] is not None and not isinstance(locks[0], SoftFileLock) and locks[1] is None
    except NotImplementedError:
        return False
    except OSError as error:
        if error.errno in NO_LOCKS:
            return False
        raise
    finally:
        for lock in locks:
            if lock is not None:
                lock.release()
        Path(name).unlink(missing_ok=True)
