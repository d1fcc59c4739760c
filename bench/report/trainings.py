"""The trainings of a row, and what they took. No torch, no clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


COSTS: Sequence[Callable[[TrainCost], float]] = (
    lambda train: train.examples,
    lambda train: train.flops_own,
    lambda train: train.flops_teacher,
    lambda train: train.seconds_own,
    lambda train: train.teacher_seconds_shared,
    lambda train: train.teacher_seconds_alone,
)
"""What is added up of each training, in the order of the table's columns."""


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


def costs_of(done: Sequence[Record]) -> list[float]:
    """What a row's trainings took, as :data:`COSTS`: the mean over the seeds of each task, summed over tasks."""
    costs = [[r.train for r in seeds if r.train] for seeds in by_tasks(done)]
    # tasks may have different numbers of seeds, so each has its own mean
    return [sum(sum(of(one) for one in seeds) / len(seeds) for seeds in costs) for of in COSTS]


def cpu_seconds_of(done: Sequence[Record]) -> float | None:
    """The processor's seconds of a row's trainings, added up as their other costs; None where one of them does not say it."""
    seconds = [[r.train.cpu_seconds for r in seeds if r.train] for seeds in by_tasks(done)]
    if any(one is None for seeds in seconds for one in seeds):
        return None
    return sum(sum(one or 0.0 for one in seeds) / len(seeds) for seeds in seconds)
