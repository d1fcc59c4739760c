"""Commands in processes that are forked from this one, which has imported everything: a start costs milliseconds."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

LOOK_SECONDS = 0.004


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    """its exit code; the negative number of the signal that ended it"""
    said: str
    """its output and its messages"""
    seconds: float
    hung: bool = False

    @property
    def has_traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.said

    @property
    def last_line(self) -> str:
        return next((line for line in reversed(self.said.splitlines()) if line.strip()), "")


class Child:
    """A process that does some work; what it prints goes to a file."""

    def __init__(self, work: Callable[[], int], said: Path) -> None:
        self._said, self._begun = said, time.monotonic()
        self._code: int | None = None
        said.touch()  # it may be killed before it does so itself
        sys.stdout.flush()
        sys.stderr.flush()
        self.process = os.fork()
        if self.process == 0:
            _work(work, said)

    def is_over(self) -> bool:
        """Whether it has ended."""
        if self._code is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is not None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens where it has ended."""
        if not self.is_over():
            os.kill(self.process, number)

    def ended(self, limit: float = 600) -> Ended:
        """Wait until it has ended; after so many seconds of its life it is killed, with all that it started."""
        hung = False
        while not self.is_over():
            if time.monotonic() - self._begun > limit:
                hung = True
                os.killpg(self.process, signal.SIGKILL)
                limit += 60
            time.sleep(LOOK_SECONDS)
        assert self._code is not None
        said = self._said.read_text(encoding="utf-8", errors="replace")
        return Ended(self._code, said, time.monotonic() - self._begun, hung)


def _work(work: Callable[[], int], said: Path) -> NoReturn:
    """What the forked process does."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        nothing, file = os.open(os.devnull, os.O_RDONLY), os.open(said, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        os.dup2(nothing, 0)
        os.dup2(file, 1)
        os.dup2(file, 2)
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def bench(words: Iterable[object], cache: Path, before: Callable[[], None]) -> int:
    """``python -m bench WORDS`` in this process; returns its exit code. ``before`` is called right before it."""
    from bench.cli import main

    os.environ["BERT_BENCH_CACHE"] = str(cache)
    sys.argv = ["bench", *map(str, words)]
    before()
    try:
        main()
    except SystemExit as ended:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command is over
        return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    return 0


Point = tuple[str, Callable[[], dict[str, Any]]]
"""The name of one fault at one place, and what tries it and says what came of it."""


def each(points: Iterable[Point], until: float, jobs: int, work: Path) -> Iterator[dict[str, Any]]:
    """Do points in processes of their own, so many at a time, as long as there is time; yields each outcome."""
    waiting, running = iter(points), {}
    while True:
        while len(running) < jobs and time.monotonic() < until and (point := next(waiting, None)):
            name, do = point
            file = work / f"outcome-{time.monotonic_ns()}.json"
            running[name] = Child(lambda do=do, file=file: file.write_text(json.dumps(do())), work / "said.txt"), file
        if not running:
            return
        for name in [name for name, (child, _) in running.items() if child.is_over()]:
            file = running.pop(name)[1]
            if file.exists():
                yield json.loads(file.read_text())
                file.unlink()
            else:
                why = [f"the harness of faults itself failed: {(work / 'said.txt').read_text()[-2000:]}"]
                yield {"point": name, "happened": 0, "left": 0, "bad": {"hangs": 1}, "why": why}
        time.sleep(LOOK_SECONDS)
