"""What an artefact is made from, handed to it by name: teachers, examples, text and other artefacts; and its training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import safe_open
from torch import Tensor, nn

from bench.data.encoding import Encoded
from bench.plan.scheduled_stages import schedule_stages
from bench.record.recipe import Recipe
from bench.train.loop import LoopOptions, OnStep, train_task
from bench.train.numerics import ComputeSettings, RandomState
from bench.train.prediction import predict
from bench.train.student_trainer import StudentTrainer, TrainLog
from bench.train.training_state import TrainingStates
from methods.api import Batch, Setup, Stage, Student
from methods.artefacts import CORPUS, Artefact, Source

Parts = Mapping[str, Mapping[str, Tensor]]
"""Artefacts by name."""


class UndeclaredInput(RuntimeError):
    """An artefact's ``make`` asked for something that its ``inputs`` do not name: its key would not depend on that."""


class Inputs(Protocol):
    """Where the inputs of one artefact come from."""

    def tensors(self, artefact: Artefact) -> Mapping[str, Tensor]:
        """Of another artefact."""

    def teacher(self, source: Source) -> nn.Module:
        """Of ``BASE`` or ``fine_tuned(seed)``."""

    def examples(self, source: Source) -> Encoded:
        """Of ``TRAIN``, ``EVALUATION`` or ``CORPUS``."""

    def folder(self, source: Source) -> Path:
        """Of a ``checkpoint``."""

    def training_states(self) -> TrainingStates | None:
        """Where the state of its training on text is kept, if it is."""


@dataclass(frozen=True)
class CorpusTraining:
    """How a student is trained on the corpus."""

    budget: int
    """tokens of the corpus that it reads, over all passes"""
    recipe: Recipe


@dataclass
class MakeContext:
    """One artefact that is being made: what its ``make`` is given (:class:`methods.artefacts.Given`)."""

    artefact: Artefact
    setup_of: Callable[[Parts], Setup]
    """input artefacts -> what it receives"""
    inputs: Inputs
    numerics: ComputeSettings
    batch_size: int
    on_text: CorpusTraining | None = None
    on_step: OnStep = lambda done, total: None
    beginning: str = ""
    log: TrainLog | None = None
    config: Any = field(init=False)

    def __post_init__(self) -> None:
        self.config = self.setup_of({}).teacher
        self._declared = list(self.artefact.inputs(self.config))
        self._setup: Setup | None = None

    @property
    def setup(self) -> Setup:
        if self._setup is None:
            parts = [one for one in self._declared if not isinstance(one, Source)]
            self._setup = self.setup_of({part.name: self[part] for part in parts})
        return self._setup

    @property
    def device(self) -> torch.device:
        return self.numerics.device

    def _check(self, what: Artefact | Source) -> None:
        if what not in self._declared:
            raise UndeclaredInput(f"{self.artefact.name}: its make reads {what}, which its inputs do not name")

    def __getitem__(self, artefact: Artefact) -> Mapping[str, Tensor]:
        self._check(artefact)
        return self.inputs.tensors(artefact)

    def teacher(self, source: Source) -> nn.Module:
        self._check(source)
        return self.inputs.teacher(source).to(self.device).eval()

    def batches(self, source: Source) -> Iterator[Batch]:
        data = self._examples(source)
        starts = range(0, len(data), self.batch_size)
        for number, start in enumerate(starts, start=1):
            yield data.batch(range(start, min(start + self.batch_size, len(data))), self.device)
            self.on_step(number, len(starts))

    def first(self, source: Source, tokens: int) -> Batch:
        return self._examples(source).first(tokens)

    def answers(self, teacher: Source, rows: Source) -> Tensor:
        self._check(teacher)
        return torch.from_numpy(predict(self.inputs.teacher(teacher), self._examples(rows), self.numerics))

    def ids(self, rows: Source) -> Sequence[int]:
        return self._examples(rows).ids

    def folder(self, checkpoint: Source) -> Path:
        self._check(checkpoint)
        return self.inputs.folder(checkpoint)

    def _examples(self, source: Source) -> Encoded:
        self._check(source)
        return self.inputs.examples(source)

    def train(self, student: Student, stages: Sequence[Stage], teacher: nn.Module) -> None:
        raise RuntimeError(f"{self.artefact.name}: its make trains, but its stages(setup) names none to plan by")

    def note(self, beginning: str) -> None:
        self.beginning = beginning


@dataclass
class TrainingMakeContext(MakeContext):
    """One artefact that is trained on text."""

    def train(self, student: Student, stages: Sequence[Stage], teacher: nn.Module) -> None:
        if self.log is not None:
            raise RuntimeError(f"{self.artefact.name}: its make trains twice")
        text, numerics, on_text = self._examples(CORPUS), self.numerics, self.on_text
        assert on_text is not None, "the corpus is among the inputs"
        random = RandomState(0, numerics.device)
        random.begin_here()
        passes = max(1.0, on_text.budget / text.total_tokens)
        scheduled = schedule_stages(stages, (), replace(on_text.recipe, epochs=passes), len(text))[1]
        trainer = StudentTrainer(self.artefact.words, student, random, [], scheduled, numerics)
        training_states = self.inputs.training_states()
        taught_by = teacher.to(numerics.device).eval()
        train_task(
            [trainer],
            text,
            taught_by,
            LoopOptions(0, numerics, on_text.recipe.batch_size, on_step=self.on_step, states=training_states),
        )
        if trainer.error:
            raise trainer.error
        random.hand_over()
        self.log = trainer.log


def made(making: MakeContext, file: Path | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of an artefact on the CPU, and what is known of how they were made.

    Args:
        file: the weights of the teacher's checkpoint, which may have them.
    """
    found = {} if file is None else in_checkpoint(file, making.artefact.in_checkpoint)
    if found:
        return found, {"beginning": "the teacher's checkpoint has it"}
    begun = time.perf_counter()
    with RandomState(0, making.device).current():
        tensors = making.artefact.make(making)
    known: dict[str, Any] = {"beginning": making.beginning} if making.beginning else {}
    if making.log is not None:
        known["train"] = asdict(making.log)
    else:
        known["seconds"] = round(time.perf_counter() - begun, 3)
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}, known


def in_checkpoint(file: Path, wanted: Mapping[str, Sequence[str]]) -> dict[str, Tensor]:
    """Tensors that a checkpoint's file has beside its encoder, under our names; nothing if one of them is missing."""
    if not wanted:
        return {}
    found = {}
    with safe_open(file, framework="pt") as weights:
        there = set(weights.keys())
        for ours, theirs in wanted.items():
            name = next((name for name in theirs if name in there), None)
            if name is None:
                return {}
            found[ours] = weights.get_tensor(name)
    return found
