"""File systems that fail: an operation below a folder fails once or from then on, writes are short, a folder is gone."""

from __future__ import annotations

import errno
import random
import shutil
from collections import defaultdict
from functools import partial
from pathlib import Path

import fault_library
from fault_library import Action
from forked import Outcome
from kills import PHASES, Point, Unbroken, at_phases, clear
from tiny_run import LIMIT_SECONDS, Place, finished, judge, judge_fault, left

from bench.errors import NOTHING_MEASURED

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES)
OPERATIONS = {
    errno.ENOSPC: ("open", "write", "fsync", "mkdir", "rename"),
    errno.EIO: ("open", "write", "fsync", "read", "rename"),
    errno.EROFS: ("open", "mkdir", "rename", "unlink", "chmod"),
    errno.EACCES: ("open", "mkdir", "rename", "unlink", "read"),
}
"""Which operations fail so."""
CODES = (0, 2, 6)
"""Exit codes of a run that met a fault and went on, could not go on, or has cells that failed."""
FOLDERS = ("results", "cache", "reports")


def all_points(known: Unbroken, work: Path, rng: random.Random) -> list[Point]:
    """Every kind of fault in turn, each at an operation that is drawn; then the kinds again, at others."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for line in known.operations:
        operation, _, path = line.partition(" ")
        counts[_folder_of(path), operation] += 1
    kinds = []
    for folder in FOLDERS:
        for error in ERRORS:
            for action in (Action.FAIL_ONCE, Action.FAIL_ALWAYS):
                kinds += [(folder, action, error, one) for one in OPERATIONS[error]]
                kinds += [(folder, action, error, "")] if action == Action.FAIL_ALWAYS else []
        kinds.append((folder, Action.SHORT, 0, "write"))
    rng.shuffle(kinds)
    points, rounds = [], max(counts.values(), default=0)
    tried = set()
    for _ in range(rounds):
        for folder, action, error, operation in kinds:
            most = (
                counts[folder, operation]
                if operation
                else sum(n for (where, _), n in counts.items() if where == folder)
            )
            number = rng.randint(1, most) if most else 0
            if number and (folder, action, error, operation, number) not in tried:
                tried.add((folder, action, error, operation, number))
                points.append(_point(known, work, folder, action, error, operation, number))
    return points


def _folder_of(path: str) -> str:
    return next((name for name in FOLDERS if f"/unbroken/{name}" in path), "")


def _point(known: Unbroken, work: Path, folder: str, action: Action, error: int, operation: str, number: int) -> Point:
    what = errno.errorcode.get(error, "half")
    how = {Action.FAIL_ONCE: "once", Action.FAIL_ALWAYS: "from"}.get(action, "from")
    name = f"{folder} {operation or 'all'} {what} {how} {number}"
    return name, partial(_failing, name, known, work, folder, action, error, operation, number)


def _failing(
    name: str, known: Unbroken, work: Path, folder: str, action: Action, error: int, operation: str, number: int
) -> Outcome:
    place, outcome = Place(work / name.replace(" ", "-")), Outcome(name)
    counted = place.root / "counted.txt"
    child = known.run.begun(
        place,
        "failing",
        lambda: fault_library.arm(place.root / folder, action, number, error, operation),
        after=lambda: counted.write_text(str(fault_library.seen())) and None,
    )
    ended = child.ended(LIMIT_SECONDS)
    outcome.happened = int(counted.is_file() and int(counted.read_text()) >= number)
    codes = (0,) if action == Action.SHORT else CODES
    judge_fault(outcome, place, ended, codes, known.facts)
    return _after(outcome, known, place)


def _after(outcome: Outcome, known: Unbroken, place: Place) -> Outcome:
    before = finished(place.results)
    outcome.left = left(place)
    judge(outcome, place, before, known.run.whole(place, "again", further=("--retry-failed",)), known.facts)
    clear(place, outcome)
    return outcome


def vanished(known: Unbroken, work: Path) -> list[Point]:
    """Each folder, gone at the beginning of each phase, and back before the next run."""
    points = []
    for phase in PHASES:
        if known.seconds[phase]:
            for folder in FOLDERS:
                name = f"{folder} vanished {phase}"
                points.append((name, partial(_gone, name, known, work, folder, phase)))
    return points


def _gone(name: str, known: Unbroken, work: Path, folder: str, phase: str) -> Outcome:
    place, outcome = Place(work / name.replace(" ", "-")), Outcome(name, happened=0)
    there, away = place.root / folder, place.root / "away"

    def take_away(of: str, what: str) -> None:
        if (of, what) == (phase, "begin") and there.exists() and not away.exists():
            there.rename(away)

    ended = known.run.whole(place, "failing", lambda: at_phases(take_away))
    if away.exists():
        outcome.happened = 1
        shutil.rmtree(there, ignore_errors=True)
        away.rename(there)
    # where the records are gone when the report is written, nothing was measured
    codes = (*CODES, NOTHING_MEASURED) if folder == "results" else CODES
    judge_fault(outcome, place, ended, codes, {} if folder == "results" else known.facts)
    return _after(outcome, known, place)
