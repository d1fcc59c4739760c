"""Plain fine-tuning on the labels: the baseline of every distillation method.

On the task there is no teacher. By default the encoder begins with the shared general start, which
imitated the hidden states of the un-tuned teacher on text: so the row shows what the start alone
gives. Other papers' row without any distillation is another one: their small BERT has seen no
teacher at all. ``start=random`` is the same shape from random weights, without any teacher.
BERT_TINY of Jiao et al. 2020, table 1, is pre-trained as BERT is, without a teacher, and then
tuned: ``pd:finetune=true:start=masked:-soft``, where the pre-training is on masked tokens alone,
without next sentences.

``encoder=`` is what people do instead of compressing: another encoder is tuned whole, of any family
and with its own vocabulary. ``encoder=teacher`` is the teacher's checkpoint itself, tuned with
every seed. All that is not of the encoder is new with each seed, also a head that the checkpoint
brings (ModernBERT's). By ``--recipe paper`` three epochs at the rates of teachers: 3e-5 (Devlin et
al. 2019, A.3), and for encoders narrower than 512 1.5e-4.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from transformers import AutoModelForSequenceClassification, PretrainedConfig

from methods.api import MethodError, Setup, Stage, Student
from methods.core.artefacts import Artefact, TeacherWeights
from methods.core.families import read_packed
from methods.core.models import is_packed
from methods.core.own_shape import OwnShape
from methods.core.parts import load_checked, under
from methods.core.settings import added_setting, values_of
from methods.core.terms import hard

TEACHER = "teacher"


@dataclass(frozen=True, kw_only=True)
class FineTune(OwnShape):
    name: ClassVar = "finetune"
    version: ClassVar = 1
    terms: ClassVar = ("hard",)
    needs_teacher: ClassVar = False
    spans: ClassVar = True
    baseline: ClassVar = True

    encoder: str = added_setting("")
    """A whole encoder in the place of a small one: a hub name, a folder, or ``teacher``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        held = values_of(self)
        typed = [
            each.name
            for each in fields(self)
            if each.name != "encoder" and held[each.name] != each.default
        ]
        if self.encoder and typed:
            raise MethodError(
                f"encoder={self.encoder} has its own shape and weights: leave "
                f"{', '.join(typed)} out"
            )

    @property
    def own_encoder(self) -> str:
        return "" if self.encoder == TEACHER else self.encoder

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        return (TeacherWeights(tuned=False),) if self.encoder else super().requires(teacher)

    def build(self, setup: Setup) -> Student:
        if not self.encoder:
            return super().build(setup)
        config: Any = copy.deepcopy(setup.teacher)
        config.num_labels = setup.num_labels
        # in fp32 whatever its file has: small steps are lost in fp16
        model: Any = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
        if is_packed(model):
            read_packed(model)
        encoder = under(f"{model.base_model_prefix}.", setup.artefacts["teacher_weights"])
        load_checked(model.base_model, encoder, "the encoder")
        return Student(model)

    def stages(self, setup: Setup) -> Sequence[Stage]:
        # Turc et al. 2019 tune compact BERTs over 3e-5 ... 3e-4 for four epochs
        paper = {"epochs": 4.0, "learning_rate": 1e-4}
        if self.encoder:
            paper = {
                "epochs": 3.0,
                "learning_rate": 3e-5 if setup.teacher.hidden_size >= 512 else 1.5e-4,
            }
        return (Stage("finetune", {"hard": hard()}, paper=paper),)
