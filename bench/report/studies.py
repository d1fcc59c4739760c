"""Records in, studies out: which records share a table, and what their folder says of them.

:func:`study_of` is the one constructor of a study. No torch, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from bench.files import slug
from bench.record.cell import TEACHER, Cell
from bench.record.cell_differences import newest
from bench.record.keys import canonical
from bench.record.recipe import ADAMW
from bench.record.schema import Record
from bench.record.set_aside import sentences
from bench.record.speed_sessions import SpeedRecord
from bench.record.store import Store
from bench.report.means import MeanDifferences, columns_of_noise, mean_scores
from bench.report.reproduce import as_typed_path, texts_of_starts
from bench.report.retained_scores import retained_rows
from bench.report.score_column import ScoreColumn
from bench.report.speed_ups import speed_of
from bench.report.stored_answers import judge, resample
from bench.report.study import EMPTY, KEPT, Group, Study
from bench.report.verdicts import differences_of_variants, differences_to_reference

Key = tuple[object, ...]
"""What the records of a group have in common."""


class Reads(IntEnum):
    """How much of the stored predictions a study reads: each reads what those before it read."""

    NOTHING = 0
    """scores, costs and speeds"""
    TEACHER = 1
    """and the teacher's predictions: which columns means leave out"""
    ALL = 2
    """and all others: what is suspect about them"""
    RESAMPLES = 3
    """and resamples them: intervals, differences and retention with their verdicts"""


@dataclass(frozen=True)
class Folder:
    """A folder of records.

    Attributes:
        store: where they lie, with their predictions.
        records: all of them.
        sessions: its sessions of timing.
    """

    store: Store
    records: Sequence[Record] = ()
    sessions: Sequence[SpeedRecord] = ()


def groups(records: Iterable[Record]) -> list[Group]:
    """Records sorted into tables. Those of different data, teachers, recipes, optimisers or
    precisions never meet in one.

    A table with a limit of training examples also has the records that its systems have without a
    limit, on tasks with no more examples than the limit: as if all had been run with that limit. A
    table that another one holds completely is not made.
    """
    # each student is in the table of its conditions
    cells: dict[Key, Cell] = {}
    members: dict[Key, list[Record]] = {}
    teachers: list[Record] = []
    for record in records:
        if record.cell.method == TEACHER:
            teachers.append(record)
            continue
        key = _key(record.cell)
        cells.setdefault(key, record.cell)
        members.setdefault(key, []).append(record)
    for key, limited in list(members.items()):
        unlimited = members.get((key[0], None, *key[2:]), [])
        limit = cells[key].data.max_train_rows
        if limit:
            members[key] = [*limited, *_within_limit(limited, unlimited, limit)]

    # a teacher belongs to every table of its students, whatever their recipe
    for teacher in teachers:
        homes = [key for key, others in members.items() if _has_teacher(others, teacher)]
        for key in homes or [_key(teacher.cell)]:
            cells.setdefault(key, teacher.cell)
            members.setdefault(key, []).append(teacher)

    # a teacher of a task that no student has would be a column without students, and no mean would
    # be over all columns
    members = {key: _on_learned_tasks(together) for key, together in members.items()}
    return [Group(cells[key], key, *newest(members[key])) for key in _without_those_held(members)]


def _without_those_held(members: Mapping[Key, Sequence[Record]]) -> list[Key]:
    """The groups that no other one holds completely, in the order of what they have in common."""
    keys_of: dict[Key, set[str]] = {}
    for key, records in members.items():
        keys_of[key] = {record.key for record in records}
    kept = []
    for key in sorted(members, key=str):
        if not any(keys_of[key] < others for others in keys_of.values()):
            kept.append(key)
    return kept


def _key(cell: Cell) -> Key:
    """What a cell has in common with all that share its table."""
    optimizer = cell.recipe.get("optimizer", ADAMW)
    return (
        cell.data.slug,
        cell.data.max_train_rows,
        cell.teacher.base,
        cell.teacher.origin,
        cell.recipe["name"],
        cell.recipe["epochs"],
        canonical(cell.numeric.identity()),
        *([optimizer] if optimizer != ADAMW else []),
    )


def _within_limit(
    limited: Sequence[Record], unlimited: Sequence[Record], limit: int
) -> list[Record]:
    """The records without a limit that a table with one takes: of its rows, on tasks that have no
    more examples, and that it does not have itself."""
    rows = {record.row for record in limited}
    tasks = {task for record in limited for task in record.cell.tasks}
    fitting = []
    for record in unlimited:
        is_small = record.cell.data.rows["train"] <= limit
        if record.row in rows and is_small and tasks.isdisjoint(record.cell.tasks):
            fitting.append(record)
    return fitting


def _has_teacher(records: Iterable[Record], teacher: Record) -> bool:
    """Whether one of these records has this teacher, on the same data with the same numerics."""
    cell = teacher.cell
    return any(
        (r.cell.teacher, r.cell.data, r.cell.numeric) == (cell.teacher, cell.data, cell.numeric)
        for r in records
    )


def _on_learned_tasks(records: Sequence[Record]) -> list[Record]:
    """The records on tasks that a student has; all where there is no student."""
    learned: set[str] = set()
    for record in records:
        if record.cell.method != TEACHER:
            learned.update(record.cell.tasks)
    if not learned:
        return list(records)
    return [record for record in records if not learned.isdisjoint(record.cell.tasks)]


def study_of(
    group: Group,
    folder: Folder | None = None,
    *,
    reads: Reads = Reads.RESAMPLES,
    order: Sequence[str] = (),
    names: Mapping[str, str] = EMPTY,
    reference: str = "",
    kept: float = KEPT,
    averages_all: bool = False,
    compares_variants: bool = False,
    backend: str = "",
    threads: int = 0,
) -> Study:
    """The study of a group of records.

    Args:
        folder: of the records; None for what follows from the records alone.
        reads: how much of the folder's stored predictions. What they would say is empty otherwise,
            and means have no intervals.
        order: labels of rows in the order in which they were typed; without it rows are in the
            order of names.
        names: row -> its name in a paper.
        reference: the row that others are compared with; "" for plain fine-tuning, or the teacher.
        kept: share of the teacher's score that a student has to reach to keep it.
        averages_all: whether means are over all columns; else those of noise are left out.
        compares_variants: whether variants and ablations are compared with the reference too.
        backend, threads: under which the rows were timed; by default those that a session measured
            first.
    """
    study = Study(
        group.cell,
        group.identity,
        list(group.records),
        group.left_out,
        order=list(order),
        names=names,
        reference=reference,
        kept=kept,
    )
    # what commands say of the folder, and the sessions of timing
    if folder is not None:
        study = replace(
            study,
            results=as_typed_path(folder.store.root),
            texts=texts_of_starts(folder.records),
            speed=speed_of(study, folder.sessions, backend, threads),
        )
    # the columns that means leave out, by the teacher's predictions alone
    if folder is not None and reads >= Reads.TEACHER:
        noise = _noise(study, folder.store)
        study = replace(study, noise=noise, left_out_of_means=() if averages_all else noise)
    # what is suspect, and which files of the folder could not be used
    if folder is not None and reads >= Reads.ALL:
        judged = judge(study, folder.store)
        sources = {slug(record.cell.data.slug) for record in group.records}
        study = replace(
            study,
            aside=sentences(folder.store.notes, folder.store.root, sources),
            suspicions=judged.suspicions,
            partly_suspect=judged.partly_suspect,
            baselines=judged.baselines,
        )
    if folder is not None and reads >= Reads.RESAMPLES:
        study = replace(study, answers=resample(study, folder.store))

    # means follow from all that; and from means and resamples the verdicts
    means = mean_scores(study)
    study = replace(study, mean_intervals=means, pairs=MeanDifferences(study, list(means)))
    return replace(
        study,
        differences=differences_to_reference(study, compares_variants),
        variants=differences_of_variants(study),
        retained=retained_rows(study),
    )


def _noise(study: Study, store: Store) -> list[ScoreColumn]:
    """The columns in which the teacher is not shown to be better than a constant prediction."""
    teacher = replace(study, records=[r for r in study.records if r.row == TEACHER])
    baselines = judge(teacher, store).baselines
    return columns_of_noise(study, resample(teacher, store), baselines)


def studies(records: Iterable[Record]) -> list[Study]:
    """The studies of these records, by the records alone."""
    return [study_of(group) for group in groups(records)]
