"""Methods as a third party would write them: the teacher's logits by squared error (Ba and Caruana 2014), and one that asks
for artefacts of kinds of its own."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import nn

from methods.api import Shape, Stage, Student, Term
from methods.core.artefacts import BASE, CORPUS, TRAIN, Artefact, PretrainingStage, fine_tuned
from methods.core.models import forward
from methods.core.own_shape import OwnShape
from methods.core.parts import bert_config, classifier, encoder_of, pretrained_tensors
from methods.core.taps import LOGITS, hidden
from methods.core.terms import hard


@dataclass(frozen=True, kw_only=True)
class TeacherLogits(OwnShape):
    name: ClassVar = "teacherlogits"
    version: ClassVar = 1
    terms: ClassVar = ("logits",)
    needs_teacher: ClassVar = True

    def build(self, setup):
        return Student(self.student_model(setup))

    def stages(self, setup):
        both = LOGITS
        term = Term(
            lambda batch, student, teacher, aux: F.mse_loss(student.logits, teacher.logits),
            1.0,
            both,
            both,
        )
        return [Stage("distil", {"logits": term})]


@dataclass(frozen=True)
class ClassMeans(Artefact):
    """``means`` [C, W]: the un-tuned teacher's last [CLS] state, mean over each class's training rows (of a regression: all)."""

    name: ClassVar = "class_means"

    def inputs(self, teacher):
        return (BASE, TRAIN)

    def make(self, given):
        teacher, last = given.teacher(BASE), given.setup.teacher.num_hidden_layers
        sums = torch.zeros(
            given.setup.num_labels, given.setup.teacher.hidden_size, device=given.device
        )
        counts = torch.zeros(len(sums), 1, device=given.device)
        for batch in given.batches(TRAIN):
            with torch.no_grad():
                first = batch.layout.first(forward(teacher, batch, hidden(last)).hidden(last))
            classes = rows_of(batch.labels, len(sums))
            sums.index_add_(0, classes, first)
            counts.index_add_(0, classes, torch.ones(len(first), 1, device=given.device))
        return {"means": sums / counts.clamp_min(1.0)}

    def blank(self, teacher, num_labels):
        return {"means": torch.zeros(num_labels, teacher.hidden_size)}


@dataclass(frozen=True)
class TunedOnText(PretrainingStage):
    """An encoder that learns on text what the teacher tuned on the task answers to it: one for each task."""

    shape: Shape
    name: ClassVar = "tuned_on_text"

    def inputs(self, teacher):
        return (fine_tuned(), CORPUS)

    def build(self, setup):
        return Student(classifier(bert_config(self.shape, setup.teacher, setup.num_labels)))

    def stages(self, setup):
        both = LOGITS
        term = Term(
            lambda batch, student, teacher, aux: F.mse_loss(student.logits, teacher.logits),
            1.0,
            both,
            both,
        )
        return (Stage("on text", {"logits": term}),)

    def make(self, given):
        student = self.build(given.setup)
        given.train(student, self.stages(given.setup), given.teacher(fine_tuned()))
        return pretrained_tensors(student)


def rows_of(labels, classes):
    """Of each example the row of the means: its class, or 0 of a regression."""
    return torch.zeros_like(labels, dtype=torch.int64) if classes == 1 else labels


@dataclass(frozen=True, kw_only=True)
class Prototypes(OwnShape):
    """The labels, and [CLS] states near those that the un-tuned teacher has on average for the same class."""

    name: ClassVar = "prototypes"
    version: ClassVar = 1
    terms: ClassVar = ("near", "hard")
    needs_teacher: ClassVar = False

    start: Literal["random", "text"] = "random"

    def requires(self, teacher):
        return (ClassMeans(), *([TunedOnText(self.shape)] if self.start == "text" else []))

    def build(self, setup):
        encoder = encoder_of(setup.artefacts["tuned_on_text"]) if self.start == "text" else None
        means = setup.artefacts["class_means"]["means"]
        up = nn.Linear(self.hidden, means.size(1))
        up.register_buffer("means", means.clone())
        model = classifier(bert_config(self.shape, setup.teacher, setup.num_labels), encoder)
        return Student(model, nn.ModuleDict({"up": up}))

    def stages(self, setup):
        last = self.layers

        def near(batch, student, teacher, aux):
            up = aux["up"]
            return F.mse_loss(
                up(batch.layout.first(student.hidden(last))),
                up.means[rows_of(batch.labels, len(up.means))],
            )

        terms = {"near": Term(near, student=hidden(last)), "hard": hard()}
        return [Stage("prototypes", terms)]
