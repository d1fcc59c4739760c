"""What an artefact is made from, handed to it by name: teachers, examples, text and other artefacts; and its training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

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


class Given:
    """What the ``make`` of one artefact is given (:class:`methods.artefacts.Given`). Subclasses say where inputs come from."""

    def __init__(
        self,
        artefact: Artefact,
        setup_of: Callable[[Parts], Setup],
        numerics: ComputeSettings,
        batch_size: int,
        text_recipe: Recipe | None = None,
        text_budget: int = 0,
        row_recipe: Recipe | None = None,
        on_step: OnStep = lambda done, total: None,
    ) -> None:
        """
        Args:
            setup_of: input artefacts -> what it receives.
            text_recipe: by which a student is trained on text.
            text_budget: tokens of the text that such a student reads, over all passes.
            row_recipe: by which a student is trained on a task's training rows.
        """
        self.artefact, self.numerics, self.batch_size, self.on_step = artefact, numerics, batch_size, on_step
        self._setup_of, self._text_recipe, self._text_budget = setup_of, text_recipe, text_budget
        self._row_recipe = row_recipe
        self._declared = list(artefact.inputs(setup_of({}).teacher))
        self._setup: Setup | None = None
        self.beginning = ""
        self.log: TrainLog | None = None

    # where inputs come from: subclasses say it

    tensors: Callable[[Artefact], Mapping[str, Tensor]]
    """of another artefact"""
    teacher_of: Callable[[Source], nn.Module]
    """of ``BASE`` or ``fine_tuned(seed)``"""
    examples: Callable[[Source], Encoded]
    """of ``TRAIN``, ``EVALUATION`` or ``CORPUS``"""
    folder_of: Callable[[Source], Path]
    """of a ``checkpoint``"""
    mask_id: int
    """of the teacher's tokenizer"""
    training_states: Callable[[], TrainingStates | None] = staticmethod(lambda: None)
    """where the state of its training on text is kept, if it is"""

    # what make calls

    @property
    def setup(self) -> Setup:
        if self._setup is None:
            parts = [one for one in self._declared if not isinstance(one, Source)]
            self._setup = self._setup_of({part.name: self[part] for part in parts})
        return self._setup

    @property
    def device(self) -> torch.device:
        return self.numerics.device

    def _check(self, what: Artefact | Source) -> None:
        if what not in self._declared:
            raise UndeclaredInput(f"{self.artefact.name}: its make reads {what}, which its inputs do not name")

    def __getitem__(self, artefact: Artefact) -> Mapping[str, Tensor]:
        self._check(artefact)
        return self.tensors(artefact)

    def teacher(self, source: Source) -> nn.Module:
        self._check(source)
        return self.teacher_of(source).to(self.device).eval()

    def _rows(self, source: Source) -> Encoded:
        self._check(source)
        return self.examples(source)

    def batches(self, source: Source) -> Iterator[Batch]:
        data = self._rows(source)
        starts = range(0, len(data), self.batch_size)
        for number, start in enumerate(starts, start=1):
            yield data.batch(range(start, min(start + self.batch_size, len(data))), self.device)
            self.on_step(number, len(starts))

    def first(self, source: Source, tokens: int) -> Batch:
        return self._rows(source).first(tokens, self.device)

    def answers(self, teacher: Source, rows: Source) -> Tensor:
        self._check(teacher)
        return torch.from_numpy(predict(self.teacher_of(teacher), self._rows(rows), self.numerics))

    def ids(self, rows: Source) -> Sequence[int]:
        return self._rows(rows).ids

    def folder(self, checkpoint: Source) -> Path:
        self._check(checkpoint)
        return self.folder_of(checkpoint)

    def note(self, beginning: str) -> None:
        self.beginning = beginning

    def train(
        self, student: Student, stages: Sequence[Stage], teacher: nn.Module | None, rows: Source = CORPUS
    ) -> None:
        if not self.artefact.stages(self._setup_of({})):
            raise RuntimeError(f"{self.artefact.name}: its make trains, but its stages(setup) names none to plan by")
        if self.log is not None:
            raise RuntimeError(f"{self.artefact.name}: its make trains twice")
        text, numerics = self._rows(rows), self.numerics
        recipe = self._text_recipe if rows == CORPUS else self._row_recipe
        assert recipe is not None, "the corpus or the rows are among the inputs"
        # the training draws from where the generator stands, and hands it on: make goes on behind it
        random = RandomState(0, numerics.device)
        random.begin_here()
        passes = max(1.0, self._text_budget / text.total_tokens) if rows == CORPUS else self.artefact.row_epochs
        scheduled = schedule_stages(stages, (), replace(recipe, epochs=passes), len(text))[1]
        trainer = StudentTrainer(self.artefact.words, student, random, [], scheduled, numerics)
        options = LoopOptions(0, numerics, recipe.batch_size, on_step=self.on_step, states=self.training_states())
        train_task([trainer], text, None if teacher is None else teacher.to(numerics.device).eval(), options)
        if trainer.error:
            raise trainer.error
        random.hand_over()
        self.log = trainer.log


def tensors_of(given: Given, file: Path | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of an artefact on the CPU, and what is known of how they came to be.

    Args:
        file: the weights of the teacher's checkpoint, which may have them.
    """
    there = {} if file is None else in_checkpoint(file, given.artefact.in_checkpoint)
    if there:
        return there, {"beginning": "the teacher's checkpoint has it"}
    begun = time.perf_counter()
    with RandomState(0, given.device).current():
        tensors = given.artefact.make(given)
    body: dict[str, Any] = {"beginning": given.beginning} if given.beginning else {}
    if given.log is not None:
        body["train"] = asdict(given.log)
    else:
        body["seconds"] = round(time.perf_counter() - begun, 3)
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}, body


def in_checkpoint(file: Path, wanted: Mapping[str, Sequence[str]]) -> dict[str, Tensor]:
    """Tensors that a checkpoint's file has beside its encoder, under our names; nothing if one of them is missing."""
    if not wanted:
        return {}
    tensors = {}
    with safe_open(file, framework="pt") as weights:
        there = set(weights.keys())
        for ours, theirs in wanted.items():
            name = next((name for name in theirs if name in there), None)
            if name is None:
                return {}
            tensors[ours] = weights.get_tensor(name)
    return tensors
