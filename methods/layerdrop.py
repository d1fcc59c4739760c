"""Dropping whole layers: what is left is fine-tuned, without a teacher's answers.
Two papers, two rows.

``droplayers``, Sajjad et al. 2023 (Computer Speech & Language 77, "On the effect of dropping layers
of pre-trained transformer models").
The paper's: some layers of the pre-trained model are taken out (section 3: from the top, from the
bottom, every other one, the middle), and the rest is fine-tuned on the task; embeddings stay, the
layers that stay keep their order. Of N layers K are dropped: ``top`` the last K, ``bottom`` the
first K, ``even`` and ``odd`` the last K of even or odd number, ``symmetric`` the middle K.
``dropped=contribution``, which looks at cosines of states, is left out. ``begin=tuned`` is their
section 5's other order, the layers taken out of the model that was tuned on the task before.
Ours: K is half of the layers unless ``layers=`` says how many stay (they drop 2, 4 and 6 of 12).

``layerdrop``, Fan et al. 2020 (ICLR, "Reducing transformer depth on demand with
structured dropout").
The paper's: in training each layer is left out with probability p, one draw for each layer and
batch (section 3.1); then a shallower model is taken out of the trained one, every other layer,
without further training (section 3.2, "every other").
Ours: they train with it from the beginning, in pre-training; here the fine-tuning alone has it.
``rate=0`` follows the paper's p* = 1 - r / D of r layers kept of D, 0.5 for half (the end of
section 3.2), where they mostly train with 0.2. The layers kept are spread evenly (with half of them
1, 3, 5 ...), also where their number does not divide the teacher's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import nn
from transformers import BertForSequenceClassification, PretrainedConfig

from methods.api import Method, MethodError, Setup, Stage, Student
from methods.core.artefacts import Artefact, TeacherWeights
from methods.core.models import DrawnLayers
from methods.core.parts import Depth, cut_classifier, select_layers, teacher_depth
from methods.core.settings import Fraction
from methods.core.terms import hard


@dataclass(frozen=True, kw_only=True)
class DropLayers(Method):
    name: ClassVar = "droplayers"
    version: ClassVar = 1
    terms: ClassVar = ("hard",)
    ablations: ClassVar = {
        "bottom": ":dropped=bottom",
        "even-alternate": ":dropped=even",
        "odd-alternate": ":dropped=odd",
        "symmetric": ":dropped=symmetric",
        "tuned before": ":begin=tuned",
    }
    needs_teacher: ClassVar = False
    spans: ClassVar = True

    layers: Depth = 0  # that stay; 0: half the teacher's
    dropped: Literal["top", "bottom", "even", "odd", "symmetric"] = "top"
    begin: Literal["pretrained", "tuned"] = "pretrained"

    def kept(self, teacher: PretrainedConfig) -> list[int]:
        """The layers that stay, 1-based. Raises MethodError: not so many layers
        are even, or odd."""
        total = teacher.num_hidden_layers
        stay = teacher_depth(teacher, self.layers, self.name)
        every = list(range(1, total + 1))
        count = total - stay
        before = (stay + 1) // 2  # below the middle; with an odd number one more than above it
        of_parity = [n for n in every if n % 2 == (self.dropped == "odd")]
        if self.dropped in ("even", "odd") and count > len(of_parity):
            raise MethodError(
                f"layers={stay} drops {count} of {total} layers, and {len(of_parity)} are "
                f"{self.dropped}: keep more"
            )
        gone = {
            "top": every[stay:],
            "bottom": every[:count],
            "symmetric": every[before : before + count],
        }.get(self.dropped, of_parity[len(of_parity) - count :])
        return [n for n in every if n not in gone]

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        self.kept(teacher)
        return (TeacherWeights(tuned=self.begin == "tuned"),)

    def build(self, setup: Setup) -> Student:
        kept = self.kept(setup.teacher)
        weights = setup.artefacts[TeacherWeights(tuned=self.begin == "tuned").name]
        return Student(cut_classifier(setup, len(kept), select_layers(weights, kept)))

    def stages(self, setup: Setup) -> Sequence[Stage]:
        # Sajjad et al. fine-tune as BERT is: three epochs; the rate is the usual one, which they do
        # not vary
        return (Stage("finetune", {"hard": hard()}, paper={"epochs": 3.0, "learning_rate": 2e-5}),)


class Thinned(DrawnLayers):
    """The model that will be kept, with the layers between its own: a training batch leaves any of
    both out at random."""

    def __init__(
        self, shipped: BertForSequenceClassification, between: Mapping[int, nn.Module], rate: float
    ) -> None:
        others = nn.ModuleDict({str(number): layer for number, layer in between.items()})
        super().__init__(shipped, others, shipped.config.num_hidden_layers + len(between))
        self.rate = rate

    def drawn(self) -> list[nn.Module]:
        """One draw for each layer."""
        own = iter(self.whole.base_model.encoder.layer)
        between = dict(self.others.named_children())
        every = [between.get(str(number)) or next(own) for number in range(1, self.most + 1)]
        stay = (torch.rand(self.most) >= self.rate).tolist()
        return [layer for layer, stays in zip(every, stay, strict=True) if stays]


@dataclass(frozen=True, kw_only=True)
class LayerDrop(Method):
    name: ClassVar = "layerdrop"
    version: ClassVar = 1
    terms: ClassVar = ("hard",)
    ablations: ClassVar = {"their usual rate": ":rate=0.2"}
    needs_teacher: ClassVar = False
    spans: ClassVar = True
    search_space: ClassVar = {"rate": (0.1, 0.2, 0.5)}

    layers: Depth = 0  # that are kept; 0: half the teacher's
    # probability that a batch leaves a layer out; 0: the share of layers that are not kept
    rate: Fraction = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate == 1:
            raise MethodError("rate=1.0 leaves every layer out of every batch; choose less")

    def requires(self, teacher: PretrainedConfig) -> Sequence[Artefact]:
        teacher_depth(teacher, self.layers, self.name)
        return (TeacherWeights(tuned=False),)

    def build(self, setup: Setup) -> Student:
        total = setup.teacher.num_hidden_layers
        stay = teacher_depth(setup.teacher, self.layers, self.name)
        weights = setup.artefacts["teacher_weights"]
        kept = [m * total // stay + 1 for m in range(stay)]
        shipped = cut_classifier(setup, stay, select_layers(weights, kept))
        layers: Any = cut_classifier(setup, total, weights).base_model.encoder.layer
        between = {
            number: layer for number, layer in enumerate(layers, start=1) if number not in kept
        }
        return Student(Thinned(shipped, between, self.rate or 1 - stay / total))

    def stages(self, setup: Setup) -> Sequence[Stage]:
        # their fine-tuning of RoBERTa follows Liu et al. 2019: at most ten epochs, 1e-5 to 3e-5, a
        # warm-up of 6 %
        paper = {"epochs": 10.0, "learning_rate": 2e-5, "warmup": 0.06, "weight_decay": 0.1}
        return (Stage("finetune", {"hard": hard()}, paper=paper),)

    def deploy(self, student: Student) -> Mapping[str, nn.Module]:
        return {"": student.model.whole}  # type: ignore[dict-item]
