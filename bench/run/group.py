"""Train some students of the same tasks and seed together, and score them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from torch import nn

from bench.artefacts.kept_outputs import kept_outputs, opened
from bench.artefacts.make import ArtefactStore
from bench.artefacts.task_data import TaskData, known
from bench.data.checkpoints import tokenizer_of
from bench.plan.build import Planned
from bench.plan.outputs_plan import is_readable
from bench.plan.scheduled_stages import schedule_stages
from bench.plan.spelling import MethodRow
from bench.plan.stage_keys import stage_keys
from bench.plan.tasks import setup_of
from bench.record.cell import train_key
from bench.record.code import digest_of, student_modules
from bench.record.recipe import Recipe
from bench.record.schema import Record
from bench.record.task_facts import several_tasks_note
from bench.run.export import export_student
from bench.run.failure_records import failure_of
from bench.run.interrupts import end_if_interrupted
from bench.run.outcome import FailedCell, JobResult
from bench.run.recording import Deployed, failed, now, scored
from bench.train.best_epoch import BestEpoch
from bench.train.loop import LoopOptions, TaskWithTeacher, train_tasks
from bench.train.numerics import RandomState
from bench.train.student_trainer import StudentTrainer
from bench.train.teacher_outputs import KeptTeacher
from bench.train.training_state import TrainingStates, group_by_progress
from methods.artefacts import artefact_name
from methods.fast_kernels import FastLinear, FastTeacher

Made = dict[str, dict[str, Any]]
"""What a student is made from: name -> what is known of it."""
Built = tuple[Sequence[Planned], StudentTrainer, Made]
"""A student's cells, the student, and what it is made from."""
Found = list[tuple[Record, dict[str, Any]]]
"""Records, with their raw answers."""


def checked(found: Found) -> Found:
    """The records, if they can be written: what a method says of itself is in them.

    Raises:
        ValueError: a value that JSON cannot hold.
    """
    for record, _ in found:
        record.model_dump_json()
    return found


class Group:
    """Trains and scores some students of the same tasks and seed."""

    def __init__(
        self,
        students: Sequence[Sequence[Planned]],
        task_data: Sequence[TaskData],
        artefacts: ArtefactStore,
        from_scratch: bool = False,
        save_to: Path | None = None,
    ) -> None:
        """
        Args:
            students: the cells of each, one for each of ``task_data``.
            from_scratch: begin anew even where an earlier run broke off.
            save_to: the folder in which students are kept; None where they are not.
        """
        self.students, self.task_data, self.artefacts = students, task_data, artefacts
        self.from_scratch, self.save_to = from_scratch, save_to
        self.is_fast = any(cells[0].cell.kernels for cells in students)  # of a run all students, or none
        self.started = now()
        self.answer = JobResult()
        self._gone_on: set[str] = set()
        """keys of trainings that went on where an earlier run broke off: part of their time was that run's"""

    def train_and_score(self) -> JobResult:
        """Train and score them. A student that fails is a failed record, and the others go on."""
        begun = time.process_time()
        trained = self._built()
        if trained:
            self._train(trained, self._training_states(trained))
        for cells, trainer, made in trained:
            if cells[0].cell.teacher_outputs:
                _count_passes(trainer, made)
            try:
                if trainer.error is not None:
                    raise trainer.error
                self._score(cells, trainer, made)
            except Exception as error:
                self._note_failure(cells, error)
        self._divide(time.process_time() - begun, trained)
        return self.answer

    def _divide(self, cpu_seconds: float, trained: Sequence[Built]) -> None:
        """Give each student its part of the processor's time, by the wall seconds of its steps and of its teacher's."""
        wall = {
            train_key(cells[0].cell): trainer.log.seconds_own + trainer.log.teacher_seconds_shared
            for cells, trainer, _ in trained
        }
        whole = sum(wall.values()) or 1.0
        self.answer.cpu_seconds = {
            key: cpu_seconds * own / whole for key, own in wall.items() if key not in self._gone_on
        }

    def _built(self) -> list[Built]:
        """Each student that can be built, with what it is made from."""
        found = []
        for cells in self.students:
            row = cells[0].row
            assert isinstance(row, MethodRow)
            try:
                trainer, made = build_trainer(cells, self.task_data, self.artefacts)
                if cells[0].cell.teacher_outputs:
                    made |= self._outputs(bool(cells[0].cell.together))
                if cells[0].cell.selection is not None:
                    selection_examples = [
                        one_task.selection_examples
                        for one_task in self.task_data
                        if one_task.selection_examples is not None
                    ]
                    trainer.best_epoch = BestEpoch(row.method.deploy, selection_examples, self.task_data[0].numerics)
                found.append((cells, trainer, made))
            except Exception as error:
                self._note_failure(cells, error)
        return found

    def _outputs(self, several: bool) -> Made:
        """What is known of the kept outputs of the teachers, one for each task; made now where they are not there."""
        found: Made = {}
        for one_task in self.task_data:
            plan = one_task.plan.outputs
            assert plan is not None, "a cell that reads outputs is planned with them"
            body = kept_outputs(one_task, plan)
            name = f"teacher_outputs.{one_task.name}" if several else "teacher_outputs"
            found[name] = known(body, "seconds", "bytes", "tokens", "squared_lengths") | {"format": plan.number_format}
        return found

    def _training_states(self, trained: Sequence[Built]) -> TrainingStates:
        """Where the states of these students are kept. A student that is made from other weights is another one."""
        trainings = [
            [train_key(cells[0].cell), {name: body.get("weights") for name, body in made.items()}]
            for cells, _, made in trained
        ]
        cells = [of_student[0].cell for of_student, _, _ in trained]
        progress = self.task_data[0].progress
        training_states = TrainingStates(
            trainings,
            progress.say,
            code=[digest_of(student_modules(cell.method)) for cell in cells],
            is_stopping=progress.is_stopping,
        )
        if self.from_scratch:
            training_states.clear()
        return training_states

    def _train(self, trained: Sequence[Built], training_states: TrainingStates) -> None:
        """Train together the students that are at the same step. What fails as a whole is the error of each student; its state stays."""
        trainers = [trainer for _, trainer, _ in trained]
        try:
            taught_tasks = self._taught_tasks()
        except Exception as error:  # the data or the teacher cannot be read
            for trainer in trainers:
                trainer.error = error
            return
        for numbers in group_by_progress(trainers, training_states):
            some, states = [trainers[number] for number in numbers], training_states.of(numbers)
            if states.has_begun:
                self._gone_on |= {train_key(trained[number][0][0].cell) for number in numbers}
            try:
                self._train_some(some, taught_tasks, states)
                self.answer.states += states.files
            except Exception as error:
                for trainer in some:
                    trainer.error = trainer.error or error

    def _taught_tasks(self) -> list[TaskWithTeacher]:
        device = self.task_data[0].numerics.device
        rows = [cells[0].row for cells in self.students]
        taught = any(isinstance(row, MethodRow) and row.method.needs_teacher for row in rows)
        return [
            TaskWithTeacher(one_task.train, self._teacher(one_task).to(device).eval() if taught else None)
            for one_task in self.task_data
        ]

    def _teacher(self, one_task: TaskData) -> nn.Module:
        """The teacher of a task, with fast kernels or the file of its outputs where students ask for that."""
        plan = one_task.plan.outputs
        teacher = FastTeacher(one_task.teacher[0]) if self.is_fast else one_task.teacher[0]
        if plan is None or not any(cells[0].cell.teacher_outputs for cells in self.students):
            return teacher
        return KeptTeacher(teacher, opened(one_task, plan))

    def _train_some(
        self,
        trainers: Sequence[StudentTrainer],
        taught_tasks: Sequence[TaskWithTeacher],
        training_states: TrainingStates,
    ) -> None:
        """Students that are at the same step."""
        first, seed = self.task_data[0], self.students[0][0].cell.seed
        names = "+".join(one_task.name for one_task in self.task_data)
        kernels: AbstractContextManager[object] = FastLinear() if self.is_fast else nullcontext()
        with first.progress.task(f"{names}: {', '.join(t.label for t in trainers)}, seed {seed}") as update, kernels:
            recipe = first.plan.recipe
            train_tasks(
                taught_tasks,
                trainers,
                LoopOptions(seed, first.numerics, recipe.batch_size, update, training_states, recipe.micro_batch),
            )

    def _score(self, cells: Sequence[Planned], trainer: StudentTrainer, made: Made) -> None:
        """The records of one student, one for each task and operating point."""
        row, choice = cells[0].row, trainer.best_epoch
        assert isinstance(row, MethodRow)
        method = row.method
        if choice is not None:
            choice.load_best(trainer.student)
        trainer.student.model.eval()
        with trainer.random.current():  # a new module draws random numbers, even if it is filled afterwards
            deployed = method.deploy(trainer.student)
        setup = setup_of([one_task.plan for one_task in self.task_data], {})
        cell = cells[0].cell
        notes = (*method.notes(setup), *(how.describe() for how in (cell.search, cell.selection) if how is not None))
        if cell.together:
            notes = (*notes, several_tasks_note(", ".join(setup.tasks)))
        found: Found = []
        to_save = []
        for planned, one_task in zip(cells, self.task_data, strict=True):
            teacher = one_task.teacher[0] if method.needs_teacher else None
            points = {"": deployed[one_task.name]} if planned.cell.together else deployed
            for point, model in points.items():
                at_point = Deployed(model, point, trainer.log, trainer.student.model, teacher)
                record, arrays = scored(planned.cell, at_point, one_task, self.started)
                record = record.model_copy(
                    update={
                        "terms": trainer.log.terms,
                        "gradient_norms": trainer.log.gradient_norms,
                        "gradient_shares": trainer.log.gradient_shares,
                        "artefacts": made,
                        "notes": notes,
                        "usage": record.usage | _how_trained(trainer),
                    }
                )
                found.append((record, arrays))
                to_save.append((model, record, one_task))
        self.answer.records += checked(found)
        if self.save_to is not None:  # only now: a folder names its record, and any of the records may have failed
            for model, record, one_task in to_save:
                self._save(self.save_to, model, record, one_task)

    def _save(self, root: Path, model: nn.Module, record: Record, one_task: TaskData) -> None:
        """Keep a student; its record stays even where the student cannot be kept."""
        try:
            folder = export_student(root, model, tokenizer_of(one_task.plan.checkpoint), record, one_task.plan.task)
            one_task.progress.say(f"saved: {folder}")
        except Exception as error:  # a full disk, a model that cannot be saved: neither may cost what was trained
            why = f"trained and recorded, but not saved in {root}: {error}"
            self.answer.not_saved.append(FailedCell(one_task.name, record.row, record.cell.seed, why))

    def _note_failure(self, cells: Sequence[Planned], error: Exception) -> None:
        end_if_interrupted()
        for planned, one_task in zip(cells, self.task_data, strict=True):
            why = failure_of(error, planned.cell.method)
            self.answer.records.append((failed(planned.cell, self.started, why, one_task.plan.task), {}))


def _how_trained(trainer: StudentTrainer) -> dict[str, Any]:
    """What a record says of a training besides its cost: the epoch that was chosen, and stages that another row trained."""
    epochs = {} if trainer.best_epoch is None else {"epochs": trainer.best_epoch.as_dict()}
    return epochs | ({"trained_by": trainer.log.trained_by} if trainer.log.trained_by else {})


def _count_passes(trainer: StudentTrainer, made: Made) -> None:
    """Correct the teacher's tokens in a student's log: the teacher did not run in steps that read its file, but once over all
    rows to write the file."""
    taught = [scheduled for series in trainer.schedule.values() for scheduled in series if scheduled.teacher]
    steps = sum(scheduled.steps for scheduled in taught)
    answered = sum(scheduled.steps for scheduled in taught if not is_readable(scheduled.stage)) / max(1, steps)
    files = [body for name, body in made.items() if name.partition(".")[0] == "teacher_outputs"]
    log = trainer.log
    log.teacher_tokens = round(answered * log.teacher_tokens) + sum(body["tokens"] for body in files)
    log.teacher_squared_lengths = round(answered * log.teacher_squared_lengths) + sum(
        body["squared_lengths"] for body in files
    )


def build_trainer(
    cells: Sequence[Planned], task_data: Sequence[TaskData], artefacts: ArtefactStore
) -> tuple[StudentTrainer, dict[str, dict[str, Any]]]:
    """A student that is ready to train, and what is known of each artefact that it is made from.

    Args:
        cells: of the student, one for each of ``task_data``.
    """
    row, cell = cells[0].row, cells[0].cell
    assert isinstance(row, MethodRow)
    method, several = row.method, bool(cell.together)
    tensors, made = {}, {}
    for one_task in task_data:
        config = one_task.plan.checkpoint.config
        for artefact in method.requires(config):
            name = artefact_name(artefact, config, one_task.name, several)
            if name not in tensors:
                found = artefacts.of(artefact, one_task)
                tensors[name], made[name] = found.tensors, dict(found.known)
    setup = setup_of([one_task.plan for one_task in task_data], tensors)
    random = RandomState(cell.seed, task_data[0].numerics.device)
    with random.current():
        student = method.build(setup)
    examples = [len(one_task.train) for one_task in task_data]
    preparation, counted = schedule_stages(method.stages(setup), cell.dropped, Recipe(**cell.recipe), *examples)
    for one_task in task_data:
        if one_task.plan.augmentation:
            made[f"augmentation.{one_task.name}"] = one_task.augmentation[1]
    if method.needs_teacher:
        for one_task in task_data:
            name = f"teacher.{one_task.name}" if several else "teacher"
            made[name] = known(one_task.teacher[1])
    trainer = StudentTrainer(row.spelling, student, random, preparation, counted, task_data[0].numerics)
    trainer.stage_keys = stage_keys(method, trainer.schedule)
    return trainer, made
