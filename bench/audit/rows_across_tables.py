"""Rows of several tables against each other: a number that is printed twice and not alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from typing import NamedTuple

from bench.audit.findings import INFERENCE, Finding
from bench.audit.names import (
    TEACHER,
    conditions,
    has_scores,
    is_plain,
    is_quantity_row,
    plain_name,
    whole_name,
)
from bench.audit.printed import PrintedNumber
from bench.audit.table import UNKNOWN, PrintedRow, Sheet

CROWD = 64
"""Rows. A number that more of them have in one column says nothing of where it came from."""
LONG_NAME = 8
"""Characters. A column of a shorter name, as F1, may be two things on one page."""
COPYING_ERROR = Decimal("0.02")
"""A number that is off by more than this share of itself is another measurement."""


class System(NamedTuple):
    """A row of a system's scores, and the number of its rows in its table that have its name."""

    sheet: Sheet
    row: PrintedRow
    name: str
    often: int
    columns: Mapping[str, str]
    """name without case and blanks of a column of scores -> the column"""

    def score(self, name: str) -> PrintedNumber:
        return self.row.cells[self.columns[name]]


def _systems(sheets: Sequence[Sheet]) -> Iterator[System]:
    for sheet in sheets:
        # columns of scores, and how often each system is in the table
        names = {
            whole_name(column): column for column in sheet.columns if has_scores(sheet, column)
        }
        often = Counter(plain_name(row.system) for row in sheet.rows)
        for row in sheet.rows:
            if is_plain(row) and not is_quantity_row(row):
                columns = {name: column for name, column in names.items() if column in row.cells}
                system = plain_name(row.system)
                yield System(sheet, row, system, often[system], columns)


ENDS = frozenset({Decimal(0), Decimal(100)})
"""Scores that whole columns may have: that two tables both print them says nothing."""


@dataclass(frozen=True)
class Relation:
    """A relation that two rows of two tables may have, and how far they have to agree then.

    Attributes:
        least: the share of shared cells that agree.
        most: how many may differ.
        check: the name of the finding.
    """

    least: float
    most: int
    check: str


SAME_SYSTEM = Relation(0.75, 2, "quoted differently")
SAME_TEACHER = Relation(0.5, 99, "teacher changes")
COPY = Relation(0.8, 1, "quoted differently")


class SharedCell(NamedTuple):
    """A cell of the second of two rows, and the first row's cell of the same task and metric."""

    column: str
    first: PrintedNumber
    second: PrintedNumber


def quotes_and_teachers(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Find cells that differ in rows of two tables which otherwise agree.

    - Of one system, at least three in four cells agree, at most two do not: one was copied wrongly.
      Or two changed places.
    - Under another name, a row of another source is taken for a copy if four in five of its cells
      agree, and one does not.
    - A teacher of one source has other scores from table to table, although half of them stay.

    Tables whose names say that they are of other numbers of rows or epochs are two experiments and
    not compared.
    """
    systems = list(_systems(sheets))
    for x, y in _agreeing_pairs(systems):
        first = systems[x]
        second = systems[y]
        relation = _relation(first, second)
        if relation is None:
            continue

        # do they agree but for few cells?
        shared = _shared_cells(first, second)
        differing = [cell for cell in shared if cell.first.value != cell.second.value]
        equal = len(shared) - len(differing)
        is_alike = equal >= relation.least * len(shared) or _is_swap(differing)
        if equal < 3 or not is_alike or len(differing) > relation.most:
            continue

        # each of these is a finding
        for cell in differing:
            why = _said_of_first(first, second, cell, relation)
            changes = "every ratio to it" if relation is SAME_TEACHER else "a digit"
            said = f"{why}; {equal} of {len(shared)} shared cells agree"
            yield _differs(
                second, cell.column, cell.second, cell.first, relation.check, said, changes
            )


def _agreeing_pairs(systems: Sequence[System]) -> list[tuple[int, int]]:
    """The numbers of all pairs of systems that print three scores alike at least."""
    # rows are found by the cells that they share, not by trying all pairs: that would take the
    # square of the rows
    having: dict[tuple[str, Decimal], list[int]] = defaultdict(list)
    for number, system in enumerate(systems):
        for name in system.columns:
            value = system.score(name).value
            # 0 is what every constant predictor has: it says nothing
            if value:
                having[name, value].append(number)

    # pairs of rows that share cells
    agreeing: Counter[tuple[int, int]] = Counter()
    for numbers in having.values():
        if len(numbers) <= CROWD:
            agreeing.update(combinations(numbers, 2))
    return sorted(pair for pair, count in agreeing.items() if count >= 3)


def _relation(first: System, second: System) -> Relation | None:
    """The relation of two rows by their names; None where they may well differ."""
    if first.sheet is second.sheet:
        return None
    if conditions(first.sheet.where) != conditions(second.sheet.where):
        return None
    if first.name == second.name:
        return SAME_SYSTEM if _is_same_system(first, second) else None
    is_one_source = first.sheet.source == second.sheet.source
    if not is_one_source:
        return COPY
    are_teachers = TEACHER.search(first.row.system) and TEACHER.search(second.row.system)
    return SAME_TEACHER if are_teachers else None


def _is_same_system(first: System, second: System) -> bool:
    """Whether two rows of one name are of one group and one size, where both say it.

    No other row of either table may have the name.
    """
    if first.often != 1 or second.often != 1:
        return False
    if plain_name(first.row.group) != plain_name(second.row.group):
        return False
    a = first.row.sizes
    b = second.row.sizes
    return all(a[size].value == b[size].value for size in a.keys() & b.keys())


def _shared_cells(first: System, second: System) -> list[SharedCell]:
    """The cells of both rows that may be of one task, metric and split."""
    shared = []
    for name, column in first.columns.items():
        other = second.columns.get(name)
        if other is None:
            continue
        cell = SharedCell(other, first.row.cells[column], second.row.cells[other])
        if cell.first.value == cell.second.value == 0:
            continue

        # an unknown metric or split goes with everything
        kinds = first.row.kinds.get(column, ("", ""))
        other_kinds = second.row.kinds.get(other, ("", ""))
        if all(
            kind == other_kind or kind in UNKNOWN or other_kind in UNKNOWN
            for kind, other_kind in zip(kinds, other_kinds, strict=True)
        ):
            shared.append(cell)
    return shared


def _is_swap(differing: Sequence[SharedCell]) -> bool:
    """Whether two cells changed places, which is no chance."""
    if len(differing) != 2:
        return False
    one, other = differing
    return one.first == other.second and one.second == other.first


def _said_of_first(first: System, second: System, cell: SharedCell, relation: Relation) -> str:
    """A text that says what the first row prints, and where."""
    if relation is SAME_TEACHER:
        return f"{first.row.system} of {first.sheet.name} has {cell.first.text}"
    other_name = f" as {first.row.system}" if first.name != second.name else ""
    return f"{first.sheet.where} has {cell.first.text}{other_name}"


def changed_elsewhere(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Find a number that a page prints twice and not alike, beside three others that it repeats.

    Tables of few columns repeat each other column by column. Of all systems that several tables of
    one source print in one column (by its name without case and blanks), at least three, and at
    least two in three, have to agree.
    """
    # source and name of the column -> system -> its rows
    printed: dict[tuple[str, str], dict[str, list[System]]] = defaultdict(lambda: defaultdict(list))
    for system in _systems(sheets):
        # else the name cannot say which of the two rows another table repeats
        if system.often == 1:
            for name in system.columns:
                if len(name) >= LONG_NAME:
                    printed[system.sheet.source, name][system.name].append(system)

    for (_, name), by_system in printed.items():
        # systems that are printed twice, and those of which the scores differ
        repeated = [rows for rows in by_system.values() if _is_repeated(rows, name)]
        odd = [rows for rows in repeated if _is_odd(rows, name)]
        agreeing = len(repeated) - len(odd)
        if agreeing < max(3, 2 * len(odd)):
            continue
        other_systems = f"{agreeing} other systems have one score wherever it is printed"
        for first, *others in odd:
            # the first score that is another one
            x = first.score(name)
            system = next(other for other in others if other.score(name).value != x.value)
            y = system.score(name)
            if abs(x.value - y.value) <= abs(x.value) * COPYING_ERROR and x.places == y.places:
                why = f"{first.sheet.where} has {x.text}; {other_systems}"
                column = system.columns[name]
                yield _differs(system, column, y, x, "quoted differently", why, "a digit")


def _is_repeated(rows: Sequence[System], name: str) -> bool:
    """Whether a system is printed twice in a column, and not always with a score that whole columns
    have."""
    scores = {row.score(name).value for row in rows}
    return len(rows) >= 2 and not scores <= ENDS


def _is_odd(rows: Sequence[System], name: str) -> bool:
    """Whether a system's rows print more than one score in a column."""
    return len({row.score(name).value for row in rows}) > 1


def _differs(
    system: System,
    column: str,
    cell: PrintedNumber,
    theirs: PrintedNumber,
    check: str,
    why: str,
    changes: str,
) -> Finding:
    """The inference that a cell is wrong, because another table prints it differently."""
    return Finding(
        where=system.sheet.where,
        row=system.row.system,
        column=column,
        printed=cell.text,
        recomputed=theirs.text,
        basis=INFERENCE,
        check=check,
        why=why,
        changes=changes,
    )
