"""What the rows of a plan ask for: each artefact with its key, and what it is made from, known before it is made.

The keys of its inputs are found here; ``bench/artefacts/make.py`` finds the inputs themselves when an artefact is made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bench.cache import Slot
from bench.errors import InputError
from bench.optimizers import refusal
from bench.plan.request import FAST, Request
from bench.record.cell import NumericIdentity
from bench.record.code import ARTEFACT
from bench.record.keys import SCHEMA, digest
from bench.record.recipe import (
    PAPER,
    PAPER_START,
    START,
    Recipe,
    optimizers_of_stages,
    without_epochs,
)

if TYPE_CHECKING:
    from torch import Tensor

    from bench.data.checkpoints import Checkpoint
    from bench.data.corpus import Corpus
    from bench.plan.tasks import TaskPlan
    from methods.api import Setup, Stage
    from methods.artefacts import Artefact, Identity, Source

CORPUS_VERSION = 1
DEFAULT_SAMPLE_BUDGET, DEFAULT_CORPUS_BUDGET = 200_000, 4_000_000
"""Text that is read of the sample suite's sentences and of a corpus, unless --corpus-tokens says else."""


@dataclass(frozen=True)
class ArtefactContext:
    """The teacher's checkpoint, and the task that something is asked for; None where no task is known."""

    checkpoint: Checkpoint
    tokenizer: str
    """sha256 of what decides its token ids"""
    numeric: NumericIdentity
    task: TaskPlan | None = None


@dataclass(frozen=True)
class Text:
    """The unlabelled text of an artefact, and how a student is trained on it."""

    corpus: Corpus
    budget: int
    recipe: Recipe


@dataclass(frozen=True)
class Input:
    """One thing that an artefact is made from."""

    what: Artefact | Source
    label: str
    key: Any
    """plain values that identify it: a hash, or several by name"""


@dataclass
class ArtefactPlan:
    """One artefact of a plan."""

    artefact: Artefact
    key: str
    checkpoint: Checkpoint
    task: TaskPlan | None
    """None for what all tasks share"""
    inputs: tuple[Input, ...]
    text: Text | None = None
    """where the corpus is among the inputs"""
    stages: tuple[Stage, ...] = ()
    """through which a student is trained on that text"""
    kernels: str = ""
    """``fast`` where faster kernels compute that training; "" for the usual ones"""
    identity: dict[str, Any] = field(default_factory=dict)
    """what its key is the hash of"""

    @property
    def is_kept(self) -> bool:
        """Whether it has a place in the cache; else it is a view of its one input."""
        return self.artefact.is_kept

    @property
    def slot(self) -> Slot:
        """Its place in the cache."""
        made_by = (*ARTEFACT, type(self.artefact).__module__)
        return Slot("starts" if self.task is None else "computed", self.key, made_by, self.title)

    @property
    def title(self) -> str:
        if self.task is None:
            return self.artefact.title(self.key)
        return f"{self.artefact.words} of {self.task.task.name}"

    @property
    def at_work(self) -> str:
        """What is said while it is made."""
        if self.task is not None:
            return f"{self.task.task.name}: {self.artefact.words}"
        return f"{self.title} from {self.text.corpus.name}" if self.text else self.title

    @property
    def own_tokens(self) -> int:
        """Tokens of the corpus that it reads, not counting those that it trains on."""
        assert self.text is not None
        most = self.artefact.corpus_tokens
        return self.text.budget if most is None else min(most, self.text.budget)

    @property
    def sources(self) -> list[Source]:
        """What it is made from directly, but for other artefacts."""
        from methods.artefacts import Source

        return [one.what for one in self.inputs if isinstance(one.what, Source)]

    @property
    def parts(self) -> list[Artefact]:
        """The artefacts that it is made from directly."""
        from methods.artefacts import Source

        return [one.what for one in self.inputs if not isinstance(one.what, Source)]

    @property
    def teacher_seeds(self) -> list[int]:
        """Of the fine-tuned teachers that it is made from directly."""
        return [source.seed for source in self.sources if source.kind == "fine_tuned"]

    @property
    def reads_training_rows(self) -> bool:
        return any(source.kind == "train" for source in self.sources)

    @property
    def reads_rows(self) -> bool:
        """Whether it is made from a task's examples."""
        return any(source.is_rows for source in self.sources)

    @property
    def teacher_count(self) -> int:
        """How many teachers it is made from directly."""
        return sum(source.is_teacher for source in self.sources)

    def setup(self, artefacts: Mapping[str, Mapping[str, Tensor]]) -> Setup:
        """What it receives: the task's form, or two labels and no task for what all tasks share."""
        from methods.api import Setup

        if self.task is None:
            return Setup(self.checkpoint.config, 2, (), artefacts)
        return Setup(self.checkpoint.config, self.task.task.num_labels, (self.task.task.name,), artefacts)


class ArtefactPlans:
    """Every artefact that the rows of a request ask for; what one is made from is entered before it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.entries: list[ArtefactPlan] = []
        self._by_artefact: dict[Artefact, list[ArtefactPlan]] = {}

    @property
    def kept(self) -> dict[str, ArtefactPlan]:
        """Those that have a place in the cache, by their keys."""
        return {entry.key: entry for entry in self.entries if entry.is_kept}

    def find(self, artefact: Artefact, checkpoint: Checkpoint, task: TaskPlan | None) -> ArtefactPlan | None:
        """The plan of an artefact for a task; None where nobody asked for it."""
        for entry in self._by_artefact.get(artefact, ()):
            of_this_task = entry.task is None or (task is not None and entry.task.task.name == task.task.name)
            if of_this_task and entry.checkpoint == checkpoint:
                return entry
        return None

    def parts_of(self, entry: ArtefactPlan) -> list[ArtefactPlan]:
        """The plans of the artefacts that it is made from directly."""
        found = [self.find(part, entry.checkpoint, entry.task) for part in entry.parts]
        return [part for part in found if part is not None]

    def with_inputs(self, entries: Iterable[ArtefactPlan]) -> list[ArtefactPlan]:
        """These and all that they are made from, each once, in the order in which they were planned."""
        taken = {id(one) for entry in entries for one in (entry, *self.with_inputs(self.parts_of(entry)))}
        return [entry for entry in self.entries if id(entry) in taken]

    def add(self, artefact: Artefact, context: ArtefactContext) -> ArtefactPlan:
        """The plan of an artefact; it and what it is made from are entered where they are not there.

        Raises:
            InputError: the corpus or a checkpoint cannot be read, or there are no such teachers.
            MethodError: a teacher of this form cannot be used.
        """
        from methods.artefacts import is_of_task

        config = context.checkpoint.config
        if not is_of_task(artefact, config):
            context = replace(context, task=None)
        elif context.task is None:
            raise InputError(f"{artefact.words}: it is made for a task, and none is given here")
        found = self.find(artefact, context.checkpoint, context.task)
        if found is None:
            found = self._planned(artefact, context)
            self.entries.append(found)
            self._by_artefact.setdefault(artefact, []).append(found)
        return found

    def _planned(self, artefact: Artefact, context: ArtefactContext) -> ArtefactPlan:
        inputs = tuple(self._input(one, artefact, context) for one in artefact.inputs(context.checkpoint.config))
        entry = ArtefactPlan(artefact, "", context.checkpoint, context.task, inputs)
        if "corpus" in {source.kind for source in entry.sources}:
            entry.stages = tuple(artefact.stages(entry.setup({})))
            entry.text = self._text(artefact, entry.stages, context.checkpoint)
        if not artefact.is_kept:
            entry.key = inputs[0].key
            return entry
        entry.kernels = FAST if entry.stages and self.request.kernels == FAST else ""
        entry.identity = dict(artefact.identity(self._identity(entry, context)))
        entry.identity |= {"kernels": entry.kernels} if entry.kernels else {}
        entry.key = digest(entry.identity)
        return entry

    @cached_property
    def corpus(self) -> Corpus:
        """The text of the request."""
        from bench.data.corpus import read_corpus

        return read_corpus(self.request.texts, self.budget, self.request.offline)

    @property
    def budget(self) -> int:
        """Tokens of that text that are read."""
        return self.request.corpus_tokens or (DEFAULT_CORPUS_BUDGET if self.request.texts else DEFAULT_SAMPLE_BUDGET)

    def _text(self, artefact: Artefact, stages: Collection[Stage], checkpoint: Checkpoint) -> Text:
        """Where no stage says anything of its paper's recipe, there is one artefact for both recipes."""
        recipe = replace(START, max_length=min(START.max_length, checkpoint.config.max_position_embeddings))
        said = self.request.recipe == PAPER and any(without_epochs(stage.paper) for stage in stages)
        return Text(self.corpus, self.budget, _paper_recipe(recipe, artefact, stages) if said else recipe)

    def _input(self, what: Artefact | Source, of: Artefact, context: ArtefactContext) -> Input:
        from methods.artefacts import Source

        if not isinstance(what, Source):
            return Input(what, what.name, self.add(what, context).key)
        return Input(what, what.label, self._key_of(what, of, context))

    def _key_of(self, source: Source, of: Artefact, context: ArtefactContext) -> Any:
        """What identifies something that is there before any artefact."""
        from bench.data.checkpoints import given_start

        task = context.task
        if source.kind == "base":
            return context.checkpoint.sha256
        if source.kind == "checkpoint":
            assert source.shape is not None
            return given_start(source.path, source.shape, context.checkpoint, self.request.offline).sha256
        if source.kind == "corpus":
            return self.corpus.fingerprint()
        assert task is not None, "the other sources are of a task"
        if source.kind == "train":
            return task.data.train
        if source.kind == "evaluation":
            return task.data.evaluation
        if source.seed and task.teacher.origin == "given":
            members = sum(one.kind == "fine_tuned" for one in _sources(of, context))
            raise InputError(
                f"{of.words}: teachers that come tuned are one a task, no ensemble of {members}; "
                f"name a checkpoint without a head as --teacher"
            )
        return task.teacher_slot(source.seed).key if source.seed else task.teacher.key

    def _identity(self, entry: ArtefactPlan, context: ArtefactContext) -> Identity:
        from methods.artefacts import Identity

        artefact, task = entry.artefact, entry.task
        generic: dict[str, Any] = {
            "schema": SCHEMA,
            "what": [artefact.name, artefact.version, dict(artefact.settings)],
            "numeric": context.numeric.identity(),
            **{one.label: one.key for one in entry.inputs if one.what in entry.sources},
        }
        parts = {one.label: one.key for one in entry.inputs if one.what in entry.parts}
        if len(parts) < len(entry.parts):
            raise InputError(f"{artefact.words}: two of the artefacts that it is made from have one name")
        if parts:
            generic["parts"] = parts
        if entry.text is not None:
            generic |= _of_text(entry, context)
        if task is not None and entry.reads_rows:
            generic |= _of_rows(task)
        reads_as_teacher = task is None or task.recipe.max_length == task.teacher_recipe.max_length
        teachers = (str(one.key) for one in entry.inputs if one.what in entry.sources and one.what.kind == "fine_tuned")
        return Identity(generic, tuple(teachers), reads_as_teacher)


def _paper_recipe(common: Recipe, artefact: Artefact, stages: Collection[Stage]) -> Recipe:
    """The recipe `general start, paper`: each stage on text trains by the numbers of its own paper.

    Raises:
        InputError: a stage names an optimiser that is not there, or that cannot do what the stage asks.
    """
    named = optimizers_of_stages((stage.name, stage.paper) for stage in stages)
    recipe = replace(common, name=PAPER_START, stage_optimizers=named)
    for stage in stages:
        if refused := refusal(recipe.for_stage(stage.paper)):
            raise InputError(f"{artefact.words}, stage {stage.name}: {refused}")
    return recipe


def _sources(artefact: Artefact, context: ArtefactContext) -> list[Source]:
    from methods.artefacts import sources

    return sources(artefact, context.checkpoint.config)


def _of_text(entry: ArtefactPlan, context: ArtefactContext) -> dict[str, Any]:
    """What identity holds of a training on text."""
    assert entry.text is not None
    text, recipe = entry.text, entry.text.recipe.as_dict()
    if text.recipe.name == PAPER_START:
        recipe |= {"stages": [without_epochs(stage.paper) for stage in entry.stages]}
    return {
        "version": CORPUS_VERSION,
        "base": context.checkpoint.sha256,
        "tokenizer": context.tokenizer,
        "tokens": text.budget,
        "recipe": recipe,
        "seed": 0,
    }


def _of_rows(task: TaskPlan) -> dict[str, Any]:
    """What identity holds of a task's examples as they are read; sums over batches of another size are rounded differently."""
    batches = {} if task.recipe.batch_size == Recipe.batch_size else {"batch_size": task.recipe.batch_size}
    return {"tokenizer": task.tokenizer, "max_length": task.recipe.max_length, **batches}


def asked_by(method: Any, task: TaskPlan, plans: ArtefactPlans) -> Iterator[ArtefactPlan]:
    """The artefacts that a method asks for on a task, as they are planned."""
    for artefact in method.requires(task.checkpoint.config):
        entry = plans.find(artefact, task.checkpoint, task)
        assert entry is not None, f"{artefact} is planned before it is asked for"
        yield entry
