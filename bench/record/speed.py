"""Measured speeds: the second kind of record, one file for each session of timing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from bench.errors import InputError
from bench.record.schema import Part
from bench.record.store import slug, write_atomically

SPEED_SCHEMA = 1
FOLDER = "speed"


class Conditions(Part):
    """What stands beside every number."""

    device: str
    backend: str
    dtype: str
    threads: int
    batch: int
    length: str
    """a number of tokens, or ``task NAME``: the lengths of that task's development set, padded to the batch's longest"""


class Timing(Part):
    """One system under one set of conditions. Seconds are of a whole batch."""

    system: str
    conditions: Conditions
    status: Literal["ok", "failed"] = "ok"
    warmup: int = 0
    """calls until two windows of five agreed"""
    seconds: list[float] = Field(default_factory=list)
    """of each round; round i of every system ran right after round i of the one before"""
    largest_difference: float | None = None
    """of its logits to those of eager attention in fp32"""
    error: str = ""


class Footprint(Part):
    """Size of one system."""

    system: str
    checkpoint_bytes: int
    peak_bytes: int | None
    """of a fresh process that loads it and answers one batch of 32 x 128, above the same process with nothing loaded"""


class SpeedRecord(Part):
    """One session: a teacher and students timed in turns."""

    schema_version: int = SPEED_SCHEMA
    key: str = ""
    teacher: str
    timings: list[Timing]
    footprints: list[Footprint] = Field(default_factory=list)
    code: dict[str, Any] = Field(default_factory=dict)
    env: dict[str, Any] = Field(default_factory=dict)
    started: str
    finished: str

    def of(self, system: str, conditions: Conditions) -> Timing | None:
        return next((t for t in self.timings if t.system == system and t.conditions == conditions), None)


def write_speed(root: Path, record: SpeedRecord) -> tuple[SpeedRecord, Path]:
    """Keep it under the hash of what it holds; returns it with that key, and the file."""
    body = record.model_copy(update={"key": ""}).model_dump_json()
    record = record.model_copy(update={"key": hashlib.sha256(body.encode()).hexdigest()})
    path = root / FOLDER / slug(record.teacher) / f"{record.key[:16]}.json"
    write_atomically(path, (record.model_dump_json(indent=1) + "\n").encode())
    return record, path


def speed_records(root: Path) -> Iterator[SpeedRecord]:
    """All sessions below a folder of records, the oldest first.

    Raises:
        InputError: a file that cannot be read as one.
    """
    found = []
    for path in sorted((root / FOLDER).glob("*/*.json")):
        try:
            found.append(SpeedRecord.model_validate(json.loads(path.read_text(encoding="utf-8"))))
        except (json.JSONDecodeError, ValidationError) as error:
            raise InputError(f"{path} is not a record of speed: {str(error).splitlines()[0]}") from None
    yield from sorted(found, key=lambda record: (record.started, record.key))
