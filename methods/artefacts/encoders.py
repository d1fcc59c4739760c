"""Encoders that are taken, not trained: a truncated teacher, a checkpoint of others, weights of the teacher."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from methods.api import Shape

if TYPE_CHECKING:
    from transformers import PretrainedConfig

from methods.artefacts.protocol import (
    BASE,
    CORPUS,
    OBSERVED_TOKENS,
    Artefact,
    Given,
    Identity,
    Source,
    checkpoint,
    fine_tuned,
)


@dataclass(frozen=True)
class TruncatedShape(Artefact):
    """What the artefacts share that begin as the un-tuned teacher truncated to this shape; named first among the bases."""

    shape: Shape
    corpus_tokens: ClassVar[int | None] = OBSERVED_TOKENS

    def encoder_width(self, teacher: PretrainedConfig) -> int:
        return self.shape.hidden

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        return blank_encoder(self.shape, teacher)

    def title(self, key: str) -> str:
        return f"{self.words} {self.shape}"


@dataclass(frozen=True)
class TruncatedTeacher(TruncatedShape):
    """The un-tuned teacher truncated to its shape: where the general start begins before it is trained.

    Tensors as of :class:`GeneralDistillation`; where the teacher is no BERT or the shape does not fit into it, random weights.
    """

    name: ClassVar[str] = "cut_teacher"

    @property
    def words(self) -> str:
        return "truncated teacher"

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (BASE, CORPUS)

    def make(self, given: Given) -> Mapping[str, Tensor]:
        from methods.parts import bert_config, classifier
        from methods.truncation import encoder_tensors, fill_from_teacher

        config = given.setup.teacher
        model = classifier(bert_config(self.shape, config))
        projection = nn.Linear(self.shape.hidden, config.hidden_size)
        fill_from_teacher(given, model, projection)
        return encoder_tensors(model, projection)

    def identity(self, known: Identity) -> Mapping[str, Any]:
        return by_shape(known, self.shape) | {"what": self.name}


def by_shape(known: Identity, shape: Shape) -> dict[str, Any]:
    """The form of the oldest keys: a shape, and nothing that says what has it."""
    generic = {name: value for name, value in known.generic.items() if name != "what"}
    return generic | {"shape": [shape.layers, shape.hidden, shape.heads, shape.ffn]}


def blank_encoder(shape: Shape, teacher: PretrainedConfig) -> dict[str, Tensor]:
    from transformers import BertModel

    from methods.parts import bert_config

    encoder = BertModel(bert_config(shape, teacher), add_pooling_layer=False).state_dict()
    projection = nn.Linear(shape.hidden, teacher.hidden_size).state_dict()
    return {**encoder, **{f"projection.{part}": value for part, value in projection.items()}}


@dataclass(frozen=True)
class GivenEncoder(Artefact):
    """Encoder weights that somebody else made: a hub name or a folder with safetensors.

    Tensors as of :class:`GeneralDistillation`; the projection is there only if the checkpoint has one (``fit_dense``, as
    TinyBERT's do).
    """

    path: str
    shape: Shape
    name: ClassVar[str] = "given_start"
    is_kept: ClassVar[bool] = False

    def encoder_width(self, teacher: PretrainedConfig) -> int:
        return self.shape.hidden

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (checkpoint(self.path, self.shape),)

    def make(self, given: Given) -> Mapping[str, Tensor]:
        """Read through transformers, which knows the older names of LayerNorm's weights."""
        return given_tensors(given.folder(checkpoint(self.path, self.shape)))

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        return blank_encoder(self.shape, teacher)


def given_tensors(folder: Path) -> dict[str, Tensor]:
    """The encoder of somebody's checkpoint without its pooler, and TinyBERT's ``fit_dense`` as the projection."""
    from safetensors import safe_open
    from transformers import AutoModel

    model: Any = AutoModel.from_pretrained(folder, add_pooling_layer=False)
    made = {name: value.detach().contiguous() for name, value in model.state_dict().items()}
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        if {"fit_dense.weight", "fit_dense.bias"} <= set(file.keys()):
            made["projection.weight"] = file.get_tensor("fit_dense.weight")
            made["projection.bias"] = file.get_tensor("fit_dense.bias")
    return made


@dataclass(frozen=True)
class TeacherWeights(Artefact):
    """The teacher's own weights, by name as in its classifier's state dict.

    ``tuned``: after fine-tuning on the task, with its head; else as the checkpoint came, without a head.
    """

    tuned: bool
    is_kept: ClassVar[bool] = False
    cut_from_teacher: ClassVar[bool] = True

    @property
    def name(self) -> str:  # type: ignore[override]
        return "tuned_teacher" if self.tuned else "teacher_weights"

    def encoder_width(self, teacher: PretrainedConfig) -> int:
        return int(teacher.hidden_size)

    def inputs(self, teacher: PretrainedConfig) -> Sequence[Artefact | Source]:
        return (fine_tuned() if self.tuned else BASE,)

    def make(self, given: Given) -> Mapping[str, Tensor]:
        teacher = given.teacher(fine_tuned() if self.tuned else BASE)
        return self._kept({name: value.cpu() for name, value in teacher.state_dict().items()})

    def blank(self, teacher: PretrainedConfig, num_labels: int) -> Mapping[str, Tensor]:
        from transformers import AutoModelForSequenceClassification

        config = copy.deepcopy(teacher)
        config.num_labels = num_labels
        return self._kept(AutoModelForSequenceClassification.from_config(config).state_dict())

    def _kept(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        head = () if self.tuned else ("classifier.", "pre_classifier.")
        return {name: value for name, value in weights.items() if not name.startswith(head)}
