"""Masked-language modelling that methods share: the head, the teacher's head, and pre-training on
masked tokens alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

from methods.api import Batch, Masking, MethodError, Out, Setup, Shape, Stage, Student, Taps, Term
from methods.core import losses
from methods.core.artefacts import Artefact, PretrainingStage, TeacherWeights
from methods.core.models import Cost, PackedModel, RoutedModule
from methods.core.parts import bert_config, classifier, require_layers, under
from methods.core.taps import NOTHING, hidden


class MaskedLanguageHead(RoutedModule):
    """BERT's head over the vocabulary: a layer with gelu and LayerNorm, then the word embeddings as
    output matrix. The matrix is not a parameter of the head: it belongs to whoever embeds. Where
    the states are wider than the embeddings, a matrix of the head's own makes up the difference
    (MobileBERT's code). They cannot be narrower. Masked tokens alone go through it."""

    def __init__(self, words_VE: Tensor, width: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        vocabulary, embedded = words_VE.shape
        width = width or embedded

        # a layer with gelu and LayerNorm, as BERT initialises it
        self.dense = nn.Linear(width, width)
        self.LayerNorm = nn.LayerNorm(width, eps=eps)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        nn.init.normal_(self.dense.weight, std=0.02)
        nn.init.zeros_(self.dense.bias)
        # what the output matrix has besides the word embeddings
        wider = (
            torch.empty(vocabulary, width - embedded).normal_(std=0.02)
            if width > embedded
            else None
        )
        self.rest = None if wider is None else nn.Parameter(wider)
        # of all tokens those that are masked go through it
        self.macs_per_token = round(Masking().share * vocabulary * width)
        self._words = [words_VE]  # in a list, so that torch does not register it a second time

    def forward(self, states_KW: Tensor) -> Tensor:
        """[K, W] states -> [K, V] logits."""
        words_VW = self._words[0].to(states_KW.device)
        if self.rest is not None:
            words_VW = torch.cat([words_VW, self.rest], 1)
        return self.LayerNorm(nn.functional.gelu(self.dense(states_KW))) @ words_VW.T + self.bias


class NoStudentModel(PackedModel):
    """In the place of a student's model where only its aux learns."""

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        return Out(batch.layout)

    def cost(self) -> Cost:
        return Cost(0, 0, 0)


def masked_tokens(head: str, layer: int, weight: float = 1.0, of_teacher: bool = False) -> Term:
    """Cross-entropy of the masked tokens, mean over them: ``aux[head]`` on the states after
    ``layer``."""

    def term(batch: Batch, student: Out, teacher: Out, aux: nn.ModuleDict) -> Tensor:
        states_TW = (teacher if of_teacher else student).hidden(layer)
        return losses.hard(aux[head](states_TW[batch.masked_positions]), batch.masked_ids)

    states = hidden(layer)
    return Term(term, weight, *((NOTHING, states) if of_teacher else (states, NOTHING)))


def head_like(teacher: PretrainedConfig, words_VE: Tensor) -> MaskedLanguageHead:
    """A new head over these word embeddings, for states and a LayerNorm like the teacher's."""
    return MaskedLanguageHead(words_VE, teacher.hidden_size, teacher.layer_norm_eps)


@dataclass(frozen=True)
class TeacherHead(PretrainingStage):
    """The un-tuned teacher's masked-language head: its checkpoint's own, or trained on the corpus
    with the encoder fixed."""

    name: ClassVar = "masked_head"
    # BERT's names, an older one of LayerNorm's too, and the last RoBERTa's and MPNet's
    in_checkpoint: ClassVar = {
        "aux.head.dense.weight": (
            "cls.predictions.transform.dense.weight",
            "lm_head.dense.weight",
        ),
        "aux.head.dense.bias": (
            "cls.predictions.transform.dense.bias",
            "lm_head.dense.bias",
        ),
        "aux.head.LayerNorm.weight": (
            "cls.predictions.transform.LayerNorm.weight",
            "cls.predictions.transform.LayerNorm.gamma",
            "lm_head.layer_norm.weight",
        ),
        "aux.head.LayerNorm.bias": (
            "cls.predictions.transform.LayerNorm.bias",
            "cls.predictions.transform.LayerNorm.beta",
            "lm_head.layer_norm.bias",
        ),
        "aux.head.bias": ("cls.predictions.bias", "lm_head.bias"),
    }

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        require_layers(teacher, "a masked-language head")
        embedded = getattr(teacher, "embedding_size", teacher.hidden_size)
        if embedded > teacher.hidden_size:
            raise MethodError(
                "a masked-language head needs states as wide as the word embeddings; this "
                f"teacher's have {teacher.hidden_size} and {embedded}"
            )
        return (TeacherWeights(tuned=False),)

    def build(self, setup: Setup) -> Student:
        return Student(NoStudentModel(), nn.ModuleDict({"head": self._new(setup)}))

    def _new(self, setup: Setup) -> MaskedLanguageHead:
        weights = setup.artefacts[TeacherWeights(tuned=False).name]
        words_VE = weights[f"{setup.teacher.model_type}.embeddings.word_embeddings.weight"]
        return head_like(setup.teacher, words_VE)

    def stages(self, setup: Setup) -> Sequence[Stage]:
        last = setup.teacher.num_hidden_layers
        return (
            Stage(
                "head", {"masked": masked_tokens("head", last, of_teacher=True)}, masking=Masking()
            ),
        )

    def filled(self, setup: Setup) -> MaskedLanguageHead:
        """The head with its weights, fixed."""
        head = self._new(setup)
        head.load_state_dict(under("aux.head.", setup.artefacts[self.name]))
        return head.requires_grad_(False)


@dataclass(frozen=True)
class MaskedPretraining(PretrainingStage):
    """A BERT of this shape pre-trained on masked tokens alone, from random weights; no teacher
    (Turc et al. 2019, section 3)."""

    shape: Shape
    name: ClassVar = "masked_pretraining"

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"shape": [self.shape.layers, self.shape.hidden, self.shape.heads, self.shape.ffn]}

    def build(self, setup: Setup) -> Student:
        model: Any = classifier(bert_config(self.shape, setup.teacher))
        words = model.bert.embeddings.word_embeddings.weight
        return Student(model, nn.ModuleDict({"head": MaskedLanguageHead(words)}))

    def stages(self, setup: Setup) -> Sequence[Stage]:
        return (
            Stage(
                "masked words",
                {"masked": masked_tokens("head", self.shape.layers)},
                masking=Masking(),
            ),
        )
