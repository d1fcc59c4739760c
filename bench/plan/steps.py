"""From the cells of a plan to its steps: each entered once, after all that it needs. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

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
"""Students that train at once on one teacher pass: more would need more memory and share little
more."""

Training = list[Planned]
"""The cells of one training: of a student of several tasks one for each."""


def steps_of(plan: Plan, parts: int = 1) -> dict[str, Step]:
    """Every step that the cells to do need, by key, in the order in which one process makes them.

    Args:
        parts: about so many groups are made of the students.
    """
    steps = _Steps()
    trainings = _trainings_to_do(plan)
    alone = [cells for cells in trainings if not cells[0].cell.together]

    # the share of all training examples that a part has
    rows = {task.name: task.training_rows for task in plan.tasks}
    examples = sum(rows[cells[0].cell.tasks[0]] for cells in alone)
    a_part = math.ceil(examples / parts)

    # models that are there are scored, then students are trained, task by task
    for task in plan.tasks:
        for planned in plan.cells_of(task.name):
            if planned.is_todo and not planned.is_trained:
                steps.add_records(SCORE_STEP, [[planned]], [planned.as_learned(task)])
        # as many together as share a teacher's passes well, and fewer where a part would have more
        # than its share
        size = max(1, min(MAX_GROUP_SIZE, math.ceil(a_part / max(1, task.training_rows))))
        for students in _alike(alone, task):
            for group in _even_groups(students, size):
                steps.add_records(STUDENTS_STEP, group, [group[0][0].as_learned(task)])
    # a student of several tasks has a step of its own
    for cells in trainings:
        if cells[0].cell.together:
            tasks = [own.as_learned(task) for task, own in zip(plan.tasks, cells, strict=True)]
            steps.add_records(STUDENTS_STEP, [cells], tasks)
    return steps.by_key


def _trainings_to_do(plan: Plan) -> list[Training]:
    """The trainings of a plan of which some cell is to do."""
    trainings: dict[str, Training] = {}
    for planned in plan.cells:
        if planned.is_trained:
            trainings.setdefault(planned.train_key, []).append(planned)
    todo = []
    for cells in trainings.values():
        if any(planned.is_todo for planned in cells):
            todo.append(cells)
    return todo


def _alike(trainings: Sequence[Training], task: TaskPlan) -> list[list[Training]]:
    """The trainings on a task that may be one step: of one seed, and read by one tokenizer."""
    alike: dict[tuple[int, str], list[Training]] = {}
    for cells in trainings:
        cell = cells[0].cell
        if cell.tasks == (task.name,):
            own = cells[0].own_task
            encoder = own.checkpoint.asked if own is not None else ""
            alike.setdefault((cell.seed, encoder), []).append(cells)
    return list(alike.values())


def _even_groups(students: list[Training], size: int) -> list[list[Training]]:
    """The students in as few groups as have at most so many each, which are about of one size."""
    groups = math.ceil(len(students) / size)
    each = math.ceil(len(students) / groups)
    return [students[first : first + each] for first in range(0, len(students), each)]


class _Steps:
    """Steps that are entered one by one, each after all that it needs.

    Its methods return the keys of the steps that make something: none where nothing has to be made.
    ``method`` is the one of the row that asks first, for messages.
    """

    def __init__(self) -> None:
        self.by_key: dict[str, Step] = {}

    def add_records(
        self, kind: str, students: Sequence[Training], tasks: Sequence[TaskPlan]
    ) -> None:
        """Enter the step that makes the records of these students, or of one model that is
        scored."""
        # what its cells read is entered before it
        for cells in students:
            for task, planned in zip(tasks, cells, strict=True):
                planned.needs = tuple(self._needs_of(planned, task))
        # a title for people
        cells_of_title = [student[0].cell for student in students]
        labels = ", ".join(cell.label for cell in cells_of_title)
        title = f"{'+'.join(task.shown for task in tasks)}: {labels}"
        if kind == STUDENTS_STEP:
            title += f", seed {cells_of_title[0].seed}"
        step = Step(kind, "", title, tuple(tasks))
        step = step.for_students([tuple(student) for student in students])
        self.by_key[step.key] = step

    def _needs_of(self, planned: Planned, task: TaskPlan) -> list[str]:
        """The steps that make what a cell reads."""
        method = planned.cell.method
        needs: list[str] = []
        if planned.reads_teacher:
            needs += self._teacher(task, task.teacher_seed, method)
        if planned.is_trained:
            needs += self._augmentation(task, method)
            if planned.cell.teacher_outputs:
                needs += self._outputs(task, method)
            for entry in planned.artefacts:
                needs += self._artefact(entry, task, method)
        return needs

    def _teacher(self, task: TaskPlan, seed: int, method: str) -> list[str]:
        """The fine-tuned teacher of a task."""
        if task.teacher.origin != "fine-tuned":
            return []
        slot = task.teacher_slot(seed)
        return self._enter(_folder_step(TEACHER_STEP, slot, task, (), method, seed=seed))

    def _augmentation(self, task: TaskPlan, method: str) -> list[str]:
        """The further rows of a task, and what labels them."""
        if task.augmentation is None:
            return []
        slot = task.augmentation_slot
        if task.masked_head is not None:
            needs = self._artefact(task.masked_head, task, method)
            return self._enter(_folder_step(AUGMENTATION_STEP, slot, task, needs, method))
        # rows made by rules are labelled by the teacher whenever they are read
        needs = self._teacher(task, task.teacher_seed, method)
        return [*needs, *self._enter(_folder_step(AUGMENTATION_STEP, slot, task, needs, method))]

    def _outputs(self, task: TaskPlan, method: str) -> list[str]:
        """The file of a teacher's outputs."""
        assert task.outputs is not None, "its cells say that they read some"
        needs = [*self._teacher(task, task.teacher_seed, method), *self._augmentation(task, method)]
        return self._enter(_folder_step(OUTPUTS_STEP, task.outputs.slot, task, needs, method))

    def _artefact(self, entry: ArtefactPlan, task: TaskPlan, method: str) -> list[str]:
        """An artefact; where it is a view of its one input, what makes that."""
        needs: list[str] = []
        # the teachers whose weights or answers it is made from
        for member in entry.teacher_seeds:
            needs += self._teacher(task, task.tuning_seed(member), method)
        # the examples, and other artefacts
        if any(source.kind == "train" for source in entry.sources):
            needs += self._augmentation(task, method)
        for part in entry.parts.values():
            needs += self._artefact(part, task, method)
        if not entry.artefact.is_kept:
            return needs
        step = _folder_step(ARTEFACT_STEP, entry.slot, entry.task, needs, method, artefact=entry)
        return self._enter(step)

    def _enter(self, step: Step) -> list[str]:
        """Enter a step that makes a folder, where none does yet."""
        self.by_key.setdefault(step.key, step)
        return [step.key]


def _folder_step(
    kind: str,
    slot: Slot,
    task: TaskPlan | None,
    needs: Sequence[str],
    method: str,
    artefact: ArtefactPlan | None = None,
    seed: int = 0,
) -> Step:
    """The step that makes a folder of the cache."""
    tasks = () if task is None else (task,)
    return Step(
        kind,
        slot.key,
        slot.title,
        tasks,
        slot,
        tuple(needs),
        artefact=artefact,
        seed=seed,
        method=method,
    )


def keep_pretraining(plan: Plan) -> Plan:
    """The pre-training on text that the tasks of a plan share: no cell, and nothing that is a
    task's own.

    What is to do of it is what the cells to do need.

    Raises:
        InputError: the rows have none.
    """
    shared = [entry for entry in plan.artefacts if entry.task is None and entry.artefact.is_kept]
    if not shared:
        raise InputError(
            f"--methods {plan.request.methods}: none of these rows has a pre-training on text"
        )
    # a step of a task's own reads a task
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
