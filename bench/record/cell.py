"""A cell: one question. Its training's key is the hash of what determines the weights; its record's
key also covers what is scored."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from bench.record.free_parts import Count, Positive, RecipeNumbers, check_settings, read_as
from bench.record.keys import SCHEMA, digest
from bench.record.varied import VARIED_TEACHER, Source

TEACHER = "teacher"
"""The reserved name of the row of the teacher itself, which is scored and not trained as a
student."""
CHECKPOINT = "checkpoint"
"""The reserved name of rows that are finished classifiers: ``checkpoint:FOLDER``."""
PREDICTIONS = "predictions"
"""The reserved name of rows that are somebody else's answers: ``predictions:FOLDER``."""
FINISHED = (CHECKPOINT, PREDICTIONS)
"""Rows that are scored and not trained; a folder, which no record names, has them."""
IN_8_BITS = "int8-2"
"""The operating point of any row, and of the teacher, in 8 bits: linear layers and embeddings."""
LINEAR_IN_8_BITS = "int8"
"""The operating point of older records in 8 bits, which is read and no longer made: its embeddings
are in fp32."""
POINTS_IN_8_BITS = (IN_8_BITS, LINEAR_IN_8_BITS)
LINEAR_ONLY = "8 bits in linear layers only"
"""The words for records at :data:`LINEAR_IN_8_BITS`."""
PLUS_INT8 = "+int8"
"""The ending of a row in 8 bits as it is typed and printed: ``kd+int8``."""
ONNX_INT8 = "onnx-int8"
"""The backend that times a model in 8 bits, and the form in which it is exported."""


def split_row(row: str) -> tuple[str, list[str]]:
    """The method of a row as it is typed, and what stands behind it: ``kd:alpha=1`` -> ``kd``,
    ``[alpha=1]``.

    A class in a file of one's own is called by module and class, ``mine:Mine:layers=2``: its name
    begins with a capital.
    """
    name, *parts = row.split(":")
    if parts and name not in FINISHED and parts[0][:1].isupper():
        return f"{name}:{parts[0]}", parts[1:]
    return name, parts


class Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        defer_build=True,  # many verbs read no record
    )


class DataIdentity(Frozen):
    """Which examples. Names are for people; fingerprints (of the content) are identity."""

    name: str
    slug: str
    train: str
    """sha256 of the training rows that are used, after the row limit"""
    max_train_rows: Positive | None = None
    """that limit, where it left rows out"""
    evaluation: dict[str, str]
    """sha256 of each evaluation set"""
    rows: dict[str, Count]
    """examples of each split, for people"""
    task_file: str = ""
    """name of the file that says what a task of one's own is, for people; "" for GLUE's and in
    older records"""


class TeacherIdentity(Frozen):
    """Which teacher. ``base`` is the hash of weights given from outside; ``key`` that of what was
    made of them."""

    name: str
    base: str
    origin: str
    """``fine-tuned`` by the harness, or ``given`` as it is"""
    key: str


class Partner(Frozen):
    """One of the tasks that a student learns together."""

    task: str
    train: str
    """sha256 of its training rows"""
    max_train_rows: Positive | None = None
    teacher: str
    """key of its teacher"""


class Trial(Frozen):
    """One row that a search tried."""

    row: str
    score: Annotated[float, Field(ge=-100, le=100)] | None
    """percent on the rows held back; None where it failed"""


TOO_FEW = "too few held-out examples to tell any difference"


class Search(Frozen):
    """How a row's settings were chosen: trials on training rows held back, with a teacher that has
    not seen them."""

    of: str
    """the row that was searched"""
    metric: str
    held_back: str
    """sha256 of the rows held back"""
    trials: tuple[Trial, ...]
    settings: tuple[str, ...] = ()
    """those that could vary in this row, if settings were named"""
    seed: int = 0
    """of the trials"""
    each_seed: bool = False
    """whether each seed of the row has a search of its own, with other rows held back"""
    examples: int | None = None
    """held-out examples that scored the trials, for people; None in older records"""
    too_few: bool = False
    """whether these are too few to tell any difference between trials, for people"""

    @field_validator("trials")
    @classmethod
    def _one_has_a_score(cls, trials: tuple[Trial, ...]) -> tuple[Trial, ...]:
        if all(trial.score is None for trial in trials):
            raise ValueError("no trial has a score")
        return trials

    @property
    def best(self) -> Trial:
        """The trial of the highest score; of equal ones the first tried."""
        return max((t for t in self.trials if t.score is not None), key=lambda t: t.score or 0.0)

    def identity(self) -> dict[str, Any]:
        """The part of a record's key; what is said of the held-out rows for people is no part."""
        return self.model_dump(exclude_defaults=True, exclude={"examples", "too_few"})

    def describe(self) -> str:
        """For a reader of the row: what was tried, with its score on the rows held back."""
        scores = ", ".join(
            f"{t.row} {'failed' if t.score is None else f'{t.score:.1f}'}" for t in self.trials
        )
        warning = f" ({self.examples} examples, {TOO_FEW})" if self.too_few else ""
        return (
            f"chosen among {len(self.trials)} by {self.metric} on a tenth of the training rows, "
            f"held back{warning}: {scores}"
        )


class Varied(Frozen):
    """The things that were drawn anew with each seed of a row, besides its students.

    The keys of seed 0 say which seeds belong together: those of their own teachers and starts
    differ.
    """

    sources: tuple[Source, ...]
    """a teacher, or what students begin with where that is trained"""
    teacher: str
    """key of the teacher as seed 0 has it"""
    artefacts: dict[str, str] = Field(default_factory=dict)
    """keys of what was prepared, as seed 0 has it"""


class Selection(Frozen):
    """Which rows chose the epoch whose weights are shipped."""

    rule: str
    """``dev``: the rows that are scored too; ``half``: the half of them that is not"""
    rows: dict[str, str]
    """task -> sha256 of the rows that chose"""

    def describe(self) -> str:
        """For a reader of the row."""
        if self.rule == "dev":
            return (
                "the epoch whose weights are shipped was chosen on the very rows that are scored: "
                "its score is too high by what the choice gains"
            )
        return (
            "the epoch whose weights are shipped was chosen on the other half of the development "
            "rows"
        )


class NumericIdentity(Frozen):
    """The conditions that change the arithmetic without changing the question."""

    precision: str = "fp32"
    attention: str = "packed"
    threads: Positive = 2
    device: str = "cpu"
    """kind of device: cpu, cuda, mps ..."""
    deterministic: bool = False
    """on an accelerator: whether only kernels were taken that give the same bits each time. A CPU
    gives them anyway"""

    def identity(self) -> dict[str, Any]:
        """As keys have it: without what is usual of device and kernels, so that keys made before
        they were known stay."""
        usual = {"device": "cpu", "deterministic": False}
        return {
            name: value
            for name, value in self.model_dump().items()
            if name not in usual or value != usual[name]
        }


class Cell(Frozen):
    """One training: method x settings x dropped terms x tasks x data x teacher x recipe x seed."""

    label: Annotated[str, Field(min_length=1)]
    """the row's name in a table; not part of the key"""
    method: Annotated[str, Field(min_length=1)]
    """its name"""
    version: Count
    """of the method; a higher one gives new keys"""
    settings: Annotated[dict[str, Any], AfterValidator(check_settings)]
    """all of them, defaults filled in"""
    dropped: tuple[str, ...] = ()
    """loss terms that were left out"""
    ablation_of: str | None = None
    """for a row ``w/o X``: the spelling of the full row; not part of the key"""
    tasks: tuple[str, ...]
    """the one task that is scored, as a list of one name. Tasks that are learned together are in
    ``together``"""
    data: DataIdentity
    """which examples: names for people, hashes of the content, numbers of examples"""
    teacher: TeacherIdentity
    """which teacher: its name, the hash of its checkpoint, how it was made, its key"""
    tokenizer: str
    """sha256 of its vocabulary and rules"""
    artefacts: dict[str, str] = Field(default_factory=dict)
    """keys of what was prepared, for example ``general_start``"""
    recipe: Annotated[dict[str, Any], read_as(RecipeNumbers)]
    """numbers of the training: epochs, batch size, learning rate, schedule"""
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    """of all random draws of the training"""
    numeric: NumericIdentity
    """precision, attention, number of threads, device and its kernels"""
    together: tuple[Partner, ...] = ()
    """all tasks of a student that learns several; ``tasks`` is then the one that was scored"""
    selection: Selection | None = None
    """how the scored epoch was chosen; None for the last"""
    search: Search | None = None
    """the search that chose the settings; None without one. It is a part of ``key``, not of
    ``train_key``"""
    teacher_outputs: str = ""
    """``fp32`` or ``fp16`` where the student read its teacher's outputs from a file; "" where the
    teacher's forward pass ran in every step"""
    kernels: str = ""
    """``fast`` if the training used faster kernels, whose results differ in the last digits; "" for
    the usual kernels"""
    varied: Varied | None = None
    """what was drawn anew with the seed besides the student; None where one teacher and one start
    serve all seeds. It is a part of ``key``, not of ``train_key``"""

    def varies(self, source: str) -> bool:
        """Whether each seed of its row has its own teacher, or its own start."""
        return self.varied is not None and source in self.varied.sources

    @property
    def row_limit(self) -> int | None:
        """The limit of training rows that it takes to plan this cell again; of tasks learned
        together, for all of them."""
        limits = [partner.max_train_rows for partner in self.together] or [self.data.max_train_rows]
        return next((limit for limit in limits if limit), None)


def is_one_model(cell: Cell) -> bool:
    """Whether a row is one model for all seeds: a teacher that serves them all, a finished
    checkpoint, or predictions of no named seed."""
    if cell.method == TEACHER:
        return not cell.varies(VARIED_TEACHER)
    return cell.method == CHECKPOINT or (cell.method == PREDICTIONS and not cell.settings["seeded"])


def training_identity(cell: Cell) -> dict[str, Any]:
    """The content of a training's key, which determines the trained weights: plain values, of which
    :func:`train_key` is the hash."""
    learned: dict[str, Any] = {
        "tasks": cell.tasks,
        "data": cell.data.train,
        "max_train_rows": cell.data.max_train_rows,
        "teacher": {"base": cell.teacher.base, "key": cell.teacher.key},
    }
    if cell.together:
        learned = {"together": [partner.model_dump() for partner in cell.together]}
    if cell.selection is not None:
        learned["selection"] = cell.selection.model_dump()
    if cell.teacher_outputs:
        learned["teacher_outputs"] = cell.teacher_outputs
    if cell.kernels:
        learned["kernels"] = cell.kernels
    return {
        "schema": SCHEMA,
        "method": cell.method,
        "version": cell.version,
        "settings": cell.settings,
        "dropped": sorted(cell.dropped),
        **learned,
        "tokenizer": cell.tokenizer,
        "artefacts": cell.artefacts,
        "recipe": cell.recipe,
        "seed": cell.seed,
        "numeric": cell.numeric.identity(),
    }


def scoring_identity(cell: Cell, point: str = "") -> dict[str, Any]:
    """The content of a record's key besides its training: operating point and evaluation sets; of a
    student of several tasks also which one is scored; of a row whose settings were searched for
    also the search; and what was drawn anew with the seed."""
    scored: dict[str, Any] = {"tasks": cell.tasks} if cell.together else {}
    if cell.search is not None:
        scored["search"] = cell.search.identity()
    if cell.varied is not None:
        scored["varied"] = cell.varied.model_dump()
    return {"point": point, "evaluation": cell.data.evaluation, **scored}


def train_key(cell: Cell) -> str:
    """The same from a cell about to run and from one read back from a record."""
    return digest(training_identity(cell))


def record_key(cell: Cell, point: str = "") -> str:
    """Hash of the train key and of :func:`scoring_identity`."""
    return digest({"train": train_key(cell), **scoring_identity(cell, point)})
