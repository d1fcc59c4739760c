"""Commands in processes that are forked from this one, which has imported everything: a start costs milliseconds."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NoReturn

LOOK_SECONDS = 0.004
TRACEBACK = "Traceback (most recent call last)"


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
        return TRACEBACK in self.said

    @property
    def last_line(self) -> str:
        lines = [line for line in self.said.splitlines() if line.strip()]
        return lines[-1] if lines else ""


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

    def ended(self, limit: float) -> Ended:
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


def bench(words: Iterable[object], cache: Path, before: Callable[[], None] = lambda: None) -> int:
    """``python -m bench WORDS`` in this process; returns its exit code. ``before`` is called right before it."""
    from bench.cli import main

    os.environ["BERT_BENCH_CACHE"] = str(cache)
    sys.argv = ["bench", *map(str, words)]
    before()
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        traceback.print_exc()
        return 1


@dataclass
class Outcome:
    """What one point of a part gave: everything but ``happened`` and ``left`` should be 0."""

    point: str
    happened: int = 1
    """0 where the run was over before the fault"""
    lost: int = 0
    """records that were finished before the fault and are gone, or hold other bytes, afterwards"""
    twice: int = 0
    """cells with several finished attempts"""
    corrupt: int = 0
    """files that cannot be used as they are, after the fault or at the end"""
    unequal: int = 0
    """records that differ from those of the unbroken run"""
    unfinished: int = 0
    """records that are not there at the end"""
    tracebacks: int = 0
    hangs: int = 0
    silent: int = 0
    """ends without a clear line, or with a wrong exit code"""
    left: int = 0
    """temporary files and folders that the fault left; `bench store gc` names them"""
    why: str = ""

    @property
    def is_bad(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self) if one.name in BAD)

    def wrong(self, what: str, why: str) -> None:
        """Count one thing that is wrong."""
        setattr(self, what, getattr(self, what) + 1)
        self.why = f"{self.why}; {what}: {why}".lstrip("; ")


BAD = ("lost", "twice", "corrupt", "unequal", "unfinished", "tracebacks", "hangs", "silent")


def each(points: Iterable[tuple[str, Callable[[], Outcome]]], until: float, jobs: int, work: Path) -> Iterator[Outcome]:
    """Do points in processes of their own, so many at a time, as long as there is time; yields each outcome."""
    waiting, running = iter(points), {}
    is_left = True
    while is_left or running:
        while is_left and len(running) < jobs:
            one = next(waiting, None) if time.monotonic() < until else None
            if one is None:
                is_left = False
                break
            name, do = one
            file = work / f"outcome-{os.getpid()}-{time.monotonic_ns()}.json"
            sys.stdout.flush()
            sys.stderr.flush()
            process = os.fork()
            if process == 0:
                _one(name, do, file)
            running[process] = (name, file)
        if not running:
            break
        process, _ = os.wait()
        if process not in running:
            continue
        name, file = running.pop(process)
        try:
            yield Outcome(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            failed = Outcome(name)
            failed.wrong("hangs", f"the harness of faults itself failed: {error!r}")
            yield failed
        file.unlink(missing_ok=True)


def _one(name: str, do: Callable[[], Outcome], file: Path) -> NoReturn:
    try:
        try:
            outcome = do()
        except Exception as error:
            traceback.print_exc()
            outcome = Outcome(name)
            outcome.wrong("hangs", f"the harness of faults itself failed: {error!r}")
        file.write_text(json.dumps(asdict(outcome)), encoding="utf-8")
    finally:
        os._exit(0)
