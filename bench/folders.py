"""Where the harness keeps things on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def users_cache() -> Path:
    """``BERT_BENCH_CACHE``, or the user's cache folder."""
    given = os.environ.get("BERT_BENCH_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "bert-bench"
