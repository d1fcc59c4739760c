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


def _systems(sheets: Sequence[Sheet]) -> Iterator[System]:
    for sheet in sheets:
        names = {
            whole_name(column): column for column in sheet.columns if has_scores(sheet, column)
        }
        often = Counter(plain_name(row.system) for row in sheet.rows)
        for row in sheet.rows:
            if is_plain(row) and not is_quantity_row(row):
                columns = {name: column for name, column in names.items() if column in row.cells}
                yield System(
                    sheet, row, plain_name(row.system), often[plain_name(row.system)], columns
                )


def quotes_and_teachers(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Cells that differ in rows of two tables which otherwise agree.

    - Of one system, at least three in four cells agree, at most two do not: one was copied wrongly. Or two changed places.
    - Under another name, a row of another source is taken for a copy if four in five of its cells agree, and one does not.
    - A teacher of one source has other scores from table to table, although half of them stay.

    Tables whose names say that they are of other numbers of rows or epochs are two experiments and not compared.
    """
    systems = list(_systems(sheets))
    # rows are found by the cells that they share, not by trying all pairs: that would take the square of the rows
    having: dict[tuple[str, Decimal], list[int]] = defaultdict(list)
    for number, system in enumerate(systems):
        for name, column in system.columns.items():
            # 0 is what every constant answer has: it says nothing
            if value := system.row.cells[column].value:
                having[name, value].append(number)
    agreeing = Counter(
        pair
        for numbers in having.values()
        if len(numbers) <= CROWD
        for pair in combinations(numbers, 2)
    )
    for x, y in sorted(pair for pair, count in agreeing.items() if count >= 3):
        first, second = systems[x], systems[y]
        a, b, source = first.row, second.row, first.sheet.source
        if first.sheet is second.sheet or conditions(first.sheet.where) != conditions(
            second.sheet.where
        ):
            continue
        if first.name == second.name:
            # one name, of one group and one size where both say it, and of no other row of either table
            same_size = all(
                a.sizes[size].value == b.sizes[size].value
                for size in a.sizes.keys() & b.sizes.keys()
            )
            is_same = (
                first.often == second.often == 1
                and plain_name(a.group) == plain_name(b.group)
                and same_size
            )
            least, most, check = 0.75, 2, "quoted differently" if is_same else ""
        elif (
            TEACHER.search(a.system) and TEACHER.search(b.system) and source == second.sheet.source
        ):
            least, most, check = 0.5, 99, "teacher changes"
        else:
            least, most, check = (
                0.8,
                1,
                "quoted differently" if source != second.sheet.source else "",
            )
        shared = []
        for name, column in first.columns.items() if check else ():
            other = second.columns.get(name)
            if other is None or a.cells[column].value == b.cells[other].value == 0:
                continue
            # both may be of one metric and split: unknown goes with everything
            kinds = zip(a.kinds.get(column, ("", "")), b.kinds.get(other, ("", "")), strict=True)
            if all(kind == its or kind in UNKNOWN or its in UNKNOWN for kind, its in kinds):
                shared.append((other, a.cells[column], b.cells[other]))
        differing = [cells for cells in shared if cells[1].value != cells[2].value]
        equal = len(shared) - len(differing)
        # two cells that changed places are no chance
        is_swap = len(differing) == 2 and differing[0][1:] == differing[1][:0:-1]
        if equal < 3 or (equal < least * len(shared) and not is_swap) or len(differing) > most:
            continue
        for column, theirs, cell in differing:
            why = f"{first.sheet.where} has {theirs.text}{f' as {a.system}' if first.name != second.name else ''}"
            if check == "teacher changes":
                why = f"{a.system} of {first.sheet.name} has {theirs.text}"
            changes = "every ratio to it" if check == "teacher changes" else "a digit"
            said = f"{why}; {equal} of {len(shared)} shared cells agree"
            yield _differs(second, column, cell, theirs, check, said, changes)


def changed_elsewhere(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """A number that a page prints twice and not alike, where it repeats three others of the column as they are.

    Tables of few columns repeat each other column by column. Of all systems that several tables of one source print in
    one column (by its whole name), at least three, and at least two in three, have to agree.
    """
    printed: dict[tuple[str, str], dict[str, list[System]]] = defaultdict(lambda: defaultdict(list))
    for system in _systems(sheets):
        # else the name cannot say which of the two rows another table repeats
        if system.often == 1:
            for name in system.columns:
                if len(name) >= LONG_NAME:
                    printed[system.sheet.source, name][system.name].append(system)
    for (_, name), by_system in printed.items():
        repeated = [
            [(s, s.row.cells[s.columns[name]]) for s in rows]
            for rows in by_system.values()
            if len(rows) >= 2
        ]
        odd = [cells for cells in repeated if len({cell.value for _, cell in cells}) > 1]
        agreeing = len(repeated) - len(odd)
        for (first, x), *others in odd if agreeing >= max(3, 2 * len(odd)) else ():
            system, y = next((system, cell) for system, cell in others if cell.value != x.value)
            if abs(x.value - y.value) <= abs(x.value) * COPYING_ERROR and x.places == y.places:
                other_systems = f"{agreeing} other systems have one score wherever it is printed"
                why = f"{first.sheet.where} has {x.text}; {other_systems}"
                yield _differs(
                    system, system.columns[name], y, x, "quoted differently", why, "a digit"
                )


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
