"""Where the harness keeps things on this machine."""

from __future__ import annotations

import os
from pathlib import Path

STATES, MARKS, PROGRESS, CLUSTER_RUNS, REVISIONS = (
    "halfway",
    "training",
    "progress",
    "cluster-runs",
    "hub-revisions",
)
"""Folders of the cache: states of trainings that broke off, processes that train now, runs under way, what runs on a
cluster exchange with their nodes, and the commits of what was read of the hub."""
NOT_FINISHED = (STATES, MARKS, PROGRESS, CLUSTER_RUNS, REVISIONS)
"""Folders of the cache that hold no finished entry."""


def users_cache() -> Path:
    """``BERT_BENCH_CACHE``, or the user's cache folder."""
    given = os.environ.get("BERT_BENCH_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "bert-bench"
