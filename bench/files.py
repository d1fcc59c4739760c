"""Names of files, their locks, and writing them so that a reader never sees half of one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import BaseFileLock, FileLock

os.umask(_UMASK := os.umask(0o077))  # the system tells it only to who sets it
MODE = 0o666 & ~_UMASK
"""The permissions of files that others may read where the user lets them: some libraries write 0600."""
TEMPORARY = ".tmp-"
"""How the names of files and folders begin that are being written; a killed process leaves them."""


def slug(text: str) -> str:
    """A file name for any text: letters, digits, ``-``, ``_`` and ``.``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "x"


_LOCKS: dict[Path, BaseFileLock] = {}


def lock_of(file: Path) -> BaseFileLock:
    """The lock of this lock file, for ``with``.

    One object for each file and process: if a broken disk did not release it, this process can take it again.
    """
    return _LOCKS.setdefault(file, FileLock(file, mode=MODE))


def write_atomically(path: Path, data: bytes) -> None:
    """Either the whole file or nothing, even if the machine stops."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, MODE)
        os.replace(temporary, path)
    except BaseException as error:
        # of a disk that is full the system names no file
        if isinstance(error, OSError) and error.errno and not error.filename:
            error.filename = str(path)
        with contextlib.suppress(OSError):
            Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def folder_in_place_of(final: Path) -> Iterator[Path]:
    """A new folder that takes the place of ``final`` when it has all its files, with the permissions that the user's umask gives; nothing
    is left where this fails."""
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=TEMPORARY) as above:
        folder = Path(above) / "new"
        folder.mkdir()
        yield folder
        for path in folder.iterdir():
            path.chmod(MODE)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(folder, final)


def sha256_of(path: Path) -> str:
    """Of a file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
