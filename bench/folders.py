"""Where the harness keeps things on this machine."""

from __future__ import annotations

import os
from pathlib import Path

STATES, MARKS, PROGRESS = "halfway", "training", "progress"
"""Folders of the cache: states of trainings that broke off, processes that train now, and runs under way."""
NOT_FINISHED = (STATES, MARKS, PROGRESS)
"""Folders of the cache that hold no finished thing."""


def users_cache() -> Path:
    """``BERT_BENCH_CACHE``, or the user's cache folder."""
    given = os.environ.get("BERT_BENCH_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "bert-bench"
