"""Encoders that are trained on unlabelled text before any task: a stage of a paper, and distillation of the hidden states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from torch import Tensor, nn

from methods.api import Batch, Out, Setup, Stage, Student, Term
from methods.families import Cost, cost
from methods.taps import hidden

if TYPE_CHECKING:
    from transformers import PretrainedConfig

from methods.artefacts.encoders import TruncatedShape, by_shape
from methods.artefacts.protocol import BASE, CORPUS, Artefact, Given, Identity, Source, Training


class PretrainingStage(Artefact):
    """A pre-training of a method's own: a student trained on unlabelled text beside the un-tuned teacher.

    Its tensors are those of the student's model by name, and those of its aux after ``aux.``. If the encoder of the row's
    student is taken from them, override ``encoder_width``.
    """

    corpus_tokens: ClassVar[int | None] = 0

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        """What must exist before :meth:`build`."""
        return ()

    def build(self, setup: Setup) -> Student:
        """The student before its pre-training."""
        raise NotImplementedError(f"{type(self).__name__} must implement build()")

    def teacher(self, setup: Setup) -> nn.Module | None:
        """A teacher of its own; None for the un-tuned one."""
        return None

    def training_cost(self, student: Student) -> Cost:
        """Of the student's forward pass while it trains, where that is more than the model's own."""
        return cost(student.model)

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (BASE, CORPUS, *self.requires(teacher))

    def make(self, given: Given) -> Mapping[str, Tensor]:
        from methods.parts import pretrained_tensors

        setup = given.setup
        student = self.build(setup)
        teacher = self.teacher(setup)
        given.train(student, self.stages(setup), given.teacher(BASE) if teacher is None else teacher)
        return pretrained_tensors(student)

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        from methods.parts import blank_artefacts, pretrained_tensors

        parts = blank_artefacts(self.requires(teacher), teacher, num_labels)
        return pretrained_tensors(self.build(Setup(teacher, num_labels, (), parts)))

    def training(self, setup: Setup) -> Training:
        student = self.build(setup)
        return Training(student, self.stages(setup), self.training_cost(student), self.teacher(setup))

    def identity(self, known: Identity) -> Mapping[str, Any]:
        return {"parts": {}, **known.generic}


@dataclass(frozen=True)
class GeneralDistillation(TruncatedShape, PretrainingStage):
    """Encoder weights of this shape that imitate the un-tuned teacher's hidden states on unlabelled text.

    Embedding and every layer, through one learned projection, against the nearest teacher layers (TinyBERT's
    hidden loss, the part of its general stage that needs no attention of equal head count). It begins
    as the truncated teacher where that is possible (``methods/truncation.py``). Tensors: those of a ``BertModel`` without
    pooler by name, and ``projection.weight``, ``projection.bias`` from its width to the teacher's.
    """

    name: ClassVar[str] = "general_start"
    paper: ClassVar[Mapping[str, Any]] = {"learning_rate": 1e-4}
    """The rate of TinyBERT's general distillation, which takes that of BERT's pre-training (Devlin et al. 2019, A.2)."""

    def build(self, setup: Setup) -> Student:
        from methods.parts import bert_config, classifier

        config = bert_config(self.shape, setup.teacher)
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0  # a regression on plenty of text
        model = classifier(config)
        return Student(model, nn.ModuleDict({"projection": nn.Linear(self.shape.hidden, setup.teacher.hidden_size)}))

    def stages(self, setup: Setup) -> Sequence[Stage]:
        from methods import losses
        from methods.parts import nearest_layers

        layer_map = nearest_layers(self.shape.layers, setup.teacher.num_hidden_layers)

        def imitate(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
            parts = [
                losses.hidden_mse_tokenmean(aux["projection"](student.hidden(m)), teacher.hidden(n))
                for m, n in layer_map.items()
            ]
            return torch.stack(parts).sum()

        term = Term(imitate, student=hidden(*layer_map), teacher=hidden(*layer_map.values()))
        return (Stage("general start", {"hidn": term}, paper=self.paper),)

    def make(self, given: Given) -> Mapping[str, Tensor]:
        from methods.truncation import encoder_tensors, fill_from_teacher

        student = self.build(given.setup)
        model, projection = student.model, cast(nn.Linear, student.aux["projection"])
        teacher = fill_from_teacher(given, model, projection)
        given.train(student, self.stages(given.setup), teacher)
        return encoder_tensors(model, projection)

    def identity(self, known: Identity) -> Mapping[str, Any]:
        return by_shape(known, self.shape)
