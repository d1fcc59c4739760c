"""TernaryBERT, Zhang et al. 2020 (EMNLP, "TernaryBERT: distillation-aware ultra-low bit BERT",
arXiv 2009.12812).

The paper's: every matrix of the fine-tuned model is made of -1, 0 and 1 times a scale (ternary
weight networks, Li and Liu 2016): one scale for a matrix of the encoder, one for each row of the
word embeddings; activations have 8 bits. The model that is rounded so is trained by distillation
from the one that it was: hidden states of every layer and of the embedding (mean squared error),
attention scores of every layer (the same), and the teacher's predictions (soft cross-entropy), in
one stage, all weights 1.
As in the authors' code: the soft cross-entropy is a mean over examples and classes; of questions it
is a mean over examples and the 384 places of a filled sequence, of the start and the end, which are
added (the paper names no mean). The pooler is rounded, positions, segments, LayerNorms, biases and
the classification layer are not; queries, keys and values are rounded as they leave their layers;
activations have symmetric steps (the min-max steps that are in the code too are not used by its
layers); weights and activations are cut at ``clip``; ``weight_bits=8`` is their other choice. STS-B
learns from the teacher's score.
Of RoBERTa, ELECTRA and MPNet the same parts are rounded: the first layer of their heads is BERT's
pooler, and MPNet's bias of relative positions stays as positions do. ModernBERT has queries, keys
and values in one matrix, which would share a scale.
Ours, where the code is another: a scale of activations for each token, theirs one for the whole
batch, whose answers depend on their neighbours; attention probabilities are not rounded; means over
real tokens, theirs over padded ones; the last checkpoint, theirs the best one on development
examples; augmentation is an option of the run (theirs is on by default); AdamW and clipping, theirs
BertAdam.
Loss-aware ternarization (the paper's LAT rows), which weighs the error of rounding by the
optimiser's second moments, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn
from transformers import PretrainedConfig

from methods.api import Method, Setup, Stage, Student, Term
from methods.core import losses
from methods.core.artefacts import Artefact, TeacherWeights
from methods.core.parts import require_layers
from methods.core.quantized import (
    TERNARY,
    ActivationBits,
    WeightBits,
    finished,
    quantized_classifier,
)
from methods.core.settings import Positive
from methods.core.terms import HIDDEN, SCORES, hard, layerwise, plain, soft, with_layout

SPAN_PLACES = 384
"""Places of a sequence in the authors' code for questions: it fills every
sequence up to so many."""


def mean_cross_entropy(student_BC: Tensor, teacher_BC: Tensor) -> Tensor:
    """-p_teacher * log p_student, mean over B*C; C = 1: the mean squared error."""
    return losses.soft_cross_entropy_elementmean(student_BC, teacher_BC, 1.0)


def span_cross_entropy(student_2BL: Tensor, teacher_2BL: Tensor) -> Tensor:
    """-p_teacher * log p_student of the start and of the end of a span, each a mean
    over B*384, added."""
    # the batch mean is over 2 B rows, starts and ends: half of what the two sides add up to
    summed = 2 * losses.soft_cross_entropy_batchmean(student_2BL, teacher_2BL)
    return summed / SPAN_PLACES


@dataclass(frozen=True, kw_only=True)
class TernaryBERT(Method):
    name: ClassVar = "ternarybert"
    version: ClassVar = 2  # 1 summed the soft cross-entropy over classes, and over places
    terms: ClassVar = ("hidn", "attn", "pred")
    needs_teacher: ClassVar = True
    spans: ClassVar = True
    same_init_across_seeds: ClassVar = True
    ablations: ClassVar = {
        "w/o Trm": ":-hidn:-attn",
        "w/o Trm, logits": ":prediction=labels:-hidn:-attn",
    }
    search_space: ClassVar = {"clip": (2.5, 5.0, 10.0)}
    remark: ClassVar = (
        "ternarybert: its file is small; opened, its weights are fp32 again, so memory and time "
        "are no less than its teacher's."
    )

    weight_bits: WeightBits = TERNARY  # 2: -1, 0 and 1 times a scale; above: 2^bits - 1 equal steps
    activation_bits: ActivationBits = 8  # 32: not rounded
    # absolute value at which weights, and activations that are rounded, are cut
    clip: Positive = 2.5
    prediction: Literal["soft", "labels"] = "soft"
    """``soft``: the teacher's predictions; ``labels``: cross-entropy with the
    labels, of weight 1."""

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        require_layers(teacher, self.name)
        return (TeacherWeights(tuned=True),)

    def build(self, setup: Setup) -> Student:
        how = {
            "weight_bits": self.weight_bits,
            "activation_bits": self.activation_bits,
            "clip": self.clip,
        }
        return Student(quantized_classifier(setup, setup.artefacts["tuned_teacher"], **how))

    def stages(self, setup: Setup) -> Sequence[Stage]:
        layers = {m: m for m in range(setup.teacher.num_hidden_layers + 1)}
        terms = {
            "hidn": layerwise(HIDDEN, layers, plain(losses.hidden_mse_tokenmean)),
            "attn": layerwise(
                SCORES, {m: m for m in layers if m}, with_layout(losses.scores_mse_realmean)
            ),
            "pred": self._prediction(setup.spans),
        }
        return (Stage("quantize", terms, paper={"epochs": 3.0, "learning_rate": 2e-5}),)

    def _prediction(self, spans: bool) -> Term:
        if self.prediction == "labels":
            return hard()
        return soft(span_cross_entropy if spans else mean_cross_entropy)

    def deploy(self, student: Student) -> Mapping[str, nn.Module]:
        return {"": finished(student.model)}
