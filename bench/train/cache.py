"""The cache: what is made once and kept under its key, by one process for all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock

WEIGHTS = "model.safetensors"


def cache_root() -> Path:
    """``BERT_BENCH_CACHE``, or the user's cache folder."""
    given = os.environ.get("BERT_BENCH_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "bert-bench"


def folder_of(kind: str, key: str) -> Path:
    return cache_root() / kind / key[:24]


def is_cached(kind: str, key: str) -> bool:
    return (folder_of(kind, key) / "made.json").is_file()


def keep(kind: str, key: str, write: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Run ``write`` in a temporary folder and move it into place; other processes wait and find it made."""
    final = folder_of(kind, key)
    final.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(final.with_suffix(".lock")):
        if not (final / "made.json").is_file():
            shutil.rmtree(final, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=final.parent, prefix=".tmp-") as temporary:
                folder = Path(temporary) / "new"
                folder.mkdir()
                made = {"key": key, **write(folder)}
                (folder / "made.json").write_text(json.dumps(made, indent=1))
                os.replace(folder, final)
        return dict(json.loads((final / "made.json").read_text()))
