"""Relations of examples (Park et al. 2019), as an author would write the method: distances and angles between the mean states of the
sentences of a batch, after every layer."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F

from methods.api import Stage, Student, Term
from methods.core.own_shape import OwnShape
from methods.core.parts import nearest_layers
from methods.core.settings import Positive
from methods.core.taps import hidden
from methods.core.terms import hard, softened


def pool(layout, states):
    return layout.mean(states)


def distances(states):
    """[B, B] distances, divided by their mean."""
    apart = torch.cdist(states, states)
    return apart / apart[apart > 0].mean()


def angles(states):
    """[B, B, B] cosines of the angles at each sentence between every two others."""
    edges = F.normalize(states[None] - states[:, None], dim=-1)
    return edges @ edges.transpose(1, 2)


@dataclass(frozen=True, kw_only=True)
class RKD(OwnShape):
    name: ClassVar = "rkd"
    version: ClassVar = 1
    terms: ClassVar = ("distance", "angle", "soft", "hard")
    needs_teacher: ClassVar = True
    temperature: Positive = 2.0

    def build(self, setup):
        return Student(self.student_model(setup))

    def stages(self, setup):
        layers = nearest_layers(self.layers, setup.teacher.num_hidden_layers)
        del layers[0]

        def relation(of):
            def loss(batch, student, teacher, aux):
                parts = []
                for m, n in layers.items():
                    ours = of(pool(batch.layout, student.hidden(m)))
                    theirs = of(pool(batch.layout, teacher.hidden(n)))
                    parts.append(F.smooth_l1_loss(ours, theirs))
                return torch.stack(parts).sum()

            taps = hidden(*layers), hidden(*layers.values())
            return Term(loss, 1.0, *taps, across_batch=True)

        terms = {"distance": relation(distances), "angle": relation(angles)}
        terms |= {"soft": softened(self.temperature, 1.0), "hard": hard()}
        return [Stage("distil", terms)]
