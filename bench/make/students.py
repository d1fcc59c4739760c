"""Train the students of a step together, on the shared passes of their teacher, and score them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from torch import nn

from bench.interrupts import end_if_interrupted
from bench.make.artefact import artefact
from bench.make.export import save_where_asked
from bench.make.failure import failure_of
from bench.make.int8 import add_in_8_bits, score_kept
from bench.make.record import failed, now, scored
from bench.make.task_data import TaskData
from bench.make.work import StepResult, Work, known
from bench.plan.outputs import is_readable
from bench.plan.plan import Planned, Step
from bench.plan.scheduled_stages import schedule_stages
from bench.plan.spelling import MethodRow
from bench.plan.tasks import setup_of
from bench.record.cell import train_key
from bench.record.code import digest_of, student_modules
from bench.record.recipe import Recipe
from bench.record.task_facts import several_tasks_note
from bench.train.best_epoch import BestEpoch
from bench.train.loop import LoopOptions, TaskWithTeacher, train_tasks
from bench.train.numerics import RandomState
from bench.train.student_trainer import StudentTrainer
from bench.train.teacher_outputs import KeptTeacher
from bench.train.training_state import TrainingStates
from methods.core.artefacts import artefact_name
from methods.core.fast_kernels import FastLinear, fast_teacher


class BuiltStudent(NamedTuple):
    """A student that is ready to train: its cells, one for each task, and what is known of all that it is made from."""

    cells: Sequence[Planned]
    method: Any
    trainer: StudentTrainer
    made_from: dict[str, dict[str, Any]]

    @property
    def key(self) -> str:
        return train_key(self.cells[0].cell)


def students(step: Step, data: Sequence[TaskData], work: Work) -> StepResult:
    """The records of a step's students. A student that fails is a failed record, and the others go on.

    Args:
        data: of the step's tasks.
    """
    started, begun, result = now(), time.process_time(), StepResult()

    def fail(cells: Sequence[Planned], error: Exception) -> None:
        end_if_interrupted()
        for planned, of_task in zip(cells, data, strict=True):
            why = failure_of(error, planned.cell.method)
            result.records.append((failed(planned.cell, started, why, of_task.plan.task), {}))

    # build, but for those that are only to be scored in 8 bits and whose model is kept as a folder
    built = []
    for cells in step.students:
        try:
            if not step.from_scratch and score_kept(cells, data, work, result):
                continue
            built.append(build(cells, data, work))
        except Exception as error:
            fail(cells, error)
    # train: together those that are at the same step; each state is kept by itself
    gone_on: set[str] = set()
    if built:
        states = TrainingStates(
            [
                [
                    student.key,
                    {name: body.get("weights") for name, body in student.made_from.items()},
                ]
                for student in built
            ],
            work.progress.say,
            code=[digest_of(student_modules(student.cells[0].cell.method)) for student in built],
            is_stopping=work.progress.is_stopping,
        )
        if step.from_scratch:
            states.clear()
        gone_on = _train(built, data, states, work, result)
    # score
    for student in built:
        try:
            if student.trainer.error is not None:
                raise student.trainer.error
            _score(student, data, work, started, result)
        except Exception as error:
            fail(student.cells, error)
    # divide the processor's time by the wall seconds of each student's steps and of its teacher's
    wall = {
        student.key: student.trainer.log.seconds_own + student.trainer.log.teacher_seconds_shared
        for student in built
    }
    whole, taken = sum(wall.values()) or 1.0, time.process_time() - begun
    result.cpu_seconds = {
        key: taken * seconds / whole for key, seconds in wall.items() if key not in gone_on
    }
    return result


def build(cells: Sequence[Planned], data: Sequence[TaskData], work: Work) -> BuiltStudent:
    """A student that is ready to train.

    Args:
        cells: one for each of ``data``.
    """
    row, cell = cells[0].row, cells[0].cell
    assert isinstance(row, MethodRow)
    method, several = row.method, bool(cell.together)
    tensors: dict[str, Any] = {}
    made_from: dict[str, dict[str, Any]] = {}
    for planned, of_task in zip(cells, data, strict=True):
        for entry in planned.artefacts:
            name = artefact_name(
                entry.artefact, of_task.plan.checkpoint.config, of_task.name, several
            )
            if name not in tensors:
                there = artefact(entry, of_task, work)
                tensors[name], made_from[name] = there.tensors, dict(there.known)
                if method.own_encoder:
                    made_from[name].setdefault(
                        "beginning", f"given: {of_task.plan.checkpoint.name}"
                    )
    setup = setup_of([of_task.plan for of_task in data], tensors)
    random = RandomState(cell.seed, work.numerics.device)
    with random.current():
        student = method.build(setup)
    rows = [len(of_task.train) for of_task in data]
    preparation, counted = schedule_stages(
        row.stages(setup), cell.dropped, Recipe(**cell.recipe), *rows
    )
    trainer = StudentTrainer(row.spelling, student, random, preparation, counted, work.numerics)
    for of_task in data:
        own, plan = f".{of_task.name}" if several else "", of_task.plan.outputs
        if of_task.plan.augmentation:
            made_from[f"augmentation.{of_task.name}"] = of_task.augmentation[1]
        if method.needs_teacher:
            made_from[f"teacher{own}"] = known(of_task.teacher[1])
        if cell.teacher_outputs:
            assert plan is not None, "a cell that reads outputs is planned with them"
            body = known(of_task.outputs[1], "seconds", "bytes", "tokens", "squared_lengths")
            made_from[f"teacher_outputs{own}"] = {**body, "format": plan.number_format}
    if cell.selection is not None:
        choosing = [
            of_task.selection_examples for of_task in data if of_task.selection_examples is not None
        ]
        trainer.best_epoch = BestEpoch(method.deploy, choosing, work.numerics)
    elif work.curves:
        watched = [
            of_task.watched_examples for of_task in data if of_task.watched_examples is not None
        ]
        trainer.best_epoch = BestEpoch(method.deploy, watched, work.numerics, chooses=False)
    return BuiltStudent(cells, method, trainer, made_from)


def _train(
    built: Sequence[BuiltStudent],
    data: Sequence[TaskData],
    states: TrainingStates,
    work: Work,
    result: StepResult,
) -> set[str]:
    """Train them. What fails as a whole is the error of each student; its state stays.

    Returns:
        Keys of the trainings that went on where an earlier run broke off: part of their time was that run's.
    """
    cell, plan, gone_on = built[0].cells[0].cell, data[0].plan, set[str]()
    try:
        tasks = [TaskWithTeacher(of_task.train, _teacher(built, of_task, work)) for of_task in data]
    except Exception as error:  # the data or the teacher cannot be read
        for student in built:
            student.trainer.fail(error)
        return gone_on
    for numbers, own_states in states.groups():
        some = [built[number] for number in numbers]
        if own_states.has_begun:
            gone_on |= {student.key for student in some}
        title = f"{'+'.join(of_task.plan.shown for of_task in data)}: {', '.join(student.trainer.label for student in some)}"
        kernels: AbstractContextManager[object] = FastLinear() if cell.kernels else nullcontext()
        try:
            with work.progress.task(f"{title}, seed {cell.seed}") as on_step, kernels:
                recipe = plan.recipe
                options = LoopOptions(
                    cell.seed,
                    work.numerics,
                    recipe.batch_size,
                    on_step,
                    own_states,
                    recipe.micro_batch,
                )
                train_tasks(tasks, [student.trainer for student in some], options)
            result.states += own_states.files
        except Exception as error:
            for student in some:
                if student.trainer.error is None:
                    student.trainer.fail(error)
    return gone_on


def _teacher(built: Sequence[BuiltStudent], of_task: TaskData, work: Work) -> nn.Module | None:
    """The teacher of a task: with fast kernels, or with the file of its outputs, where the students ask for that; direct on a GPU."""
    if not any(student.method.needs_teacher for student in built):
        return None
    teacher: nn.Module = of_task.teacher[0]
    teacher = (
        fast_teacher(teacher) if built[0].cells[0].cell.kernels else work.numerics.frozen(teacher)
    )
    if any(student.cells[0].cell.teacher_outputs for student in built):
        teacher = KeptTeacher(teacher, of_task.outputs[0])
    return teacher.to(work.numerics.device).eval()


def _score(
    built: BuiltStudent, data: Sequence[TaskData], work: Work, started: str, result: StepResult
) -> None:
    """The records of one student, one for each task and operating point; and its folders, where they are kept."""
    trainer, method, cell, log = built.trainer, built.method, built.cells[0].cell, built.trainer.log
    if cell.teacher_outputs:
        _count_passes(built)
    usage, selection = {}, None
    # a student that no stage trains has no epochs
    if trainer.best_epoch is not None and trainer.best_epoch.scores:
        if trainer.best_epoch.chooses:
            trainer.best_epoch.load_best(trainer.student)
            selection = cell.selection
        usage = {"epochs": trainer.best_epoch.as_dict()}
    trainer.student.model.eval()
    # a new module draws random numbers, even if it is filled afterwards
    with trainer.random.current():
        deployed = method.deploy(trainer.student)
    # of one task all operating points together: they may share their head
    for of_task in data:
        models = [deployed[of_task.name]] if cell.together else list(deployed.values())
        of_task.in_label_units(models)
    setup = setup_of([of_task.plan for of_task in data], {})
    notes = (
        *method.notes(setup),
        *(how.describe() for how in (cell.search, selection) if how is not None),
    )
    if cell.together:
        notes = (*notes, several_tasks_note(", ".join(setup.tasks)))
    records, to_save = [], []
    for planned, of_task in zip(built.cells, data, strict=True):
        points = {"": deployed[of_task.name]} if planned.cell.together else deployed
        for point, model in points.items():
            record, arrays = scored(
                planned.cell,
                model,
                of_task,
                started,
                point=point,
                log=log,
                trained=trainer.student.model,
                teacher=of_task.teacher[0] if method.needs_teacher else None,
                usage=usage,
                gradient_shares=log.gradient_shares,
                artefacts=built.made_from,
                notes=notes,
            )
            records.append((record, arrays))
            to_save.append((model, record, arrays, of_task))
    result.records += records
    # only now: a folder names its record, and any of the records may have failed
    for model, record, arrays, of_task in to_save:
        save_where_asked(work, result, record, model, of_task.plan, arrays)
        if built.cells[0].in_8_bits and not record.point:
            add_in_8_bits(result, record, model, of_task)


def _count_passes(built: BuiltStudent) -> None:
    """Correct the teacher's tokens in a student's log: the teacher did not run in steps that read its file, but once over all
    rows to write the file."""
    taught = [
        scheduled
        for series in built.trainer.schedule.values()
        for scheduled in series
        if scheduled.teacher
    ]
    steps = sum(scheduled.steps for scheduled in taught)
    answered = sum(
        scheduled.steps for scheduled in taught if not is_readable(scheduled.stage)
    ) / max(1, steps)
    files = [
        body
        for name, body in built.made_from.items()
        if name.partition(".")[0] == "teacher_outputs"
    ]
    log = built.trainer.log
    log.teacher_tokens = round(answered * log.teacher_tokens) + sum(
        body["tokens"] for body in files
    )
    squared = sum(body["squared_lengths"] for body in files)
    log.teacher_squared_lengths = round(answered * log.teacher_squared_lengths) + squared
