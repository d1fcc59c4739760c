"""What is computed from examples: the answers of several teachers, and anything that a method computes itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from methods.api import Batch

if TYPE_CHECKING:
    from transformers import PretrainedConfig

from methods.artefacts.protocol import EVALUATION, TRAIN, Artefact, Given, Identity, Source, fine_tuned


@dataclass(frozen=True)
class EnsembleTargets(Artefact):
    """The mean answer of several tuned teachers of one task to each of its training examples.

    The teachers differ by their seed: of head, dropout and order of batches. Tensors: ``targets`` [n, C], the
    mean of their class probabilities (of a regression, of their scores), and ``ids`` [n], the examples' ids.
    """

    members: int
    name: ClassVar[str] = "ensemble_targets"

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (*self._teachers, TRAIN)

    @property
    def _teachers(self) -> list[Source]:
        return [fine_tuned(seed, f"teacher {seed}") for seed in range(self.members)]

    def make(self, given: Given) -> Mapping[str, Tensor]:
        answers = []
        for teacher in self._teachers:
            logits = given.answers(teacher, TRAIN)
            answers.append(logits if logits.size(1) == 1 else logits.softmax(-1))
        return {"targets": torch.stack(answers).mean(0), "ids": torch.tensor(list(given.ids(TRAIN)))}

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        return {"targets": torch.zeros(1, num_labels), "ids": torch.zeros(1, dtype=torch.int64)}

    def identity(self, known: Identity) -> Mapping[str, Any]:
        taken = {name: known.generic[name] for name in ("schema", "data")}
        read = {} if known.reads_as_teacher else {"max_length": known.generic["max_length"]}
        return {**taken, "what": self.name, "teachers": list(known.teachers), **read}


class ComputedArtefact(Artefact):
    """Something computed from the tuned teacher and a task's examples, like importance scores.

    A subclass states ``compute`` in the place of ``make``. With ``rows`` of the value ``validation`` it is given the
    first evaluation set in the place of the training rows: for reproducing a pipeline that does that.
    """

    rows: str = "train"

    def compute(self, teacher: nn.Module, batches: Iterable[Batch]) -> Mapping[str, Tensor]:
        """Its tensors; the batches are the examples in their order, not shuffled."""
        raise NotImplementedError(f"{type(self).__name__} must implement compute()")

    @property
    def _rows(self) -> Source:
        return EVALUATION if self.rows == "validation" else TRAIN

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (fine_tuned(), self._rows)

    def make(self, given: Given) -> Mapping[str, Tensor]:
        return self.compute(given.teacher(fine_tuned()), given.batches(self._rows))

    def identity(self, known: Identity) -> Mapping[str, Any]:
        """Rows are called ``data``, whichever they are."""
        return {"data" if name == "evaluation" else name: value for name, value in known.generic.items()}
