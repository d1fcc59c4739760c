"""Students with a shape of their own: its settings, and the encoder that they begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor, nn
from transformers import PretrainedConfig

from methods.api import Method, MethodError, Setup, Shape, Student
from methods.core.artefacts import Artefact, GeneralDistillation, GivenEncoder, TeacherWeights
from methods.core.parts import (
    bert_config,
    classifier,
    cut_classifier,
    evenly_spread,
    require_layers,
    select_layers,
    without_projection,
)
from methods.core.settings import Count, added_setting


@dataclass(frozen=True, kw_only=True)
class OwnShape(Method):
    """Settings that students with a shape of their own share; the default is TinyBERT's 4 x 312,
    of its table 1."""

    tiny_settings: ClassVar = {"layers": 2, "hidden": 12, "heads": 4, "ffn": 24}

    layers: Count = 4
    hidden: Count = 312
    heads: Count = 12
    ffn: Count = 1200
    start: Literal["general", "random", "layers", "lowest"] = "general"
    """``general``: pre-trained on text below the teacher; ``random``: no pre-training; ``layers``:
    evenly spread layers of the un-tuned teacher, in its own family and of its own width;
    ``lowest``: its lowest layers, with which pkd and droplayers begin."""
    start_from: str = added_setting("")
    """A finished general start in the place of ours: a hub name or a folder, like
    huawei-noah/TinyBERT_General_4L_312D."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden % self.heads:
            raise MethodError(f"hidden={self.hidden} should be a multiple of heads={self.heads}")
        if self.start_from and self.start != "general":
            raise MethodError(
                f"start_from={self.start_from} replaces the general start, and with "
                f"start={self.start} this row has none: leave start_from out"
            )

    @property
    def has_teachers_layers(self) -> bool:
        """Whether the student is made of the teacher's layers."""
        return self.start in ("layers", "lowest")

    @property
    def shape(self) -> Shape:
        return Shape(self.layers, self.hidden, self.heads, self.ffn)

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        if self.start_from:
            return (GivenEncoder(self.start_from, self.shape),)
        if self.has_teachers_layers:
            self._check_layers_fit(teacher)
            return (TeacherWeights(tuned=False),)
        return (GeneralDistillation(self.shape),) if self.start == "general" else ()

    def _check_layers_fit(self, teacher: PretrainedConfig) -> None:
        """Raises MethodError: a student of this shape cannot be made of the teacher's layers."""
        require_layers(teacher, f"{self.name}:start={self.start}")
        if self.layers > teacher.num_hidden_layers:
            raise MethodError(
                f"start={self.start}: layers={self.layers} should be at most the teacher's "
                f"{teacher.num_hidden_layers}"
            )
        # layers are taken whole, so that their widths cannot differ
        theirs = {
            "hidden": teacher.hidden_size,
            "heads": teacher.num_attention_heads,
            "ffn": teacher.intermediate_size,
        }
        if theirs != {name: getattr(self, name) for name in theirs}:
            needed = ":".join(f"{name}={size}" for name, size in theirs.items())
            raise MethodError(
                f"start={self.start} takes whole layers of the teacher: write {needed} behind "
                f"{self.name}"
            )

    def build(self, setup: Setup) -> Student:
        return Student(self.student_model(setup))

    def start_tensors(self, setup: Setup) -> Mapping[str, Tensor]:
        """The encoder that it begins with, and maybe a projection to the teacher's width.

        Empty where it begins at random, or with the teacher's layers.
        """
        if self.start_from:
            return setup.artefacts[GivenEncoder.name]
        return setup.artefacts[GeneralDistillation.name] if self.start == "general" else {}

    def student_model(self, setup: Setup) -> Any:
        """The classifier to train: a BERT of this shape, or, made of the teacher's layers, a model
        of the teacher's family."""
        if self.has_teachers_layers:
            chosen = list(range(1, self.layers + 1))
            if self.start == "layers":
                chosen = evenly_spread(self.layers, setup.teacher.num_hidden_layers)
            weights = select_layers(setup.artefacts[TeacherWeights(tuned=False).name], chosen)
            return cut_classifier(setup, self.layers, weights)
        encoder = without_projection(self.start_tensors(setup)) or None
        return classifier(bert_config(self.shape, setup.teacher, setup.num_labels), encoder)

    def start_projection(self, setup: Setup) -> nn.Linear:
        """The projection of the student's states to the teacher's width.

        It is the one learned with the general start, as TinyBERT keeps it. It is new where that
        start was made below a teacher of another width. A student made of the teacher's layers
        begins with the identity, because its states are the teacher's.
        """
        layer = nn.Linear(self.hidden, setup.teacher.hidden_size)
        if self.has_teachers_layers:
            nn.init.eye_(layer.weight)
            nn.init.zeros_(layer.bias)
            return layer
        begun = self.start_tensors(setup)
        if "projection.weight" in begun and begun["projection.weight"].shape == layer.weight.shape:
            layer.load_state_dict(
                {"weight": begun["projection.weight"], "bias": begun["projection.bias"]}
            )
        return layer
