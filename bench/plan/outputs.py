"""Which outputs of their teachers the students of a plan read from a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.errors import InputError
from bench.plan.plan import Plan, TaskPlan, outputs_plan
from bench.plan.scheduled_stages import kept_terms
from bench.plan.spelling import MethodRow
from bench.plan.tasks import setup_of

if TYPE_CHECKING:
    from methods.api import Stage, Taps


def is_readable(stage: Stage) -> bool:
    """Whether the teacher's outputs for this stage are the same in every epoch, so that they can be read from a file: nothing is
    masked or filled with [PAD], and the teacher has no dropout."""
    return stage.masking is None and not stage.padding and not stage.teacher_dropout


def readable_taps(stages: Sequence[Stage], dropped: Sequence[str]) -> Taps:
    """What the terms of these stages read of the teacher and can read from a file."""
    read: Taps = frozenset()
    for stage in stages:
        if is_readable(stage):
            read = read.union(*(term.teacher for term in kept_terms(stage, dropped).values()))
    return read


def row_taps(row: MethodRow, tasks: Sequence[TaskPlan]) -> Taps:
    """What a row reads of a file of outputs; nothing where it has no teacher, or one that sees masked or padded text, or has dropout."""
    if not row.method.needs_teacher:
        return frozenset()
    return readable_taps(row.method.stages(setup_of(tasks, {})), row.dropped)


def plan_outputs(plan: Plan) -> None:
    """Note for each task which outputs of its teacher are kept: all that some row of the plan reads.

    Raises:
        InputError: they need more room than the limit.
    """
    limit = plan.request.teacher_outputs_limit * 1e9
    for task in plan.tasks:
        taps: Taps = frozenset()
        for planned in plan.cells_of(task.name):
            if planned.cell.teacher_outputs and isinstance(planned.row, MethodRow):
                taps = taps | row_taps(planned.row, plan.tasks if planned.cell.together else [task])
        if not taps:
            continue
        task.outputs = outputs_plan(task, plan.request.teacher_outputs, taps)
        if task.outputs.disk_bytes > limit:
            raise InputError(
                f"--teacher-outputs {task.outputs.number_format}: {task.name} needs about "
                f"{task.outputs.disk_bytes / 1e9:.1f} GB, above --teacher-outputs-limit {limit / 1e9:g}; raise the limit, take fewer "
                f"examples (--max-train-rows) or methods, or leave the option out"
            )
    if not any(task.outputs for task in plan.tasks):
        plan.notes.append(
            "--teacher-outputs changes nothing here: no row reads a teacher that sees the examples as they are"
        )
