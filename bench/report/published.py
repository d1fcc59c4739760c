"""Numbers that papers print, next to ours: each with its source, and whether the two can be compared at all.

They are typed from the papers into bench/report/printed/<paper>.csv, which is installed with the package, and are never
averaged with ours. A line says what was done, not only what it is called (see ``bench/report/systems.py``).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path

from bench.errors import InputError
from bench.report.systems import UNKNOWN, PrintedSystem
from bench.user_files import text_of

FOLDER = Path(__file__).resolve().parent / "printed"


ALLOWED = {"split": ("dev", "test", UNKNOWN), "augmented": ("yes", "no", UNKNOWN)}
EMPTY = ("note",)
"""Columns that may have no word."""


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


FACTS = [field.name for field in fields(PrintedSystem)]
COLUMNS = [name for field in fields(Published) for name in (FACTS if field.name == "facts" else [field.name])]
"""Of a file, in this order."""


@lru_cache
def published(folder: Path = FOLDER) -> tuple[Published, ...]:
    """Every printed number, in the order of the files.

    Raises:
        InputError: no files, other columns, an empty or unknown word, or a number that is none; with file and line.
    """
    found = []
    paths = sorted(folder.glob("*.csv"))
    if not paths:
        raise InputError(f"{folder} has no printed numbers; they come with the package: install it again")
    for path in paths:
        for line, row in rows_of(path, COLUMNS):
            try:
                found.append(_line(row))
            except ValueError as error:
                raise InputError(f"{path}, line {line}: {error}") from None
    return tuple(found)


def rows_of(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Mapping[str | None, str | None]]]:
    """The rows of a CSV file with these columns, each with the number of its last line.

    Raises:
        InputError: a file that cannot be read, is no CSV, or has other columns; with file and line.
    """
    reader = csv.DictReader(io.StringIO(text_of(path, str(path)), newline=""))
    try:
        if reader.fieldnames != columns:
            raise InputError(f"{path}, line 1: the columns should be {','.join(columns)}")
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from None


def _line(row: Mapping[str | None, str | None]) -> Published:
    """One line of a file. Raises ValueError: what is wrong with it."""
    words = {name: row.get(name) for name in COLUMNS}
    if None in row or None in words.values():
        raise ValueError(f"it should have {len(COLUMNS)} fields")
    text = {name: str(word) for name, word in words.items()}
    for name, word in text.items():
        if not word and name not in EMPTY:
            raise ValueError(f"{name} is empty; write {UNKNOWN} where a paper does not say it")
        if name in ALLOWED and word not in ALLOWED[name]:
            raise ValueError(f"{name} is {word!r}; it should be one of {', '.join(ALLOWED[name])}")
    value = float(text["value"])
    if not (math.isfinite(value) and -100 <= value <= 100):
        raise ValueError(f"value is {value}; it should be percent")
    facts = PrintedSystem(
        text["row"],
        _count("layers", text["layers"]),
        _count("hidden", text["hidden"]),
        *(text[name] for name in ("start", "text", "teacher", "augmented")),
    )
    rest = {name: word for name, word in text.items() if name not in FACTS and name != "value"}
    return Published(facts=facts, value=value, **rest)


def _count(name: str, text: str) -> int | None:
    if text == UNKNOWN:
        return None
    if not text.isdecimal() or len(text) > 9 or int(text) == 0:
        raise ValueError(f"{name} is {text!r}; it should be a whole number above 0, or {UNKNOWN}")
    return int(text)
