"""A mark that cells are training on this machine, so that nobody takes times beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def training_here(cache: Path) -> Iterator[None]:
    """While inside, :func:`trainings` of the same cache folder names this process."""
    mark = cache / "training" / str(os.getpid())
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def trainings(cache: Path) -> list[int]:
    """Process numbers of runs that are training now; marks of processes that are gone are removed."""
    found = []
    for mark in sorted((cache / "training").glob("*")):
        try:
            os.kill(int(mark.name), 0)
        except (ProcessLookupError, ValueError):
            mark.unlink(missing_ok=True)
        except PermissionError:
            found.append(int(mark.name))  # somebody else's, and alive
        else:
            found.append(int(mark.name))
    return found
