"""Numbers that papers print, next to ours: each with its source, and what was done, not only what it is called (``systems.py``).

They are typed from the papers into bench/report/printed/<paper>.csv, which is installed with the package, and are never
averaged with ours.
"""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from bench.errors import InputError

FOLDER = Path(__file__).resolve().parent / "printed"
UNKNOWN, NONE = "unknown", "none"


class Published(NamedTuple):
    """One printed cell of a system.

    Attributes:
        row: how the same system is spelled here, or ``teacher``.
        layers, hidden: its shape; None where its paper does not say.
        start: where its weights came from before the task, by the name that records have for it (``random``,
            ``checkpoint``, ``teacher_weights``, a method's own stage on text), ``unknown`` if not stated.
        text: what it was pre-trained on before the task, besides its teacher's checkpoint; ``none``, ``unknown``.
        teacher: the hub name of the model it learned from; ``none``, ``unknown``.
        augmented: ``yes``, ``no`` or ``unknown``.
        metric, split: ``unknown`` where they are not stated.
        value: in percent.
    """

    source: str
    table: str
    system: str
    row: str
    layers: int | None
    hidden: int | None
    start: str
    text: str
    teacher: str
    augmented: str
    task: str
    evaluation: str
    metric: str
    split: str
    value: float
    note: str


@lru_cache
def published() -> tuple[Published, ...]:
    """Every printed number, in the order of the files."""
    lines: list[dict[str, Any]] = [line for path in sorted(FOLDER.glob("*.csv")) for line in rows_of(path)]
    for line in lines:
        line |= {name: None if line[name] == UNKNOWN else int(line[name]) for name in ("layers", "hidden")}
        line["value"] = float(line["value"])
    return tuple(Published(**line) for line in lines)


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a file that comes with the package.

    Raises:
        InputError: it is not there.
    """
    if not path.is_file():
        raise InputError(f"{path} is not there; it comes with the package: install it again")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
