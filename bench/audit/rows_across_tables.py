"""Rows of several tables against each other: equal ones, misquoted ones, and a teacher that changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import combinations

from bench.audit.findings import INFERENCE, AuditedCell, Finding
from bench.audit.names import (
    TEACHER,
    conditions,
    derived_kind,
    has_scores,
    is_average,
    is_plain,
    is_quantity,
    is_quantity_row,
    operating_point,
    plain_name,
    whole_name,
)
from bench.audit.printed import PrintedNumber
from bench.audit.table import UNKNOWN, PrintedRow, Sheet

Shared = dict[str, tuple[PrintedNumber, PrintedNumber]]
"""Column of the first row -> the two cells of one task that two rows share."""


def _pairs(sheets: Sequence[Sheet]) -> Iterator[tuple[Sheet, PrintedRow, Sheet, PrintedRow, Shared]]:
    """Rows that share at least three columns of scores by their whole names, of one metric and split."""
    rows = []
    for sheet in sheets:
        names = {column: whole_name(column) for column in sheet.columns if has_scores(sheet, column)}
        rows += [(sheet, row, {names[c]: c for c in row.cells if c in names}) for row in sheet.rows if _is_system(row)]
    for (one, a, first), (other, b, second) in combinations(rows, 2):
        common = first.keys() & second.keys()
        if len(common) < 3:
            continue
        shared = {
            own: (a.cells[own], b.cells[second[name]])
            for name, own in first.items()
            if name in common and _compatible(a, own, b, second[name])
        }
        if len(shared) >= 3:
            yield one, a, other, b, shared


def _is_system(row: PrintedRow) -> bool:
    """Whether a row is of a system's scores and not of what they are made of, nor of a quantity."""
    return is_plain(row) and not is_quantity_row(row)


def _compatible(a: PrintedRow, own: str, b: PrintedRow, other: str) -> bool:
    """Whether two cells may be of one metric and split: unknown goes with everything."""
    return all(
        x == y or x in UNKNOWN or y in UNKNOWN
        for x, y in zip(a.kinds.get(own, ("", "")), b.kinds.get(other, ("", "")), strict=True)
    )


def duplicates(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Rows of different systems with all their scores equal: within a table, and in tables of other sources.

    One number throughout (a share of 100 %, a guess of 50) says nothing of where it came from; one model at two speeds may
    well answer alike; a page may call one system by two names.
    """
    duplicates_of: dict[int, list[tuple[Sheet, PrintedRow]]] = {}
    first_of: dict[int, tuple[Sheet, PrintedRow, Shared]] = {}
    for one, a, other, b, shared in _pairs(sheets):
        if plain_name(a.system) == plain_name(b.system) or any(x.value != y.value for x, y in shared.values()):
            continue
        (model, speed), (its, at) = operating_point(a.system), operating_point(b.system)
        if (model == its and speed != at) or len({x.value for x, _ in shared.values()}) == 1:
            continue
        if one is other:
            yield _equal(one, a, shared, f"equal to {b.system} in all {len(shared)} shared columns")
        elif one.source == other.source or _is_one_method(a, b):
            continue
        elif not any(id(row) == id(a) for known in duplicates_of.values() for _, row in known):
            first_of.setdefault(id(a), (one, a, shared))
            duplicates_of.setdefault(id(a), []).append((other, b))
    for key, (one, a, shared) in first_of.items():
        others = "; ".join(f"{row.system} of {sheet.where}" for sheet, row in duplicates_of[key])
        yield _equal(one, a, shared, f"equal to {others}")


GENERIC = re.compile(
    r"^(?:base|large|small|tiny|teacher|student|tea|stu|google|ours?|our|l|layers?|ft|kd|reported|original|baseline|devlin|et|al|and|the|model"
    r"|uncased|cased|full|dense|paper|reproduced?|computed|dev|test|\d+)$"
)
"""Words of a name that say a size, a role or a source and not which method it is."""


def _is_one_method(a: PrintedRow, b: PrintedRow) -> bool:
    """Whether two names may be of one method, as BERT-PKD_4 and BERT_BASE-4L-PKD: of another source that is a quote."""
    first, second = (
        {word for word in re.findall(r"[a-z]+", row.system.lower().replace("_", " ")) if not GENERIC.match(word)}
        for row in (a, b)
    )
    return first <= second or second <= first


def _equal(sheet: Sheet, row: PrintedRow, shared: Shared, why: str) -> Finding:
    values = ", ".join(x.text for x, _ in shared.values())
    columns = ", ".join(shared)
    changes = "whose numbers these are"
    return Finding(
        where=sheet.where,
        row=row.system,
        column=columns,
        printed=values,
        recomputed="",
        basis=INFERENCE,
        check="duplicate row",
        why=why,
        changes=changes,
    )


def _almost_equal(
    sheets: Sequence[Sheet],
    least: float,
    most_different: int,
    alike: Callable[[Sheet, PrintedRow, Sheet, PrintedRow], bool],
) -> Iterator[tuple[Sheet, PrintedRow, Sheet, PrintedRow, str, PrintedNumber, PrintedNumber, str]]:
    """Cells that differ in rows of two tables which otherwise agree, in three cells and in this share of them at least."""
    for one, a, other, b, shared in _pairs(sheets):
        if one is other:
            continue
        equal = sum(x.value == y.value for x, y in shared.values())
        if equal < 3 or conditions(one.where) != conditions(other.where):
            continue
        if not alike(one, a, other, b) or not least * len(shared) <= equal < len(shared):
            continue
        if len(shared) - equal > most_different:
            continue
        for column, (x, y) in shared.items():
            if x.value != y.value:
                yield one, a, other, b, column, x, y, f"{equal} of {len(shared)} shared cells agree"


def _same_teacher_renamed(one: Sheet, a: PrintedRow, other: Sheet, b: PrintedRow) -> bool:
    named = TEACHER.search(a.system) and TEACHER.search(b.system)
    return bool(named) and one.source == other.source and plain_name(a.system) != plain_name(b.system)


def _same_system(one: Sheet, a: PrintedRow, other: Sheet, b: PrintedRow) -> bool:
    """One name, of one group and one size where both say it, and of no other row of either table."""
    if plain_name(a.system) != plain_name(b.system) or plain_name(a.group) != plain_name(b.group):
        return False
    if any(a.sizes[name].value != b.sizes[name].value for name in a.sizes.keys() & b.sizes.keys()):
        return False
    return all(sum(plain_name(r.system) == plain_name(a.system) for r in sheet.rows) == 1 for sheet in (one, other))


def quotes(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Rows of one system in two tables that agree in most cells and not in all: one of them was copied wrongly.

    Tables whose names say that they are of other numbers of rows or epochs are two experiments and not compared.
    Under another name, and of another source, a row is taken for a copy only if four in five of its cells agree, at least
    four, and one does not.
    """

    def other_name(one: Sheet, a: PrintedRow, other: Sheet, b: PrintedRow) -> bool:
        different = plain_name(a.system) != plain_name(b.system)
        return different and one.source != other.source and not _same_teacher_renamed(one, a, other, b)

    for least, most, alike in ((0.75, 2, _same_system), (0.8, 1, other_name)):
        for one, a, other, b, column, x, y, said in _almost_equal(sheets, least, most, alike):
            who = "" if alike is _same_system else f" as {a.system}"
            why = f"{one.where} has {x.text}{who}; {said}"
            yield _differs(AuditedCell(other, b, column), (y, x), "quoted differently", why, "a digit")


def teachers(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """A teacher of one source whose scores change from table to table, although most stay."""
    for one, a, other, b, column, x, y, said in _almost_equal(sheets, 0.5, 99, _same_teacher_renamed):
        why = f"{a.system} of {one.name} has {x.text}; {said}"
        changes = "every ratio to it"
        yield _differs(AuditedCell(other, b, column), (y, x), "teacher changes", why, changes)


def _differs(
    place: AuditedCell, values: tuple[PrintedNumber, PrintedNumber], check: str, why: str, changes: str
) -> Finding:
    """The inference that a cell is wrong, because another table prints it differently.

    Args:
        values: what the cell has, and what the other table has.
    """
    here, elsewhere = values
    return Finding(
        where=place.sheet.where,
        row=place.row.system,
        column=place.column,
        printed=here.text,
        recomputed=elsewhere.text,
        basis=INFERENCE,
        check=check,
        why=why,
        changes=changes,
    )


def derived_elsewhere(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Derived cells of one system that two tables print differently, although the scores they print are the same."""
    of_name: dict[str, list[tuple[Sheet, PrintedRow]]] = {}
    for sheet in (s for s in sheets if any(map(derived_kind, s.columns))):
        for row in sheet.rows:
            of_name.setdefault(plain_name(row.system), []).append((sheet, row))
    for (one, a), (other, b) in (pair for named in of_name.values() for pair in combinations(named, 2)):
        if one is other or conditions(one.where) != conditions(other.where) or not _same_system(one, a, other, b):
            continue
        columns = [c for c in a.cells if c in b.cells]
        derived = [c for c in columns if derived_kind(c) and not is_average(c)]
        scores = [c for c in columns if not derived_kind(c) and not is_quantity(c)]
        differing = [c for c in derived if a.cells[c].value != b.cells[c].value]
        if len(scores) < 2 or len(differing) != 1 or any(a.cells[c].value != b.cells[c].value for c in scores):
            continue
        column = differing[0]
        x, y = a.cells[column], b.cells[column]
        if x.places == y.places:
            why = f"{one.where} has {x.text}, from the same {' and '.join(scores)}"
            yield _differs(AuditedCell(other, b, column), (y, x), "derived differently", why, "a comparison")


LONG_NAME = 8
"""Characters. A column of a shorter name, as F1, may be two things on one page."""
COPYING_ERROR = Decimal("0.02")
"""A number that is off by more than this share of itself is another measurement."""


def changed_elsewhere(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """A number that a page prints twice and not alike, where it repeats three others of the column as they are.

    Tables of few columns repeat each other column by column. Of all systems that several tables of one source print in
    one column (by its whole name), at least three, and at least two in three, have to agree.
    """
    places: dict[tuple[str, str, str], list[tuple[Sheet, PrintedRow, str]]] = {}
    for sheet in sheets:
        names = [plain_name(row.system) for row in sheet.rows]
        # a name that a table has twice cannot say which of the two rows another table repeats
        for row in (row for row in sheet.rows if _is_system(row) and names.count(plain_name(row.system)) == 1):
            for column in (c for c in row.cells if has_scores(sheet, c) and len(whole_name(c)) >= LONG_NAME):
                key = sheet.source, whole_name(column), plain_name(row.system)
                places.setdefault(key, []).append((sheet, row, column))
    columns: dict[tuple[str, str], list[list[tuple[Sheet, PrintedRow, str]]]] = {}
    for (source, column, _), found in places.items():
        if len(found) >= 2:
            columns.setdefault((source, column), []).append(found)
    for repeated in columns.values():
        odd = [found for found in repeated if len({row.cells[column].value for _, row, column in found}) > 1]
        agreeing = len(repeated) - len(odd)
        if agreeing >= max(3, 2 * len(odd)):
            for found in odd:
                yield from _changed(found, agreeing)


def _changed(found: Sequence[tuple[Sheet, PrintedRow, str]], agreeing: int) -> Iterator[Finding]:
    """The first place of a system whose number is not that of its first one."""
    one, a, first = found[0]
    sheet, row, column = next(place for place in found if place[1].cells[place[2]].value != a.cells[first].value)
    x, y = a.cells[first], row.cells[column]
    if abs(x.value - y.value) <= abs(x.value) * COPYING_ERROR and x.places == y.places:
        why = f"{one.where} has {x.text}; {agreeing} other systems have one score wherever it is printed"
        yield _differs(AuditedCell(sheet, row, column), (y, x), "quoted differently", why, "a digit")
