"""Rows of several tables against each other: equal ones, misquoted ones, and a teacher that changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from bench.audit.findings import INFERENCE, Finding
from bench.audit.names import TEACHER, conditions, is_plain, operating_point, plain_name, plain_task, scores_of
from bench.audit.printed import Printed
from bench.audit.sheets import UNKNOWN, Row, Sheet

Shared = dict[str, tuple[Printed, Printed]]
"""Column of the first row -> the two cells of one task that two rows share."""


def _scores(row: Row) -> dict[str, list[str]]:
    """Task -> columns of it, without averages: one task may have several metrics."""
    by_task: dict[str, list[str]] = {}
    for column in scores_of(row.cells):
        by_task.setdefault(plain_task(column), []).append(column)
    return by_task


def _pairs(sheets: Sequence[Sheet]) -> Iterator[tuple[Sheet, Row, Sheet, Row, Shared]]:
    rows = [(sheet, row, _scores(row)) for sheet in sheets for row in sheet.rows if is_plain(row)]
    for (one, a, first), (other, b, second) in combinations(rows, 2):
        shared = {}
        for task in first:
            for own in first[task]:
                # in one table a column is compared with itself: "after 0 %" and "after 25 %" are one task by their letters
                candidates = [own] if one is other else second.get(task, ())
                match = next((o for o in candidates if o in b.cells and _compatible(a, own, b, o)), None)
                if match is not None:
                    shared[own] = (a.cells[own], b.cells[match])
        if len(shared) >= 3:
            yield one, a, other, b, shared


def _compatible(a: Row, own: str, b: Row, other: str) -> bool:
    """Whether two cells may be of one metric and split: unknown goes with everything."""
    return all(
        x == y or x in UNKNOWN or y in UNKNOWN
        for x, y in zip(a.kinds.get(own, ("", "")), b.kinds.get(other, ("", "")), strict=True)
    )


def duplicates(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Rows of different systems with all their scores equal: each pair within a table, and a row's twins elsewhere.

    One number throughout (a share of 100 %, a guess of 50) says nothing of where it came from; one model at two speeds may
    well answer alike.
    """
    twins: dict[int, list[tuple[Sheet, Row]]] = {}
    first_of: dict[int, tuple[Sheet, Row, Shared]] = {}
    for one, a, other, b, shared in _pairs(sheets):
        if plain_name(a.system) == plain_name(b.system) or any(x.value != y.value for x, y in shared.values()):
            continue
        (model, speed), (its, at) = operating_point(a.system), operating_point(b.system)
        if (model == its and speed != at) or len({x.value for x, _ in shared.values()}) == 1:
            continue
        if one is other:
            yield _equal(one, a, shared, f"equal to {b.system} in all {len(shared)} shared columns")
        elif not any(id(row) == id(a) for known in twins.values() for _, row in known):
            first_of.setdefault(id(a), (one, a, shared))
            twins.setdefault(id(a), []).append((other, b))
    for key, (one, a, shared) in first_of.items():
        others = "; ".join(f"{row.system} of {sheet.where}" for sheet, row in twins[key])
        yield _equal(one, a, shared, f"equal to {others}")


def _equal(sheet: Sheet, row: Row, shared: Shared, why: str) -> Finding:
    values = ", ".join(x.text for x, _ in shared.values())
    return Finding(
        sheet.where,
        row.system,
        ", ".join(shared),
        values,
        "",
        INFERENCE,
        "duplicate row",
        why,
        "whose numbers these are",
    )


def _almost_equal(
    sheets: Sequence[Sheet], least: float, most_different: int, alike: Callable[[Sheet, Row, Sheet, Row], bool]
) -> Iterator[tuple[Sheet, Row, Sheet, Row, str, Printed, Printed, str]]:
    """Cells that differ in rows of two tables which otherwise agree, in at least this share of their shared cells."""
    for one, a, other, b, shared in _pairs(sheets):
        equal = sum(x.value == y.value for x, y in shared.values())
        if one is other or conditions(one.where) != conditions(other.where):
            continue
        if not alike(one, a, other, b) or not least * len(shared) <= equal < len(shared):
            continue
        if len(shared) - equal > most_different:
            continue
        for column, (x, y) in shared.items():
            if x.value != y.value:
                yield one, a, other, b, column, x, y, f"{equal} of {len(shared)} shared cells agree"


def _same_teacher_renamed(one: Sheet, a: Row, other: Sheet, b: Row) -> bool:
    named = TEACHER.search(a.system) and TEACHER.search(b.system)
    return bool(named) and one.source == other.source and plain_name(a.system) != plain_name(b.system)


def quotes(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Rows of one system in two tables that agree in most cells and not in all: one of them was copied wrongly.

    Tables whose names say that they are of other numbers of rows or epochs are two experiments and not held together.
    Under another name a row is taken for a copy only if four in five of its cells agree, at least four, and one does not.
    """

    def same_name(one: Sheet, a: Row, other: Sheet, b: Row) -> bool:
        return plain_name(a.system) == plain_name(b.system)

    def other_name(one: Sheet, a: Row, other: Sheet, b: Row) -> bool:
        return not same_name(one, a, other, b) and not _same_teacher_renamed(one, a, other, b)

    for least, most, alike in ((0.6, 99, same_name), (0.8, 1, other_name)):
        for one, a, other, b, column, x, y, said in _almost_equal(sheets, least, most, alike):
            who = "" if alike is same_name else f" as {a.system}"
            why = f"{one.where} has {x.text}{who}; {said}"
            yield Finding(
                other.where, b.system, column, y.text, x.text, INFERENCE, "quoted differently", why, "a digit"
            )


def teachers(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """A teacher of one source whose scores change from table to table, although most stay."""
    for one, a, other, b, column, x, y, said in _almost_equal(sheets, 0.5, 99, _same_teacher_renamed):
        why = f"{a.system} of {one.name} has {x.text}; {said}"
        yield Finding(
            other.where, b.system, column, y.text, x.text, INFERENCE, "teacher changes", why, "every ratio to it"
        )
