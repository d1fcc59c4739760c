"""What making a step gave: plain data that another process can send. No torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.record.schema import Failure, Record

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class FailedCell:
    """A cell that failed, or whose student could not be saved."""

    task: str
    row: str
    seed: int
    why: str
    """the error in one line"""
    key: str = ""
    """of its record, which has the traceback; "" where there is none"""


@dataclass
class StepResult:
    """What making a step gave."""

    records: list[tuple[Record, dict[str, np.ndarray]]] = field(default_factory=list)
    """finished or failed ones, with their raw answers"""
    not_saved: list[FailedCell] = field(default_factory=list)
    """students that are trained and recorded, and could not be kept as a folder"""
    states: list[Path] = field(default_factory=list)
    """of trainings that ended; they are removed once their records are written"""
    error: Failure | None = None
    """why a folder of the cache could not be made"""
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    """key of a training -> its part of the processor's seconds; those that went on where they broke off have none"""


def checked(result: StepResult) -> StepResult:
    """The result, if its records can be written: what a method says of itself is in them.

    Raises:
        ValueError: a value that JSON cannot hold.
    """
    for record, _ in result.records:
        record.model_dump_json()
    return result
