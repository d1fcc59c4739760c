"""What a run did."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bench.errors import CELLS_FAILED, OK
from bench.make.result import FailedCell
from bench.plan.plan import Plan


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
