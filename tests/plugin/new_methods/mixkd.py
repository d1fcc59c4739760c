"""Distillation on mixed examples (Liang et al. 2021), as an author would write the method: student and teacher are asked a second
time, with word embeddings that lie between those of two sentences."""

import copy
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from transformers import AutoModelForSequenceClassification

from methods.api import Stage, Student, Term
from methods.core.artefacts import TeacherWeights
from methods.core.losses import soft_kl_batchmean
from methods.core.models import forward
from methods.core.own_shape import OwnShape
from methods.core.settings import Positive
from methods.core.taps import LOGITS
from methods.core.terms import hard, softened


@contextmanager
def mixed_words(model, share, partner_T):
    """Inside, word embeddings are mixed with those of the partners."""

    def mix(module, given, words):
        tokens = words.flatten(0, -2)
        return (share * tokens + (1 - share) * tokens[partner_T]).view_as(words)

    handle = model.get_input_embeddings().register_forward_hook(mix)
    try:
        yield
    finally:
        handle.remove()


def partners(layout):
    """For each token the one at its position in the next sentence, or the last one there."""
    following = torch.roll(torch.arange(len(layout.lengths)), -1)
    other_T = following[layout.owner_T]
    last_T = layout.lengths_B[other_T] - 1
    return layout.starts_B[other_T] + torch.minimum(layout.positions_T, last_T)


@dataclass(frozen=True, kw_only=True)
class MixKD(OwnShape):
    name: ClassVar = "mixkd"
    version: ClassVar = 1
    terms: ClassVar = ("mixed", "soft", "hard")
    needs_teacher: ClassVar = True
    temperature: Positive = 2.0

    def requires(self, teacher):
        return (*super().requires(teacher), TeacherWeights(tuned=True))

    def build(self, setup):
        config = copy.deepcopy(setup.teacher)
        config.num_labels = setup.num_labels
        teacher = AutoModelForSequenceClassification.from_config(config)
        teacher.load_state_dict(setup.artefacts["tuned_teacher"])
        teacher.set_attn_implementation("packed")
        teacher.requires_grad_(False)
        return Student(self.student_model(setup), torch.nn.ModuleDict({"teacher": teacher}))

    def stages(self, setup):
        def mixed(batch, student, teacher, aux):
            share = torch.distributions.Beta(0.4, 0.4).sample()
            partner_T = partners(batch.layout)
            model = student.model
            with mixed_words(model, share, partner_T):
                ours = forward(model, batch, LOGITS).logits
            guide = aux["teacher"].eval()
            with torch.no_grad(), mixed_words(guide, share, partner_T):
                theirs = forward(guide, batch, LOGITS).logits
            return soft_kl_batchmean(ours, theirs, self.temperature)

        terms = {"mixed": Term(mixed, 1.0, across_batch=True)}
        terms |= {"soft": softened(self.temperature, 1.0), "hard": hard()}
        return [Stage("distil", terms)]
