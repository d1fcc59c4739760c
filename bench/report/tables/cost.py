"""What training each row took."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.record.cell import TEACHER
from bench.record.recipe import PAPER
from bench.record.schema import Record
from bench.report import frame
from bench.report.frame import Frame, TableCell
from bench.report.groups import ReportGroup
from bench.report.tables.parts import DASH, line_of
from bench.report.tables.registry import COST, ReportData, table
from bench.report.trainings import (
    COSTS,
    CostKind,
    by_tasks,
    costs_of,
    cpu_seconds_of,
    learned,
    start_of,
    teacher_share,
    trainings,
)


@table(COST, place=60)
def _frames(data: ReportData) -> Iterable[Frame | None]:
    return [cost(data.group)]


@dataclass(frozen=True)
class Taken:
    """What a row's trainings took: the mean over the seeds of each task, summed over tasks."""

    done: Sequence[Record]
    costs: Mapping[str, float]
    """by the titles of :data:`COSTS`"""
    cpu_seconds: float | None
    """None for the teacher, and where a training does not say it"""


def _taken(group: ReportGroup, label: str) -> Taken | None:
    done = trainings(group, label)
    return Taken(done, costs_of(done), None if label == TEACHER else cpu_seconds_of(done)) if done else None


def _number(value: float | None, form: str = ",.0f", behind: str = "") -> TableCell:
    return TableCell(DASH) if value is None else TableCell(f"{value:{form}}{behind}", value=value)


def _cpu_known(taken: Sequence[Taken]) -> bool:
    """Whether every training of a student says the processor's seconds."""
    students = [one for one in taken if one.done[0].cell.method != TEACHER]
    return bool(students) and all(one.cpu_seconds is not None for one in students)


CPU = "CPU time (s)"


@dataclass(frozen=True)
class CostColumn:
    """One column: its title, and what it shows of a row's trainings."""

    title: str
    cell: Callable[[Taken], TableCell]
    words: bool = False
    wanted: Callable[[Sequence[Taken]], bool] | None = None
    """whether the rows of a report have it; None: always there"""


def _column_of(one: CostKind) -> CostColumn:
    """Examples and seconds as whole numbers, FLOPs with two decimals."""
    return CostColumn(one.title, lambda t: _number(t.costs[one.title], ",.0f" if one.unit == 1 else ".2f"))


COLUMNS = (
    CostColumn("start", lambda t: TableCell(", ".join(sorted({start_of(r) for r in t.done}))), words=True),
    CostColumn("training runs", lambda t: TableCell(str(len(t.done)), value=len(t.done))),
    *map(_column_of, COSTS),
    CostColumn("teacher's share of the time", lambda t: _number(teacher_share(t.costs), behind=" %")),
    CostColumn(CPU, lambda t: _number(t.cpu_seconds), wanted=_cpu_known),
)


def cost(group: ReportGroup) -> Frame | None:
    """What training each row took: the mean over the seeds of each task, summed over tasks."""
    taken = {label: one for label in group.systems if (one := _taken(group, label)) is not None}
    if not taken:
        return None
    columns = [c for c in COLUMNS if c.wanted is None or c.wanted(list(taken.values()))]
    lines = [line_of(group, label, [c.cell(one) for c in columns]) for label, one in taken.items()]
    heads = (frame.TableColumn("System"), *(frame.TableColumn(c.title, c.words) for c in columns))
    notes = [*_notes(group, any(c.title == CPU for c in columns)), *_preparatory(group), *_made_once(group)]
    return Frame("Cost of training", heads, tuple(lines), (*notes, *_trained_starts(group)))


def _notes(group: ReportGroup, cpu: bool) -> list[str]:
    said = [
        "The mean over the seeds of each task, summed over the tasks. Examples: those that the row saw in its training. An example "
        "counts once in each epoch. FLOPs are computed in closed form from the number of tokens. "
        "Times were measured on the machine named below. Other programs may have run there at the same time. Teacher time, shared: "
        "students that train together share the teacher's forward passes. Alone: the time without this sharing. Start: what the "
        "row begins with. Pre-trainings on text are listed below by their keys."
    ]
    if cpu:
        said.append(
            f"{CPU}: processor time of the process, over all its threads, with reading and scoring. Students that trained together "
            "share it in proportion to the times of their own passes."
        )
    at_once = sorted({r.env["jobs"] for r in group.records if r.env.get("jobs", 1) > 1})
    if at_once:
        said.append(
            f"Some training runs ran at the same time as others (--jobs {', '.join(map(str, at_once))}): each then takes "
            f"longer than alone."
        )
    return said


def _trained_starts(group: ReportGroup) -> list[str]:
    """What was pre-trained once for the rows that use it."""
    starts = {made["key"]: (name, made) for r in group.records for name, made in r.artefacts.items() if "train" in made}
    said = []
    for key, (name, made) in sorted(starts.items()):
        trained = made["train"]
        beginning = made.get("beginning", TRUNCATED if name == "general_start" else "")
        # as older records, and methods, call it
        beginning = beginning.replace("the cut-down teacher", TRUNCATED)
        began = f" It starts from {beginning}." if beginning else ""
        kind = "General start" if name == "general_start" else f"Pre-training on text, {name.replace('_', ' ')}"
        said.append(
            f"{kind} {key[:12]}: {trained['tokens']:,} tokens, {trained['seconds_own']:,.0f} s (student passes only), made once for "
            f"all rows that use it. No column of this table counts it.{began}"
        )
    return said


TRUNCATED = "the truncated teacher"
AUGMENTED = "augmentation."
"""How the names of artefacts begin that are augmented examples."""


def _preparatory(group: ReportGroup) -> list[str]:
    """The rows that saw more examples than the recipe's epochs have: their stages before the counted ones."""
    if group.recipe == PAPER:
        return []
    said = []
    for label in group.systems:
        # as in the table: the mean over the seeds of each task, summed over tasks
        more = sum(sum(_beyond(group, r) for r in seeds) / len(seeds) for seeds in by_tasks(trainings(group, label)))
        if more >= 1:
            said.append(f"{label} {more:,.0f}")
    if not said:
        return []
    return [
        f"Preparatory stages come before the {group.epochs:g} epochs of the recipe and are extra (the method's file describes them). "
        f"Examples seen in them: {', '.join(said)}. This table counts them."
    ]


def _beyond(group: ReportGroup, record: Record) -> int:
    """Examples that a training saw beyond its recipe's epochs; 0 where the number of its training examples is not known.

    That is so where the group has no record of one of its tasks, and where augmentation made further examples.
    """
    rows = {r.cell.tasks: r.cell.data.rows["train"] for r in group.records if r.train_key == record.train_key}
    augmented = any(name.startswith(AUGMENTED) for name in record.artefacts)
    if record.train is None or augmented or len(rows) < len(learned(record)):
        return 0
    return max(0, record.train.examples - math.ceil(record.cell.recipe["epochs"] * sum(rows.values())))


LEAST_SECONDS = 1.0
"""Artefacts that took less time, like a vocabulary, are not mentioned."""


def _made_once(group: ReportGroup) -> list[str]:
    """What was computed for some rows before they trained, and is in no column: each thing once, with its seconds."""
    found: dict[str, dict[str, float]] = {}
    users: dict[str, set[str]] = {}
    for record in group.records:
        for name, made in record.artefacts.items():
            if made.get("seconds", 0) >= LEAST_SECONDS:
                kind = name.split(".")[0].replace("_", " ")
                found.setdefault(kind, {})[made["key"]] = made["seconds"]
                users.setdefault(kind, set()).add(record.cell.label)
    return [
        f"{kind.capitalize()}, for {', '.join(sorted(users[kind]))}: {sum(seconds.values()):,.0f} s, once for all seeds. No column of "
        f"this table counts it."
        for kind, seconds in sorted(found.items())
    ]
