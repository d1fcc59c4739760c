"""The C library that meets every file operation below a folder: compiled here, and armed in one process."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from enum import IntEnum
from pathlib import Path

SOURCE = Path(__file__).with_name("below.c")
PRELOADED = "BENCH_FAULT_LIBRARY"
"""The variable of the environment that names the library of this process."""
FLAGS = ("-shared", "-fPIC", "-O1", "-U_FORTIFY_SOURCE")


class Action(IntEnum):
    """What happens at the n-th operation; the numbers of ``below.c``."""

    COUNT = 1
    END = 2
    """the process ends by SIGKILL before it"""
    TEAR = 3
    """half of the write is done, then the process ends by SIGKILL"""
    FAIL_ONCE = 4
    FAIL_ALWAYS = 5
    """it and all that follow"""
    SHORT = 6
    """this write and all that follow write a half of what they were given"""


def compiler() -> str | None:
    """A C compiler of this machine."""
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


def compiled(folder: Path) -> Path:
    """Compile the library into a folder.

    Raises:
        subprocess.CalledProcessError: it cannot be compiled here.
    """
    target = folder / "below.so"
    subprocess.run([compiler() or "cc", *FLAGS, str(SOURCE), "-o", str(target), "-ldl"], check=True)
    return target


def is_loaded() -> bool:
    """Whether this process was started with the library."""
    return PRELOADED in os.environ


def arm(below: Path, action: Action, number: int = 0, error: int = 0, operations: str = "", log: int = -1) -> None:
    """From now on this process meets the fault, and no other does.

    Args:
        below: the folder; a path without links.
        number: of the operation, from 1 on.
        error: the number of the system's error, as in :mod:`errno`.
        operations: which are counted, separated by spaces: open, read, write, fsync, rename, unlink, mkdir, chmod, lock,
            truncate. All that change something, if none is named.
        log: an open file that every counted operation is written to.
    """
    words = f" {' '.join(operations.split())} " if operations else ""
    _library().faults_arm(str(below).encode(), words.encode(), int(action), ctypes.c_long(number), error, log)


def seen() -> int:
    """How many operations were counted."""
    return int(_library().faults_seen())


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(os.environ[PRELOADED])
    library.faults_seen.restype = ctypes.c_long
    return library
