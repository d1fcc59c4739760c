"""What the executors for clusters have in common: the folder that nodes look for, and what is shown of their jobs."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from bench.cache import cache_root
from bench.folders import CLUSTER_RUNS
from bench.make.result import StepResult
from bench.plan.plan import Plan, Step
from bench.progress import Progress
from bench.run.display import Display, write_status
from bench.run_status import announce, new_folder

FORGOTTEN_SECONDS = 30 * 86_400.0
"""The folder of a run that was killed is removed by a later one after so long."""
MARK = "mark"


class RunFolder:
    """A folder in the cache of the machine that starts a run. A node that sees it shares this cache."""

    def __init__(self) -> None:
        root = cache_root() / CLUSTER_RUNS
        root.mkdir(parents=True, exist_ok=True)
        _forget_old(root)
        self.path = Path(tempfile.mkdtemp(dir=root, prefix="run-")).absolute()
        (self.path / MARK).write_text("", encoding="utf-8")

    @property
    def mark(self) -> str:
        """Below any cache: the file that tells whether it is this one."""
        return f"{CLUSTER_RUNS}/{self.path.name}/{MARK}"

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def _forget_old(root: Path) -> None:
    for folder in root.glob("run-*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > FORGOTTEN_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


class ShownJobs:
    """The jobs under way as a person sees them, here and by ``bench status``: one status file each, on this machine."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self.folder = new_folder()
        announce(self.folder, plan.request.results, {planned.key for planned in plan.todo})
        self.display = Display(self.folder, progress)
        self._files: dict[Future[StepResult], Path] = {}
        self._submitted = 0

    def add(self, step: Step, future: Future[StepResult]) -> None:
        """A job that waits for a machine."""
        self._submitted += 1
        self._files[future] = self.folder / f"{self._submitted:06}.json"
        waiting = {"job": step.title, "process": os.getpid(), "title": f"{step.title}: waits for a place", "done": 0}
        self.tell(future, {**waiting, "total": None, "pace": "", "said": []})

    def tell(self, future: Future[StepResult], status: dict[str, Any]) -> None:
        """What its worker says of it."""
        if status and future in self._files:
            write_status(self._files[future], status)

    def end(self, future: Future[StepResult]) -> None:
        self.display.end_job(self._files.pop(future))

    def close(self) -> None:
        self.display.end()
        shutil.rmtree(self.folder, ignore_errors=True)
