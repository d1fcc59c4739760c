"""What the rows of a plan ask for: each artefact with its key, and what it is made from, known
before it is made.

The keys of its inputs are found here; ``bench/make/artefact.py`` finds the inputs themselves when
an artefact is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from safetensors import safe_open

from bench.cache import WEIGHTS
from bench.data.checkpoints import given_start, hash_of_tokenizer, longest_input
from bench.data.corpus import read_corpus
from bench.errors import InputError
from bench.optimizers import refusal
from bench.plan.plan import ArtefactPlan, TaskPlan, Text
from bench.record.cell import NumericIdentity
from bench.record.keys import SCHEMA, digest
from bench.record.recipe import (
    PAPER,
    PAPER_START,
    START,
    Recipe,
    optimizers_of_stages,
    without_epochs,
)
from bench.request import Request
from bench.request.choices import FAST

if TYPE_CHECKING:
    from pathlib import Path

    from bench.data.checkpoints import Checkpoint
    from bench.data.corpus import Corpus
    from bench.plan.training_texts import TrainingTexts
    from methods.core.artefacts import Artefact, Source

CORPUS_VERSION = 1
DEFAULT_SAMPLE_BUDGET = 100_000
"""Tokens that are read of the sample suite's sentences, unless --corpus-tokens says else."""
DEFAULT_CORPUS_BUDGET = 4_000_000
"""Tokens that are read of a corpus, unless --corpus-tokens says else."""


class ArtefactPlanner:
    """Every artefact that the rows of a request ask for; what one is made from is entered before
    it."""

    def __init__(
        self,
        request: Request,
        numeric: NumericIdentity,
        training_texts: TrainingTexts | None = None,
    ) -> None:
        self.request = request
        self.numeric = numeric
        self.training_texts = training_texts
        self.entries: list[ArtefactPlan] = []
        self._asked: dict[tuple[Artefact, int], list[ArtefactPlan]] = {}
        """artefact and seed -> its plans for each checkpoint and task"""
        self.outlined: set[str] = set()
        """checkpoints of others of which there is the configuration alone"""

    def add(
        self,
        artefact: Artefact,
        checkpoint: Checkpoint,
        task: TaskPlan | None = None,
        seed: int = 0,
    ) -> ArtefactPlan:
        """The plan of an artefact; it and what it is made from are entered where they are not
        there.

        Args:
            checkpoint: the teacher's.
            task: that it is asked for; None where no task is known.
            seed: of its training, and of those of all that it is made from.

        Raises:
            InputError: the corpus or a checkpoint cannot be read, or there are no such teachers.
            MethodError: a teacher of this form cannot be used.
        """
        from methods.core.artefacts import Source, is_of_task

        if not is_of_task(artefact, checkpoint.config):
            task = None
        elif task is None:
            raise InputError(f"{artefact.words}: it is made for a task, and none is given here")
        asked = self._asked.setdefault((artefact, seed), [])
        for entry in asked:
            if entry.task is task and entry.checkpoint == checkpoint:
                return entry

        # what it is made from, entered before it
        entry = ArtefactPlan(artefact, "", checkpoint, task)
        for what in self._inputs(artefact, checkpoint):
            if isinstance(what, Source):
                entry.sources[what] = self._key_of(what, entry)
            elif what.name in entry.parts:
                raise InputError(
                    f"{artefact.words}: two of the artefacts that it is made from have one name"
                )
            else:
                entry.parts[what.name] = self.add(what, checkpoint, task, seed)
        if any(source.kind == "corpus" for source in entry.sources):
            entry.text = Text(self.corpus, self.budget, self._text_recipe(entry))
        # what is not trained begins at one state of the generator for all seeds
        if entry.text is not None or artefact.row_epochs:
            entry.seed = seed

        # its key
        if artefact.is_kept:
            self._identify(entry)
        else:  # a view of its one input
            parts = [part.key for part in entry.parts.values()]
            entry.key = [*entry.sources.values(), *parts][0]
        self.entries.append(entry)
        asked.append(entry)
        return entry

    def _inputs(self, artefact: Artefact, checkpoint: Checkpoint) -> Sequence[Source | Artefact]:
        """The artefacts and sources that an artefact is made from directly.

        Where the teacher's file has it nothing is trained, so no text is in its key.
        """
        from methods.core.artefacts import BASE

        in_file = artefact.in_checkpoint
        if not checkpoint.outline:
            in_file = names_in_file(artefact, checkpoint.folder / WEIGHTS)
        return (BASE,) if in_file else artefact.inputs(checkpoint.config)

    def _identify(self, entry: ArtefactPlan) -> None:
        """Give an artefact its key, and what that is the hash of."""
        entry.kernels = FAST if entry.stages and self.request.kernels == FAST else ""
        entry.identity = dict(entry.artefact.identity(_identity(entry, self.numeric)))
        if entry.kernels:
            entry.identity["kernels"] = entry.kernels
        entry.key = digest(entry.identity)

    @cached_property
    def corpus(self) -> Corpus:
        """The text of the request, or of its tasks."""
        if self.training_texts is not None:
            return self.training_texts
        return read_corpus(self.request.texts, self.budget, self.request.offline)

    @property
    def budget(self) -> int:
        """Tokens of that text that are read."""
        if self.request.corpus_tokens:
            return self.request.corpus_tokens
        if self.training_texts is not None:
            return self.training_texts.budget
        return DEFAULT_CORPUS_BUDGET if self.request.texts else DEFAULT_SAMPLE_BUDGET

    def _text_recipe(self, entry: ArtefactPlan) -> Recipe:
        """With `paper` each stage on text trains by the numbers of its own paper; where no stage
        says any, there is one artefact for both recipes.

        Raises:
            InputError: a stage names an optimiser that is not there, or that cannot do what the
                stage asks.
        """
        # the common numbers
        stages = tuple(entry.artefact.stages(entry.setup({})))
        recipe = replace(
            START, max_length=min(START.max_length, longest_input(entry.checkpoint.config))
        )
        if self.request.recipe != PAPER or not any(without_epochs(stage.paper) for stage in stages):
            return recipe
        # those of the stages' papers
        named = optimizers_of_stages((stage.name, stage.paper) for stage in stages)
        recipe = replace(recipe, name=PAPER_START, stage_optimizers=named)
        for stage in stages:
            if refused := refusal(recipe.for_stage(stage.paper)):
                raise InputError(f"{entry.artefact.words}, stage {stage.name}: {refused}")
        return recipe

    def _key_of(self, source: Source, entry: ArtefactPlan) -> Any:
        """The plain values that identify something that is there before any artefact."""
        from methods.core.artefacts import sources

        task = entry.task
        checkpoint = entry.checkpoint
        # what is there without a task
        if source.kind == "base":
            return checkpoint.sha256
        if source.kind == "checkpoint":
            start = given_start(source, checkpoint, self.request.offline, self.request.outline)
            self.outlined |= {source.path} if start.outline else set()
            return start.sha256
        if source.kind == "corpus":
            return self.corpus.fingerprint()
        assert task is not None, "the other sources are of a task"
        # examples of the task, and its teachers
        if source.kind == "train":
            return task.data.train
        if source.kind == "evaluation":
            return task.data.evaluation
        if source.seed and task.teacher.origin == "given":
            members = sum(
                other.kind == "fine_tuned" for other in sources(entry.artefact, checkpoint.config)
            )
            raise InputError(
                f"{entry.artefact.words}: teachers that come tuned are one a task, no ensemble of "
                f"{members}; name a checkpoint without a head as --teacher"
            )
        return task.teacher_slot(source.seed).key if source.seed else task.teacher.key


def names_in_file(artefact: Artefact, weights: Path) -> dict[str, str]:
    """The names of an artefact's tensors in a checkpoint's file, as BERT's has its
    masked-language head; nothing where one is missing."""
    if not artefact.in_checkpoint:
        return {}
    with safe_open(weights, framework="numpy") as file:
        there = set(file.keys())
    names = {}
    for ours, theirs in artefact.in_checkpoint.items():
        found = [name for name in theirs if name in there]
        if not found:
            return {}
        names[ours] = found[0]
    return names


def _identity(entry: ArtefactPlan, numeric: NumericIdentity) -> Any:
    """The values whose hash is an artefact's key, unless it has a form of its own."""
    from methods.core.artefacts import Identity

    artefact = entry.artefact
    task = entry.task
    generic: dict[str, Any] = {
        "schema": SCHEMA,
        "what": [artefact.name, artefact.version, dict(artefact.settings)],
        "numeric": numeric.identity(),
        **{source.label: key for source, key in entry.sources.items()},
    }
    # other artefacts
    if entry.parts:
        generic["parts"] = {name: part.key for name, part in entry.parts.items()}
    # a training on text
    if entry.text is not None:
        recipe = entry.text.recipe.as_dict()
        if entry.text.recipe.name == PAPER_START:
            recipe |= {"stages": [without_epochs(stage.paper) for stage in entry.stages]}
        generic |= {
            "version": CORPUS_VERSION,
            "base": entry.checkpoint.sha256,
            "tokenizer": hash_of_tokenizer(entry.checkpoint),
            "tokens": entry.text.budget,
            "recipe": recipe,
            "seed": entry.seed,
        }
    # examples as a tokenizer reads them
    if task is not None and entry.reads_rows:
        generic |= {"tokenizer": task.tokenizer, "max_length": task.recipe.max_length}
        if task.recipe.truncation != "head":
            generic["truncation"] = task.recipe.truncation
        # sums over batches of another size are rounded differently
        if task.recipe.batch_size != Recipe.batch_size:
            generic["batch_size"] = task.recipe.batch_size
    # a training on these examples
    if task is not None and artefact.row_epochs:
        generic |= {
            "recipe": replace(task.teacher_recipe, epochs=artefact.row_epochs).as_dict(),
            "seed": entry.seed,
        }
    reads_as_teacher = task is None or task.recipe.max_length == task.teacher_recipe.max_length
    tuned = tuple(str(key) for source, key in entry.sources.items() if source.kind == "fine_tuned")
    return Identity(generic, tuned, reads_as_teacher, entry.checkpoint.config.model_type)
