"""Do the jobs of a plan in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.artefacts.kept_outputs import kept_outputs
from bench.artefacts.make import ArtefactStore
from bench.artefacts.task_data import TaskData, known
from bench.artefacts.teachers import base_model
from bench.data.checkpoints import Checkpoint
from bench.errors import InputError
from bench.plan.build import Plan, Planned
from bench.plan.jobs import (
    ARTEFACT_JOB,
    AUGMENTATION_JOB,
    OUTPUTS_JOB,
    STUDENTS_JOB,
    TEACHER_JOB,
    Job,
    code_of_student,
    slot_of,
)
from bench.plan.rows import CheckpointRow
from bench.plan.tasks import TaskPlan
from bench.progress import Progress
from bench.record.code import digest_of
from bench.run.failure_records import failure_of
from bench.run.group import Group, checked
from bench.run.interrupts import end_if_interrupted
from bench.run.outcome import JobResult
from bench.run.recording import Deployed, failed, now, scored
from bench.train.numerics import ComputeSettings
from bench.train.student_trainer import TrainLog

NOT_OURS = "a finished checkpoint, scored here; how it was trained is not known to this report"


class JobRunner:
    """Does the jobs of one plan in this process. It keeps the examples and the teacher of one task at a time."""

    def __init__(self, plan: Plan, numerics: ComputeSettings, progress: Progress) -> None:
        self.plan, self.numerics, self.progress = plan, numerics, progress
        self.artefacts = ArtefactStore(plan.artefacts, numerics, progress)
        self._tasks = {task.task.name: task for task in plan.tasks}
        self._cells = {planned.key: planned for planned in plan.cells}
        self._loaded: dict[str, TaskData] = {}

    def do(self, job: Job) -> JobResult:
        """Make one entry of the cache, or the records of some cells. What fails is part of the answer.

        Raises:
            InputError: this plan has no such cell, or other code than the job names.
            KeyboardInterrupt: somebody stopped it; what was trained so far keeps its state.
        """
        self._check(job)
        return self._run_students(job) if job.students else self._make_entry(job)

    def _check(self, job: Job) -> None:
        lacking = [key for key in job.cells if key not in self._cells]
        if lacking:
            raise InputError(
                f"{job.title}: this process plans no cell {lacking[0][:12]}; did its data change meanwhile?"
            )
        slot = slot_of(self.plan, job)
        if not job.students and slot is None:
            raise InputError(f"{job.title}: this process plans another one; did its data or teacher change meanwhile?")
        if (slot is not None and digest_of(slot.code) != job.code) or any(
            one.code != code_of_student([self._cells[key] for key in one.cells]) for one in job.students
        ):
            raise InputError(f"{job.title}: the code was edited since this run began; start it again")

    def _data_of(self, task: TaskPlan) -> TaskData:
        """The examples and the teacher of a task; those of the task before are let go."""
        name = task.task.name
        if name not in self._loaded:
            self._loaded = {name: self._task_data(task)}
        return self._loaded[name]

    def _task_data(self, task: TaskPlan) -> TaskData:
        return TaskData(task, self.numerics, self.progress, self.artefacts.masked_head)

    def _make_entry(self, job: Job) -> JobResult:
        """Make one entry of the cache."""
        try:
            task = self._tasks[job.task] if job.task else None
            if job.kind == ARTEFACT_JOB:
                entry = self.plan.artefacts.kept[job.key]
                self.artefacts.get(entry, None if task is None else self._data_of(task))
            elif task is not None:
                self._make_for_task(job, task)
        except Exception as error:
            end_if_interrupted()
            return JobResult(error=failure_of(error, job.method))
        return JobResult()

    def _make_for_task(self, job: Job, task: TaskPlan) -> None:
        task_data = self._data_of(task)
        if job.kind == TEACHER_JOB:
            _ = task_data.tuned(job.seed)
        elif job.kind == AUGMENTATION_JOB:
            _ = task_data.augmentation
        elif job.kind == OUTPUTS_JOB and task.outputs is not None:
            kept_outputs(task_data, task.outputs)

    def _run_students(self, job: Job) -> JobResult:
        students = [[self._cells[key] for key in student.cells] for student in job.students]
        if job.kind == STUDENTS_JOB:
            tasks = [self._tasks[planned.cell.tasks[0]] for planned in students[0]]
            task_data = [self._data_of(tasks[0])] if len(tasks) == 1 else [self._task_data(task) for task in tasks]
            return Group(
                students, task_data, self.artefacts, job.from_scratch, self.plan.request.save_students
            ).train_and_score()
        return self._score_existing(students)

    def _score_existing(self, students: Sequence[Sequence[Planned]]) -> JobResult:
        """Score a teacher or a finished checkpoint."""
        (planned,) = students[0]
        cell, started, answer = planned.cell, now(), JobResult()
        task_data = self._data_of(self._tasks[cell.tasks[0]])
        try:
            if isinstance(planned.row, CheckpointRow):
                self._score_checkpoint(planned, planned.row.checkpoint, task_data, started, answer)
            else:
                self._score_teacher(planned, task_data, started, answer)
            checked(answer.records)
        except Exception as error:
            end_if_interrupted()
            answer.records = [(failed(cell, started, failure_of(error, cell.method), task_data.plan.task), {})]
        return answer

    @staticmethod
    def _score_teacher(planned: Planned, task_data: TaskData, started: str, answer: JobResult) -> None:
        model, made = task_data.teacher
        log = TrainLog(**made["train"]) if "train" in made else None
        record, arrays = scored(planned.cell, Deployed(model, log=log), _read_as_tuned(task_data), started)
        noted = {
            "terms": log.terms if log else {},
            "gradient_norms": log.gradient_norms if log else {},
            "artefacts": {"teacher": known(made)},
        }
        answer.records.append((record.model_copy(update=noted), arrays))

    @staticmethod
    def _score_checkpoint(
        planned: Planned, checkpoint: Checkpoint, task_data: TaskData, started: str, answer: JobResult
    ) -> None:
        """Read with its own tokenizer."""
        own = TaskData(replace(task_data.plan, checkpoint=checkpoint), task_data.numerics, task_data.progress)
        model = base_model(checkpoint, task_data.plan.task.num_labels)
        record, arrays = scored(planned.cell, Deployed(model), own, started)
        answer.records.append((record.model_copy(update={"notes": (NOT_OURS,)}), arrays))


def _read_as_tuned(of_task: TaskData) -> TaskData:
    """The task with sequences of the length that its teacher was tuned on, where students read others."""
    plan = of_task.plan
    length = plan.teacher_recipe.max_length
    if length == plan.recipe.max_length:
        return of_task
    plan = replace(plan, recipe=replace(plan.recipe, max_length=length))
    return TaskData(plan, of_task.numerics, of_task.progress, of_task.masked_head)
