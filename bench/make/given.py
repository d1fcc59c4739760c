"""What an artefact is made from, handed to it by name; and its training.

That is teachers, examples, text and other artefacts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors import safe_open
from torch import Tensor, nn

from bench.data.encoding import Encoded
from bench.plan.artefacts import names_in_file
from bench.plan.scheduled_stages import schedule_stages
from bench.record.recipe import Recipe
from bench.train.loop import LoopOptions, OnStep, train_task
from bench.train.numerics import ComputeSettings, RandomState
from bench.train.prediction import predict
from bench.train.student_trainer import StudentTrainer, TrainLog
from bench.train.training_state import TrainingStates
from methods.api import Batch, Setup, Stage, Student
from methods.core.artefacts import CORPUS, Artefact, Source

Parts = Mapping[str, Mapping[str, Tensor]]
"""Artefacts by name."""


@dataclass(eq=False)
class Given:
    """What the ``make`` of one artefact is given (:class:`methods.core.artefacts.Given`).

    Subclasses say where inputs come from.

    Attributes:
        setup_of: input artefacts -> what it receives.
        text_recipe: by which a student is trained on text.
        text_budget: tokens of the text that such a student reads, over all passes.
        row_recipe: by which a student is trained on a task's training rows.
        seed: of all random draws.
    """

    artefact: Artefact
    setup_of: Callable[[Parts], Setup]
    numerics: ComputeSettings
    batch_size: int
    text_recipe: Recipe | None = None
    text_budget: int = 0
    row_recipe: Recipe | None = None
    seed: int = 0
    on_step: OnStep = lambda done, total: None
    beginning: str = field(default="", init=False)
    log: TrainLog | None = field(default=None, init=False)
    passes: float | None = field(default=None, init=False)
    """how often a training on text read it: above 1 where it is shorter than the budget"""

    # where inputs come from: subclasses say it

    tensors: ClassVar[Callable[[Any, Artefact], Mapping[str, Tensor]]]
    """of another artefact"""
    teacher_of: ClassVar[Callable[[Any, Source], nn.Module]]
    """of ``BASE`` or ``fine_tuned(seed)``"""
    examples: ClassVar[Callable[[Any, Source], Encoded]]
    """of ``TRAIN``, ``EVALUATION`` or ``CORPUS``"""
    folder_of: ClassVar[Callable[[Any, Source], Path]]
    """of a ``checkpoint``"""
    mask_id: ClassVar[Any]
    """of the teacher's tokenizer"""

    def training_states(self) -> TrainingStates | None:
        """Where the state of its training on text is kept, if it is."""
        return None

    # what make calls

    @cached_property
    def _declared(self) -> list[Artefact | Source]:
        return list(self.artefact.inputs(self.setup_of({}).teacher))

    @cached_property
    def setup(self) -> Setup:
        parts = [part for part in self._declared if not isinstance(part, Source)]
        return self.setup_of({part.name: self[part] for part in parts})

    @property
    def device(self) -> torch.device:
        return self.numerics.device

    def _check(self, what: Any) -> Any:
        if what not in self._declared:
            # its key would not depend on that
            raise RuntimeError(
                f"{self.artefact.name}: its make reads {what}, which its inputs do not name"
            )
        return what

    def __getitem__(self, artefact: Artefact) -> Mapping[str, Tensor]:
        return self.tensors(self._check(artefact))

    def teacher(self, source: Source) -> nn.Module:
        return self.teacher_of(self._check(source)).to(self.device).eval()

    def batches(self, source: Source) -> Iterator[Batch]:
        data = self.examples(self._check(source))
        starts = range(0, len(data), self.batch_size)
        for number, start in enumerate(starts, start=1):
            yield data.batch(range(start, min(start + self.batch_size, len(data))), self.device)
            self.on_step(number, len(starts))

    def first(self, source: Source, tokens: int) -> Batch:
        return self.examples(self._check(source)).first(tokens, self.device)

    def answers(self, teacher: Source, rows: Source) -> Tensor:
        model = self.teacher_of(self._check(teacher))
        data = self.examples(self._check(rows))
        return torch.from_numpy(predict(model, data, self.numerics))

    def ids(self, rows: Source) -> Sequence[int]:
        return self.examples(self._check(rows)).ids

    def folder(self, checkpoint: Source) -> Path:
        return self.folder_of(self._check(checkpoint))

    def note(self, beginning: str) -> None:
        self.beginning = beginning

    def train(
        self,
        student: Student,
        stages: Sequence[Stage],
        teacher: nn.Module | None,
        rows: Source = CORPUS,
    ) -> None:
        if not self.artefact.stages(self.setup_of({})):
            raise RuntimeError(
                f"{self.artefact.name}: its make trains, but its stages(setup) names none to plan "
                "by"
            )
        if self.log is not None:
            raise RuntimeError(f"{self.artefact.name}: its make trains twice")
        numerics = self.numerics
        examples = self.examples(self._check(rows))

        # how long: so many tokens of text, or so many passes over the rows of a task
        if rows == CORPUS:
            recipe = self.text_recipe
            passes = max(1.0, self.text_budget / examples.total_tokens)
            self.passes = passes
        else:
            recipe = self.row_recipe
            passes = self.artefact.row_epochs
        assert recipe is not None, "the corpus or the rows are among the inputs"
        recipe = replace(recipe, epochs=passes)
        _, scheduled = schedule_stages(stages, (), recipe, len(examples))

        # the training draws from where the generator stands, and hands it on: make goes on behind
        # it
        random = RandomState(self.seed, numerics.device)
        random.begin_here()
        trainer = StudentTrainer(self.artefact.words, student, random, [], scheduled, numerics)
        options = LoopOptions(
            self.seed,
            numerics,
            recipe.batch_size,
            on_step=self.on_step,
            states=self.training_states(),
        )
        frozen = None if teacher is None else numerics.frozen(teacher)
        train_task([trainer], examples, frozen, options)
        if trainer.error:
            raise trainer.error
        random.hand_over()
        self.log = trainer.log


def tensors_of(given: Given, file: Path | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of an artefact on the CPU, and what is known of how they came to be.

    Args:
        file: the weights of the teacher's checkpoint, which may have them.
    """
    # the checkpoint may bring it
    if file is not None:
        found = in_checkpoint(file, given.artefact)
        if found:
            return found, {"beginning": "the teacher's checkpoint has it"}

    # else it is made, always from the same random numbers
    begun = time.perf_counter()
    with RandomState(given.seed, given.device).current():
        tensors = given.artefact.make(given)
    body: dict[str, Any] = {"beginning": given.beginning} if given.beginning else {}
    if given.log is not None:
        body["train"] = asdict(given.log)
        if given.passes is not None:
            body["passes"] = round(given.passes, 3)
    else:
        body["seconds"] = round(time.perf_counter() - begun, 3)
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}, body


def in_checkpoint(file: Path, artefact: Artefact) -> dict[str, Tensor]:
    """Tensors that a checkpoint's file has beside its encoder, under our names.

    They are none at all if one of them is missing.
    """
    names = names_in_file(artefact, file)
    if not names:
        return {}
    with safe_open(file, framework="pt") as weights:
        return {ours: weights.get_tensor(theirs) for ours, theirs in names.items()}
