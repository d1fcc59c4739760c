"""Train the students of a step together, on the shared passes of their teacher, and score them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from torch import nn

from bench.interrupts import end_if_interrupted
from bench.make.artefact import artefact
from bench.make.failure import failure_of
from bench.make.int8 import add_in_8_bits, score_kept
from bench.make.record import failed, now, scored
from bench.make.saved_student import save_where_asked
from bench.make.task_data import TaskData
from bench.make.work import StepResult, Work, known
from bench.plan.outputs import is_readable
from bench.plan.plan import Planned, Step
from bench.plan.planned_tasks import setup_of
from bench.plan.scheduled_stages import schedule_stages
from bench.plan.spelling import MethodRow
from bench.record.cell import Selection, train_key
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
    """A student that is ready to train.

    Attributes:
        cells: one for each task.
        made_from: name of what it is made from -> what is known of that.
    """

    cells: Sequence[Planned]
    method: Any
    trainer: StudentTrainer
    made_from: dict[str, dict[str, Any]]

    @property
    def key(self) -> str:
        return train_key(self.cells[0].cell)


def students(step: Step, data: Sequence[TaskData], work: Work) -> StepResult:
    """The records of a step's students.

    A student that fails is a failed record, and the others go on.

    Args:
        data: of the step's tasks.
    """
    started = now()
    begun = time.process_time()
    result = StepResult()

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
        states = _states(built, work)
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
    taken = time.process_time() - begun
    wall = {}
    for student in built:
        log = student.trainer.log
        wall[student.key] = log.seconds_own + log.teacher_seconds_shared
    together = sum(wall.values()) or 1.0
    for key, seconds in wall.items():
        if key not in gone_on:
            result.cpu_seconds[key] = taken * seconds / together
    return result


def _states(built: Sequence[BuiltStudent], work: Work) -> TrainingStates:
    """Where the states of these trainings are kept, one for each student."""
    trainings = []
    codes = []
    for student in built:
        # a student that is made from other weights is another training
        weights = {name: body.get("weights") for name, body in student.made_from.items()}
        trainings.append([student.key, weights])
        codes.append(digest_of(student_modules(student.cells[0].cell.method)))
    return TrainingStates(
        trainings, work.progress.say, code=codes, is_stopping=work.progress.is_stopping
    )


def build(cells: Sequence[Planned], data: Sequence[TaskData], work: Work) -> BuiltStudent:
    """A student that is ready to train.

    Args:
        cells: one for each of ``data``.
    """
    row = cells[0].row
    cell = cells[0].cell
    assert isinstance(row, MethodRow)
    method = row.method

    # the student, which draws its new weights from its own random state
    tensors, made_from = _artefacts(cells, data, work)
    setup = setup_of([of_task.plan for of_task in data], tensors)
    random = RandomState(cell.seed, work.numerics.device)
    with random.current():
        student = method.build(setup)

    # its stages, in steps
    rows = [len(of_task.train) for of_task in data]
    stages = row.stages(setup)
    preparation, counted = schedule_stages(stages, cell.dropped, Recipe(**cell.recipe), *rows)
    trainer = StudentTrainer(row.spelling, student, random, preparation, counted, work.numerics)

    # what it is taught by
    for of_task in data:
        made_from |= _taught_by(cells[0], of_task)

    # examples that choose one of its epochs, or that its curve is of
    if cell.selection is not None:
        examples = [of_task.selection_examples for of_task in data]
        choosing = [each for each in examples if each is not None]
        trainer.best_epoch = BestEpoch(method.deploy, choosing, work.numerics)
    elif work.curves:
        examples = [of_task.watched_examples for of_task in data]
        watched = [each for each in examples if each is not None]
        trainer.best_epoch = BestEpoch(method.deploy, watched, work.numerics, chooses=False)
    return BuiltStudent(cells, method, trainer, made_from)


def _artefacts(
    cells: Sequence[Planned], data: Sequence[TaskData], work: Work
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The artefacts that a student is built from, each once: their tensors, and what is known."""
    row = cells[0].row
    assert isinstance(row, MethodRow)
    several = bool(cells[0].cell.together)
    tensors: dict[str, Any] = {}
    made_from: dict[str, dict[str, Any]] = {}
    for planned, of_task in zip(cells, data, strict=True):
        config = of_task.plan.checkpoint.config
        for entry in planned.artefacts:
            name = artefact_name(entry.artefact, config, of_task.name, several)
            if name in tensors:
                continue
            made = artefact(entry, of_task, work)
            tensors[name] = made.tensors
            made_from[name] = dict(made.known)
            if row.method.own_encoder:
                beginning = f"given: {of_task.plan.checkpoint.name}"
                made_from[name].setdefault("beginning", beginning)
    return tensors, made_from


def _taught_by(planned: Planned, of_task: TaskData) -> dict[str, dict[str, Any]]:
    """The augmented rows, the teacher and its outputs that a student learns a task from."""
    assert isinstance(planned.row, MethodRow)
    cell = planned.cell
    ending = f".{of_task.name}" if cell.together else ""
    known_of: dict[str, dict[str, Any]] = {}
    if of_task.plan.augmentation:
        known_of[f"augmentation.{of_task.name}"] = of_task.augmentation[1]
    if planned.row.method.needs_teacher:
        known_of[f"teacher{ending}"] = known(of_task.teacher[1])
    if cell.teacher_outputs:
        outputs = of_task.plan.outputs
        assert outputs is not None, "a cell that reads outputs is planned with them"
        body = known(of_task.outputs[1], "seconds", "bytes", "tokens", "squared_lengths")
        known_of[f"teacher_outputs{ending}"] = {**body, "format": outputs.number_format}
    return known_of


def _train(
    built: Sequence[BuiltStudent],
    data: Sequence[TaskData],
    states: TrainingStates,
    work: Work,
    result: StepResult,
) -> set[str]:
    """Train them. What fails as a whole is the error of each student; its state stays.

    Returns:
        Keys of the trainings that went on where an earlier run broke off: part of their time was
        that run's.
    """
    cell = built[0].cells[0].cell
    recipe = data[0].plan.recipe
    gone_on: set[str] = set()
    try:
        tasks = [TaskWithTeacher(of_task.train, _teacher(built, of_task, work)) for of_task in data]
    except Exception as error:  # the data or the teacher cannot be read
        for student in built:
            student.trainer.fail(error)
        return gone_on

    # one after the other, those that an interruption left at different steps
    names_of_tasks = "+".join(of_task.plan.shown for of_task in data)
    for numbers, states_of_group in states.groups():
        group = [built[number] for number in numbers]
        if states_of_group.has_begun:
            gone_on |= {student.key for student in group}
        trainers = [student.trainer for student in group]
        labels = ", ".join(trainer.label for trainer in trainers)
        title = f"{names_of_tasks}: {labels}, seed {cell.seed}"
        kernels: AbstractContextManager[object] = FastLinear() if cell.kernels else nullcontext()
        try:
            with work.progress.task(title) as on_step, kernels:
                options = LoopOptions(
                    cell.seed,
                    work.numerics,
                    recipe.batch_size,
                    on_step,
                    states_of_group,
                    recipe.micro_batch,
                )
                train_tasks(tasks, trainers, options)
            result.states += states_of_group.files
        except Exception as error:
            for trainer in trainers:
                if trainer.error is None:
                    trainer.fail(error)
    return gone_on


def _teacher(built: Sequence[BuiltStudent], of_task: TaskData, work: Work) -> nn.Module | None:
    """The teacher of a task; None where no student needs one.

    It has fast kernels, or the file of its outputs, where the students ask for that; on a GPU its
    layers are direct.
    """
    if not any(student.method.needs_teacher for student in built):
        return None
    teacher: nn.Module = of_task.teacher[0]
    has_kernels = built[0].cells[0].cell.kernels
    teacher = fast_teacher(teacher) if has_kernels else work.numerics.frozen(teacher)
    if any(student.cells[0].cell.teacher_outputs for student in built):
        teacher = KeptTeacher(teacher, of_task.outputs[0])
    return teacher.to(work.numerics.device).eval()


def _score(
    built: BuiltStudent, data: Sequence[TaskData], work: Work, started: str, result: StepResult
) -> None:
    """The records of one student, one for each task and operating point.

    Its folders are written where they are kept.
    """
    trainer = built.trainer
    method = built.method
    cell = built.cells[0].cell
    if cell.teacher_outputs:
        _count_passes(built)
    usage: dict[str, Any] = {}
    selection = None
    # a student that no stage trains has no epochs
    best_epoch = trainer.best_epoch
    if best_epoch is not None and best_epoch.scores:
        if best_epoch.chooses:
            best_epoch.load_best(trainer.student)
            selection = cell.selection
        usage = {"epochs": best_epoch.as_dict()}
    deployed = _deployed(built, data)
    notes = _notes(built, data, selection)

    # a record for each task and operating point; a method may leave early at several depths
    records = []
    to_save = []
    for planned, of_task in zip(built.cells, data, strict=True):
        points = {"": deployed[of_task.name]} if planned.cell.together else deployed
        for point, model in points.items():
            record, arrays = scored(
                planned.cell,
                model,
                of_task,
                started,
                point=point,
                log=trainer.log,
                trained=trainer.student.model,
                teacher=of_task.teacher[0] if method.needs_teacher else None,
                usage=usage,
                gradient_shares=trainer.log.gradient_shares,
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


def _deployed(built: BuiltStudent, data: Sequence[TaskData]) -> Mapping[str, nn.Module]:
    """The models that a student ships.

    They are named by the task where it learned several, else by the operating point.
    """
    trainer = built.trainer
    trainer.student.model.eval()
    # a new module draws random numbers, even if it is filled afterwards
    with trainer.random.current():
        deployed: Mapping[str, nn.Module] = built.method.deploy(trainer.student)
    # of one task all operating points together: they may share their head
    for of_task in data:
        models = list(deployed.values())
        if built.cells[0].cell.together:
            models = [deployed[of_task.name]]
        of_task.in_label_units(models)
    return deployed


def _notes(
    built: BuiltStudent, data: Sequence[TaskData], selection: Selection | None
) -> tuple[str, ...]:
    """What a reader has to know of a student's records.

    Args:
        selection: the rows that chose the epoch whose weights are shipped, where some did.
    """
    cell = built.cells[0].cell
    setup = setup_of([of_task.plan for of_task in data], {})
    notes = [*built.method.notes(setup)]
    if cell.search is not None:
        notes.append(cell.search.describe())
    if selection is not None:
        notes.append(selection.describe())
    if cell.together:
        notes.append(several_tasks_note(", ".join(setup.tasks)))
    return tuple(notes)


def _count_passes(built: BuiltStudent) -> None:
    """Correct the teacher's tokens in a student's log.

    The teacher did not run in steps that read its file, but once over all rows to write the file.
    """
    # the share of steps with a teacher in which it answered itself
    steps = 0
    answered_steps = 0
    for series in built.trainer.schedule.values():
        for scheduled in series:
            if scheduled.teacher:
                steps += scheduled.steps
                if not is_readable(scheduled.stage):
                    answered_steps += scheduled.steps
    answered = answered_steps / max(1, steps)

    files = [
        body
        for name, body in built.made_from.items()
        if name.partition(".")[0] == "teacher_outputs"
    ]
    log = built.trainer.log
    tokens = sum(body["tokens"] for body in files)
    squared = sum(body["squared_lengths"] for body in files)
    log.teacher_tokens = round(answered * log.teacher_tokens) + tokens
    log.teacher_squared_lengths = round(answered * log.teacher_squared_lengths) + squared
