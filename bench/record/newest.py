"""Several trainings under one name: the newest is shown, and a reader is told which records are left out. No torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass

from bench.record.cell import TEACHER
from bench.record.comparability import PARTS, SHARED, comparability_key, differing_parts
from bench.record.schema import Record


@dataclass(frozen=True)
class LeftOut:
    """A record that is not shown, and in which parts it differs from those that are."""

    record: Record
    why: str


def newest(records: Iterable[Record]) -> tuple[list[Record], list[LeftOut]]:
    """Of each task, the students of the newest teacher and data; of each row on it, those of the newest training.

    Seeds of one training belong together: a mean never mixes two. A training that gave a score goes before one that did not.
    """
    records = list(records)
    students = [r for r in records if r.cell.method != TEACHER]
    if not students:
        return newest_of(records, lambda r: (r.cell.tasks, r.row))
    of_one_teacher, others = newest_of(students, lambda r: r.cell.tasks, SHARED)
    shown, older = newest_of(of_one_teacher, lambda r: (r.cell.tasks, r.row))
    taught = {(r.cell.tasks, comparability_key(r.cell, SHARED)) for r in shown}
    teachers = [
        r for r in records if r.cell.method == TEACHER and (r.cell.tasks, comparability_key(r.cell, SHARED)) in taught
    ]
    with_students = {r.cell.tasks for r in shown}
    alone = [r for r in records if r.cell.method == TEACHER and r.cell.tasks not in with_students]
    of_tasks_alone, older_alone = newest_of(alone, lambda r: (r.cell.tasks, r.row))
    return [*shown, *teachers, *of_tasks_alone], [*others, *older, *older_alone]


def newest_of(
    records: Iterable[Record], place: Callable[[Record], Hashable], parts: Collection[str] = tuple(PARTS)
) -> tuple[list[Record], list[LeftOut]]:
    """Of each place, the records that agree in these parts with its newest one; and all others.

    Args:
        place: what names the place of a record, for instance its task and row.
    """
    met: dict[Hashable, dict[str, list[Record]]] = {}
    for record in records:
        met.setdefault(place(record), {}).setdefault(comparability_key(record.cell, parts), []).append(record)
    shown: list[Record] = []
    left: list[LeftOut] = []
    for kinds in met.values():
        chosen = max(kinds.values(), key=lambda those: max((r.status == "ok", r.finished, r.key) for r in those))
        shown += chosen
        for those in kinds.values():
            left += [LeftOut(r, differing_parts(r.cell, chosen[-1].cell, parts)) for r in those if those is not chosen]
    return shown, left


def left_out_lines(left: Iterable[LeftOut]) -> list[str]:
    """For a reader: rows, tasks, seeds and keys of what is not shown. Trainings without a score are not listed."""
    by_row: dict[tuple[str, str, str], list[Record]] = {}
    for one in left:
        if one.record.status == "ok":
            by_row.setdefault(("+".join(one.record.cell.tasks), one.record.row, one.why), []).append(one.record)
    return [
        f"left out: {row} on {task}, {', '.join(f'seed {r.cell.seed} ({r.key[:12]})' for r in sorted(those, key=_order))}; "
        f"newer records differ in: {why}"
        for (task, row, why), those in sorted(by_row.items())
    ]


def _order(record: Record) -> tuple[int, str]:
    return record.cell.seed, record.key
