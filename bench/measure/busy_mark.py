"""A mark that cells are training on this machine, so that nobody takes times beside them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.errors import InputError
from bench.folders import MARKS


@contextmanager
def training_here(cache: Path) -> Iterator[None]:
    """While inside, :func:`trainings` of the same cache folder names this process."""
    mark = cache / MARKS / str(os.getpid())
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # one that stays is removed when this process is gone
            mark.unlink(missing_ok=True)


def trainings(cache: Path) -> list[int]:
    """Process numbers of runs that are training now; marks of processes that are gone are removed."""
    found = []
    for mark in sorted((cache / MARKS).glob("*")):
        if is_alive(mark.name):
            found.append(int(mark.name))
        else:
            mark.unlink(missing_ok=True)
    return found


def refuse_while_training(cache: Path, advice: str) -> None:
    """
    Args:
        advice: how the message ends: why that matters, and what to do.

    Raises:
        InputError: a run that uses this cache is training.
    """
    if busy := trainings(cache):
        raise InputError(f"cells are training on this machine (process {', '.join(map(str, busy))}); {advice}")


def is_alive(process: str) -> bool:
    """Whether a process with this number runs on this machine; no for what is not a number."""
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True
