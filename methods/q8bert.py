"""Q8BERT, Zafrir et al. 2019 ("Q8BERT: quantized 8bit BERT", EMC2 at NeurIPS, arXiv 1910.06188):
quantization-aware fine-tuning.

The paper's: the pre-trained model is fine-tuned on the labels while every linear layer and
embedding computes with weights of 8 bits (symmetric, by the largest absolute weight) and linear
layers with activations of 8 bits; gradients pass the rounding unchanged. Softmax, LayerNorm and
gelu are not rounded.
Ours, where the code is another: activations are rounded by the largest number of each token, theirs
by a moving average over batches that stays fixed afterwards; each row of an embedding has its own
scale, theirs one for the matrix. By default their code also rounds what every linear layer gives;
which layers of a model do is in a configuration that we have not seen: here queries, keys and
values. Of RoBERTa, ELECTRA and MPNet the same parts are rounded, MPNet's bias of relative positions
as an embedding of 32 rows. ModernBERT has queries, keys and values in one matrix, which would share
a scale. ``weight_bits`` below 8 is Q8BERT with fewer bits: the paper has 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import nn
from transformers import PretrainedConfig

from methods.api import Method, Setup, Stage, Student
from methods.core.artefacts import Artefact, TeacherWeights
from methods.core.parts import require_layers
from methods.core.quantized import ActivationBits, WeightBits, finished, quantized_classifier
from methods.core.terms import hard


@dataclass(frozen=True, kw_only=True)
class Q8BERT(Method):
    name: ClassVar = "q8bert"
    version: ClassVar = 1
    terms: ClassVar = ("hard",)
    needs_teacher: ClassVar = False
    spans: ClassVar = True
    remark: ClassVar = (
        "q8bert: its file is small; opened, its weights are fp32 again, so memory and time are no "
        "less than its teacher's."
    )

    weight_bits: WeightBits = 8
    activation_bits: ActivationBits = 8  # 32: not rounded

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        require_layers(teacher, self.name)
        return (TeacherWeights(tuned=False),)

    def build(self, setup: Setup) -> Student:
        how = {
            "weight_bits": self.weight_bits,
            "activation_bits": self.activation_bits,
            "rounds_all": True,
        }
        return Student(quantized_classifier(setup, setup.artefacts["teacher_weights"], **how))

    def stages(self, setup: Setup) -> Sequence[Stage]:
        return (Stage("quantize", {"hard": hard()}, paper={"epochs": 3.0, "learning_rate": 2e-5}),)

    def deploy(self, student: Student) -> Mapping[str, nn.Module]:
        return {"": finished(student.model)}
