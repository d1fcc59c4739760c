"""What is asked and looked at before a plan is carried out: time, disk, folders that can be written."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from bench.cache import cache_root
from bench.errors import InputError
from bench.plan.plan import Plan
from bench.plan.request import SAMPLE, Request
from bench.plan.spelling import MethodRow
from bench.progress import Progress, duration

ASK_ABOVE_SECONDS, ASK_ABOVE_BYTES = 30 * 60, 5 * 10**9
SPARE_BYTES = 10**8
"""Disk that has to stay free in addition to what the plan needs, for files that it does not count; chosen by hand."""
SAMPLE_PATIENCE = 4
"""How many times as long a plan of the sample suite may be: it is minutes of work, and longer only where a machine is slow
or busy; the first command that somebody types should not stop there."""


def agree(request: Request, seconds: float, disk_bytes: int, confirm: Any) -> None:
    """Ask whether long work should start.

    Raises:
        InputError: nobody is there to ask, or the answer is no.
    """
    patience = SAMPLE_PATIENCE if request.data == SAMPLE else 1
    if request.yes or (seconds <= patience * ASK_ABOVE_SECONDS and disk_bytes <= ASK_ABOVE_BYTES):
        return
    what = f"about {duration(seconds)} and {disk_bytes / 1e9:.1f} GB of disk"
    if confirm is None:
        raise InputError(
            f"this plan needs {what}; add --yes to start it, or fewer --tasks, --methods or --max-train-rows"
        )
    if not confirm(f"This plan needs {what}. Start?"):
        raise InputError("not started")


def check_saving(root: Path, plan: Plan, progress: Progress) -> None:
    """Make the folder for students, and say which of them are not trained again and so not saved.

    Raises:
        InputError: it cannot be made.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--save-students {root}: {error.strerror}; choose another folder") from None
    trained = [p for p in plan.cells if isinstance(p.row, MethodRow)]
    gone = [p.cell for p in trained if not p.is_todo and p.record and p.record.status == "ok"]
    if gone:
        names = ", ".join(dict.fromkeys(f"{cell.label} on {'+'.join(cell.tasks)}" for cell in gone))
        progress.say(f"not saved, because trained before: {names}; --rerun trains them again")


def check_disk(plan: Plan) -> None:
    """Raises InputError where a folder cannot be written, or has less free than the plan needs."""
    needed = plan.disk_bytes + SPARE_BYTES
    saved = [("--save-students", plan.request.save_students)] if plan.request.save_students else []
    reports = ("reports", plan.request.reports)
    for what, folder in (("results", plan.request.results), reports, ("the cache", cache_root()), *saved):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):  # a folder that is there may be read-only
                pass
            free = shutil.disk_usage(folder).free
        except OSError as error:
            raise InputError(f"{what} cannot be written to {folder}: {error.strerror}; choose another folder") from None
        if free < needed:
            raise InputError(
                f"{what} in {folder} has {free / 1e6:,.0f} MB free, this plan needs about {needed / 1e6:,.0f} MB; "
                f"free some, or set --results, --reports and BERT_BENCH_CACHE to another disk"
            )
