"""Numbers that papers print, beside ours: each with its source, and whether the two can be compared at all.

They are typed from the papers into bench/report/printed/<paper>.csv, which is installed with the package, and are never averaged with ours.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bench.errors import InputError
from bench.plan.cell import TEACHER
from bench.report.groups import METRIC_NAMES, Column, Group
from bench.report.tables import Table
from bench.stats.summary import summarise

FOLDER = Path(__file__).resolve().parent / "printed"
PAPERS_TEACHER = "bert-base-uncased"


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


@dataclass(frozen=True)
class Published:
    """One printed cell. ``row`` is how the same system is spelled here; metric and split may be ``unknown``."""

    source: str
    table: str
    system: str
    row: str
    task: str
    evaluation: str
    metric: str
    split: str
    value: float
    note: str


@lru_cache
def published(folder: Path = FOLDER) -> tuple[Published, ...]:
    """Every printed number, in the order of the files.

    Raises:
        InputError: no files, a file with other columns, or a value that is not a number.
    """
    found = []
    paths = sorted(folder.glob("*.csv"))
    if not paths:
        raise InputError(f"{folder} has no printed numbers; they come with the package: install it again")
    for path in paths:
        with path.open(encoding="utf-8", newline="") as file:
            for line, row in enumerate(csv.DictReader(file), start=2):
                try:
                    words = {name: text for name, text in row.items() if name != "value"}
                    found.append(Published(value=float(row["value"]), **words))
                except (TypeError, ValueError, KeyError) as error:
                    raise InputError(f"{path}, line {line}: {error}") from None
    return tuple(found)


def reasons(group: Group, column: Column, paper: Published) -> list[str]:
    """Why a printed number and ours are not of the same thing; empty where they can be compared."""
    found = []
    if paper.split != "dev":
        found.append("split not stated" if paper.split == "unknown" else f"{paper.split} set, ours is dev")
    if paper.metric == "unknown":
        found.append("metric not stated")
    elif paper.metric != column.metric:
        found.append(f"{METRIC_NAMES.get(paper.metric, paper.metric)}, ours is {METRIC_NAMES[column.metric]}")
    rows = {r.cell.data.rows.get(column.evaluation) for r in group.records if column.task in r.cell.tasks}
    if rows != {DEV_ROWS.get((column.task, column.evaluation))}:
        found.append("not GLUE's development set")
    if group.teacher != PAPERS_TEACHER:
        found.append("other teacher")
    if group.row_limit(column.task):
        found.append("fewer training rows")
    return found


def beside(group: Group, papers: Sequence[Published]) -> Table | None:
    """Ours and the papers', cell by cell. Never for generated data: nothing there compares with a paper."""
    if group.slug.startswith("sample-"):
        return None
    rows, values = [], []
    for column in group.columns:
        for label in group.systems:
            got = group.values(label, column)
            for paper in papers:
                if not got or (paper.row, paper.task, paper.evaluation) != (label, column.task, column.evaluation):
                    continue
                ours = summarise(list(got.values()))
                why = reasons(group, column, paper)
                metric = METRIC_NAMES.get(paper.metric, paper.metric)
                rows.append(
                    [
                        column.title,
                        label,
                        ours.text(),
                        f"{paper.value:.1f} ({metric}, {paper.split})",
                        f"{paper.system}; {paper.source}, {paper.table}" + (f" ({paper.note})" if paper.note else ""),
                        "yes" if not why else "no: " + ", ".join(why),
                    ]
                )
                values.append([column.title, label, f"{ours.mean:.4f}", f"{paper.value:g}", *rows[-1][4:]])
    if not rows:
        return None
    header = ["Column", "System", "ours", "printed", "where", "comparable"]
    table = Table("Published beside ours", header, rows, values)
    compared = sum(row[-1] == "yes" for row in rows)
    table.notes.append(
        f"{compared} of {len(rows)} pairs can be compared. The papers' teacher is BERT-base (row {TEACHER}); recipes, "
        f"pre-training and searches differ in ways that no column shows."
    )
    return table
