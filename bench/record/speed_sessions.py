"""Measured speeds: the second kind of record, one file for each session of timing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from bench.errors import InputError
from bench.files import entries_of, read_at_most, slug, write_atomically
from bench.record.free_parts import Count, Known, Positive, read_as
from bench.record.schema import StrictModel, parsed
from bench.record.set_aside import SET_ASIDE, Note, notify, unreadable

SPEED_SCHEMA = 1
BUSY_CORES = 0.25
"""Where other processes use at least so many cores, nothing is timed without --busy: our threads
would wait for theirs."""
OWN_RUNTIME = "numpy"
"""The backend of a model that no other one runs."""
FOLDER = "speed"
LARGEST = 2**28
"""Bytes of a session that is read."""


Seconds = Annotated[float, Field(ge=1e-12, le=1e12)]
Joules = Annotated[float, Field(ge=0, le=1e12)]


class Conditions(StrictModel):
    """The conditions under which all numbers were measured."""

    device: str
    backend: str
    dtype: str
    threads: Positive
    batch: Positive
    length: str
    """a number of tokens, or ``task NAME of DATA``: the lengths of that task's development set,
    padded to the batch's longest"""


class Timing(StrictModel):
    """One system under one set of conditions. Seconds are of a whole batch."""

    system: str
    conditions: Conditions
    status: Literal["ok", "failed"] = "ok"
    warmup: Count = 0
    """calls before the first timing, until the medians of two successive windows of five calls
    agreed"""
    seconds: list[Seconds] = Field(default_factory=list)
    """of each round; round i of every system ran right after round i of the one before"""
    joules: list[Joules] = Field(default_factory=list)
    """of a whole batch, of each turn; empty where the machine does not tell its energy"""
    largest_difference: float | None = None
    """of its logits to those of eager attention in fp32"""
    changed: Count | None = None
    """how many predictions differ from those of eager attention in fp32; of trained weights on
    examples of a task alone"""
    compared: Count | None = None
    """how many predictions were compared"""
    error: str = ""


class Footprint(StrictModel):
    """Size of one system, and what it takes of memory on one backend."""

    system: str
    backend: str = "sdpa"
    """that opens the file; torch opens a folder whatever its attention"""
    checkpoint_bytes: Positive
    peak_bytes: Count | None
    """of a fresh process that loads it and answers one batch of 32 x 128, above the same process
    with nothing loaded"""


class SpeedRecord(StrictModel):
    """One session: a teacher and students timed in turns."""

    schema_version: Annotated[int, Field(le=SPEED_SCHEMA)] = SPEED_SCHEMA
    key: str = ""
    teacher: str
    timings: list[Timing]
    footprints: list[Footprint] = Field(default_factory=list)
    energy: str = ""
    """the counter of the joules; or ``not measured: `` and why; empty in records of versions that
    did not measure energy"""
    code: Annotated[dict[str, Any], read_as(Known)] = Field(default_factory=dict)
    env: Annotated[dict[str, Any], read_as(Known)] = Field(default_factory=dict)
    started: str
    finished: str

    @property
    def others(self) -> float:
        """Cores that other processes used when it began; 0 where so few make times no worse."""
        cores = self.env.get("busy_cores")
        return float(cores) if isinstance(cores, int | float) and cores >= BUSY_CORES else 0.0

    @property
    def machine(self) -> tuple[object, ...]:
        """The kind of machine and what it ran: sessions of one kind can be pooled."""
        names = ("accelerator", "processor", "cores", "torch")
        return tuple(self.env.get(name) for name in names)

    def timing_of(self, system: str, conditions: Conditions) -> Timing | None:
        """A system's timing under these conditions; of one with a runtime of its own that one."""
        own = conditions.model_copy(update={"backend": OWN_RUNTIME, "threads": 1})
        of_system = [timing for timing in self.timings if timing.system == system]
        return next((t for t in of_system if t.conditions in (conditions, own)), None)


def write_speed(root: Path, record: SpeedRecord) -> tuple[SpeedRecord, Path]:
    """Keep it under the hash of what it holds; returns it with that key, and the file."""
    body = record.model_copy(update={"key": ""}).model_dump_json()
    record = record.model_copy(update={"key": hashlib.sha256(body.encode()).hexdigest()})
    path = root / FOLDER / slug(record.teacher) / f"{record.key[:16]}.json"
    write_atomically(path, (record.model_dump_json(indent=1) + "\n").encode())
    return record, path


def idle_if_any(sessions: Sequence[SpeedRecord]) -> list[SpeedRecord]:
    """Those that were measured on an idle machine; all of them where none was."""
    return [session for session in sessions if not session.others] or list(sessions)


def speed_records(root: Path, note: Callable[[Note], None] = notify) -> Iterator[SpeedRecord]:
    """All sessions below a folder of records, the oldest first.

    Args:
        note: told of each file that cannot be used; the others are read.
    """
    sessions = []
    for path in _files(root / FOLDER, note):
        try:
            sessions.append(_read(path))
        except InputError as error:
            note(Note(SET_ASIDE, path, str(error)))
    yield from sorted(sessions, key=lambda record: (record.started, record.key))


def _files(folder: Path, note: Callable[[Note], None]) -> list[Path]:
    """The files of sessions, which lie in a folder for each teacher."""

    def entries(of: Path) -> list[os.DirEntry[str]]:
        return entries_of(of, lambda error: note(unreadable(of, error)))

    files = [Path(file.path) for teacher in entries(folder) for file in entries(Path(teacher.path))]
    return [file for file in files if file.suffix == ".json"]


def _read(path: Path) -> SpeedRecord:
    """Raises InputError: what is wrong with it."""
    try:
        record = parsed(SpeedRecord, read_at_most(path, LARGEST), "it")
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}") from None
    if record.key[:16] != path.stem:
        raise InputError("its key is not that of its name")
    rounds: dict[str, int] = {}
    for timing in (timing for timing in record.timings if timing.status == "ok"):
        count = len(timing.seconds)
        if not count:
            raise InputError(f"{timing.system} is said to be timed and has no times")
        if rounds.setdefault(timing.conditions.model_dump_json(), count) != count:
            raise InputError(
                f"{timing.system} has {count} rounds, others of its conditions have more or fewer"
            )
    return record
