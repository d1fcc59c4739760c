"""What a method may ask for before its student is built: named tensors, each a pure function of named inputs.

An artefact says what it is made from (:meth:`Artefact.inputs`) and makes itself of that (:meth:`Artefact.make`). Whoever
runs the method plans it, keeps it under a key that is known before it is made, and puts its tensors into
``Setup.artefacts``. Whether there is one for each task, or one for all, follows from the inputs.

The artefacts that several methods ask for are in the other files of this folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from methods.api import Batch, Setup, Shape, Stage, Student
from methods.families import Cost

if TYPE_CHECKING:
    from transformers import PretrainedConfig


OBSERVED_TOKENS = 16_384
"""Text on which the teacher's activations are looked at before it is cut."""


@dataclass(frozen=True)
class Source:
    """Something that is there before any artefact, or that whoever runs the method tunes: where artefacts begin."""

    kind: Literal["base", "fine_tuned", "train", "evaluation", "corpus", "checkpoint"]
    seed: int = 0
    """of a fine-tuned teacher: of its head, its dropout and the order of its batches"""
    path: str = ""
    """of a checkpoint that somebody else made: a hub name or a folder"""
    shape: Shape | None = None
    """that such a checkpoint must have"""
    label: str = field(default="", compare=False)
    """what records call it among the inputs of an artefact"""

    @property
    def is_of_task(self) -> bool:
        """Whether every task has its own."""
        return self.kind in ("fine_tuned", "train", "evaluation")

    @property
    def is_teacher(self) -> bool:
        return self.kind in ("base", "fine_tuned")

    @property
    def is_rows(self) -> bool:
        """Whether it is a task's examples."""
        return self.kind in ("train", "evaluation")


BASE = Source("base", label="base")
"""The teacher's checkpoint before it is tuned on a task."""
TRAIN = Source("train", label="data")
"""The rows that students of a task are trained on, in their order."""
EVALUATION = Source("evaluation", label="evaluation")
"""The first evaluation set of a task that has labels."""
CORPUS = Source("corpus", label="corpus")
"""Unlabelled text."""


def fine_tuned(seed: int = 0, label: str = "teacher") -> Source:
    """The teacher after it was tuned on a task with this seed; 0 is the one that students learn from."""
    return Source("fine_tuned", seed=seed, label=label)


def checkpoint(path: str, shape: Shape) -> Source:
    """An encoder that somebody else made. Whoever runs the method refuses another shape or vocabulary."""
    return Source("checkpoint", path=path, shape=shape, label="checkpoint")


class Given(Protocol):
    """What :meth:`Artefact.make` is given. Whatever :meth:`Artefact.inputs` does not name is refused."""

    @property
    def setup(self) -> Setup:
        """The teacher's configuration, the task's form (two labels and no task for what all tasks share), and the input
        artefacts by name in ``artefacts``."""

    @property
    def device(self) -> torch.device:
        """Where batches lie."""

    def __getitem__(self, artefact: Artefact) -> Mapping[str, Tensor]:
        """The tensors of an input."""

    def teacher(self, source: Source) -> nn.Module:
        """``BASE`` or ``fine_tuned(seed)`` as a classifier of packed batches, in evaluation mode, on the device.

        ``BASE`` draws the weights of a head that its checkpoint lacks from torch's generator.
        """

    def batches(self, source: Source) -> Iterator[Batch]:
        """``TRAIN``, ``EVALUATION`` or ``CORPUS`` in the order of its examples, not shuffled."""

    def first(self, source: Source, tokens: int) -> Batch:
        """The leading examples up to about so many tokens as one batch on the CPU."""

    def answers(self, teacher: Source, rows: Source) -> Tensor:
        """[n, C] float32 logits of a teacher in the order of the examples, on the CPU."""

    def ids(self, rows: Source) -> Sequence[int]:
        """The numbers that ``Batch.example_ids`` has, in the order of the examples."""

    def folder(self, checkpoint: Source) -> Path:
        """Where the files of a ``checkpoint`` lie."""

    def train(self, student: Student, stages: Sequence[Stage], teacher: nn.Module) -> None:
        """Take a student through stages on ``CORPUS``, once; text shorter than its budget is seen several times.

        Raises:
            RuntimeError: :meth:`Artefact.stages` names none, so that no plan has counted this.
        """

    def note(self, beginning: str) -> None:
        """Say where it began, for whoever reads a record."""


@dataclass(frozen=True)
class Training:
    """A training on the corpus as it begins, with weights that may mean nothing: for counting its time and memory."""

    student: Student
    stages: Sequence[Stage]
    cost: Cost
    """of the student's forward pass while it trains"""
    teacher: nn.Module | None = None
    """of its own; None for the un-tuned one"""


@dataclass(frozen=True)
class Identity:
    """What a plan knows of an artefact before it is made."""

    generic: Mapping[str, Any]
    """plain values: ``what`` is made, the keys of all inputs, and what of the recipe and the numerics they depend on"""
    teachers: tuple[str, ...] = ()
    """keys of the fine-tuned teachers, in the order of the inputs"""
    reads_as_teacher: bool = True
    """whether students read sequences of the length that their teacher was tuned on"""


class Artefact:
    """Named tensors that a method asks for. Subclasses are frozen dataclasses: equal ones are one artefact.

    A subclass states ``name``, :meth:`inputs`, :meth:`make` and :meth:`blank`; everything else has a default. Its
    ``version`` goes up whenever the same settings and inputs would give other tensors.
    """

    name: ClassVar[str]
    """where it lies in ``Setup.artefacts``"""
    version: ClassVar[int] = 1
    is_kept: ClassVar[bool] = True
    """False for a view of its one input, which is taken anew each time and has that input's key"""
    cut_from_teacher: ClassVar[bool] = False
    """whether these are the teacher's own weights: a student made of them takes its learning rate, however narrow it is"""
    in_checkpoint: ClassVar[Mapping[str, Sequence[str]]] = {}
    """its tensors -> the names that they may have in the teacher's file: where all are there, nothing is made"""
    corpus_tokens: ClassVar[int | None] = None
    """tokens of the corpus that :meth:`make` reads, not counting those that it trains on; None: all"""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What else changes the result, plain values: the fields of the dataclass."""
        return asdict(self) if is_dataclass(self) else {}

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        """What it is made from.

        Raises:
            MethodError: a teacher of this form cannot be used.
        """
        return ()

    def make(self, given: Given) -> Mapping[str, Tensor]:
        """Compute it. Randomness comes from torch's generator, which always begins at the same state."""
        raise NotImplementedError(f"{type(self).__name__} must implement make()")

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        """Tensors of the same names and shapes, for counting a student without making anything.

        Where the first dimension depends on the data (one row an example), any length will do.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement blank()")

    def encoder_width(self, teacher: PretrainedConfig) -> int | None:
        """Width of the states between the layers of the pre-trained encoder that it gives to a student; None: it gives none.

        The learning rate depends on it.
        """
        return None

    def stages(self, setup: Setup) -> Sequence[Stage]:
        """What :meth:`make` minimises on the corpus, where it trains. A plan asks too, before there are artefacts."""
        return ()

    def training(self, setup: Setup) -> Training | None:
        """That training as it begins, of artefacts with :meth:`stages`."""
        return None

    def identity(self, known: Identity) -> Mapping[str, Any]:
        """Plain values whose hash is its key; the generic form, unless it had another one before that form was there."""
        return known.generic

    def title(self, key: str) -> str:
        """For people: its words and the beginning of its key, since several may have one name."""
        return f"{self.words} {key[:6]}"

    @property
    def words(self) -> str:
        """Its name for people."""
        return self.name.replace("_", " ")


def sources(artefact: Artefact, teacher: PretrainedConfig) -> list[Source]:
    """All that an artefact is made from in the end, each once."""
    found: list[Source] = []
    for one in artefact.inputs(teacher):
        found += [one] if isinstance(one, Source) else sources(one, teacher)
    return list(dict.fromkeys(found))


def is_of_task(artefact: Artefact, teacher: PretrainedConfig) -> bool:
    """Whether there is one for each task; else all tasks, seeds and methods share it."""
    return any(source.is_of_task for source in sources(artefact, teacher))


def artefact_name(artefact: Artefact, teacher: PretrainedConfig, task: str, several: bool) -> str:
    """Where it lies in ``Setup.artefacts``: of a student of several tasks, ``name.task`` for what is one task's own."""
    return f"{artefact.name}.{task}" if several and is_of_task(artefact, teacher) else artefact.name
