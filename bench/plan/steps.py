"""From the cells of a plan to its steps: each entered once, after all that it needs. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from bench.cache import Slot
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
    StudentSpec,
    TaskPlan,
    is_trained,
    reads_teacher,
    records_step_key,
)

MAX_GROUP_SIZE = 8
"""Students that train at once on one teacher pass: more would need more memory and share little more."""


def steps_of(plan: Plan) -> dict[str, Step]:
    """Every step that the cells to do need, by key, in the order in which one process makes them."""
    steps: dict[str, Step] = {}

    def enter(
        kind: str, slot: Slot, task: TaskPlan | None, needs: Sequence[str], method: str, **more: object
    ) -> list[str]:
        if slot.key not in steps:
            tasks = () if task is None else (task,)
            steps[slot.key] = Step(kind, slot.key, slot.title, tasks, slot, tuple(needs), method=method, **more)  # type: ignore[arg-type]
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
        needs += augmentation(task, method) if any(source.kind == "train" for source in entry.sources) else []
        needs += [key for part in entry.parts for key in artefact(part, task, method)]
        if not entry.is_kept:  # a view of its one input
            return needs
        return enter(ARTEFACT_STEP, entry.slot, entry.task, needs, method, artefact=entry)

    def student(cells: Sequence[Planned], tasks: Sequence[TaskPlan]) -> StudentSpec:
        needs: list[str] = []
        for task, planned in zip(tasks, cells, strict=True):
            method = planned.cell.method
            needs += teacher(task, 0, method) if reads_teacher(planned) else []
            if is_trained(planned):
                needs += augmentation(task, method)
                needs += outputs(task, method) if planned.cell.teacher_outputs else []
                needs += [key for entry in planned.artefacts for key in artefact(entry, task, method)]
        return StudentSpec(tuple(cells), tuple(dict.fromkeys(needs)))

    def records(kind: str, students: Sequence[StudentSpec], tasks: Sequence[TaskPlan]) -> None:
        cells = [spec.cells[0].cell for spec in students]
        title = f"{'+'.join(task.name for task in tasks)}: {', '.join(cell.label for cell in cells)}"
        title += f", seed {cells[0].seed}" if kind == STUDENTS_STEP else ""
        step = Step(kind, records_step_key(students), title, tuple(tasks)).of(students)
        steps[step.key] = step

    groups = _groups(plan)
    size = _group_size(groups, plan.request.jobs)
    for task in plan.tasks:
        for planned in plan.cells_of(task.name):
            if planned.is_todo and not is_trained(planned):
                records(SCORE_STEP, [student([planned], [task])], [task])
        for cells in groups.get(task.name, ()):
            for first in range(0, len(cells), size):
                records(STUDENTS_STEP, [student([planned], [task]) for planned in cells[first : first + size]], [task])
    for training in plan.multitask_trainings():
        records(STUDENTS_STEP, [student(training, plan.tasks)], plan.tasks)
    return steps


def _groups(plan: Plan) -> dict[str, list[list[Planned]]]:
    """Task -> its students to do, those of one seed together: they can share the passes of their teacher."""
    groups: dict[str, dict[int, list[Planned]]] = {}
    for planned in plan.todo:
        if is_trained(planned) and not planned.cell.together:
            groups.setdefault(planned.cell.tasks[0], {}).setdefault(planned.cell.seed, []).append(planned)
    return {task: list(by_seed.values()) for task, by_seed in groups.items()}


def _group_size(groups: dict[str, list[list[Planned]]], jobs: int) -> int:
    """How many students train together at most: as many as share a teacher's passes well, and fewer where jobs that run at
    the same time would otherwise have nothing to do."""
    students = sum(len(cells) for of_task in groups.values() for cells in of_task)
    return max(1, min(MAX_GROUP_SIZE, -(-students // max(1, jobs))))
