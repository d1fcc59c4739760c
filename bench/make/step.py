"""Make one step of a plan in this process.

Nothing is planned here: the step says all that it takes.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from bench.data.checkpoints import Checkpoint
from bench.data.predictions import Predictions
from bench.errors import InputError
from bench.interrupts import end_if_interrupted
from bench.make.artefact import artefact
from bench.make.failure import failure_of
from bench.make.int8 import add_in_8_bits
from bench.make.record import failed, now, of_predictions, scored
from bench.make.saved_student import save_where_asked
from bench.make.students import students
from bench.make.task_data import TaskData
from bench.make.teacher import base_model
from bench.make.work import StepResult, Work, known
from bench.plan.plan import (
    ARTEFACT_STEP,
    AUGMENTATION_STEP,
    OUTPUTS_STEP,
    SCORE_STEP,
    STUDENTS_STEP,
    TEACHER_STEP,
    Step,
    TaskPlan,
)
from bench.stats.form import CLASSES
from bench.train.student_trainer import TrainLog

NOT_OURS = "a finished checkpoint, scored here; how it was trained is not known to this report"


def make(step: Step, work: Work) -> StepResult:
    """A folder of the cache, or the records of some cells. What fails is part of the answer.

    Raises:
        InputError: the examples, a checkpoint or the code are not those that were planned with.
        KeyboardInterrupt: somebody stopped it; what was trained so far keeps its state.
    """
    if step.code and step.code != step.code_here:
        raise InputError(
            f"{step.title}: this process has other code than the run began with; start it again"
        )
    if step.kind != ARTEFACT_STEP:  # text is large, and only what is pre-trained reads it
        work.texts.clear()
    if step.kind != SCORE_STEP:
        _refuse_suspect_teachers(step, work)
    if step.kind == STUDENTS_STEP:
        read = _data_of if len(step.tasks) == 1 else _task_data
        return students(step, [read(task, work) for task in step.tasks], work)
    if step.students:
        return _score(step, work)
    return _make_for_cache(step, work)


def _make_for_cache(step: Step, work: Work) -> StepResult:
    """Make a folder of the cache: a teacher, an artefact, augmented rows or kept outputs."""
    data = _data_of(step.tasks[0], work) if step.tasks else None
    try:
        if step.kind == ARTEFACT_STEP:
            assert step.artefact is not None
            artefact(step.artefact, data, work)
        elif data is not None and step.kind == TEACHER_STEP:
            data.tuned(step.seed)
        elif data is not None and step.kind == AUGMENTATION_STEP:
            _ = data.augmentation
        elif data is not None and step.kind == OUTPUTS_STEP:
            _ = data.outputs
    except Exception as error:
        end_if_interrupted()
        return StepResult(error=failure_of(error, step.method))
    return StepResult()


def _refuse_suspect_teachers(step: Step, work: Work) -> None:
    """Look at the tuned teachers from outside that a step learns from.

    Raises:
        InputError: the labels of one are in another order.
    """
    if step.kind == STUDENTS_STEP and not any(
        planned.reads_teacher for cells in step.students for planned in cells
    ):
        return
    for task in step.tasks:
        is_classifier = task.task.form == CLASSES and task.teacher.origin == "given"
        if is_classifier and not task.accepts_suspect_teacher:
            _data_of(task, work).refuse_permuted_teacher()


def _data_of(task: TaskPlan, work: Work) -> TaskData:
    """The examples and the teacher of a task; those of the task before are let go.

    The next step is likely to be of the same task.
    """
    if work.task_data is not None:
        read = work.task_data.plan
        is_same_data = (read.data, read.task) == (task.data, task.task)
        is_same_teacher = (read.checkpoint, read.teacher) == (task.checkpoint, task.teacher)
        if is_same_data and is_same_teacher:
            return work.task_data  # type: ignore[no-any-return]
    work.task_data = _task_data(task, work)
    return work.task_data  # type: ignore[no-any-return]


def _task_data(task: TaskPlan, work: Work) -> TaskData:
    """The examples and the teacher of a task, read anew."""
    # now: a machine that lacks them, or has others, refuses the step
    _ = task.train, task.evaluation
    return TaskData(task, work, partial(artefact, data=None, work=work))


def _in_label_units(teacher: nn.Module, data: TaskData) -> nn.Module:
    """A tuned teacher as it is scored; its students go on to learn from the other one."""
    task = data.plan
    if task.teacher.origin == "given":
        # as its file has it, to the bit
        as_given: nn.Module = base_model(task.checkpoint.folder, task.task.num_labels)
        return as_given
    scored_one = copy.deepcopy(teacher)
    data.in_label_units([scored_one])
    return scored_one


def _score(step: Step, work: Work) -> StepResult:
    """Score a teacher, a finished checkpoint or somebody's predictions."""
    (planned,) = step.cells
    task = step.tasks[0]
    started = now()
    data = _data_of(task, work)
    facts: dict[str, Any] = {}
    try:
        if isinstance(planned.row, Predictions):
            return StepResult([of_predictions(planned.cell, planned.row, data, started)])
        # a finished checkpoint is read with its own tokenizer
        if isinstance(planned.row, Checkpoint):
            row = planned.row
            data = _task_data(replace(task, checkpoint=row), work)
            model = base_model(row.folder, task.task.num_labels, task.task.spans, row.labels)
            facts["notes"] = (NOT_OURS,)
        else:
            model, body = data.teacher
            if task.scale is not None:
                model = _in_label_units(model, data)
            if "train" in body:
                facts["log"] = TrainLog(**body["train"])
            facts["artefacts"] = {"teacher": known(body)}
            # sequences of the length that it was tuned on
            length = task.teacher_recipe.max_length
            if length != task.recipe.max_length:
                recipe = replace(task.recipe, max_length=length)
                data = _task_data(replace(task, recipe=recipe), work)
        record, arrays = scored(planned.cell, model, data, started, **facts)
        result = StepResult([(record, arrays)])
        if "log" in facts:  # a teacher that was fine-tuned here
            save_where_asked(work, result, record, model, task, arrays)
        if planned.in_8_bits:
            add_in_8_bits(result, record, model, data)
        return result
    except Exception as error:
        end_if_interrupted()
        why = failure_of(error, planned.cell.method)
        return StepResult([(failed(planned.cell, started, why, task.task), {})])
