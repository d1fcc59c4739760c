"""What workers say of their jobs, one small file a job, and how the first process shows it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.progress import Progress
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
        self._stop, self._send = stop, write
        self._file: Path | None = None
        self._body: dict[str, Any] = {}
        self._written = 0.0
        self._shown_task = self._plain

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
        self._body |= {"pace": "", "said": []}
        self._write(at_once=True)

    def end(self) -> None:
        """The job is done; its last words are in the file."""
        self._write(at_once=True)
        self._file = None

    def say(self, text: str) -> None:
        self._body.setdefault("said", []).append(text)
        self._write(at_once=True)

    def say_pace(self, text: str) -> None:
        self._body["pace"] = text
        self._write()

    def is_stopping(self) -> bool:
        return self._stop is not None and bool(self._stop.value)

    @contextmanager
    def task(self, title: str, is_short: bool = False) -> Iterator[Callable[[int, int], None]]:
        self._body |= {"title": title, "done": 0, "total": None}
        self._write(at_once=True)
        with self._shown_task(title, is_short) as update:

            def count(done: int, total: int) -> None:
                self._body |= {"done": done, "total": total}
                update(done, total)
                self._write()

            yield count

    def _write(self, at_once: bool = False) -> None:
        if self._file is not None and (
            at_once or time.monotonic() - self._written >= WRITE_SECONDS
        ):
            self._written = time.monotonic()
            self._send(self._file, self._body)


class TeeProgress(FileProgress):
    """The progress of a run that does its jobs itself: shown as ever, and written to the file of the job too."""

    def __init__(self, shown: Progress) -> None:
        super().__init__()
        self._shown_task, self.stream, self.clock = shown.task, shown.stream, shown.clock
        self.say, self.say_pace, self.is_stopping = shown.say, shown.say_pace, shown.is_stopping  # type: ignore[method-assign]


class Display:
    """Shows what the files of a folder say: lines as they come, and how far each job is."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self._folder, self._progress = folder, progress
        self._heard: dict[str, int] = {}
        self._paces: dict[str, str] = {}
        self._live: Any = None
        self._lines: dict[str, Any] = {}
        """job -> the number of its line in the live display"""

    def begin(self) -> None:
        if self._progress.stream.isatty():
            self._live = self._progress.bar()
            self._live.start()

    def end(self) -> None:
        self.refresh()
        if self._live is not None:
            self._live.stop()

    def refresh(self) -> None:
        """Read every file, and say what is new."""
        for file in sorted(self._folder.glob("*.json")):
            self._read(file)

    def end_job(self, file: Path) -> None:
        """Say its last words, and forget it."""
        self._read(file)
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
        if file.stem in self._lines:
            self._live.remove_task(self._lines.pop(file.stem))

    def say(self, text: str) -> None:
        """Between the live lines, where there are some."""
        if self._live is None:
            self._progress.say(text)
        else:
            self._live.console.print(shown(text), markup=False, highlight=False)

    def _read(self, file: Path) -> None:
        if not (body := read_status(file)):
            return
        job = file.stem
        for line in body["said"][self._heard.get(job, 0) :]:
            self.say(line)
        self._heard[job] = len(body["said"])
        if self._live is not None:
            if job not in self._lines:
                self._lines[job] = self._live.add_task(shown(body["title"]), total=None)
            self._live.update(
                self._lines[job],
                description=shown(body["title"]),
                completed=body["done"],
                total=body["total"],
            )
        elif body["pace"] and body["pace"] != self._paces.get(job):
            self._paces[job] = body["pace"]
            self.say(body["pace"])
