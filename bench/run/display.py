"""Messages of workers about their jobs, one small file a job, and how the first process shows
it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.progress import EVERY_SECONDS, FIRST_SECONDS, Pace, Progress
from bench.run.time_left import TimeLeft
from bench.run_status import read_status, write_status
from bench.terminal import shown

WRITE_SECONDS = 0.5
"""How often a worker writes how far it is, at most."""


class FileProgress(Progress):
    """The progress of a worker: written to the file of the job that it does."""

    def __init__(
        self, stop: Any = None, write: Callable[[Path, dict[str, Any]], Any] = write_status
    ) -> None:
        """
        Args:
            stop: its ``value`` is above 0 when trainings should keep their states and end.
            write: told the file and what is said of the job.
        """
        super().__init__()
        self._stop = stop
        self._send = write
        self._file: Path | None = None
        self._body: dict[str, Any] = {}
        self._written = 0.0

    def begin(self, title: str, file: Path | None = None) -> None:
        """From now on it is this job."""
        self._file = file
        self._body = {
            "job": title,
            "process": os.getpid(),
            "title": title,
            "done": 0,
            "total": None,
        }
        self._body |= {"left": None, "said": []}
        self._write(at_once=True)

    def end(self) -> None:
        """The job is done; its last words are in the file."""
        self._write(at_once=True)
        self._file = None

    def say(self, text: str) -> None:
        self._body.setdefault("said", []).append(text)
        self._write(at_once=True)

    def say_pace(self, text: str) -> None:
        """The run says how far it is, of all its jobs in one line."""

    def is_stopping(self) -> bool:
        return self._stop is not None and bool(self._stop.value)

    @contextmanager
    def task(self, title: str, is_short: bool = False) -> Iterator[Callable[[int, int], None]]:
        self._body |= {"title": title, "done": 0, "total": None, "left": None}
        self._write(at_once=True)
        pace = Pace()
        with self._plain(title, is_short) as update:

            def count(done: int, total: int) -> None:
                left = pace.left(self.clock(), done, total)
                self._body |= {"done": done, "total": total, "left": left}
                update(done, total)
                self._write()
                self.counted(title, done, total)

            yield count

    def _write(self, at_once: bool = False) -> None:
        if self._file is not None and (
            at_once or time.monotonic() - self._written >= WRITE_SECONDS
        ):
            self._written = time.monotonic()
            self._send(self._file, self._body)


class Display:
    """Shows what the jobs of a run say: their lines as they come, and one line of the run itself.

    That line says how far the run is, how long it will still take, and what it does now.
    """

    def __init__(self, folder: Path, progress: Progress, time_left: TimeLeft) -> None:
        """
        Args:
            folder: of the files of the jobs.
        """
        self._folder = folder
        self._progress = progress
        self._time_left = time_left
        self._heard: dict[str, int] = {}
        """job -> how many of its lines were said"""
        self._jobs: dict[str, dict[str, Any]] = {}
        """what each job under way says of itself"""
        self._live: Any = None
        self._spoken = progress.clock() - EVERY_SECONDS + FIRST_SECONDS

    def begin(self) -> None:
        if self._progress.stream.isatty():
            self._live = self._progress.bar(transient=True, has_pace=False)
            self._live.start()
            self._live.add_task("", total=1.0)

    def end(self) -> None:
        self.refresh()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def refresh(self) -> None:
        """Read every file, and say what is new."""
        for file in sorted(self._folder.glob("*.json")):
            self.hear(file.stem, read_status(file))
        self.show()

    def hear(self, job: str, body: dict[str, Any]) -> None:
        """Show what a job says: new lines are said at once."""
        if not body:
            return
        self._jobs[job] = body
        if body.get("process"):
            self._time_left.start(job)
        for line in body["said"][self._heard.get(job, 0) :]:
            self.say(line)
        self._heard[job] = len(body["said"])

    def end_job(self, file: Path) -> None:
        """Say its last words, and forget it."""
        self.hear(file.stem, read_status(file))
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
        self._jobs.pop(file.stem, None)
        self._heard.pop(file.stem, None)

    def say(self, text: str) -> None:
        """Above the live line, where there is one."""
        if self._live is None:
            self._progress.say(text)
        else:
            self._live.console.print(shown(text), markup=False, highlight=False)

    def show(self) -> None:
        """Show how far the run is: at once in a live line, without a terminal now and then."""
        now = self._progress.clock()
        if self._live is None and now - self._spoken < EVERY_SECONDS:
            return
        self._spoken = now
        text = self._time_left.in_words(self._jobs)
        if doing := [body["title"] for body in self._jobs.values() if body.get("title")]:
            text += f"; now {'; '.join(doing)}"
        if self._live is None:
            self._progress.say_pace(f"  {text}")
            return
        (line,) = self._live.task_ids
        share = self._time_left.share(self._time_left.left(self._jobs)[0])
        self._live.update(line, description=shown(text), completed=share)
