"""Which row of some records a command names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench.errors import InputError, known_row
from bench.record.schema import Record
from bench.record.task_facts import row_as_typed


def row_named(typed: str, records: Iterable[Record], root: Path, tuned: bool = False) -> str:
    """The row that a name means: that of tables, or the row as it was typed for the training.

    ``microbert`` is the row of this name. Where there is none it is the one row that was typed so,
    like ``microbert (best of 6)``, which a search chose.

    Args:
        root: the folder of the records.
        tuned: whether only rows that a search chose are meant.

    Raises:
        InputError: no row is called so, or several are.
    """
    asked = [record for record in records if record.cell.search is not None or not tuned]
    if not asked and tuned:
        raise InputError(f"--tuned: no row in {root} was tuned")
    labels = {record.row for record in asked}
    printed = {record.called: record.row for record in asked}
    if typed in labels:
        return typed
    if typed in printed:
        return printed[typed]

    # the settings in another order, and without what a search and other options add to the name
    if not any(_is_same(typed, label) for label in labels):
        found = sorted({record.row for record in asked if _is_same(typed, _as_typed(record))})
        if len(found) > 1:
            rows = ", ".join(map(repr, found))
            raise InputError(f"{typed!r} may be {rows} in {root}; type one of them, in quotes")
        if found:
            return found[0]
    return known_row(typed, labels, root)


def _as_typed(record: Record) -> str:
    """How the row of a record was typed, with its operating point."""
    return row_as_typed(record.cell) + record.row.removeprefix(record.cell.label)


def _is_same(typed: str, name: str) -> bool:
    """Whether two names differ at most in the order of settings."""
    return sorted(typed.split(":")) == sorted(name.split(":"))
