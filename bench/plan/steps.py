"""From the cells of a plan to its steps: each entered once, after all that it needs. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bench.cache import Slot
from bench.errors import InputError
from bench.plan.plan import (
    ARTEFACT_STEP,
    AUGMENTATION_STEP,
    OUTPUTS_STEP,
    SCORE_STEP,
    STUDENTS_STEP,
    TEACHER_STEP,
    ArtefactPlan,
    Plan,
    Planned,
    Step,
    TaskPlan,
)

MAX_GROUP_SIZE = 8
"""Students that train at once on one teacher pass: more would need more memory and share little more."""


def steps_of(plan: Plan, parts: int = 1) -> dict[str, Step]:
    """Every step that the cells to do need, by key, in the order in which one process makes them; the students in about so many groups."""
    steps: dict[str, Step] = {}

    def enter(
        kind: str,
        slot: Slot,
        task: TaskPlan | None,
        needs: Sequence[str],
        method: str,
        **more: Any,
    ) -> list[str]:
        if slot.key not in steps:
            tasks = () if task is None else (task,)
            steps[slot.key] = Step(
                kind, slot.key, slot.title, tasks, slot, tuple(needs), method=method, **more
            )
        return [slot.key]

    def teacher(task: TaskPlan, seed: int, method: str) -> list[str]:
        if task.teacher.origin != "fine-tuned":
            return []
        return enter(TEACHER_STEP, task.teacher_slot(seed), task, (), method, seed=seed)

    def augmentation(task: TaskPlan, method: str) -> list[str]:
        if task.augmentation is None:
            return []
        if task.masked_head is not None:
            needs, labelling = artefact(task.masked_head, task, method), []
        else:  # rows made by rules are labelled by the teacher whenever they are read
            needs = labelling = teacher(task, 0, method)
        return [*labelling, *enter(AUGMENTATION_STEP, task.augmentation_slot, task, needs, method)]

    def outputs(task: TaskPlan, method: str) -> list[str]:
        assert task.outputs is not None, "its cells say that they read some"
        needs = [*teacher(task, 0, method), *augmentation(task, method)]
        return enter(OUTPUTS_STEP, task.outputs.slot, task, needs, method)

    def artefact(entry: ArtefactPlan, task: TaskPlan, method: str) -> list[str]:
        needs = [key for seed in entry.teacher_seeds for key in teacher(task, seed, method)]
        needs += (
            augmentation(task, method)
            if any(source.kind == "train" for source in entry.sources)
            else []
        )
        needs += [key for part in entry.parts.values() for key in artefact(part, task, method)]
        if not entry.artefact.is_kept:  # a view of its one input
            return needs
        return enter(ARTEFACT_STEP, entry.slot, entry.task, needs, method, artefact=entry)

    def records(
        kind: str, students: Sequence[Sequence[Planned]], tasks: Sequence[TaskPlan]
    ) -> None:
        for task, planned in (
            (*pair,) for cells in students for pair in zip(tasks, cells, strict=True)
        ):
            method = planned.cell.method
            needs = teacher(task, 0, method) if planned.reads_teacher else []
            if planned.is_trained:
                needs += augmentation(task, method)
                needs += outputs(task, method) if planned.cell.teacher_outputs else []
                needs += [
                    key for entry in planned.artefacts for key in artefact(entry, task, method)
                ]
            planned.needs = tuple(needs)
        cells = [student[0].cell for student in students]
        title = (
            f"{'+'.join(task.shown for task in tasks)}: {', '.join(cell.label for cell in cells)}"
        )
        title += f", seed {cells[0].seed}" if kind == STUDENTS_STEP else ""
        step = Step(kind, "", title, tuple(tasks)).for_students(
            [tuple(student) for student in students]
        )
        steps[step.key] = step

    # cells of one training: of a student of several tasks one for each
    trainings: dict[str, list[Planned]] = {}
    for planned in plan.cells:
        if planned.is_trained:
            trainings.setdefault(planned.train_key, []).append(planned)
    todo = [cells for cells in trainings.values() if any(planned.is_todo for planned in cells)]
    alone = [cells for cells in todo if not cells[0].cell.together]
    rows = {task.name: task.training_rows for task in plan.tasks}
    a_part = math.ceil(sum(rows[cells[0].cell.tasks[0]] for cells in alone) / parts)
    for task in plan.tasks:
        # as many together as share a teacher's passes well, and fewer where a part would have more than its share of all examples
        size = max(1, min(MAX_GROUP_SIZE, math.ceil(a_part / max(1, task.training_rows))))
        for planned in plan.cells_of(task.name):
            if planned.is_todo and not planned.is_trained:
                records(SCORE_STEP, [[planned]], [task])
        # of one seed, and read by one tokenizer
        alike: dict[tuple[int, str], list[list[Planned]]] = {}
        for cells in alone:
            if cells[0].cell.tasks == (task.name,):
                own = cells[0].own_task
                alike.setdefault(
                    (cells[0].cell.seed, own.checkpoint.asked if own else ""), []
                ).append(cells)
        for students in alike.values():
            each = math.ceil(len(students) / math.ceil(len(students) / size))
            for first in range(0, len(students), each):
                records(
                    STUDENTS_STEP, students[first : first + each], [students[0][0].own_task or task]
                )
    for cells in todo:
        if cells[0].cell.together:
            records(STUDENTS_STEP, [cells], plan.tasks)
    return steps


def keep_pretraining(plan: Plan) -> Plan:
    """The pre-training on text that the tasks of a plan share: no cell, and nothing that is a task's own.

    What is to do of it is what the cells to do need.

    Raises:
        InputError: the rows have none.
    """
    shared = [entry for entry in plan.artefacts if entry.task is None and entry.artefact.is_kept]
    if not shared:
        raise InputError(
            f"--methods {plan.request.methods}: none of these rows has a pre-training on text"
        )
    steps = {}
    for step in plan.todo_steps:
        if step.kind == ARTEFACT_STEP and not step.tasks:
            steps[step.key] = step
    return replace(
        plan,
        tasks=[replace(task, outputs=None) for task in plan.tasks],
        artefacts=shared,
        cells=[],
        steps=steps,
        costs={key: plan.costs[key] for key in steps},
        wanted=frozenset(steps),
        jobs_description="",
    )
