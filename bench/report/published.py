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
from bench.record.cell import TEACHER
from bench.report.groups import Column, Group
from bench.report.systems import UNKNOWN, Printed, paired, reasons_of, same_teacher
from bench.report.tables import Table
from bench.stats.metrics import label_of
from bench.stats.summary import summarise
from bench.user_files import text_of

FOLDER = Path(__file__).resolve().parent / "printed"


DEV_ROWS = {
    ("cola", "validation"): 1043,
    ("sst2", "validation"): 872,
    ("mrpc", "validation"): 408,
    ("stsb", "validation"): 1500,
    ("qqp", "validation"): 40430,
    ("mnli", "matched"): 9815,
    ("mnli", "mismatched"): 9832,
    ("qnli", "validation"): 5463,
    ("rte", "validation"): 277,
    ("wnli", "validation"): 71,
}
"""Examples of GLUE's development sets: a folder with another number holds something else."""
ALLOWED = {"split": ("dev", "test", UNKNOWN), "augmented": ("yes", "no", UNKNOWN)}
EMPTY = ("note",)
"""Columns that may have no word."""


@dataclass(frozen=True)
class Published:
    """One printed cell of a system; metric and split may be ``unknown``, ``value`` is in percent."""

    source: str
    table: str
    system: str
    done: Printed
    task: str
    evaluation: str
    metric: str
    split: str
    value: float
    note: str


FACTS = [field.name for field in fields(Printed)]
COLUMNS = [name for field in fields(Published) for name in (FACTS if field.name == "done" else [field.name])]
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
    done = Printed(
        text["row"],
        _count("layers", text["layers"]),
        _count("hidden", text["hidden"]),
        *(text[name] for name in ("start", "text", "teacher", "augmented")),
    )
    rest = {name: word for name, word in text.items() if name not in FACTS and name != "value"}
    return Published(done=done, value=value, **rest)


def _count(name: str, text: str) -> int | None:
    if text == UNKNOWN:
        return None
    if not text.isdecimal() or len(text) > 9 or int(text) == 0:
        raise ValueError(f"{name} is {text!r}; it should be a whole number above 0, or {UNKNOWN}")
    return int(text)


def reasons(group: Group, label: str, column: Column, paper: Published) -> list[str]:
    """Why a printed number and ours are not of the same thing; empty where they can be compared."""
    found = []
    if paper.split != "dev":
        found.append("split not stated" if paper.split == UNKNOWN else f"{paper.split} set, ours is dev")
    if paper.metric == UNKNOWN:
        found.append("metric not stated")
    elif paper.metric != column.metric:
        found.append(f"{label_of(paper.metric)}, ours is {label_of(column.metric)}")
    rows = {r.cell.data.rows.get(column.evaluation) for r in group.records if column.task in r.cell.tasks}
    if rows != {DEV_ROWS.get((column.task, column.evaluation))}:
        found.append("not GLUE's development set")
    if paper.done.teacher == UNKNOWN:
        found.append("teacher not stated")
    elif not same_teacher(group.teacher, paper.done):
        found.append("other teacher")
    if group.row_limit(column.task):
        found.append("fewer training rows")
    done = [record for record in group.of(label, column.task) if record.status == "ok"]
    return found + reasons_of(group, done, paper.done)


def beside(group: Group, papers: Sequence[Published]) -> Table | None:
    """Ours and the papers', cell by cell. Never for generated data: nothing there compares with a paper."""
    if group.slug.startswith("sample-"):
        return None
    rows, values = [], []
    for column in group.columns:
        for label in group.systems:
            got = group.values(label, column)
            for paper in papers:
                if not got or (paper.task, paper.evaluation) != (column.task, column.evaluation):
                    continue
                if not paired(group, group.of(label, column.task)[0], paper.done):
                    continue
                ours = summarise(list(got.values()))
                why = reasons(group, label, column, paper)
                metric = label_of(paper.metric)
                rows.append(
                    [
                        column.title,
                        group.called(label),
                        ours.text(),
                        f"{paper.value:.1f} ({metric}, {paper.split})",
                        f"{paper.system}; {paper.source}, {paper.table}" + (f" ({paper.note})" if paper.note else ""),
                        "yes" if not why else "no: " + "; ".join(why),
                    ]
                )
                values.append([column.title, label, f"{ours.mean:.4f}", f"{paper.value:g}", *rows[-1][4:]])
    if not rows:
        return None
    header = ["Column", "System", "ours", "printed", "where", "comparable"]
    table = Table("Published beside ours", header, rows, values)
    compared = sum(row[-1] == "yes" for row in rows)
    table.notes.append(
        f"{compared} of {len(rows)} pairs can be compared. A pair is of one method; it can be compared where shape, start, "
        f"pre-training, settings, teacher (the papers' own is row {TEACHER}) and data agree as far as papers and records say. "
        "Recipes and searches differ in ways that no column shows."
    )
    return table
