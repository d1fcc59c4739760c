"""The two sides of a comparison: the rows that were typed, found among the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.errors import InputError, unknown
from bench.record.known_tasks import recorded_tasks
from bench.record.named_rows import row_named
from bench.record.rescored import scored_alike, scored_first_by
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import data_facts, recorded_names
from bench.report.tables.parts import listed

SHORTEST_HASH = 6
"""Digits of the hash of a teacher's weights that name it."""


@dataclass(frozen=True)
class NamedSide:
    """The rows of one side, as records call them.

    Attributes:
        rows: one, or several that are averaged.
        against: those whose mean is subtracted; none for the rows as they are.
    """

    rows: tuple[str, ...]
    against: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """The rows, and those that are subtracted."""
        return self.rows + self.against

    @property
    def in_words(self) -> str:
        """The rows as messages name them."""
        rows = listed(self.rows)
        return f"{rows} less {listed(self.against)}" if self.against else rows


@dataclass(frozen=True)
class NamedSides:
    """Two sides among records.

    Attributes:
        first, second: the sides.
        records: all those among which their rows are.
        store: the folder of the first side's records.
        stores: row -> the folder that has its answers, where it is another one.
    """

    first: NamedSide
    second: NamedSide
    records: list[Record]
    store: Store
    stores: Mapping[str, Store]

    @property
    def rows(self) -> list[str]:
        """All rows, each once."""
        return list(dict.fromkeys(self.first.all + self.second.all))

    @property
    def in_words(self) -> str:
        """Both sides as messages name them."""
        return f"{self.first.in_words} and {self.second.in_words}"

    def store_of(self, record: Record) -> Store:
        """The folder that has a record's answers."""
        return self.stores.get(record.row, self.store)


def named_sides(
    store: Store,
    first: str,
    second: str,
    against: str,
    metrics: Sequence[str],
    tasks: Sequence[str],
    tuned: bool = False,
) -> NamedSides:
    """Two sides of rows in one folder.

    Args:
        first, second, against: the rows of both sides, and those that are subtracted.
        metrics: that come first on the tasks; none for those that records have first.
        tuned: whether the names are those of rows that a search chose.

    Raises:
        InputError: a row that is not there, or a task that no metric suits.
    """
    records = _scored_by(metrics, store, tasks)
    subtracted = _rows_called(against, records, store.root, tuned)
    if len(subtracted) > 2:
        raise _too_many_baselines(against)
    return NamedSides(
        NamedSide(_rows_called(first, records, store.root, tuned), subtracted[:1]),
        NamedSide(_rows_called(second, records, store.root, tuned), subtracted[-1:]),
        records,
        store,
        {},
    )


def sides_of_two_folders(
    store: Store,
    theirs: Store,
    first: str,
    second: str,
    against: str,
    metrics: Sequence[str],
    tasks: Sequence[str],
    tuned: bool = False,
) -> NamedSides:
    """As :func:`named_sides`, with the second side's rows in another folder.

    The same training may lie in both folders, so the other folder's records get names and keys that
    no record of the first one has.

    Args:
        theirs: the other folder.
    """
    own = _scored_by(metrics, store, tasks)
    others = _scored_by(metrics, theirs, tasks)
    own_baseline: tuple[str, ...] = ()
    their_baseline: tuple[str, ...] = ()
    if against:
        names = _names_of_baselines(against, own)
        own_baseline = _rows_called(names[0], own, store.root, tuned)
        their_baseline = _rows_called(names[-1], others, theirs.root, tuned)
    rows = _rows_called(second, others, theirs.root, tuned)

    folder = theirs.root.resolve().name
    renamed: dict[str, str] = {}
    moved: list[Record] = []
    for record in others:
        if record.row in (*rows, *their_baseline):
            moved.append(_of_another_folder(record, folder))
            renamed[record.row] = moved[-1].row
    return NamedSides(
        NamedSide(_rows_called(first, own, store.root, tuned), own_baseline),
        NamedSide(
            tuple(renamed[row] for row in rows),
            tuple(renamed[row] for row in their_baseline),
        ),
        [*own, *moved],
        store,
        dict.fromkeys(renamed.values(), theirs),
    )


def of_teachers(named: NamedSides, teachers: Sequence[str]) -> NamedSides:
    """The same rows, each with the students of one teacher, whose name is then behind its own.

    Args:
        teachers: that of the first row and that of the second one, or one name for both.

    Raises:
        InputError: more than two teachers or rows, or a teacher that a row has not.
    """
    if len(teachers) > 2:
        raise InputError("--teacher names the teacher of the first row and that of the second one")
    if len(named.first.all) > 1 or len(named.second.all) > 1:
        raise InputError("--teacher goes with one row on each side, and without --against")
    # means leave out the columns of each teacher that is no better than a constant, so the
    # teachers' records stay
    kept = [record for record in named.records if record.row not in named.rows]
    rows: list[str] = []
    stores: dict[str, Store] = {}
    for side, teacher in ((named.first, teachers[0]), (named.second, teachers[-1])):
        (row,) = side.rows
        of_row = [record for record in named.records if record.row == row]
        base = _base_of_teacher(of_row, teacher, f"{row} in {named.store.root}")
        taught = [
            _of_a_teacher(record, teacher) for record in of_row if record.cell.teacher.base == base
        ]
        renamed = taught[0].row
        if row in named.stores:
            stores[renamed] = named.stores[row]
        # the same row of the same teacher, named twice, stays one
        if renamed not in rows:
            kept += taught
        rows.append(renamed)
    first = NamedSide((rows[0],))
    second = NamedSide((rows[1],))
    return replace(named, first=first, second=second, records=kept, stores=stores)


def one_row(named: NamedSides) -> str:
    """A message for two sides that are one row: it names what to type."""
    row = named.rows[0]
    of_row = [record for record in named.records if record.row == row]
    teachers = {record.cell.teacher.base: record.cell.teacher.name for record in of_row}
    text = f"compare needs two different rows; both are {row!r}"
    if len(teachers) < 2:
        return text
    names = list(teachers.values())
    # two of one name are known by their hashes
    if len(set(names)) < len(names):
        names = [base[:12] for base in teachers]
    return f"{text}. It has the teachers {', '.join(names)}: add --teacher {names[0]},{names[1]}"


def _rows_called(typed: str, records: Sequence[Record], root: Path, tuned: bool) -> tuple[str, ...]:
    """The rows of names separated by commas; one name that has a comma is one row.

    Raises:
        InputError: a row that is not there.
    """
    names = [part.strip() for part in typed.split(",") if part.strip()]
    if any(typed in (record.row, record.called) for record in records):
        names = [typed]
    return tuple(row_named(name, records, root, tuned) for name in names)


def _names_of_baselines(against: str, records: Sequence[Record]) -> list[str]:
    """The name of the row that is subtracted from each side, or one name for both.

    Raises:
        InputError: more than two names.
    """
    if any(against in (record.row, record.called) for record in records):
        return [against]
    names = [name.strip() for name in against.split(",")]
    if len(names) > 2:
        raise _too_many_baselines(against)
    return names


def _too_many_baselines(against: str) -> InputError:
    return InputError(f"--against {against}: names a row of both sides, or one of each")


def _base_of_teacher(records: Sequence[Record], typed: str, where: str) -> str:
    """The hash of the weights of the teacher that was typed, among those of these records.

    Raises:
        InputError: none of them is called so, or several are.
    """
    there = {record.cell.teacher.base: record.cell.teacher.name for record in records}
    found = [base for base, name in there.items() if typed in (name, name.split("/")[-1])]
    if not found and len(typed) >= SHORTEST_HASH:
        found = [base for base in there if base.startswith(typed)]
    if not found:
        raise unknown(f"teacher of {where}", typed, there.values())
    if len(found) > 1:
        hashes = ", ".join(base[:12] for base in found)
        raise InputError(
            f"--teacher {typed}: {len(found)} teachers of {where} are called so; name one by the "
            f"beginning of its hash: {hashes}"
        )
    return found[0]


def _of_a_teacher(record: Record, teacher: str) -> Record:
    """A record by a name that says its teacher."""
    label = f"{record.cell.label}, teacher {teacher}"
    return record.model_copy(update={"cell": record.cell.model_copy(update={"label": label})})


def _of_another_folder(record: Record, folder: str) -> Record:
    """A record by a name and keys that say its folder."""
    cell = record.cell.model_copy(update={"label": f"{record.cell.label} in {folder}"})
    keys = {"key": f"{record.key} in {folder}", "train_key": f"{record.train_key} in {folder}"}
    return record.model_copy(update={"cell": cell, **keys})


def _scored_by(metrics: Sequence[str], store: Store, tasks: Sequence[str]) -> list[Record]:
    """The records of a folder, with one of these metrics first on the tasks as they were typed.

    Trials of a search, on examples that chose, are none of them unless there is nothing else.
    """
    every = scored_alike(store.records(), store)
    records = [record for record in every if not data_facts(record.cell.data.slug).held_back]
    records = records or every
    chosen: Sequence[str] = ()
    if metrics:
        recorded = recorded_names(record.cell for record in records)
        chosen = recorded_tasks(tasks, recorded, store.root)
    return scored_first_by(records, metrics, store, chosen)
