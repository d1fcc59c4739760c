"""From a deployed model to its record: answers, scores, sizes and what its training cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from torch import nn

import methods
from bench.data.encoding import Encoded
from bench.data.predictions import ABOUT, LONGEST_INPUT, About, Predictions
from bench.data.table_files import Split
from bench.data.tasks import Task
from bench.errors import CellError
from bench.make.failure import STUDENT_TRIES, SUSPECT, TEACHER_TRIES, faults_of_training
from bench.make.task_data import TaskData
from bench.measure.machine import environment, revision, source_hash
from bench.measure.parameters import weights_hash
from bench.measure.sizes import sizes
from bench.measure.writing import writing
from bench.record.cell import FINISHED, TEACHER, Cell, record_key, train_key
from bench.record.code import COMPUTED_BY, metric_modules, named_code, student_modules
from bench.record.schema import Failure, Record, Sizes, TrainCost
from bench.record.task_facts import TaskFacts
from bench.stats.form import misshapen
from bench.stats.guards import suspicions
from bench.train.loop import OnStep
from bench.train.prediction import predict, score
from bench.train.student_trainer import TrainLog
from methods.core.models import Cost, PackedModel, WritingModel, cost

NOT_KNOWN = (
    "the predictions of a system that did not run here: its training, size and speed are not known "
    "to this report"
)


def now() -> str:
    """The time, as a record has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def scored(
    cell: Cell,
    model: nn.Module,
    task_data: TaskData,
    started: str,
    *,
    point: str = "",
    log: TrainLog | None = None,
    trained: nn.Module | None = None,
    teacher: nn.Module | None = None,
    usage: Mapping[str, Any] | None = None,
    **facts: Any,
) -> tuple[Record, dict[str, np.ndarray]]:
    """The record of one deployed model, and the raw arrays.

    It has predictions on every evaluation set, scores, sizes and cost.

    Args:
        point: its operating point, where a training deploys several.
        log: of its training; None where it was trained elsewhere.
        trained: the model that was trained, where another one is deployed.
        usage, facts: what else the record says.

    Raises:
        CellError: answers that are not of the task's form, or that are no numbers.
        ValueError: a value that JSON cannot hold: what a method says of itself is in the record.
    """
    plan = task_data.plan
    numerics = task_data.work.numerics

    def logits_of(encoded: Encoded, on_step: OnStep) -> np.ndarray:
        return predict(model, encoded, numerics, on_step)

    # answers, and what the model saw of its own as it gave them
    arrays, scores = answered(cell, task_data, logits_of)
    seen = dict(model.observed()) if isinstance(model, PackedModel) else {}
    if isinstance(model, WritingModel):
        examples = next(iter(task_data.evaluation.values()))
        seen["writing"] = writing(model, examples, numerics.device)

    # sizes, after that: counting runs the model too, on tokens that are no example
    sized = sizes(model)
    average = seen.pop("cost", None)
    if average:
        expected = Cost(**average).of_length(sized.sequence_length)
        sized = sized.model_copy(update={"expected_macs": expected})

    # the training
    train = None
    if log is not None:
        train = training_cost(log, model if trained is None else trained, model, teacher)
        facts = {"terms": log.terms, "gradient_norms": log.gradient_norms} | facts
    # how a teacher was tuned is said of the artefact
    is_given = cell.method in (TEACHER, *FINISHED)
    computed_by = metric_modules if is_given else partial(student_modules, cell.method)
    record = Record(
        key=record_key(cell, point),
        train_key=train_key(cell),
        point=point,
        status="ok",
        cell=cell,
        task=plan.task.facts(),
        scores=scores,
        predicted=tuple(name for name in task_data.evaluation if name not in scores),
        sizes=sized,
        usage={**seen, **(usage or {})},
        faults=tuple(faults_in(cell, log, arrays, scores, task_data)),
        train=train,
        weights=weights_hash(model),
        code={**_code(cell), COMPUTED_BY: named_code(computed_by(plan.task.metrics))},
        env=_environment(cell, task_data),
        started=started,
        finished=now(),
        **facts,
    )
    # a value that JSON cannot hold is refused now
    record.model_dump_json()
    return record, arrays


def answered(
    cell: Cell, task_data: TaskData, logits_of: Callable[[Encoded, OnStep], np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, dict[str, float]]]:
    """The raw arrays of a record's answers to every evaluation set.

    Of those that have labels there are also scores.

    Args:
        logits_of: an evaluation set, and what is told of its progress -> the answers.

    Raises:
        CellError: answers that are not of the task's form.
    """
    plan = task_data.plan
    arrays: dict[str, np.ndarray] = {}
    scores: dict[str, dict[str, float]] = {}
    title = f"{plan.shown}: {cell.label}, seed {cell.seed}: evaluation"
    for name, encoded in task_data.evaluation.items():
        with task_data.work.progress.task(title, True) as on_step:
            logits = logits_of(encoded, on_step)
        _enter_answers(arrays, scores, plan.task, name, plan.evaluation[name], logits)
    return arrays, scores


def _enter_answers(
    arrays: dict[str, np.ndarray],
    scores: dict[str, dict[str, float]],
    task: Task,
    name: str,
    split: Split,
    logits: np.ndarray,
) -> None:
    """Enter the answers to one evaluation set, and their scores where it has labels.

    Raises:
        CellError: answers that are not of the task's form, or of which some are no finite numbers.
    """
    check_shapes(task, name, logits, split.labels)
    # looked at as they are kept: in more than 32 bits a number may have been finite
    if not np.isfinite(logits).all():
        raise CellError(f"{task.name} {name}: some predictions are no finite 32-bit numbers")
    arrays |= {f"logits.{name}": logits, f"examples.{name}": split.example_hashes()}
    if split.labels is not None:
        arrays[f"labels.{name}"] = split.labels
        scores[name] = score(logits, split.labels, task.metrics)


def of_predictions(
    cell: Cell, predictions: Predictions, task_data: TaskData, started: str
) -> tuple[Record, dict[str, np.ndarray]]:
    """The record of what somebody else's system answered, and the raw arrays.

    It has scores, and the size of the model where its folder says it.
    """
    plan = task_data.plan
    # somebody else's answers are checked and scored as ours
    about = predictions.about
    arrays: dict[str, np.ndarray] = {}
    scores: dict[str, dict[str, float]] = {}
    for name, logits in predictions.logits.items():
        _enter_answers(arrays, scores, plan.task, name, plan.evaluation[name], logits)
    facts: dict[str, Any] = {
        "scores": scores,
        "predicted": tuple(name for name in predictions.logits if name not in scores),
        "notes": (NOT_KNOWN if about is None else about.note,),
        "sizes": None if about is None else stated_sizes(about),
        "faults": tuple(faults_in(cell, None, arrays, scores, task_data)),
        "code": {**_code(cell), COMPUTED_BY: named_code(metric_modules(plan.task.metrics))},
        "env": _environment(cell, task_data),
    }
    return empty(cell, "ok", started, plan.task).model_copy(update=facts), arrays


def stated_sizes(about: About) -> Sizes:
    """The size of a model that somebody states, which nothing here counts."""
    return Sizes(
        parameters=about.parameters,
        embedding=0,
        pooler_and_head=0,
        macs=about.macs,
        macs_closed_form=about.macs,
        sequence_length=LONGEST_INPUT,
        batch=1,
        attention="none",
        counter=f"stated in {ABOUT}",
        file_bytes=about.file_bytes,
    )


def faults_in(
    cell: Cell,
    log: TrainLog | None,
    arrays: Mapping[str, np.ndarray],
    scored: Iterable[str],
    task_data: TaskData,
    point: str = "",
) -> list[str]:
    """What is suspect of a training and of its answers; each is said at once."""
    task = task_data.plan.task
    shown = task_data.plan.shown
    say = task_data.work.progress.say
    row = f"{cell.label}{point}, seed {cell.seed}"
    # of the training
    faults = [] if log is None else faults_of_training(log.terms, log.gradient_shares)
    for line in faults:
        say(f"suspect: {shown}, {row}: {line}")
    # of the answers
    what_to_try = TEACHER_TRIES if cell.method == TEACHER else STUDENT_TRIES
    for name in scored:
        logits = arrays[f"logits.{name}"]
        labels = arrays[f"labels.{name}"]
        for suspicion in suspicions(logits, labels, task.labels, task.metrics[0]):
            say(f"suspect: {shown} {name}, {row}: {suspicion}")
            faults.append(f"{SUSPECT} to {name}: {suspicion}; {what_to_try}")
    return faults


def check_shapes(task: Task, name: str, logits: np.ndarray, labels: np.ndarray | None) -> None:
    """Refuse answers that are not of a task's form: their score would mean nothing.

    Raises:
        CellError: they are not.
    """
    arrays = {"logits": logits}
    if labels is not None:
        arrays["labels"] = labels
    wrong = misshapen(task.form, arrays, len(logits), task.form.outputs(task.labels))
    if wrong:
        raise CellError(f"{task.name} {name}: {wrong}")


def training_cost(
    log: TrainLog, trained: nn.Module, deployed: nn.Module, teacher: nn.Module | None
) -> TrainCost:
    """What a training cost: its steps, seconds and FLOPs, its own and the teacher's.

    A :class:`methods.core.models.PackedModel` may cost more while it trains than when it is
    deployed.
    """
    # MACs of a forward pass of the student
    price = trained.training_cost() if isinstance(trained, PackedModel) else cost(deployed)
    # FLOPs = 2 x MACs; the backward pass costs twice the forward pass
    flops = 3 * 2 * price.macs(log.tokens, log.squared_lengths, log.examples)
    flops_of_teacher = 0.0
    if log.teacher_tokens and teacher is not None:
        # the examples that the teacher answered are not counted: their share is taken to be that of
        # the tokens
        examples = log.examples * log.teacher_tokens / log.tokens
        macs = cost(teacher).macs(log.teacher_tokens, log.teacher_squared_lengths, examples)
        flops_of_teacher = 2 * macs
    return TrainCost(
        steps=log.steps,
        examples=log.examples,
        tokens=log.tokens,
        seconds_own=round(log.seconds_own, 3),
        teacher_seconds_shared=round(log.teacher_seconds_shared, 3),
        teacher_seconds_alone=round(log.teacher_seconds_alone, 3),
        flops_own=float(flops),
        flops_teacher=float(flops_of_teacher),
    )


def _environment(cell: Cell, task_data: TaskData) -> dict[str, Any]:
    """The machine and its software, and the revisions of what came from the hub."""
    env = environment(str(task_data.work.numerics.device), cell.numeric.deterministic)
    revisions = task_data.plan.revisions
    return env | {"hub": revisions} if revisions else env


def _code(cell: Cell) -> dict[str, Any]:
    """The version and the revision of the code, and the hash of a method that is the user's own."""
    from bench import __version__

    code = {"version": __version__, **revision()}
    if methods.reference(cell.method):
        code["method"] = source_hash(methods.get(cell.method))
    return code


def empty(cell: Cell, status: Any, started: str, task: Task | None = None) -> Record:
    """A record of a cell that was not scored, with this status.

    Args:
        task: that was to be scored; without it the record says nothing of its task.
    """
    return Record(
        key=record_key(cell),
        train_key=train_key(cell),
        status=status,
        cell=cell,
        task=TaskFacts() if task is None else task.facts(),
        code=_code(cell),
        started=started,
        finished=now(),
    )


def failed(cell: Cell, started: str, failure: Failure, task: Task | None = None) -> Record:
    """The record of a cell that failed, with its error."""
    return empty(cell, "failed", started, task).model_copy(update={"error": failure})
