"""Plain fine-tuning on the labels: the baseline of every distillation method.

On the task there is no teacher. By default the encoder begins with the shared general start, which imitated the hidden
states of the un-tuned teacher on text: so the row shows what the start alone gives. Other papers' row without any
distillation is another one: their small BERT has seen no teacher at all. ``start=random`` is the same shape from random
weights, without any teacher. BERT_TINY of Jiao et al. 2020, table 1, is pre-trained as BERT is, without a teacher, and
then tuned: ``pd:finetune=true:start=masked:-soft``, where the pre-training is on masked tokens alone, without next
sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from methods.api import Setup, Stage
from methods.own_shape import OwnShape
from methods.terms import hard


@dataclass(frozen=True, kw_only=True)
class FineTune(OwnShape):
    name: ClassVar = "finetune"
    version: ClassVar = 1
    terms: ClassVar = ("hard",)
    needs_teacher: ClassVar = False
    spans: ClassVar = True
    baseline: ClassVar = True

    def stages(self, setup: Setup) -> Sequence[Stage]:
        # Turc et al. 2019 tune compact BERTs over 3e-5 ... 3e-4 for four epochs.
        return (Stage("finetune", {"hard": hard()}, paper={"epochs": 4.0, "learning_rate": 1e-4}),)
