"""Numbers that papers print, next to ours: each with its source, and what was done, not only what it is called (``systems.py``).

They are typed from the papers into bench/report/printed/<paper>.csv, which is installed with the package, and are never
averaged with ours.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bench.errors import InputError
from bench.report.systems import UNKNOWN, PrintedSystem

FOLDER = Path(__file__).resolve().parent / "printed"
FACTS = ("row", "layers", "hidden", "start", "text", "teacher", "augmented")


@dataclass(frozen=True)
class Published:
    """One printed cell of a system; metric and split may be ``unknown``, ``value`` is in percent."""

    source: str
    table: str
    system: str
    facts: PrintedSystem
    task: str
    evaluation: str
    metric: str
    split: str
    value: float
    note: str


@lru_cache
def published() -> tuple[Published, ...]:
    """Every printed number, in the order of the files."""
    numbers = []
    for row in (row for path in sorted(FOLDER.glob("*.csv")) for row in rows_of(path)):
        facts = {name: row.pop(name) for name in FACTS}
        shape = {name: None if facts[name] == UNKNOWN else int(facts[name]) for name in ("layers", "hidden")}
        numbers.append(Published(facts=PrintedSystem(**facts | shape), **row | {"value": float(row["value"])}))  # type: ignore[arg-type]
    return tuple(numbers)


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a file that comes with the package.

    Raises:
        InputError: it is not there.
    """
    if not path.is_file():
        raise InputError(f"{path} is not there; it comes with the package: install it again")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
