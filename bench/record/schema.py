"""A record: one answer, on disk as JSON, readable without torch and without the code that made it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import methods
from bench.errors import InputError
from bench.plan.cell import Cell
from bench.plan.keys import SCHEMA
from bench.record.facts import TaskFacts, lifted


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Sizes(Part):
    """Cost of the deployed model. MACs are what fvcore counts; a report prints FLOPs = 2 x MACs."""

    parameters: int
    active_parameters: int | None = None
    """what one token meets, where that is less than all"""
    embedding: int
    pooler_and_head: int
    macs: int
    macs_closed_form: int
    expected_macs: int | None = None
    """of an average sequence of the task, where sequences leave the model early"""
    sequence_length: int
    batch: int
    attention: str
    counter: str

    @property
    def without_embedding(self) -> int:
        return self.parameters - self.embedding

    @property
    def flops(self) -> int:
        """Of an average sequence, where not all go to the end."""
        return 2 * (self.expected_macs or self.macs)


class TrainCost(Part):
    """What the training of this row took. FLOPs are closed-form over the tokens really seen (backward = 2 x forward)."""

    steps: int
    examples: int
    tokens: int
    seconds_own: float
    teacher_seconds_shared: float
    """this row's part of the teacher passes it shared with others"""
    teacher_seconds_alone: float
    """what the same passes would have cost without sharing"""
    flops_own: float
    flops_teacher: float
    cpu_seconds: float | None = None
    """of the process that trained it, all its threads, with reading and scoring; students that trained together have their
    parts of it by the wall seconds of their own steps"""


class Failure(Part):
    type: str
    message: str
    traceback: str


class Record(Part):
    """Field order is the order in the file."""

    schema_version: int = SCHEMA
    key: str
    train_key: str
    point: str = ""
    """operating point of the deployed model; "" where there is one"""
    status: Literal["ok", "failed", "interrupted"]
    cell: Cell
    task: TaskFacts = TaskFacts()
    """of the task that was scored; filled in where an older record does not say it"""
    scores: dict[str, dict[str, float]] = Field(default_factory=dict)
    """evaluation set -> metric -> value between -1 and 1"""
    predicted: tuple[str, ...] = ()
    """evaluation sets with predictions only, because their labels are not public"""
    sizes: Sizes | None = None
    terms: dict[str, dict[str, list[float]]] = Field(default_factory=dict)
    """stage -> term -> its unweighted value over the stage, at most 64 windows"""
    gradient_norms: dict[str, dict[str, float]] = Field(default_factory=dict)
    """stage -> term -> norm of the weighted term's gradient at the first step that had one"""
    gradient_shares: dict[str, dict[str, list[float]]] = Field(default_factory=dict)
    """stage -> term -> part of the summed gradient norms of its player's weighted terms, at four steps from the first on"""
    usage: dict[str, Any] = Field(default_factory=dict)
    """what the model did with the evaluation sets: where sequences left, which experts their tokens met; and how the
    weights of each epoch did on the rows that chose one"""
    notes: tuple[str, ...] = ()
    """what the method says of this row and a reader should know"""
    train: TrainCost | None = None
    artefacts: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """what was prepared by the harness: key, hash of the weights, cost"""
    weights: str | None = None
    """sha256 of the deployed weights"""
    code: dict[str, Any] = Field(default_factory=dict)
    env: dict[str, Any] = Field(default_factory=dict)
    started: str
    finished: str
    error: Failure | None = None

    @property
    def row(self) -> str:
        """What tables call it: the row's label, and the operating point where there are several."""
        return self.cell.label + (f" at {self.point}" if self.point else "")

    @property
    def called(self) -> str:
        """The row's name as tables print it: with what it has less than the paper that its method is named after."""
        lacks = methods.lacking(self.cell.method, self.cell.settings)
        return f"{self.row} ({lacks})" if lacks else self.row


def with_facts(record: Record) -> Record:
    """A record of an older version, with what is known of its task."""
    return record.model_copy(update={"task": lifted(record.cell.tasks, record.scores)})


def load(text: str, where: str) -> Record:
    """Parse one record, lifting older schemas one step at a time.

    Raises:
        InputError: not JSON, written by a newer schema, or a field that does not fit.
    """
    import json

    try:
        body = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{where} is not JSON (line {error.lineno}: {error.msg})") from None
    found = body.get("schema_version") if isinstance(body, dict) else None
    if not isinstance(found, int):
        raise InputError(f"{where} is not a record: it has no schema_version")
    if found > SCHEMA:
        raise InputError(f"{where} has schema {found}, this version reads up to {SCHEMA}; update the package")
    try:
        record = Record.model_validate(body)
        return record if record.task.metrics else with_facts(record)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise InputError(
                f"{where} has the field {place}, which this version does not know; it was written by a newer one: update the package"
            ) from None
        raise InputError(f"{where}: {place}: {first['msg']}") from None
