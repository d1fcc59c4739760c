"""How a run ends in the terminal: what failed and why, once each. No torch."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.record.store import KEY_DIGITS


@dataclass(frozen=True)
class Failure:
    """One cell that failed."""

    task: str
    row: str
    seed: int
    why: str
    """the error in one line"""
    key: str = ""
    """of its record, which has the traceback; "" where there is none"""


def said_of_failures(failures: Sequence[Failure], results: Path) -> list[str]:
    """Each error once, with the cells that it stopped; then where the traceback is and how to run them again."""
    by_reason: dict[str, list[Failure]] = {}
    for one in failures:
        by_reason.setdefault(one.why, []).append(one)
    lines = [f"failed: {', '.join(_cells(same))}: {why}" for why, same in by_reason.items()]
    recorded = [one for one in failures if one.key]
    if recorded:
        command = ["python", "-m", "bench", "show", recorded[0].key[:KEY_DIGITS], "--results", str(results)]
        cells = "1 cell" if len(recorded) == 1 else f"{len(recorded)} cells"
        lines.append(f"{cells} failed; the traceback: {shlex.join(command)}; --retry-failed runs failed cells again")
    return lines


def _cells(failures: Sequence[Failure]) -> list[str]:
    """``rte kd``, with the seeds where there are several of one row and task."""
    seeds: dict[str, list[int]] = {}
    for one in failures:
        seeds.setdefault(f"{one.task} {one.row}", []).append(one.seed)
    return [
        name if len(of_row) == 1 else f"{name} (seeds {', '.join(map(str, of_row))})" for name, of_row in seeds.items()
    ]
