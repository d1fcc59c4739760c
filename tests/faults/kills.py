"""Kills: before every operation on a file, within every write, and by phase, of the driver and of workers."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import select
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any

import fault_library
from fault_library import Action
from forked import Child, Ended, Outcome
from tiny_run import LIMIT_SECONDS, Facts, Place, TinyRun, facts, finished, judge, left

Point = tuple[str, Callable[[], Outcome]]
Tell = Callable[[str, str], None]
"""Told a phase, and begin or end."""
PHASES = {
    "teacher": ("bench.make.task_data", "tuned_teacher"),
    "artefacts": ("bench.make.artefact", "keep"),
    "students": ("bench.make.students", "_train"),
    "evaluation": ("bench.make.students", "_score"),
    "records": ("bench.record.store", "Store.write"),
    "report": ("bench.workflows.run", "write_groups"),
}
"""Phase of a run -> the function that is that phase."""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
INTERRUPTED, SENTENCE = 130, "interrupted; what was finished is kept"


@dataclass(frozen=True)
class Unbroken:
    """A run that nothing happened to."""

    run: TinyRun
    facts: Facts
    operations: list[str]
    """each operation on a file, in order: ``rename /folder/file``"""
    seconds: dict[str, list[float]]
    """phase -> how long each of its calls took"""
    took: float
    """seconds of the whole run"""


def unbroken(run: TinyRun, work: Path) -> Unbroken:
    """Run it once, and count.

    Raises:
        RuntimeError: it does not end well even so.
    """
    place, log = Place(work / "unbroken"), work / "operations.txt"
    log.unlink(missing_ok=True)
    ended = run.whole(place, "run", lambda: _count_below(place.root, log) if fault_library.is_loaded() else None)
    if ended.code or ended.has_traceback:
        raise RuntimeError(f"the unbroken run failed: {ended.said[-2000:]}")
    known = facts(place.results)
    timed, told = Place(work / "timed"), work / "phases.txt"
    with told.open("wb") as file:
        again = run.whole(timed, "run", lambda: at_phases(writes_to(file.fileno())))
    if again.code or facts(timed.results) != known:
        raise RuntimeError(f"two unbroken runs differ: {again.said[-2000:]}")
    begun, seconds = dict[str, float](), {phase: list[float]() for phase in PHASES}
    for line in told.read_text().splitlines():
        phase, what, clock = line.split()
        if what == "begin":
            begun[phase] = float(clock)
        else:
            seconds[phase].append(float(clock) - begun[phase])
    operations = log.read_text(errors="replace").splitlines() if log.exists() else []
    for folder in (place, timed):
        shutil.rmtree(folder.root)
    return Unbroken(run, known, operations, seconds, again.seconds)


def _count_below(root: Path, log: Path) -> None:
    file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    fault_library.arm(root, Action.COUNT, log=file)


def by_enumeration(known: Unbroken, work: Path, rng: random.Random) -> list[Point]:
    """One point before every operation, and one within every write; in an order that covers all parts of the run early."""
    writes = [one for one in known.operations if one.startswith("write ")]
    before = [(Action.END, number, "", one) for number, one in enumerate(known.operations, 1)]
    within = [(Action.TEAR, number, "write", one) for number, one in enumerate(writes, 1)]
    chosen = [*before, *within]
    rng.shuffle(chosen)
    return [_point_of(known, work, *one) for one in chosen]


def _point_of(known: Unbroken, work: Path, action: Action, number: int, operations: str, operation: str) -> Point:
    kind, _, path = operation.partition(" ")
    where = f"before {kind}" if action == Action.END else "within write"
    name = f"{where} {number} of {Path(path).name}"
    return name, partial(_killed_at, name, known, work, action, number, operations)


def _killed_at(name: str, known: Unbroken, work: Path, action: Action, number: int, operations: str) -> Outcome:
    place = Place(work / name.replace(" ", "-"))
    ended = known.run.whole(
        place, "killed", lambda: fault_library.arm(place.root, action, number, operations=operations)
    )
    outcome = Outcome(name)
    if ended.code != -signal.SIGKILL:
        outcome.happened = 0
    return _after(outcome, known, place)


def _after(outcome: Outcome, known: Unbroken, place: Place, before: dict[str, str] | None = None) -> Outcome:
    """Run it again to its end, and judge."""
    held = finished(place.results) if before is None else before
    outcome.left = left(place)
    judge(outcome, place, held, known.run.whole(place, "again"), known.facts)
    clear(place, outcome)
    return outcome


def clear(place: Place, outcome: Outcome) -> None:
    """Remove the folder of a point; one that shows a defect stays where FAULTS_KEEP is set."""
    if not (outcome.is_bad and os.environ.get("FAULTS_KEEP")):
        shutil.rmtree(place.root, ignore_errors=True)


def at_phases(tell: Tell) -> None:
    """In this process, tell of the beginning and the end of each phase."""
    for phase, (module, name) in PHASES.items():
        *path, last = name.split(".")
        owner: Any = importlib.import_module(module)
        for part in path:
            owner = owner.__dict__[part]
        setattr(owner, last, _told(owner.__dict__[last], phase, tell))


def _told(work: Callable[..., Any], phase: str, tell: Tell) -> Callable[..., Any]:
    @wraps(work)
    def wrapped(*given: Any, **named: Any) -> Any:
        tell(phase, "begin")
        found = work(*given, **named)
        tell(phase, "end")
        return found

    return wrapped


def writes_to(file: int) -> Tell:
    """Writes a line for each to an open file, with the time."""
    return lambda phase, what: os.write(file, f"{phase} {what} {time.monotonic()}\n".encode()) and None


def by_phase(known: Unbroken, work: Path, rng: random.Random, count: int, title: str = "") -> list[Point]:
    """So many kills of a run in one process, the same number of each phase and signal; a title begins their names."""
    points = []
    for number in range(count):
        phase, sent = list(PHASES)[number % len(PHASES)], SIGNALS[number // len(PHASES) % len(SIGNALS)]
        calls = known.seconds[phase]
        call = rng.randrange(len(calls))
        wait = rng.random() * calls[call]
        name = f"{title}{phase} {number + 1} {sent.name}"
        points.append((name, partial(_killed_in, name, known, work, phase, call + 1, wait, sent)))
    return points


def _killed_in(
    name: str, known: Unbroken, work: Path, phase: str, call: int, wait: float, sent: signal.Signals
) -> Outcome:
    place, outcome = Place(work / name.replace(" ", "-")), Outcome(name)
    reading, writing = os.pipe()
    child = known.run.begun(place, "killed", lambda: at_phases(writes_to(writing)))
    os.close(writing)
    if _heard(reading, f"{phase} begin", call, child):
        time.sleep(wait)
        outcome.happened = int(not child.is_over())
        child.send(sent)
    os.close(reading)
    ended = child.ended(LIMIT_SECONDS)
    if outcome.happened:
        judge_signal(outcome, ended, sent)
    return _after(outcome, known, place)


def judge_signal(outcome: Outcome, ended: Ended, sent: signal.Signals) -> None:
    """A signal ends the process; Ctrl-C with a sentence, and with the exit code that says so."""
    if ended.hung:
        outcome.wrong("hangs", f"after {sent.name}")
    elif ended.code == 0:
        outcome.happened = 0  # it was just over
    elif sent != signal.SIGINT:
        if ended.code != -sent:
            outcome.wrong("silent", f"exit code {ended.code} after {sent.name}: {ended.last_line}")
    elif ended.has_traceback:
        outcome.wrong("tracebacks", f"after {sent.name}: {ended.last_line}")
    elif ended.code != INTERRUPTED or SENTENCE not in ended.said:
        outcome.wrong("silent", f"exit code {ended.code} after Ctrl-C: {ended.last_line}")


def _heard(reading: int, words: str, times: int, child: Child) -> bool:
    """Whether a child says some words so many times before it ends."""
    said, begun = b"", time.monotonic()
    while time.monotonic() - begun < LIMIT_SECONDS:
        if select.select([reading], [], [], 0.05)[0]:
            data = os.read(reading, 4096)
            if not data:
                return False
            said += data
        if said.count(words.encode()) >= times:
            return True
        if child.is_over():
            return False
    return False


def of_workers(known: Unbroken, work: Path, rng: random.Random, count: int) -> list[Point]:
    """So many kills of a run with two jobs at a time: of its driver or of a worker, at any time of its jobs."""
    points = []
    for number in range(count):
        victim, sent = ("worker", "driver")[number % 2], SIGNALS[number // 2 % len(SIGNALS)]
        name = f"{victim} {number + 1} {sent.name}"
        points.append((name, partial(_killed_of_two, name, known, work, victim, sent, rng.random())))
    return points


def _killed_of_two(name: str, known: Unbroken, work: Path, victim: str, sent: signal.Signals, share: float) -> Outcome:
    place, outcome = Place(work / name.replace(" ", "-")), Outcome(name)
    child = known.run.begun(place, "killed", further=("--jobs", "2"))
    worker = _first_worker(place, child)
    time.sleep(share * sum(map(sum, known.seconds.values())))
    outcome.happened = int(worker > 0 and not child.is_over())
    if victim == "driver":
        child.send(sent)
    elif worker:
        _send(worker, sent)
    ended = child.ended(LIMIT_SECONDS)
    if victim == "driver" and outcome.happened:
        judge_signal(outcome, ended, sent)
    held = finished(place.results)
    if victim == "worker":  # the run goes on without it: the job is tried again
        judge(outcome, place, held, ended, known.facts)
    _wait_for_no_worker(place)
    return _after(outcome, known, place, dict(held))


def _first_worker(place: Place, child: Child) -> int:
    """The process of the worker that begins a job first; 0 if none does."""
    while not child.is_over():
        for file in sorted(place.cache.glob("progress/*/*.json")):
            try:
                return int(json.loads(file.read_text())["process"])
            except (OSError, ValueError, KeyError):
                continue
        time.sleep(0.01)
    return 0


def _send(process: int, sent: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, sent)


def _wait_for_no_worker(place: Place) -> None:
    """Workers end with their driver; until then they may write to the cache."""
    time.sleep(0.3)


def shown_operations(known: Unbroken) -> str:
    """``12 fsync, 40 write``"""
    kinds = Counter(one.partition(" ")[0] for one in known.operations)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
