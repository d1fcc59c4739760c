"""Students with a shape of their own: its settings, and the encoder that they begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn
from transformers import BertForSequenceClassification, PretrainedConfig

from methods.api import Method, MethodError, Setup, Shape, Student
from methods.core.artefacts import Artefact, GeneralDistillation, GivenEncoder
from methods.core.parts import bert_config, classifier, without_projection
from methods.core.settings import Count, added_setting


@dataclass(frozen=True, kw_only=True)
class OwnShape(Method):
    """Settings shared by students with a shape of their own (default: 4 x 312 of TinyBERT, table 1)."""

    tiny_settings: ClassVar = {"layers": 2, "hidden": 12, "heads": 4, "ffn": 24}

    layers: Count = 4
    hidden: Count = 312
    heads: Count = 12
    ffn: Count = 1200
    start: Literal["general", "random"] = "general"
    start_from: str = added_setting("")
    """A finished general start in the place of ours: a hub name or a folder, like huawei-noah/TinyBERT_General_4L_312D."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden % self.heads:
            raise MethodError(f"hidden={self.hidden} should be a multiple of heads={self.heads}")
        if self.start_from and self.start != "general":
            raise MethodError(
                f"start_from={self.start_from} replaces the general start, and with start={self.start} this row has none: leave start_from out"
            )

    @property
    def shape(self) -> Shape:
        return Shape(self.layers, self.hidden, self.heads, self.ffn)

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        if self.start_from:
            return (GivenEncoder(self.start_from, self.shape),)
        return (GeneralDistillation(self.shape),) if self.start == "general" else ()

    def build(self, setup: Setup) -> Student:
        return Student(self.student_model(setup))

    def start_tensors(self, setup: Setup) -> Mapping[str, Tensor]:
        """The encoder that it begins with, and maybe a projection to the teacher's width; none where it begins at random."""
        if self.start_from:
            return setup.artefacts[GivenEncoder.name]
        return setup.artefacts[GeneralDistillation.name] if self.start == "general" else {}

    def student_model(self, setup: Setup) -> BertForSequenceClassification:
        encoder = without_projection(self.start_tensors(setup)) or None
        return classifier(bert_config(self.shape, setup.teacher, setup.num_labels), encoder)

    def start_projection(self, setup: Setup) -> nn.Linear:
        """The student's way up to the teacher's width: the one learned with the general start, as TinyBERT keeps it; a new one where
        that start was made below a teacher of another width."""
        layer = nn.Linear(self.hidden, setup.teacher.hidden_size)
        begun = self.start_tensors(setup)
        if "projection.weight" in begun and begun["projection.weight"].shape == layer.weight.shape:
            layer.load_state_dict(
                {"weight": begun["projection.weight"], "bias": begun["projection.bias"]}
            )
        return layer
