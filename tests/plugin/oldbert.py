"""A method of contract 1, before there was a base class: the harness reads it and says what to change."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from methods import losses
from methods.api import GeneralStart, Needs, Stage, Student, Term


@dataclass(frozen=True, kw_only=True)
class OldLogits:
    name: ClassVar = "oldlogits"
    version: ClassVar = 1
    terms: ClassVar = ("logits",)
    ablations: ClassVar = {}
    needs_teacher: ClassVar = True
    small: ClassVar = {"layers": 2}
    grid: ClassVar = {"layers": (2, 4)}
    several_tasks: ClassVar = False
    begins_alike: ClassVar = False

    layers: int = 4

    def prepare(self, teacher):
        return (GeneralStart,)

    def build(self, setup):
        return Student(BertForSequenceClassification(BertConfig()), nn.ModuleDict())

    def stages(self, setup):
        both = Needs(logits=True)

        def logits(batch, student, teacher, aux):
            return losses.logits_mse_elementmean(student.logits, teacher.logits)

        terms = {"logits": Term(logits, 1.0, both, both, impossible="")}
        first = Stage("first", terms, share=0.5, pace=lambda progress: 1.0, rates=lambda name: 1.0)
        return [Stage("before", terms, preparatory_steps=10), first]

    def deploy(self, student):
        return {"": student.model}
