"""Where cells differ: field by field, in the parts of the question, and which of several trainings
under one name is shown. No torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any

from bench.record.cell import (
    IN_8_BITS,
    LINEAR_IN_8_BITS,
    LINEAR_ONLY,
    TEACHER,
    Cell,
    scoring_identity,
    training_identity,
)
from bench.record.keys import canonical
from bench.record.schema import Record
from bench.record.varied import VARIED_TEACHER

ABSENT = "(not there)"
"""The value of a field that only the other cell has."""
PARTS: Mapping[str, Callable[[Cell], Any]] = {
    "data": lambda c: (c.data.train, sorted(c.data.evaluation.items()), c.data.max_train_rows),
    "teacher": lambda c: (c.teacher.base, c.teacher.origin),
    "what is drawn anew with each seed": lambda c: c.varied and c.varied.sources,
    "recipe": lambda c: _recipe(c),
    "precision, threads or device": lambda c: c.numeric.model_dump(),
    "settings": lambda c: _settings(c),
    "search of the settings": lambda c: _search(c),
    "general start or other artefacts": lambda c: _artefacts(c),
    "tokenizer": lambda c: c.tokenizer,
    "tasks learned together": lambda c: _partners(c),
    "teacher's training": lambda c: _teaching(c),
}
"""What besides the row, the task and the seed two records must share to be answers to one question.
In the order in which a reader is told: the last one differs with many of the others."""
SHARED = ("data", "teacher", "teacher's training")
"""The parts that all rows of a column must have in common."""


def _recipe(cell: Cell) -> list[tuple[str, Any]]:
    """The numbers of a training; where each seed has a search, without the rate that it chose."""
    chosen = {"learning_rate"} if cell.search and cell.search.each_seed else set()
    return sorted(pair for pair in cell.recipe.items() if pair[0] not in chosen)


def _settings(cell: Cell) -> tuple[Any, ...]:
    """Version and settings; where each seed has a search, without the settings, which it chose."""
    if cell.search and cell.search.each_seed:
        return (cell.version, cell.dropped)
    return (cell.version, sorted(cell.settings.items()), cell.dropped)


def _teaching(cell: Cell) -> tuple[str, ...]:
    """The key of the teacher that serves all seeds, or of that of seed 0 where each has its own."""
    if cell.varied is not None and cell.varies(VARIED_TEACHER):
        return (cell.varied.teacher, "one for each seed")
    return (cell.teacher.key,)


def _artefacts(cell: Cell) -> list[tuple[str, str]]:
    """Keys of what was prepared; where that is drawn anew with the seed, those of seed 0."""
    artefacts = cell.varied.artefacts if cell.varied else cell.artefacts
    return sorted(artefacts.items())


def _partners(cell: Cell) -> list[dict[str, Any]]:
    """The tasks that a student learned together; without their teachers where each seed has its
    own."""
    left_out = {"teacher"} if cell.varies(VARIED_TEACHER) else set[str]()
    return [partner.model_dump(exclude=left_out) for partner in cell.together]


def _search(cell: Cell) -> Any:
    """A search; where each seed has one, what was asked of them all."""
    search = cell.search
    if search and search.each_seed:
        return (search.of, search.metric, search.settings, len(search.trials))
    return search and search.identity()


def differences(first: Cell, second: Cell, point: str = "") -> list[dict[str, Any]]:
    """Every field in which the keys' contents differ, in the order of the keys; none exactly where
    the keys are the same.

    Args:
        point: the operating point of both.
    """
    return field_differences(identity(first, point), identity(second, point))


def field_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same of two identities: ``field`` (its place, like ``recipe.epochs``) and both values."""
    differing = []
    for name in dict.fromkeys([*first, *second]):
        if name in first and name in second:
            differs = canonical(first[name]) != canonical(second[name])
        else:  # of a task that only one student learns, `together` itself says enough
            differs = not (
                name.startswith("together.") and "together" in first and "together" in second
            )
        if differs:
            differing.append(
                {
                    "field": name,
                    "first": first.get(name, ABSENT),
                    "second": second.get(name, ABSENT),
                }
            )
    return differing


def identity(cell: Cell, point: str = "") -> dict[str, Any]:
    """The content of a record's key, as one level of fields with dotted names."""
    whole = training_identity(cell) | scoring_identity(cell, point)
    # a key leaves the device out where it is the CPU
    return dict(flat(whole | {"numeric": cell.numeric.model_dump()}))


def flat(values: Mapping[str, Any], top: bool = True) -> Iterator[tuple[str, Any]]:
    """An identity as one level of fields with dotted names."""
    for name, value in values.items():
        if top and name == "together":  # below it is a setting of a method
            yield name, [partner["task"] for partner in value]
            for partner in value:
                yield from (
                    (f"{name}.{partner['task']}.{k}", v) for k, v in partner.items() if k != "task"
                )
        elif isinstance(value, dict) and not (top and name == "search"):  # one search is one thing
            yield from ((f"{name}.{inner}", part) for inner, part in flat(value, top=False))
        else:
            yield name, value


def comparability_key(cell: Cell, parts: Collection[str] = tuple(PARTS)) -> str:
    """The same for cells that agree in these parts.

    With all of them, only the task's name, the seed and the row's name may differ, and what that
    name says: method, chosen epoch, outputs, kernels.
    """
    return canonical([PARTS[name](cell) for name in parts])


def differing_parts(first: Cell, second: Cell, parts: Collection[str] = tuple(PARTS)) -> str:
    """Which of these parts of the question differ, in words."""
    differing = [
        name
        for name in PARTS
        if name in parts and canonical(PARTS[name](first)) != canonical(PARTS[name](second))
    ]
    return ", ".join(
        differing[:-1]
        if len(differing) > 1 and differing[-1] == "teacher's training"
        else differing
    )


LeftOut = list[tuple[Record, str]]
"""Records that are not shown, and in which parts each differs from those that are."""


def newest(records: Iterable[Record]) -> tuple[list[Record], LeftOut]:
    """The students of each task that have the newest teacher and data; of each row on it, those of
    the newest training.

    Seeds of one training belong together: a mean never mixes two. A training that gave a score goes
    before one that did not.
    """
    records, older_points = _without_older_points(records)
    students = [r for r in records if r.cell.method != TEACHER]
    teachers = [r for r in records if r.cell.method == TEACHER]
    of_one_teacher, others = newest_of(students, lambda r: r.cell.tasks, SHARED)
    shown, older = newest_of(of_one_teacher, lambda r: (r.cell.tasks, r.row))
    # the students of a task agree in these parts, so that one says it of all
    first_of = {r.cell.tasks: r for r in shown}
    taught = {(tasks, comparability_key(r.cell, SHARED)) for tasks, r in first_of.items()}
    theirs = [r for r in teachers if (r.cell.tasks, comparability_key(r.cell, SHARED)) in taught]
    tasks = {r.cell.tasks for r in shown}
    alone, older_alone = newest_of(
        [r for r in teachers if r.cell.tasks not in tasks], lambda r: (r.cell.tasks, r.row)
    )
    return [*shown, *theirs, *alone], [*older_points, *others, *older, *older_alone]


def _without_older_points(records: Iterable[Record]) -> tuple[list[Record], LeftOut]:
    """The records without those in 8 bits of an older kind whose row is there in 8 bits of
    today."""
    records = list(records)
    of_today = {(r.cell.tasks, r.row) for r in records if r.point == IN_8_BITS and r.status == "ok"}
    shown: list[Record] = []
    left: LeftOut = []
    for record in records:
        is_older = record.point == LINEAR_IN_8_BITS
        if is_older and (record.cell.tasks, record.row) in of_today:
            left.append((record, f"embeddings in 8 bits (these have {LINEAR_ONLY})"))
        else:
            shown.append(record)
    return shown, left


def newest_of(
    records: Iterable[Record],
    place: Callable[[Record], Hashable],
    parts: Collection[str] = tuple(PARTS),
) -> tuple[list[Record], LeftOut]:
    """The records of each place that agree in these parts with its newest one; and all others.

    Args:
        place: what names the place of a record, for instance its task and row.
    """
    met: dict[Hashable, dict[str, list[Record]]] = {}
    for record in records:
        met.setdefault(place(record), {}).setdefault(
            comparability_key(record.cell, parts), []
        ).append(record)
    shown: list[Record] = []
    left: LeftOut = []
    for kinds in met.values():
        chosen = max(kinds.values(), key=_newest_in)
        shown += chosen
        for those in kinds.values():
            if those is not chosen:
                left += [(r, differing_parts(r.cell, chosen[-1].cell, parts)) for r in those]
    return shown, left


def _newest_in(records: Iterable[Record]) -> tuple[bool, str, str]:
    """By what one set of records is newer than another: by its newest record, one with a score
    first."""
    return max((record.status == "ok", record.finished, record.key) for record in records)


def left_out_lines(left: LeftOut) -> list[str]:
    """For a reader: rows, tasks, seeds and keys of what is not shown. Trainings without a score are
    not listed."""
    by_row: dict[tuple[str, str, str], list[tuple[int, str]]] = {}
    for record, why in left:
        if record.status == "ok":
            place = ("+".join(record.cell.tasks), record.row, why)
            by_row.setdefault(place, []).append((record.cell.seed, record.key[:12]))
    lines: list[str] = []
    for (task, row, why), those in sorted(by_row.items()):
        seeds = ", ".join(f"seed {seed} ({key})" for seed, key in sorted(those))
        lines.append(f"left out: {row} on {task}, {seeds}; newer records differ in: {why}")
    return lines
