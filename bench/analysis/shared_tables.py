"""The tables in which all rows of a comparison were scored on the same examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations, zip_longest

from bench.analysis.compared_sides import NamedSides
from bench.errors import InputError
from bench.progress import Progress
from bench.record.cell import TEACHER
from bench.record.recipe import ADAMW
from bench.record.schema import Record
from bench.record.task_facts import SAMPLE
from bench.report.file_names import place_of
from bench.report.score_column import ScoreColumn
from bench.report.studies import studies
from bench.report.study import Study

CONDITIONS = (
    "data",
    "limit of training examples",
    "teacher",
    "origin of the teacher",
    "recipe",
    "epochs",
    "precision, threads or device",
    "optimiser",
)
"""The conditions that tables may differ in, in the order of
:attr:`bench.report.study.Group.identity`."""


@dataclass(frozen=True)
class SharedTable:
    """A table in which all rows of a comparison were scored.

    Attributes:
        group: its records.
        columns: those in which all rows are scored on the same examples.
        other: the table that the second side's rows come from, if it is another one.
    """

    group: Study
    columns: list[ScoreColumn]
    other: Study | None = None


def shared_tables(
    named: NamedSides, compared: Sequence[Record], progress: Progress
) -> list[SharedTable]:
    """The tables that have all rows.

    Where there is none, they are pairs of tables whose rows were scored on the same examples, and a
    line says in what the two differ.

    Args:
        compared: the records of the rows.

    Raises:
        InputError: no such pair either.
    """
    tables = _tables(named, compared)
    found: list[SharedTable] = []
    for group in tables:
        columns = _shared_columns(group, named.rows)
        if columns:
            found.append(SharedTable(group, columns))
    if found:
        return found

    # the second side's rows are put beside those of the first
    moved = [row for row in named.second.all if row not in named.first.all]
    for group, other in permutations(tables, 2):
        kept = [record for record in group.records if record.row not in moved]
        added = [record for record in other.records if record.row in moved]
        together = replace(group, records=[*kept, *added])
        columns = _shared_columns(together, named.rows)
        if columns:
            progress.say(
                f"{named.in_words} stand in two tables, which differ in: {_differing(group, other)}"
            )
            found.append(SharedTable(together, columns, other))
    if not found:
        raise InputError(f"{named.in_words} were scored on no examples in common")
    return found


def titles_of(tables: Sequence[SharedTable], named: NamedSides) -> list[str]:
    """Titles that say what the examples of each table are, and where the second side stands in
    another one."""
    titles = _titles([table.group for table in tables])
    others = [table.other for table in tables if table.other is not None]
    if len(others) < 2:
        return titles
    second = named.second.in_words
    return [
        f"{title}, and {second} of {other}"
        for title, other in zip(titles, _titles(others), strict=True)
    ]


def _tables(named: NamedSides, compared: Sequence[Record]) -> list[Study]:
    """Tables of the rows' records and of their teachers, which decide what a mean leaves out.

    Generated sentences come last, and what was trained on fewer rows behind what was trained on
    all.
    """
    learned = {task for record in compared for task in record.cell.tasks}
    teachers: list[Record] = []
    for record in named.records:
        is_teacher = record.row == TEACHER and record.status == "ok"
        if not is_teacher or not learned.issuperset(record.cell.tasks):
            continue
        # a teacher without its answers decides nothing
        if record not in compared and named.store_of(record).has_predictions(record):
            teachers.append(record)
    return sorted(
        studies([*compared, *teachers]),
        key=lambda group: (group.facts.source == SAMPLE, group.cell.data.max_train_rows or 0),
    )


def _shared_columns(group: Study, rows: Sequence[str]) -> list[ScoreColumn]:
    """The columns of a table in which all rows are scored, on the same examples."""
    columns: list[ScoreColumn] = []
    for column in group.columns:
        of_rows = [group.finished(row, column) for row in rows]
        examples: set[str] = set()
        for records in of_rows:
            examples |= {record.cell.data.evaluation[column.evaluation] for record in records}
        if all(of_rows) and len(examples) == 1:
            columns.append(column)
    return sorted(columns, key=lambda column: (column.task, column.evaluation))


def _differing(group: Study, other: Study) -> str:
    """In what two tables differ, in words."""
    conditions = zip_longest(CONDITIONS, group.identity, other.identity)
    return ", ".join(name for name, one, two in conditions if one != two)


def _titles(tables: Sequence[Study]) -> list[str]:
    """Titles that say what the examples of each table are, with its optimiser where that is not
    AdamW; and its report where two have one title."""
    plain: list[str] = []
    for group in tables:
        optimizer = "" if group.optimizer == ADAMW else f", optimizer {group.optimizer}"
        plain.append(f"{group.described_data()}{optimizer}")
    titles: list[str] = []
    for title, group in zip(plain, tables, strict=True):
        report = f", report {place_of(group).as_posix()}" if plain.count(title) > 1 else ""
        titles.append(f"{title}{report}")
    return titles
