"""Contrast of intermediate states (Sun et al. 2020), as an author would write the method: each sentence's states after all layers
against those of the other sentences of the batch."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F

from methods.api import Stage, Student, Term
from methods.core.own_shape import OwnShape
from methods.core.parts import nearest_layers
from methods.core.settings import Positive
from methods.core.taps import hidden
from methods.core.terms import hard


def pool(layout, states):
    return layout.mean(states)


def info_nce(ours, theirs, temperature):
    """Each row of ours should be nearest to the same row of theirs."""
    likeness = F.normalize(ours, dim=-1) @ F.normalize(theirs, dim=-1).T
    partners = torch.arange(len(ours), device=ours.device)
    return F.cross_entropy(likeness / temperature, partners)


@dataclass(frozen=True, kw_only=True)
class CoDIR(OwnShape):
    name: ClassVar = "codir"
    version: ClassVar = 1
    terms: ClassVar = ("contrast", "hard")
    needs_teacher: ClassVar = True
    temperature: Positive = 0.5

    def build(self, setup):
        up = torch.nn.Linear(self.hidden, setup.teacher.hidden_size)
        return Student(self.student_model(setup), torch.nn.ModuleDict({"up": up}))

    def stages(self, setup):
        layers = nearest_layers(self.layers, setup.teacher.num_hidden_layers)
        del layers[0]

        def contrast(batch, student, teacher, aux):
            ours = [pool(batch.layout, aux["up"](student.hidden(m))) for m in layers]
            theirs = [pool(batch.layout, teacher.hidden(n)) for n in layers.values()]
            return info_nce(torch.cat(ours, 1), torch.cat(theirs, 1), self.temperature)

        taps = hidden(*layers), hidden(*layers.values())
        term = Term(contrast, 1.0, *taps, across_batch=True)
        return [Stage("distil", {"contrast": term, "hard": hard()})]
