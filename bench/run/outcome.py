"""What a run did, and what one of its jobs gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import CELLS_FAILED, OK
from bench.plan.build import Plan
from bench.record import schema
from bench.record.schema import Record

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
class Outcome:
    """What a run did. ``exit_code`` is 0, or 6 if some cells failed or some students could not be saved."""

    plan: Plan
    trained: int = 0
    failures: list[FailedCell] = field(default_factory=list)
    reports: list[Path] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    """for a terminal: the main table of each report, and what to type next"""

    @property
    def exit_code(self) -> int:
        return CELLS_FAILED if self.failures else OK


@dataclass
class JobResult:
    """What a job gave: plain data that another process can send."""

    records: list[tuple[Record, dict[str, np.ndarray]]] = field(default_factory=list)
    """finished or failed ones, with their raw answers"""
    not_saved: list[FailedCell] = field(default_factory=list)
    """students that are trained and recorded, and could not be kept as a folder"""
    states: list[Path] = field(default_factory=list)
    """of trainings that ended; they are removed once their records are written"""
    error: schema.Failure | None = None
    """why an entry of the cache could not be made"""
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    """key of a training -> its part of the processor's seconds; those that went on where they broke off have none"""
