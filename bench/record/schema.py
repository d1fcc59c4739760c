"""A record: one answer, on disk as JSON, readable without torch and without the code that made
it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from bench.errors import InputError
from bench.record.cell import PLUS_INT8, POINTS_IN_8_BITS, PREDICTIONS, Cell
from bench.record.free_parts import (
    Amount,
    Artefacts,
    Count,
    Known,
    Positive,
    RecordCode,
    Usage,
    read_as,
)
from bench.record.keys import SCHEMA
from bench.record.known_tasks import facts_of_older_record
from bench.record.stated import stated
from bench.record.task_facts import TaskFacts


class StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


Form = TypeVar("Form", bound=StrictModel)


class Sizes(StrictModel):
    """Cost of the deployed model. MACs are what fvcore counts; a report prints FLOPs = 2 x MACs."""

    parameters: Positive
    """all of them, each tensor once"""
    active_parameters: Count | None = None
    """what one token meets, where that is less than all"""
    embedding: Count
    """parameters of the embedding"""
    pooler_and_head: Count
    """parameters of pooler and classifier"""
    macs: Positive
    """multiply-accumulate operations of one batch as below, counted by ``counter``"""
    macs_closed_form: Positive
    """the same by a formula"""
    expected_macs: Positive | None = None
    """MACs at ``sequence_length`` tokens, averaged over the exits that the task's sequences took;
    only where they can leave early"""
    sequence_length: Positive
    """tokens of each sequence that was counted"""
    batch: Positive
    """sequences that were counted"""
    attention: str
    """implementation of attention that was counted"""
    counter: str
    """program that counted"""
    file_bytes: Positive | None = None
    """of the deployed file, where it does not hold every parameter in 4 bytes"""

    @model_validator(mode="after")
    def _parts_are_no_larger(self) -> Self:
        # together they may have more, where the head is tied to the embedding
        if max(self.embedding, self.pooler_and_head) > self.parameters:
            raise ValueError("a part of the model has more parameters than the model")
        return self

    @property
    def without_embedding(self) -> int:
        return self.parameters - self.embedding

    @property
    def megabytes(self) -> float:
        """The size of the file that is shipped."""
        return (4 * self.parameters if self.file_bytes is None else self.file_bytes) / 1e6

    @property
    def flops(self) -> int:
        """Averaged over the exits that the sequences took, where not all go to the end."""
        return 2 * (self.expected_macs or self.macs)


class TrainCost(StrictModel):
    """The cost of the training of this row. FLOPs are closed-form over the tokens really seen
    (backward = 2 x forward)."""

    steps: Count
    examples: Count
    tokens: Count
    seconds_own: Amount
    teacher_seconds_shared: Amount
    """this row's part of the teacher passes it shared with others"""
    teacher_seconds_alone: Amount
    """what the same passes would have cost without sharing"""
    flops_own: Amount
    flops_teacher: Amount
    """of the teacher's passes, as if this row had not shared them"""
    cpu_seconds: Amount | None = None
    """of the process that trained it, all its threads, with reading and scoring. It is divided
    among students that trained together, in proportion to the wall seconds of each: its own steps,
    and its share of the teacher's passes"""


Score = Annotated[float, Field(ge=-1, le=1)]
Share = Annotated[float, Field(ge=0, le=1.001)]
"""A part of a whole; it is rounded to four digits."""
Loss = Annotated[float, Field(ge=-1e40, le=1e40)]
"""A value of a loss term; models compute in numbers below 3.4e38."""
Norm = Annotated[float, Field(ge=0, le=1e40)]
"""The norm of a gradient."""


class Failure(StrictModel):
    type: str
    message: str
    traceback: str


class Record(StrictModel):
    """Field order is the order in the file."""

    schema_version: Annotated[int, Field(le=SCHEMA)] = SCHEMA
    """version of this layout"""
    key: str
    """name of the cell: hash of what was trained and what is scored"""
    train_key: str
    """hash of what determines the trained weights"""
    point: str = ""
    """operating point of the deployed model; "" where there is only one"""
    status: Literal["ok", "failed", "interrupted"]
    """how the attempt ended"""
    cell: Cell
    """what was asked: the row, the task, the seed and the conditions"""
    task: TaskFacts = TaskFacts()
    """what is known of the task; for an older record it is read from the table of tasks"""
    scores: dict[str, dict[str, Score]] = Field(default_factory=dict)
    """evaluation set -> metric -> value between -1 and 1"""
    predicted: tuple[str, ...] = ()
    """evaluation sets with predictions only, because their labels are not public"""
    sizes: Sizes | None = None
    """parameters and MACs of the deployed model"""
    terms: dict[str, dict[str, list[Loss]]] = Field(default_factory=dict)
    """stage -> term -> a list of at most 64 numbers. The steps of the stage are divided into equal
    parts; each number is the mean of the unweighted term over one part"""
    gradient_norms: dict[str, dict[str, Norm]] = Field(default_factory=dict)
    """stage -> term -> norm of the weighted term's gradient at the first step that had one"""
    gradient_shares: dict[str, dict[str, list[Share]]] = Field(default_factory=dict)
    """stage -> term -> part of the summed gradient norms of all weighted terms of the same
    optimiser, at four steps of the stage, the first one too"""
    usage: Annotated[dict[str, Any], read_as(Usage)] = Field(default_factory=dict)
    """exits taken and experts used on each evaluation set; score of each epoch if ``--checkpoint``
    chose one, or with ``--curves``"""
    notes: tuple[str, ...] = ()
    """what the method says of this row and a reader should know"""
    faults: tuple[str, ...] = ()
    """what went wrong in its training or is suspect about its predictions, each with what to try;
    none in older records"""
    train: TrainCost | None = None
    """steps, tokens, seconds and FLOPs of the training; None where nothing was trained"""
    artefacts: Annotated[dict[str, dict[str, Any]], read_as(Artefacts)] = Field(
        default_factory=dict
    )
    """what the program prepared: key, hash of the weights, cost"""
    weights: str | None = None
    """sha256 of the deployed weights"""
    answers: str | None = None
    """sha256 of the ``.npz`` file with the answers (raw predictions and labels); None in older
    records, and where nothing was predicted"""
    code: Annotated[dict[str, Any], read_as(RecordCode)] = Field(default_factory=dict)
    """version of the package, commit, whether files were edited after it, and hashes of the code"""
    env: Annotated[dict[str, Any], read_as(Known)] = Field(default_factory=dict)
    """Python, libraries, processor, cores and device"""
    started: str
    """time at which the attempt began, with its time zone"""
    finished: str
    """time at which it ended"""
    rescored: str | None = None
    """time at which other metrics were computed from its answers; None where the attempt computed
    all of its scores"""
    error: Failure | None = None
    """type, message and traceback of a failed cell"""

    @property
    def row(self) -> str:
        """Its label, and the operating point where there are several: what groups, options and CSV
        files call it."""
        if self.point in POINTS_IN_8_BITS:
            return self.cell.label + PLUS_INT8
        return self.cell.label + (f" at {self.point}" if self.point else "")

    _drawn_as: str = PrivateAttr("")

    @property
    def drawn_as(self) -> str:
        """The name of the random draws of its row: a paper that calls the row something else has
        the same intervals."""
        return self._drawn_as or self.row

    @drawn_as.setter
    def drawn_as(self, row: str) -> None:
        self._drawn_as = row

    @property
    def called(self) -> str:
        """The row's name as tables print it: with what it has less than the paper that its method
        is named after."""
        given = self.cell.settings
        # pre-trained by others is not without pre-training
        lacks = {} if given.get("start_from") else stated(self.cell.method, "lacks") or {}
        said = [
            words for setting, (value, words) in lacks.items() if given.get(setting, value) == value
        ]
        return f"{self.row} ({', '.join(said)})" if said else self.row


def load(text: str | bytes, where: str) -> Record:
    """Parse one record; an older one, which does not describe its task, gets what is known of it.

    Args:
        where: what the message calls it.

    Raises:
        InputError: as :func:`parsed`, or finished without a score.
    """
    record = parsed(Record, text, where)
    if not record.task.metrics:
        facts = facts_of_older_record(record.cell.tasks, record.scores)
        record = record.model_copy(update={"task": facts})
    if wrong := _contradiction(record):
        raise InputError(f"{where}: {wrong}")
    return record


LARGEST_FACTOR = 1e30
"""The largest factor of a learning rate, so that the product is still a number."""


def _contradiction(record: Record) -> str:
    """Why fields of a record cannot be true together; "" where they can."""
    cell = record.cell
    if len(cell.tasks) != 1:
        return f"cell.tasks: it is of {len(cell.tasks)} tasks, and a record is of one"
    if "train" not in cell.data.rows:
        return "cell.data.rows does not say how many training rows there were"
    if cell.method == PREDICTIONS and not isinstance(cell.settings.get("seeded"), bool):
        return "cell.settings.seeded does not say whether the predictions are of a seed"
    # tables name the learning rate with its factor
    factor = stated(cell.method, "rate_factor")
    value = cell.settings.get(factor, 1.0) if isinstance(factor, str) else 1.0
    if not isinstance(value, int | float) or not 0 <= value <= LARGEST_FACTOR:
        return f"cell.settings.{factor} multiplies the learning rate, and {value!r} cannot"
    if wrong := _wrong_task(record.task):
        return wrong
    return _wrong_scores(record) if record.status == "ok" else ""


def _wrong_task(task: TaskFacts) -> str:
    """Why no task can be as it is described; "" where one can."""
    from bench.stats.form import CLASSES, FORMS

    if task.form and task.form not in FORMS:
        return f"task.form: {task.form!r} is not one of {', '.join(FORMS)}"
    if task.form == CLASSES.name and task.labels is not None and len(set(task.labels)) < 2:
        return "task.labels names no two classes"
    return ""


def _wrong_scores(record: Record) -> str:
    """Why the scores of a finished record are not complete; "" where they are."""
    if not (record.scores or record.predicted):
        return "it is finished and has neither scores nor predictions"
    for name in (*record.scores, *record.predicted):
        if name not in record.cell.data.evaluation:
            return f"cell.data.evaluation does not name the evaluation set {name!r}"
    for name, scores in record.scores.items():
        metrics = record.task.metrics
        if not scores or not set(metrics) <= scores.keys():
            return f"scores.{name} has no {', '.join(metrics) or 'metric'}"
    return ""


def parsed(form: type[Form], text: str | bytes, where: str) -> Form:
    """A file of ours, if it has this form.

    Raises:
        InputError: no JSON, or the first field that does not fit: also a number that is infinite or
            NaN.
    """
    try:
        return form.model_validate_json(text, strict=True)
    except ValidationError as error:
        fault = error
    first = fault.errors()[0]
    newer = first["type"] == "extra_forbidden" or first["loc"] == ("schema_version",)
    what_to_do = "; a newer version wrote it: update the package" if newer else ""
    raise InputError(f"{where}: {first_fault(fault)}{what_to_do}")


def first_fault(error: ValidationError) -> str:
    """The first field that does not fit, and why, in one line."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    said = first["msg"].removeprefix("Value error, ")
    return f"{place}: {said}" if place else said
