"""What a plan consists of: tasks, artefacts, cells and the steps that make them; other files fill
it in.

All of it can be pickled: a step travels to whoever makes it, on this machine or another one, and
nobody plans twice. It carries its tasks, the teacher's configuration and the objects of its
methods. Texts and weights do not travel. They are read where they are needed, and texts are
compared with the fingerprint that the plan has of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.cache import Slot
from bench.errors import InputError
from bench.plan.spelling import MethodRow, parse_rows
from bench.progress import duration
from bench.record.cell import (
    Cell,
    DataIdentity,
    NumericIdentity,
    TeacherIdentity,
    record_key,
    train_key,
)
from bench.record.code import ARTEFACT, AUGMENTATION, TEACHER, digest_of, student_modules
from bench.record.keys import SCHEMA, digest
from bench.record.recipe import Recipe
from bench.record.task_facts import shown_task
from bench.request import Request

if TYPE_CHECKING:
    from torch import Tensor

    from bench.data.augmentation import Augmentation
    from bench.data.checkpoints import Checkpoint
    from bench.data.corpus import Corpus
    from bench.data.predictions import Predictions
    from bench.data.sources import DataSource
    from bench.data.table_files import Split
    from bench.data.target_scale import TargetScale
    from bench.data.tasks import Task
    from bench.record.schema import Record
    from methods.api import Setup, Stage, Taps
    from methods.core.artefacts import Artefact, Source

TEACHER_VERSION = 1
TEACHER_STEP = "teacher"
AUGMENTATION_STEP = "augmentation"
ARTEFACT_STEP = "artefact"
OUTPUTS_STEP = "teacher outputs"
"""Kinds of steps that make one folder of the cache."""
SCORE_STEP = "score"
STUDENTS_STEP = "students"
"""Kinds of steps that make records: a model that is there is scored, or students are trained and
scored."""


@dataclass
class TaskPlan:
    """One task: its examples and its teacher."""

    # the task, and where its examples come from
    task: Task
    source: DataSource
    rule: str
    """which development rows choose the epoch that is shipped: none, ``dev`` or ``half``"""

    # the teacher
    checkpoint: Checkpoint
    tokenizer: str
    """sha256 of what decides the teacher's token ids"""
    teacher: TeacherIdentity
    teacher_recipe: Recipe

    # how its students are trained
    numeric: NumericIdentity
    recipe: Recipe
    mean_tokens: float
    """tokens of a mean training example"""

    # what identifies the examples
    data: DataIdentity
    """what students are trained on and scored with"""
    unaugmented_data: DataIdentity
    """the same before augmentation: what teachers are tuned on"""
    revisions: dict[str, str] = field(default_factory=dict)
    """what was read of the hub -> its commit"""
    scale: TargetScale | None = None
    """how the targets that are trained on are standardised; None where they are not"""
    teacher_seed: int = 0
    """of the fine-tuning of the teacher that its students learn from"""
    accepts_suspect_teacher: bool = False
    """whether students learn from a tuned teacher whose labels seem to be in another order"""

    # further training rows, and kept outputs of the teacher
    augmentation: Augmentation | None = None
    augmentation_identity: dict[str, Any] = field(default_factory=dict)
    """plain values whose hash is the key of the augmented rows"""
    masked_head: ArtefactPlan | None = None
    """the masked-language head that augmentation asks"""
    outputs: OutputsPlan | None = None
    """the teacher's outputs that are kept in a file; None where the teacher answers in every
    step"""

    @property
    def name(self) -> str:
        """The name of the task in keys and commands."""
        return self.task.name

    @property
    def shown(self) -> str:
        """The task as people see it."""
        return shown_task(self.name, self.data.slug)

    def cell(self, **fields: Any) -> Cell:
        """A cell on this task with these further fields, which may replace those of the task."""
        of_task = {
            "tasks": (self.name,),
            "data": self.data,
            "teacher": self.teacher,
            "tokenizer": self.tokenizer,
            "numeric": self.numeric,
            "seed": 0,
        }
        return Cell(**{**of_task, **fields})

    def load(self, name: str, wanted: Any) -> Split:
        """The examples of ``train`` or of an evaluation set.

        Raises:
            InputError: they are not those that were planned.
        """
        planned = self.unaugmented_data
        split = self.source.load(self.task, wanted)
        if name == "train":
            fingerprint = planned.train
            # limited and standardised as planned, before it is compared
            split = split.limited(planned.max_train_rows, self.task.draws_by_class)
            if self.scale is not None:
                split = self.scale.of_split(split)
        else:
            fingerprint = planned.evaluation[name]
        # a file may have changed since the plan was made
        if split.fingerprint() != fingerprint:
            raise InputError(
                f"{self.shown}: the examples of {name} have changed since this run began; start it "
                "again"
            )
        return split

    @cached_property
    def train(self) -> Split:
        """The training rows as they come, with standardised targets where the plan has a scale."""
        return self.load("train", "train")

    @cached_property
    def evaluation(self) -> dict[str, Split]:
        """Name of each evaluation set -> its examples."""
        named = {each.name: each for each in self.task.evaluation}
        return {name: self.load(name, named[name]) for name in self.data.evaluation}

    @cached_property
    def selection_split(self) -> Split | None:
        """The rows that choose which epoch of a student is shipped; None for the last."""
        if not self.rule:
            return None
        labelled = next(each for each in self.task.evaluation if each.labelled)
        if self.rule == "dev":
            return self.evaluation[labelled.name]
        # the other half is what this source gives as the evaluation set
        both = self.source.source.load(self.task, labelled)  # type: ignore[attr-defined]
        return both.halves()[0]

    def __getstate__(self) -> dict[str, Any]:
        # texts do not travel: they are read again where they are needed
        texts = ("train", "evaluation", "selection_split")
        return {name: value for name, value in vars(self).items() if name not in texts}

    @property
    def training_rows(self) -> int:
        """Examples of one epoch, with the augmented ones; at most, as duplicates are dropped."""
        times = self.augmentation.times if self.augmentation else 0
        return self.data.rows["train"] * (1 + times)

    def tuning_seed(self, member: int) -> int:
        """The seed of the teacher that a method asks for: of 0 it is the one that students learn
        from, others are further members of an ensemble."""
        return member or self.teacher_seed

    def teacher_slot(self, seed: int) -> Slot:
        """Where the teacher tuned with this seed is kept."""
        identity = {
            "schema": SCHEMA,
            "version": TEACHER_VERSION,
            "base": self.checkpoint.sha256,
            "task": self.name,
            "labels": self.task.num_labels,
            "data": self.unaugmented_data.train,
            "recipe": self.teacher_recipe.as_dict(),
            "seed": seed,
            "numeric": self.numeric.identity(),
        }
        title = f"teacher of {self.shown}"
        if seed:
            title += f", seed {seed}"
        # the tokenizer is said besides, and is no part of the key
        said = identity | {"tokenizer": self.tokenizer}
        return Slot("teachers", digest(identity), TEACHER, title, said)

    @property
    def augmentation_slot(self) -> Slot:
        """Where the augmented rows are kept."""
        title = f"augmented rows of {self.shown}"
        return Slot("augmented", self.data.train, AUGMENTATION, title, self.augmentation_identity)


@dataclass(frozen=True)
class OutputsPlan:
    """The outputs of one task's teacher that are kept in a file."""

    slot: Slot
    number_format: str
    """fp32 or fp16"""
    taps: Taps
    """all that the students of the plan read of it"""
    disk_bytes: int
    """bytes of the file, estimated from the lengths of some examples"""


class Text(NamedTuple):
    """The unlabelled text of an artefact, and how a student is trained on it."""

    corpus: Corpus
    budget: int
    """tokens that are read, over all passes"""
    recipe: Recipe

    def for_record(self) -> dict[str, Any]:
        """The files or tasks, and how many tokens of them, that something is made from."""
        body: dict[str, Any] = {"files": list(self.corpus.files), "tokens": self.budget}
        if self.corpus.tasks:
            body["training_texts_of"] = list(self.corpus.tasks)
        return body


@dataclass
class ArtefactPlan:
    """One artefact of a plan, with the plans of all that it is made from."""

    artefact: Artefact
    key: str
    checkpoint: Checkpoint
    task: TaskPlan | None
    """None for what all tasks share"""
    sources: dict[Source, Any] = field(default_factory=dict)
    """what it is made from directly, but for other artefacts -> plain values that identify it: a
    hash, or several by name"""
    parts: dict[str, ArtefactPlan] = field(default_factory=dict)
    """the artefacts that it is made from directly, by name"""
    text: Text | None = None
    """where the corpus is among the inputs"""
    kernels: str = ""
    """``fast`` where faster kernels compute that training; "" for the usual ones"""
    seed: int = 0
    """of its training, where it is trained"""
    identity: dict[str, Any] = field(default_factory=dict)
    """what its key is the hash of"""

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Through which a student is trained on the text."""
        return tuple(self.artefact.stages(self.setup({}))) if self.text is not None else ()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "stages"}

    @property
    def slot(self) -> Slot:
        """Its place in the cache."""
        made_by = (*ARTEFACT, type(self.artefact).__module__)
        return Slot(
            "starts" if self.task is None else "computed",
            self.key,
            made_by,
            self.title,
            self.identity,
        )

    @property
    def title(self) -> str:
        of_seed = f", seed {self.seed}" if self.seed else ""
        if self.task is None:
            return self.artefact.title(self.key) + of_seed
        return f"{self.artefact.words} of {self.task.shown}{of_seed}"

    @property
    def teacher_seeds(self) -> list[int]:
        """The seeds of the fine-tuned teachers that it is made from directly."""
        return [source.seed for source in self.sources if source.kind == "fine_tuned"]

    @property
    def reads_rows(self) -> bool:
        """Whether it is made from a task's examples."""
        return any(source.kind in ("train", "evaluation") for source in self.sources)

    def setup(self, artefacts: Mapping[str, Mapping[str, Tensor]]) -> Setup:
        """The setup that it receives: the task's form, or two labels and no task for what all
        tasks share."""
        from methods.api import Setup

        if self.task is None:
            return Setup(self.checkpoint.config, 2, (), artefacts)
        task = self.task.task
        return Setup(
            self.checkpoint.config, task.num_labels, (task.name,), artefacts, spans=task.spans
        )


def with_parts(entries: Iterable[ArtefactPlan]) -> list[ArtefactPlan]:
    """These artefacts and all that they are made from, each once; what one is made from stands
    before it."""
    listed: dict[int, ArtefactPlan] = {}
    for entry in entries:
        for part in (*with_parts(entry.parts.values()), entry):
            listed.setdefault(id(part), part)
    return list(listed.values())


def spelling_of_row(row: MethodRow | Checkpoint | Predictions | None) -> str:
    """How a row is typed, one that is trained or a finished one; "" for the teacher."""
    if row is None:
        return ""
    return row.spelling if isinstance(row, MethodRow) else row.asked


@dataclass
class Planned:
    """One cell and what the store knows of it."""

    cell: Cell
    row: MethodRow | Checkpoint | Predictions | None
    """what is trained, or a finished classifier or its answers, which are scored; None for the
    teacher"""
    record: Record | None
    is_todo: bool
    code_state: str = ""
    """whether today's code made the record: current, stale or unknown; "" without a finished
    record"""
    artefacts: tuple[ArtefactPlan, ...] = ()
    """those that its method asks for on this task, in the method's order"""
    in_8_bits: bool = False
    """whether its model is scored in 8 bits too"""
    own_task: TaskPlan | None = None
    """its task as this row and seed have it, where that is not the plan's: with an encoder of the
    row's own, or a teacher of the seed's own"""
    has_full_record: bool = False
    """whether its record is there and stays: then of a cell to do only the score in 8 bits is
    missing"""
    rescored_by: tuple[str, ...] = ()
    """metrics by which the stored answers are scored again; none where they have these scores"""
    needs: tuple[str, ...] = ()
    """keys of the steps that make what it reads"""

    @cached_property
    def key(self) -> str:
        """The key of the cell's record."""
        return record_key(self.cell)

    @cached_property
    def train_key(self) -> str:
        """The key of its training, which the cells of a student of several tasks share."""
        return train_key(self.cell)

    def as_learned(self, task: TaskPlan) -> TaskPlan:
        """A task of the plan as this cell has it."""
        return self.own_task or task

    @property
    def is_trained(self) -> bool:
        """Whether it is a student that is trained here; else a model that is there is scored."""
        return isinstance(self.row, MethodRow)

    @property
    def reads_teacher(self) -> bool:
        """Whether the fine-tuned teacher is needed to make it."""
        return self.row is None or (
            isinstance(self.row, MethodRow) and self.row.method.needs_teacher
        )

    @property
    def needs_live_teacher(self) -> bool:
        """Whether the teacher answers while it is trained: not where its outputs are read from a
        file."""
        return self.is_trained and self.reads_teacher and not self.cell.teacher_outputs

    @property
    def spelling(self) -> str:
        """How its row is typed; "" for the teacher's own cell."""
        return spelling_of_row(self.row)


Student = tuple[Planned, ...]


@dataclass(frozen=True)
class Step:
    """One piece of work, done in one process: a folder of the cache, or records of some cells."""

    # what it is
    kind: str
    key: str
    title: str
    """for people"""

    # what it reads and makes
    tasks: tuple[TaskPlan, ...] = ()
    """the tasks whose examples it reads"""
    slot: Slot | None = None
    """the folder that it makes; None where it makes records"""
    needs: tuple[str, ...] = ()
    """keys of the steps that make what it reads"""

    # what is only of steps of one kind
    artefact: ArtefactPlan | None = None
    """the artefact that it makes"""
    seed: int = 0
    """the seed of the teacher that it tunes"""
    method: str = ""
    """the method of the first row that wants a folder, for messages"""
    students: tuple[Student, ...] = ()
    """students, or a model that is scored, as their cells: one for each task"""

    # what the schedule knows of it
    deaths: int = 0
    """how often a process that made it was ended"""
    from_scratch: bool = False
    """whether what an earlier run left of these trainings is thrown away"""
    code: str = ""
    """digest of the code that makes it, in the process that begins it: whoever makes it has the
    same"""

    @property
    def code_here(self) -> str:
        """The digest of this process's own code; "" where some of it cannot be read."""
        if self.slot is not None:
            return digest_of(self.slot.code)
        trained = {planned.cell.method for planned in self.cells if planned.is_trained}
        return digest([digest_of(student_modules(method)) for method in sorted(trained)])

    @property
    def task(self) -> str:
        """The one task whose examples and teacher it reads; "" for none or several."""
        return self.tasks[0].name if len(self.tasks) == 1 else ""

    @property
    def cells(self) -> list[Planned]:
        """The cells whose records it makes."""
        return [planned for student in self.students for planned in student]

    def for_students(self, students: Sequence[Student]) -> Step:
        """The same step for these students, or some of its own."""
        # each need once, in the order in which they are asked for
        needs: dict[str, None] = {}
        keys = []
        for student in students:
            keys.append([planned.key for planned in student])
            for planned in student:
                needs |= dict.fromkeys(planned.needs)
        return replace(self, key=digest(keys), students=tuple(students), needs=tuple(needs))


@dataclass(frozen=True)
class Cost:
    """The estimated time, memory and disk of a step."""

    seconds: float = 0.0
    memory: int = 0
    """bytes of the process that makes it, at its peak"""
    on_card: int = 0
    """bytes of them that lie on an accelerator, where the device is one"""
    disk: int = 0
    """bytes"""


def wall_seconds(
    steps: Iterable[Step], seconds: Mapping[str, float], jobs: int, slowed: Mapping[int, float]
) -> float:
    """How long steps take from begin to end, if each job that is free begins the first one that
    waits for nothing.

    Args:
        seconds: key of a step -> what it takes by itself; a step without them is made already.
        jobs: at a time.
        slowed: so many at a time -> how many times longer each takes.
    """
    # of each step that is to do, those before it that are to do too
    waiting = {step.key: set(step.needs) & seconds.keys() for step in steps if step.key in seconds}
    running = dict[str, float]()
    now = 0.0
    while waiting or running:
        # free jobs begin, in the order of the plan, what waits for nothing
        ready = [key for key, needs in waiting.items() if not needs]
        for key in ready[: max(1, jobs) - len(running)]:
            running[key] = seconds[key]
            del waiting[key]
        # what waits for a step that nobody makes never begins
        if not running:
            break
        # the clock goes on to the first one that ends, slower where jobs share an accelerator
        done = min(running, key=lambda key: running[key])
        passed = running.pop(done)
        now += passed * slowed.get(len(running) + 1, 1.0)
        running = {key: left - passed for key, left in running.items()}
        for needs in waiting.values():
            needs.discard(done)
    return now


@dataclass(repr=False)
class Plan:
    """All cells of a request: which have a record, which are to do, and the steps that make
    them."""

    # what was asked for, and what it comes to
    request: Request
    tasks: list[TaskPlan]
    artefacts: list[ArtefactPlan]
    """all that the rows ask for; what one is made from stands before it"""
    cells: list[Planned]
    notes: list[str] = field(default_factory=list)
    """for a reader, a line each"""

    # the work
    steps: dict[str, Step] = field(default_factory=dict)
    """all that the cells to do are made by, also steps whose folder is there, in the order in
    which one process makes them"""
    costs: dict[str, Cost] = field(default_factory=dict)
    """what the steps that are to do take, by their keys"""

    # what other code made
    stale: list[Slot] = field(default_factory=list)
    """what the cells to do would take from the cache although other code made it"""
    other_code: str = ""
    """for a reader: what of the plan was not made by today's code; "" for nothing"""

    # how the work is divided
    jobs_description: str = ""
    """for a reader: how the work is divided among several jobs"""
    slowed: dict[int, float] = field(default_factory=dict)
    """so many jobs at a time -> how many times longer each of their steps takes, because they
    share an accelerator"""
    afterwards: dict[str, float] = field(default_factory=dict)
    """what a caller does when all this is made -> its seconds, which the estimate has too"""
    wanted: frozenset[str] = frozenset()
    """keys of the steps whose folders are wanted for themselves, and not for a cell to do"""

    def __repr__(self) -> str:
        todo = f"{len(self.todo)} to do"
        return f"<Plan: {len(self.cells)} cells, {todo}, about {duration(self.seconds)}>"

    def is_there(self, slot: Slot) -> bool:
        """Whether something is in the cache and will be used."""
        return slot.is_made and not (self.request.rerun_stale and slot in self.stale)

    @property
    def todo(self) -> list[Planned]:
        """The cells that are to do."""
        return [planned for planned in self.cells if planned.is_todo]

    @cached_property
    def todo_steps(self) -> list[Step]:
        """The steps that are to do: those that make records, and what they need and the cache
        has not."""
        wanted = set(self.wanted)
        # whoever needs a step stands behind it
        for step in reversed(self.steps.values()):
            if step.slot is None or (step.key in wanted and not self.is_there(step.slot)):
                wanted |= {step.key, *step.needs}
            else:
                wanted.discard(step.key)
        return [step for step in self.steps.values() if step.key in wanted]

    @property
    def work_seconds(self) -> float:
        """Seconds of all work together; of several steps at a time more than from begin to end."""
        return sum(cost.seconds for cost in self.costs.values()) + sum(self.afterwards.values())

    def memory_of(self, step: Step) -> int:
        """Bytes of the process that makes a step, or a part of one."""
        if step.key in self.costs:
            return self.costs[step.key].memory
        # a part: its students are among those of a planned step
        first = step.cells[0]
        whole = next(other for other in self.steps.values() if first in other.cells)
        return self.costs[whole.key].memory

    @property
    def seconds(self) -> float:
        """Seconds from begin to end, if each free job begins the first step that waits for
        nothing, and what is done afterwards is done in this process."""
        seconds = {key: cost.seconds for key, cost in self.costs.items()}
        steps = wall_seconds(self.todo_steps, seconds, self.request.jobs, self.slowed)
        return steps + sum(self.afterwards.values())

    @property
    def disk_bytes(self) -> int:
        """Bytes that are kept on disk."""
        return sum(cost.disk for cost in self.costs.values())

    @property
    def labels(self) -> list[str]:
        """The labels of the rows, in the order in which they were typed; without the teacher's."""
        labels = {planned.spelling: planned.cell.label for planned in self.cells}
        typed = parse_rows(self.request.methods).spellings
        return [labels[spelling] for spelling in typed if spelling in labels]

    def cells_of(self, task: str) -> list[Planned]:
        """The cells on this task alone."""
        return [planned for planned in self.cells if planned.cell.tasks == (task,)]
