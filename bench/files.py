"""Names of files, their locks, and writing them so that a reader never sees half of one."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import BaseFileLock, FileLock

os.umask(_UMASK := os.umask(0o077))  # the system tells it only to who sets it
MODE = 0o666 & ~_UMASK
"""The permissions of files that others may read where the user lets them: some libraries write
0600."""
TEMPORARY = ".tmp-"
"""How the names of files and folders begin that are being written; a killed process leaves them."""


def slug(text: str) -> str:
    """A file name for any text: letters, digits, ``-``, ``_`` and ``.``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "x"


_LOCKS: dict[Path, BaseFileLock] = {}


def lock_of(file: Path) -> BaseFileLock:
    """The lock of this lock file, for ``with``.

    One object for each file and process: if a broken disk did not release it, this process can take
    it again.
    """
    return _LOCKS.setdefault(file, FileLock(file, mode=MODE))


def write_atomically(path: Path, data: bytes) -> None:
    """Either the whole file or nothing, even if the machine stops."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        put_in_place(Path(temporary), path)
    except BaseException as error:
        # of a disk that is full the system names no file
        if isinstance(error, OSError) and error.errno and not error.filename:
            error.filename = str(path)
        with contextlib.suppress(OSError):
            Path(temporary).unlink(missing_ok=True)
        raise


def put_in_place(new: Path, final: Path) -> None:
    """Give a finished file its name.

    Its content is on the disk before, so that the name never stands for half a file, even if
    the machine stops.
    """
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    new.chmod(MODE)
    os.replace(new, final)


def read_at_most(path: Path, limit: int) -> bytes:
    """The content of a regular file.

    A pipe or a device is refused and not waited for.

    Args:
        limit: the largest size, in bytes.

    Raises:
        OSError: the file cannot be read, is no regular file, or is larger.
    """
    # asked before it is opened: to open a pipe is to wait for its writer
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    if status.st_size > limit:
        size = f"it has {status.st_size / 1e6:,.0f} MB"
        raise OSError(errno.EFBIG, f"{size}, at most {limit / 1e6:,.0f} are read", str(path))
    return path.read_bytes()


def entries_of(folder: Path, tell: Callable[[OSError], object]) -> list[os.DirEntry[str]]:
    """The entries of a folder, in the order of the names; none where the folder is not there.

    Args:
        tell: told why the folder cannot be read.
    """
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        tell(error)
        return []


@contextlib.contextmanager
def folder_in_place_of(final: Path) -> Iterator[Path]:
    """A new folder that takes the place of ``final`` when it has all its files.

    The files get the permissions that the user's umask gives. Nothing is left where this fails.
    """
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
    """The sha256 of a file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
