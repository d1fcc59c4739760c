"""Train some students of the same tasks and seed together, and score them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from bench.artefacts.make import ArtefactStore
from bench.artefacts.task_data import TaskData, known
from bench.data.checkpoints import tokenizer_of
from bench.plan.build import Planned
from bench.plan.scheduled_stages import legs_of
from bench.plan.spelling import MethodRow
from bench.plan.tasks import setup_of
from bench.record.cell import train_key
from bench.record.code_hash import training_code
from bench.record.recipe import Recipe
from bench.record.schema import Record
from bench.run.export import ship
from bench.run.outcome import Answer, FailedCell
from bench.run.recording import failed, failure_of, now, scored
from bench.train.best_epoch import BestEpoch
from bench.train.loop import Course, train_on
from bench.train.numerics import RandomState
from bench.train.student_trainer import Trainee
from bench.train.training_state import Halfway, equally_far
from methods.artefacts import artefact_name

Made = dict[str, dict[str, Any]]
"""What a student is made from: name -> what is known of it."""
Built = tuple[Sequence[Planned], Trainee, Made]
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
    """Some students of the same tasks and seed, on their way to their records."""

    def __init__(
        self,
        students: Sequence[Sequence[Planned]],
        materials: Sequence[TaskData],
        artefacts: ArtefactStore,
        again: bool = False,
        save_to: Path | None = None,
    ) -> None:
        """
        Args:
            students: the cells of each, one for each of ``materials``.
            again: begin anew even where an earlier run broke off.
            save_to: the folder in which students are kept; None where they are not.
        """
        self.students, self.materials, self.artefacts = students, materials, artefacts
        self.again, self.save_to = again, save_to
        self.started = now()
        self.answer = Answer()
        self._gone_on: set[str] = set()
        """keys of trainings that went on where an earlier run broke off: part of their time was that run's"""

    def answered(self) -> Answer:
        """Train and score them. A student that fails is a failed record, and the others go on."""
        begun = time.process_time()
        trained = self._built()
        if trained:
            self._train(trained, self._halfway(trained))
        for cells, trainee, made in trained:
            try:
                if trainee.error is not None:
                    raise trainee.error
                self._score(cells, trainee, made)
            except Exception as error:
                self._note_failure(cells, error)
        self._divide(time.process_time() - begun, trained)
        return self.answer

    def _divide(self, cpu_seconds: float, trained: Sequence[Built]) -> None:
        """Give each student its part of the processor's time, by the wall seconds of its steps and of its teacher's."""
        wall = {
            train_key(cells[0].cell): trainee.log.seconds_own + trainee.log.teacher_seconds_shared
            for cells, trainee, _ in trained
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
                trainee, made = _trainee(cells, self.materials, self.artefacts)
                if cells[0].cell.selection is not None:
                    exams = [of_task.exam for of_task in self.materials if of_task.exam is not None]
                    trainee.choice = BestEpoch(row.method.deploy, exams, self.materials[0].numerics)
                found.append((cells, trainee, made))
            except Exception as error:
                self._note_failure(cells, error)
        return found

    def _halfway(self, trained: Sequence[Built]) -> Halfway:
        """Where the states of these students are kept. A student that is made from other weights is another one."""
        trainings = [
            [train_key(cells[0].cell), {name: body.get("weights") for name, body in made.items()}]
            for cells, _, made in trained
        ]
        cells = [of_student[0].cell for of_student, _, _ in trained]
        progress = self.materials[0].progress
        halfway = Halfway(
            trainings,
            progress.say,
            code=[training_code(cell).hash for cell in cells],
            is_stopping=progress.is_stopping,
        )
        if self.again:
            halfway.clear()
        return halfway

    def _train(self, trained: Sequence[Built], halfway: Halfway) -> None:
        """Together, as far as they are equally far. What fails as a whole is the error of each student; its state stays."""
        trainees = [trainee for _, trainee, _ in trained]
        try:
            courses = self._courses()
        except Exception as error:  # the data or the teacher cannot be read
            for trainee in trainees:
                trainee.error = error
            return
        for numbers in equally_far(trainees, halfway):
            some, states = [trainees[number] for number in numbers], halfway.of(numbers)
            if states.has_begun:
                self._gone_on |= {train_key(trained[number][0][0].cell) for number in numbers}
            try:
                self._train_some(some, courses, states)
                self.answer.states += states.files
            except Exception as error:
                for trainee in some:
                    trainee.error = trainee.error or error

    def _courses(self) -> list[Course]:
        device = self.materials[0].numerics.device
        rows = [cells[0].row for cells in self.students]
        taught = any(isinstance(row, MethodRow) and row.method.needs_teacher for row in rows)
        return [
            Course(of_task.train, of_task.teacher[0].to(device).eval() if taught else None)
            for of_task in self.materials
        ]

    def _train_some(self, trainees: Sequence[Trainee], courses: Sequence[Course], halfway: Halfway) -> None:
        """Students that are equally far."""
        first, seed = self.materials[0], self.students[0][0].cell.seed
        names = "+".join(of_task.name for of_task in self.materials)
        with first.progress.task(f"{names}: {', '.join(t.label for t in trainees)}, seed {seed}") as update:
            train_on(courses, trainees, seed, first.numerics, first.task.recipe.batch_size, update, halfway)

    def _score(self, cells: Sequence[Planned], trainee: Trainee, made: Made) -> None:
        """The records of one student, one for each task and operating point."""
        row, choice = cells[0].row, trainee.choice
        assert isinstance(row, MethodRow)
        method = row.method
        if choice is not None:
            choice.restore(trainee.student)
        trainee.student.model.eval()
        with trainee.random.current():  # a new module draws random numbers, even if it is filled afterwards
            deployed = method.deploy(trainee.student)
        setup = setup_of([of_task.task for of_task in self.materials], {})
        notes = tuple(method.notes(setup))
        notes = (
            *notes,
            *(how.describe() for how in (cells[0].cell.search, cells[0].cell.selection) if how is not None),
        )
        found: Found = []
        for planned, of_task in zip(cells, self.materials, strict=True):
            teacher = of_task.teacher[0] if method.needs_teacher else None
            points = deployed
            if planned.cell.together:
                points = {"": deployed[of_task.name]}
                others = f"one student of {', '.join(setup.tasks)}: what its training cost is the cost of all of them"
                notes = (*(note for note in notes if note != others), others)
            for point, model in points.items():
                record, arrays = scored(
                    planned.cell, model, of_task, self.started, trainee.log, teacher, point, trainee.student.model
                )
                record = record.model_copy(
                    update={
                        "terms": trainee.log.terms,
                        "gradient_norms": trainee.log.gradient_norms,
                        "gradient_shares": trainee.log.gradient_shares,
                        "artefacts": made,
                        "notes": notes,
                        "usage": record.usage | ({} if choice is None else {"epochs": choice.as_dict()}),
                    }
                )
                found.append((record, arrays))
                if self.save_to is not None:
                    self._save(self.save_to, model, record, of_task)
        self.answer.records += checked(found)

    def _save(self, root: Path, model: nn.Module, record: Record, of_task: TaskData) -> None:
        """Keep a student; its record stays even where the student cannot be kept."""
        try:
            folder = ship(root, model, tokenizer_of(of_task.task.checkpoint), record, of_task.task.task)
            of_task.progress.say(f"saved: {folder}")
        except Exception as error:  # a full disk, a model that cannot be saved: neither may cost what was trained
            why = f"trained and recorded, but not saved in {root}: {error}"
            self.answer.not_saved.append(FailedCell(of_task.name, record.row, record.cell.seed, why))

    def _note_failure(self, cells: Sequence[Planned], error: Exception) -> None:
        for planned, of_task in zip(cells, self.materials, strict=True):
            why = failure_of(error, planned.cell.method)
            self.answer.records.append((failed(planned.cell, self.started, why, of_task.task.task), {}))


def _trainee(
    cells: Sequence[Planned], materials: Sequence[TaskData], artefacts: ArtefactStore
) -> tuple[Trainee, dict[str, dict[str, Any]]]:
    row, cell = cells[0].row, cells[0].cell
    assert isinstance(row, MethodRow)
    method, several = row.method, bool(cell.together)
    tensors, made = {}, {}
    for of_task in materials:
        config = of_task.task.checkpoint.config
        for artefact in method.requires(config):
            name = artefact_name(artefact, config, of_task.name, several)
            if name not in tensors:
                found = artefacts.of(artefact, of_task)
                tensors[name], made[name] = found.tensors, dict(found.said)
    setup = setup_of([of_task.task for of_task in materials], tensors)
    random = RandomState(cell.seed, materials[0].numerics.device)
    with random.current():
        student = method.build(setup)
    examples = [len(of_task.train) for of_task in materials]
    preparation, legs = legs_of(method.stages(setup), cell.dropped, Recipe(**cell.recipe), *examples)
    for of_task in materials:
        if of_task.task.augmentation:
            made[f"augmentation.{of_task.name}"] = of_task.augmentation[1]
    if method.needs_teacher:
        for of_task in materials:
            name = f"teacher.{of_task.name}" if several else "teacher"
            made[name] = known(of_task.teacher[1])
    return Trainee(row.spelling, student, random, preparation, legs, materials[0].numerics), made
