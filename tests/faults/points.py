"""The faults: kills before every operation on a file, within every write and at any moment; file systems that fail."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import fault_library
import tiny
from fault_library import Action
from forked import Child, Point
from tiny_run import Facts, Outcome, Place, facts, finished, judge_end, judged, run

from bench.errors import NOTHING_MEASURED

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
INTERRUPTED, SENTENCE = 130, "interrupted; what was finished is kept"
MOMENTS, OF_WORKERS, OF_EACH_FOLDER = 200, 20, 6
RUNNERS, KILLS, SEEDS = 4, 8, 4
FOLDERS = ("results", "cache", "reports")
CODES = (0, 2, 6)
"""Exit codes of a run that met a fault and went on, could not go on, or has cells that failed."""
ERRORS = {
    errno.ENOSPC: ("open", "write", "fsync", "mkdir", "rename"),
    errno.EIO: ("open", "write", "fsync", "read", "rename"),
    errno.EROFS: ("open", "mkdir", "rename", "unlink", "chmod"),
    errno.EACCES: ("open", "mkdir", "rename", "unlink", "read"),
}
"""Which operations fail so."""


@dataclass(frozen=True)
class Unbroken:
    """A run that nothing happened to."""

    inputs: Path
    facts: Facts
    operations: list[str]
    """each operation on a file, in order: ``rename /folder/file``"""
    seconds: float


def unbroken(inputs: Path, work: Path) -> Unbroken:
    """Run it once, and count.

    Raises:
        RuntimeError: it does not end well even so.
    """
    place, log = Place(work / "unbroken"), work / "operations.txt"

    def count() -> None:
        if fault_library.is_loaded():
            file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
            fault_library.arm(place.root, Action.COUNT, log=file)

    ended = run(inputs, place, "run", count).ended()
    if ended.code or ended.has_traceback:
        raise RuntimeError(f"the unbroken run failed: {ended.said[-2000:]}")
    operations = log.read_text(errors="replace").splitlines() if log.exists() else []
    kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(Counter(line.split()[0] for line in operations).items()))
    known = Unbroken(inputs, facts(place.results), operations, ended.seconds)
    print(f"{len(known.facts)} records, {len(operations)} operations ({kinds})", flush=True)
    return known


def _after(
    outcome: Outcome, known: Unbroken, place: Place, *further: str, before: Any = None, expected: Facts | None = None
) -> dict[str, Any]:
    """Run it again to its end, and judge."""
    before = finished(place.results) if before is None else before
    outcome.left = sum(1 for root in FOLDERS for _ in (place.root / root).rglob(".tmp-*"))
    last = run(known.inputs, place, "again", lambda: None, *further).ended()
    return judged(outcome, place, before, last, expected or known.facts)


# --- kills


def enumeration(known: Unbroken, work: Path, rng: random.Random) -> list[Point]:
    """One point before every operation, and one within every write; in an order that covers all parts of the run early."""
    writes = [line for line in known.operations if line.startswith("write ")]
    chosen = [(Action.END, number, "", line) for number, line in enumerate(known.operations, 1)]
    chosen += [(Action.TEAR, number, "write", line) for number, line in enumerate(writes, 1)]
    rng.shuffle(chosen)
    points = []
    for action, number, operations, line in chosen:
        kind, _, path = line.partition(" ")
        where = f"before {kind}" if action == Action.END else "within write"
        name = f"{where} {number} of {Path(path).name}"
        points.append((name, partial(_killed_at, name, known, work, action, number, operations)))
    return points


def _killed_at(name: str, known: Unbroken, work: Path, action: Action, number: int, operations: str) -> dict[str, Any]:
    place = Place(work / name.replace(" ", "-"))
    arm = partial(fault_library.arm, place.root, action, number, operations=operations)
    ended = run(known.inputs, place, "killed", arm).ended()
    return _after(Outcome(name, happened=int(ended.code == -signal.SIGKILL)), known, place)


def moments(known: Unbroken, work: Path, rng: random.Random) -> list[Point]:
    """Kills of a run in one process, at any moment."""
    points = []
    for number in range(MOMENTS):
        sent = SIGNALS[number % len(SIGNALS)]
        name = f"moment {number + 1} {sent.name}"
        points.append((name, partial(_killed, name, known, work, "driver", sent, rng.random() * known.seconds, "1")))
    return points


def workers(known: Unbroken, work: Path, rng: random.Random) -> list[Point]:
    """Kills of a run with two jobs at a time: of its driver or of a worker, at any moment of its jobs."""
    points = []
    for number in range(OF_WORKERS):
        victim, sent = ("worker", "driver")[number % 2], SIGNALS[number // 2 % len(SIGNALS)]
        name = f"{victim} {number + 1} {sent.name}"
        points.append((name, partial(_killed, name, known, work, victim, sent, rng.random() * known.seconds, "2")))
    return points


def _killed(
    name: str, known: Unbroken, work: Path, victim: str, sent: signal.Signals, wait: float, jobs: str
) -> dict[str, Any]:
    place, outcome = Place(work / name.replace(" ", "-")), Outcome(name)
    child = run(known.inputs, place, "killed", lambda: None, "--jobs", jobs)
    _wait_for(place.cache, child)
    process = child.process if victim == "driver" else _first_worker(place, child)
    time.sleep(wait)
    outcome.happened = int(process > 0 and not child.is_over())
    if outcome.happened:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, sent)
    ended = child.ended()
    if ended.code == 0 and victim == "driver":
        outcome.happened = 0  # it was just over
    before = finished(place.results)
    if victim == "worker":  # the run goes on without it: the job is tried again
        judge_end(outcome, ended, (0,))
    elif outcome.happened:
        judge_end(outcome, ended, (INTERRUPTED if sent == signal.SIGINT else -sent,))
        if sent == signal.SIGINT and SENTENCE not in ended.said:
            outcome.wrong("silent", f"after Ctrl-C: {ended.last_line}")
    if jobs == "2":
        time.sleep(0.3)  # workers end with their driver; until then they may write to the cache
    return _after(outcome, known, place, before=before)


def _wait_for(folder: Path, child: Child) -> None:
    """Until the command has begun to do something."""
    while not folder.exists() and not child.is_over():
        time.sleep(0.005)


def _first_worker(place: Place, child: Child) -> int:
    """The process of the worker that begins a job first; 0 if none does."""
    while not child.is_over():
        for file in sorted(place.cache.glob("progress/*/*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError):
                return int(json.loads(file.read_text())["process"])
        time.sleep(0.01)
    return 0


def runners(known: Unbroken, work: Path, rng: random.Random) -> list[Point]:
    """Four runs on one folder of results, killed again and again: each cell is trained once."""
    return [(f"{RUNNERS} runners", partial(_killed_runners, known, work, rng))]


def _killed_runners(known: Unbroken, work: Path, rng: random.Random) -> dict[str, Any]:
    rows = f"finetune:{tiny.SHAPE}:start=random,kd:{tiny.SHAPE}:start=random"
    further = ("--methods", rows, "--tasks", "rte,sst2", "--seeds", ",".join(map(str, range(SEEDS))))
    start = partial(run, known.inputs, every_seconds=300.0)
    alone = Place(work / "alone")
    expected = start(alone, "run", lambda: None, *further).ended()
    assert expected.code == 0, expected.said[-2000:]
    place, outcome = Place(work / "runners"), Outcome(f"{RUNNERS} runners", happened=0)
    children = [start(place, f"runner-{number}", lambda: None, *further) for number in range(RUNNERS)]
    while outcome.happened < KILLS and not all(child.is_over() for child in children):
        time.sleep(rng.random() * expected.seconds / KILLS)
        number = rng.randrange(RUNNERS)
        if not children[number].is_over():
            children[number].send(signal.SIGKILL)
            children[number].ended()
            outcome.happened += 1
            children[number] = start(place, f"runner-{number}-{outcome.happened}", lambda: None, *further)
    for child in children:
        judge_end(outcome, child.ended(1200), (0,))
    before = finished(place.results)
    if "nothing to do" not in start(place, "next", lambda: None, *further).ended().said:
        outcome.wrong("unfinished", "all runners ended, and the next run found something to do")
    return _after(outcome, known, place, *further, before=before, expected=facts(alone.results))


# --- file systems that fail


def files(known: Unbroken, work: Path, rng: random.Random) -> list[Point]:
    """Every kind of fault in turn, each at an operation that is drawn; then the kinds again, at others."""
    counts = Counter(
        (folder, line.split()[0]) for line in known.operations for folder in FOLDERS if f"/unbroken/{folder}" in line
    )
    kinds = [(folder, Action.SHORT, 0, "write") for folder in FOLDERS]
    for folder in FOLDERS:
        for error, operations in ERRORS.items():
            kinds += [(folder, Action.FAIL_ONCE, error, operation) for operation in operations]
            kinds += [(folder, Action.FAIL_ALWAYS, error, operation) for operation in ("", *operations)]
    rng.shuffle(kinds)
    points = {}
    for _ in range(max(counts.values(), default=0)):
        for folder, action, error, operation in kinds:
            most = sum(n for (where, what), n in counts.items() if where == folder and operation in ("", what))
            if most:
                number, how = rng.randint(1, most), "once" if action == Action.FAIL_ONCE else "from"
                name = f"{folder} {operation or 'all'} {errno.errorcode.get(error, 'half')} {how} {number}"
                points[name] = partial(_failing, name, known, work, folder, action, number, error, operation)
    return [*points.items()]


def _failing(
    name: str, known: Unbroken, work: Path, folder: str, action: Action, number: int, error: int, operation: str
) -> dict[str, Any]:
    place, outcome = Place(work / name.replace(" ", "-")), Outcome(name)
    counted = place.root / "counted.txt"
    arm = partial(fault_library.arm, place.root / folder, action, number, error, operation)
    child = run(
        known.inputs, place, "failing", arm, after=lambda: counted.write_text(str(fault_library.seen())) and None
    )
    ended = child.ended()
    outcome.happened = int(counted.is_file() and int(counted.read_text()) >= number)
    judge_end(outcome, ended, (0,) if action == Action.SHORT else CODES)
    if not ended.code and (lacking := set(known.facts) - set(facts(place.results))):
        outcome.wrong("silent", f"exit code 0, and no record of {sorted(lacking)[0]}")
    return _after(outcome, known, place, "--retry-failed", "")


def vanished(known: Unbroken, work: Path, rng: random.Random) -> list[Point]:
    """Each folder is gone from some moment on, and back before the next run."""
    names = [f"{folder} vanished {number + 1}" for number in range(OF_EACH_FOLDER) for folder in FOLDERS]
    return [(name, partial(_gone, name, known, work, rng.random() * known.seconds)) for name in names]


def _gone(name: str, known: Unbroken, work: Path, wait: float) -> dict[str, Any]:
    place, outcome = Place(work / name.replace(" ", "-")), Outcome(name, happened=0)
    there, away = place.root / name.split()[0], place.root / "away"
    child = run(known.inputs, place, "failing")
    _wait_for(there, child)
    time.sleep(wait)
    if there.exists() and not child.is_over():
        there.rename(away)
        outcome.happened = 1
    ended = child.ended()
    if outcome.happened:
        shutil.rmtree(there, ignore_errors=True)
        away.rename(there)
    # where the records are gone when the report is written, nothing was measured
    judge_end(outcome, ended, (*CODES, NOTHING_MEASURED))
    return _after(outcome, known, place, "--retry-failed", "")


PARTS: dict[str, Callable[[Unbroken, Path, random.Random], Sequence[Point]]] = {
    part.__name__: part for part in (enumeration, moments, workers, runners, files, vanished)
}
