"""Where the harness keeps things on this machine."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from bench.errors import InputError

STATES = "halfway"
"""The folder of the cache for states of trainings that broke off."""
MARKS = "training"
"""The folder of the cache for processes that train now."""
PROGRESS = "progress"
"""The folder of the cache for runs under way."""
CLUSTER_RUNS = "cluster-runs"
"""The folder of the cache for what runs on a cluster exchange with their nodes."""
REVISIONS = "hub-revisions"
"""The folder of the cache for the commits of what was read of the hub."""
NOT_FINISHED = (STATES, MARKS, PROGRESS, CLUSTER_RUNS, REVISIONS)
"""Folders of the cache that hold no finished entry."""


CACHE_VARIABLE = "BERT_BENCH_CACHE"
ANOTHER_CACHE = f"set {CACHE_VARIABLE} to a folder that can be written"


def users_cache() -> Path:
    """``BERT_BENCH_CACHE``, or the user's cache folder.

    Raises:
        InputError: the variable is not set, and this user has no home.
    """
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    try:
        return Path.home() / ".cache" / "bert-bench"
    except RuntimeError:  # in a container a process may have a number that no user has
        raise InputError(f"this user has no home folder for the cache; {ANOTHER_CACHE}") from None


def why_not_writable(folder: Path) -> str:
    """Why nothing can be written into a folder, or it cannot be made; "" where it can. Nothing is
    made here."""
    there = folder.absolute()
    # a folder that may not be looked into is not there for this user; Path.exists raises for it
    while not os.path.exists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return os.strerror(errno.ENOTDIR)
    if not os.access(there, os.W_OK | os.X_OK):
        return os.strerror(errno.EROFS if _is_read_only(there) else errno.EACCES)
    return ""


def _is_read_only(folder: Path) -> bool:
    """Whether the file system of a folder is mounted to be read alone."""
    return hasattr(os, "statvfs") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
