"""Rows of several tables against each other: a number that is printed twice and not alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
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
    """whole name of a column of scores -> the column"""


def quotes_and_teachers(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Cells that differ in rows of two tables which otherwise agree.

    - Of one system, at least three in four cells agree, at most two do not: one was copied wrongly.
    - Under another name, a row of another source is taken for a copy if four in five of its cells agree, and one does not.
    - A teacher of one source has other scores from table to table, although half of them stay.

    Tables whose names say that they are of other numbers of rows or epochs are two experiments and not compared.
    """
    systems = list(_systems(sheets))
    for first, second in _alike_in_three(systems):
        (one, a, name, *_), (other, b, its_name, *_) = systems[first][:4], systems[second][:4]
        if conditions(one.where) != conditions(other.where):
            continue
        if name == its_name:
            least, most, check = 0.75, 2, "quoted differently" if _is_same(systems[first], systems[second]) else ""
        elif TEACHER.search(a.system) and TEACHER.search(b.system) and one.source == other.source:
            least, most, check = 0.5, 99, "teacher changes"
        else:
            least, most, check = 0.8, 1, "quoted differently" if one.source != other.source else ""
        shared = _shared(systems[first], systems[second]) if check else []
        differing = [cells for cells in shared if cells[1].value != cells[2].value]
        equal = len(shared) - len(differing)
        if equal < 3 or equal < least * len(shared) or len(differing) > most:
            continue
        for column, x, y in differing:
            who = f" as {a.system}" if name != its_name else ""
            why = f"{one.where} has {x.text}{who}"
            if check == "teacher changes":
                why = f"{a.system} of {one.name} has {x.text}"
            changes = "every ratio to it" if check == "teacher changes" else "a digit"
            said = f"{why}; {equal} of {len(shared)} shared cells agree"
            yield _differs(other, b, column, (y, x), check, said, changes)


def _systems(sheets: Sequence[Sheet]) -> Iterator[System]:
    for sheet in sheets:
        names = {whole_name(column): column for column in sheet.columns if has_scores(sheet, column)}
        often = Counter(plain_name(row.system) for row in sheet.rows)
        for row in sheet.rows:
            if is_plain(row) and not is_quantity_row(row):
                columns = {name: column for name, column in names.items() if column in row.cells}
                yield System(sheet, row, plain_name(row.system), often[plain_name(row.system)], columns)


def _alike_in_three(systems: Sequence[System]) -> list[tuple[int, int]]:
    """Pairs of rows of two tables with at least three equal cells.

    Found by the cells that rows share, not by trying all pairs: that would take the square of the rows.
    """
    having: dict[tuple[str, Decimal], list[int]] = defaultdict(list)
    for number, system in enumerate(systems):
        for name, column in system.columns.items():
            having[name, system.row.cells[column].value].append(number)
    equal: Counter[tuple[int, int]] = Counter()
    for numbers in having.values():
        if len(numbers) <= CROWD:
            equal.update(
                pair for pair in combinations(numbers, 2) if systems[pair[0]].sheet is not systems[pair[1]].sheet
            )
    return sorted(pair for pair, count in equal.items() if count >= 3)


def _shared(first: System, second: System) -> list[tuple[str, PrintedNumber, PrintedNumber]]:
    """The column of the second row and both cells, where both may be of one metric and split: unknown goes with everything."""
    shared = []
    for name, column in first.columns.items():
        if other := second.columns.get(name):
            kinds = zip(first.row.kinds.get(column, ("", "")), second.row.kinds.get(other, ("", "")), strict=True)
            if all(x == y or x in UNKNOWN or y in UNKNOWN for x, y in kinds):
                shared.append((column, first.row.cells[column], second.row.cells[other]))
    return shared


def _is_same(first: System, second: System) -> bool:
    """One name, of one group and one size where both say it, and of no other row of either table."""
    a, b = first.row, second.row
    if first.often != 1 or second.often != 1 or plain_name(a.group) != plain_name(b.group):
        return False
    return all(a.sizes[name].value == b.sizes[name].value for name in a.sizes.keys() & b.sizes.keys())


def changed_elsewhere(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """A number that a page prints twice and not alike, where it repeats three others of the column as they are.

    Tables of few columns repeat each other column by column. Of all systems that several tables of one source print in
    one column (by its whole name), at least three, and at least two in three, have to agree.
    """
    places: dict[tuple[str, str], dict[str, list[tuple[System, PrintedNumber]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for system in _systems(sheets):
        if system.often == 1:  # else the name cannot say which of the two rows another table repeats
            for name, column in system.columns.items():
                if len(name) >= LONG_NAME:
                    cells = places[system.sheet.source, name][system.name]
                    cells.append((system, system.row.cells[column]))
    for (_, name), by_system in places.items():
        repeated = [cells for cells in by_system.values() if len(cells) >= 2]
        odd = [cells for cells in repeated if len({cell.value for _, cell in cells}) > 1]
        agreeing = len(repeated) - len(odd)
        if agreeing < max(3, 2 * len(odd)):
            continue
        for (first, x), *others in odd:
            system, y = next((system, cell) for system, cell in others if cell.value != x.value)
            if abs(x.value - y.value) <= abs(x.value) * COPYING_ERROR and x.places == y.places:
                why = (
                    f"{first.sheet.where} has {x.text}; {agreeing} other systems have one score wherever it is printed"
                )
                column = system.columns[name]
                yield _differs(system.sheet, system.row, column, (y, x), "quoted differently", why, "a digit")


def _differs(
    sheet: Sheet,
    row: PrintedRow,
    column: str,
    values: tuple[PrintedNumber, PrintedNumber],
    check: str,
    why: str,
    changes: str,
) -> Finding:
    """The inference that a cell is wrong, because another table prints it differently.

    Args:
        values: what the cell has, and what the other table has.
    """
    return Finding(
        where=sheet.where,
        row=row.system,
        column=column,
        printed=values[0].text,
        recomputed=values[1].text,
        basis=INFERENCE,
        check=check,
        why=why,
        changes=changes,
    )
