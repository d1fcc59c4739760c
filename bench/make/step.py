"""Make one step of a plan in this process. Nothing is planned here: the step says all that it takes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from bench.data.checkpoints import Checkpoint
from bench.errors import InputError
from bench.interrupts import end_if_interrupted
from bench.make.artefact import artefact
from bench.make.export import save_where_asked
from bench.make.failure import failure_of
from bench.make.outputs import kept_outputs
from bench.make.record import failed, now, scored
from bench.make.students import students
from bench.make.task_data import TaskData
from bench.make.teacher import base_model
from bench.make.work import StepResult, Work, known
from bench.plan.plan import ARTEFACT_STEP, AUGMENTATION_STEP, OUTPUTS_STEP, STUDENTS_STEP, TEACHER_STEP, Step, TaskPlan
from bench.train.student_trainer import TrainLog

NOT_OURS = "a finished checkpoint, scored here; how it was trained is not known to this report"


class Maker:
    """Makes steps. It keeps the examples and the teacher of one task at a time: the next step is likely to be of the same."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._last: TaskData | None = None

    def make(self, step: Step) -> StepResult:
        """A folder of the cache, or the records of some cells. What fails is part of the answer.

        Raises:
            InputError: the examples, a checkpoint or the code are not those that were planned with.
            KeyboardInterrupt: somebody stopped it; what was trained so far keeps its state.
        """
        if step.code and step.code != step.code_here:
            raise InputError(f"{step.title}: this process has other code than the run began with; start it again")
        if step.kind == STUDENTS_STEP:
            one = [self._data_of(step.tasks[0])] if len(step.tasks) == 1 else [self._task_data(t) for t in step.tasks]
            return students(step, one, self.work)
        if step.students:
            return self._score(step)
        data = self._data_of(step.tasks[0]) if step.tasks else None
        try:
            if step.kind == ARTEFACT_STEP:
                assert step.artefact is not None
                artefact(step.artefact, data, self.work)
            elif data is not None and step.kind == TEACHER_STEP:
                data.tuned(step.seed)
            elif data is not None and step.kind == AUGMENTATION_STEP:
                _ = data.augmentation
            elif data is not None and step.kind == OUTPUTS_STEP and data.plan.outputs is not None:
                kept_outputs(data, data.plan.outputs)
        except Exception as error:
            end_if_interrupted()
            return StepResult(error=failure_of(error, step.method))
        return StepResult()

    def _data_of(self, task: TaskPlan) -> TaskData:
        """The examples and the teacher of a task; those of the task before are let go."""
        if self._last is None or (self._last.plan.data, self._last.plan.task) != (task.data, task.task):
            self._last = self._task_data(task)
        return self._last

    def _task_data(self, task: TaskPlan) -> TaskData:
        _ = task.train, task.evaluation  # now: a machine that lacks them, or has others, refuses the step
        return TaskData(task, self.work, partial(artefact, data=None, work=self.work))

    def _score(self, step: Step) -> StepResult:
        """Score a teacher or a finished checkpoint."""
        (planned,), task, started, facts = step.cells, step.tasks[0], now(), dict[str, Any]()
        data = self._data_of(task)
        try:
            if isinstance(planned.row, Checkpoint):  # read with its own tokenizer
                data = self._task_data(replace(task, checkpoint=planned.row))
                model, facts["notes"] = base_model(planned.row.folder, task.task.num_labels), (NOT_OURS,)
            else:
                model, body = data.teacher
                facts = {"log": TrainLog(**body["train"])} if "train" in body else {}
                facts["artefacts"] = {"teacher": known(body)}
                length = task.teacher_recipe.max_length
                if length != task.recipe.max_length:  # sequences of the length that it was tuned on
                    data = self._task_data(replace(task, recipe=replace(task.recipe, max_length=length)))
            record, arrays = scored(planned.cell, model, data, started, **facts)
            result = StepResult([(record, arrays)])
            if "log" in facts:  # a teacher that was fine-tuned here
                save_where_asked(self.work, result, record, model, task)
            return result
        except Exception as error:
            end_if_interrupted()
            why = failure_of(error, planned.cell.method)
            return StepResult([(failed(planned.cell, started, why, task.task), {})])
