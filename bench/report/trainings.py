"""The trainings of a row, and what they took. No torch, no clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.record.cell import TEACHER
from bench.record.schema import Record, TrainCost
from bench.report.groups import ReportGroup
from bench.report.systems import RANDOM, start_kind


def start_of(record: Record) -> str:
    """Where a student's weights came from before it saw the task."""
    kind = start_kind(record)
    made = record.artefacts.get(kind, {})
    if "train" in made:
        return f"{kind.replace('_', ' ')} {made['key'][:6]}"
    if made.get("beginning", "").startswith("given: "):
        return str(made["beginning"])
    own = {
        "tuned_teacher": "the fine-tuned teacher",
        "teacher_weights": "the pre-trained teacher",
        RANDOM: "random weights",
    }
    return own.get(kind, "pre-trained weights" if record.cell.method == TEACHER else kind.replace("_", " "))


STUDENT_TIME, SHARED_TEACHER_TIME = "student time (s)", "teacher time, shared (s)"


@dataclass(frozen=True)
class CostKind:
    """One column of what trainings took: its title, how it is read from a training, and what it is divided by."""

    title: str
    of: Callable[[TrainCost], float]
    unit: float = 1.0


COSTS: Sequence[CostKind] = (
    CostKind("examples", lambda train: train.examples),
    CostKind("student FLOPs (10^12)", lambda train: train.flops_own, 1e12),
    CostKind("teacher FLOPs (10^12)", lambda train: train.flops_teacher, 1e12),
    CostKind(STUDENT_TIME, lambda train: train.seconds_own),
    CostKind(SHARED_TEACHER_TIME, lambda train: train.teacher_seconds_shared),
    CostKind("teacher time, alone (s)", lambda train: train.teacher_seconds_alone),
)
"""In the order of the table's columns. Shared: the row's part of the teacher passes that it shared with other rows; alone: what
the same passes would have taken without sharing."""


def trainings(group: ReportGroup, label: str) -> list[Record]:
    """One record for each training of a row: a student of several tasks has one a task, and was trained once."""
    return list({r.train_key: r for r in group.of(label) if r.train}.values())


def learned(record: Record) -> tuple[str, ...]:
    """The tasks of a training: one, or all that a student learned together."""
    return tuple(partner.task for partner in record.cell.together) or record.cell.tasks


def by_tasks(done: Sequence[Record]) -> list[list[Record]]:
    """Trainings sorted by what they learned: those of one list differ by their seed alone."""
    found: dict[tuple[str, ...], list[Record]] = {}
    for record in done:
        found.setdefault(learned(record), []).append(record)
    return list(found.values())


def costs_of(done: Sequence[Record]) -> dict[str, float]:
    """Title -> what a row's trainings took: the mean over the seeds of each task, summed over tasks."""
    costs = [[r.train for r in seeds if r.train] for seeds in by_tasks(done)]
    # tasks may have different numbers of seeds, so each has its own mean
    return {c.title: sum(sum(c.of(one) for one in seeds) / len(seeds) for seeds in costs) / c.unit for c in COSTS}


def teacher_share(costs: Mapping[str, float]) -> float | None:
    """Percent of a row's seconds that are the teacher's; None where there are no seconds."""
    both = costs[STUDENT_TIME] + costs[SHARED_TEACHER_TIME]
    return 100 * costs[SHARED_TEACHER_TIME] / both if both else None


def cpu_seconds_of(done: Sequence[Record]) -> float | None:
    """The processor's seconds of a row's trainings, added up as their other costs; None where one of them does not say it."""
    seconds = [[r.train.cpu_seconds for r in seeds if r.train] for seeds in by_tasks(done)]
    if any(one is None for seeds in seconds for one in seeds):
        return None
    return sum(sum(one or 0.0 for one in seeds) / len(seeds) for seeds in seconds)
