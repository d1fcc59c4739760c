"""The runs under way on this machine: what each has to do, and how far its jobs are. Written by
runs, read by `bench status`.

A run has a folder of its own in the user's cache, with a file for itself and one for each of its
jobs. The files say what a person wants to know; nothing that is trained depends on them. No torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from bench.folders import PROGRESS, users_cache
from bench.measure.busy import is_alive
from bench.progress import duration
from bench.record.store import KEY_DIGITS, POINTER, Store

FILE = "run"
"""A file for each job ends with .json; that of the run itself does not."""


def _folder_of_this_machine() -> Path:
    """Machines may share a cache: only this one can ask whether its processes run."""
    return users_cache() / PROGRESS / platform.node()


def new_folder() -> Path:
    """A new folder for what a run says; those of runs that were killed are removed.

    If the cache cannot be written, it is a temporary folder, and `status` does not see that run.
    """
    root = _folder_of_this_machine()
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=root, prefix=f"{os.getpid()}-"))
    except OSError:
        return Path(tempfile.mkdtemp(prefix="bert-bench-"))
    for left in root.glob("*-*"):
        if not is_alive(left.name.split("-")[0]):
            shutil.rmtree(left, ignore_errors=True)
    return folder


def announce(folder: Path, results: Path, keys: Collection[str]) -> None:
    """Say what a run has to do."""
    body = {
        "process": os.getpid(),
        "begun": time.time(),
        "results": str(results.resolve()),
        "keys": sorted(keys),
    }
    write_status(folder / FILE, body)


def write_status(file: Path, body: dict[str, Any]) -> None:
    """Write a file whole. A full disk must not end a training; Windows replaces no file that is
    read."""
    new = file.with_suffix(".new")
    with contextlib.suppress(OSError):
        new.write_text(json.dumps(body), encoding="utf-8")
        os.replace(new, file)


def read_status(file: Path) -> dict[str, Any]:
    """The content of a file; nothing where it is not there."""
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return body if isinstance(body, dict) else {}


def under_way() -> list[dict[str, Any]]:
    """The runs of this machine whose cache is this one, in the order in which they began: what each
    announced, ``jobs``, what its jobs say (``title``, ``done`` and ``total`` steps), and
    ``finished``, how many of its records were written since."""
    runs = []
    for file in _folder_of_this_machine().glob(f"*/{FILE}"):
        if (run := read_status(file)) and is_alive(str(run["process"])):
            run["jobs"] = [
                job for path in sorted(file.parent.glob("*.json")) if (job := read_status(path))
            ]
            wanted = {key[:KEY_DIGITS] for key in run["keys"]}
            pointers = [
                cell / POINTER
                for cell in Store(Path(run["results"])).cells()
                if cell.name in wanted
            ]
            run["finished"] = sum(
                file.is_file() and file.stat().st_mtime >= run["begun"] for file in pointers
            )
            runs.append(run)
    return sorted(runs, key=lambda run: float(run["begun"]))


def described(run: dict[str, Any], now: float) -> str:
    """A run in a few lines."""
    finished = run["finished"]
    cells = len(run["keys"])
    took = now - run["begun"]
    left = ""
    if 0 < finished < cells:
        left = f"; about {duration(took / finished * (cells - finished))} left at this pace"
    lines = [f"run {run['process']}: {finished} of {cells} cells done in {duration(took)}{left}"]
    lines.append(f"  records: {run['results']}")
    for job in run["jobs"]:
        steps = f", {job['done']:,} of {job['total']:,} steps" if job.get("total") else ""
        lines.append(f"  now: {job.get('title', '')}{steps}")
    return "\n".join(lines)
