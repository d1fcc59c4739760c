"""A frozen teacher whose layers are put together once, and not in every pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from methods.direct_layers import DirectLayer, is_plain
from methods.families import family_of
from methods.models import Cost, PackedModel, cost, forward, is_packed, run_layers
from methods.packed import Batch
from methods.taps import Out, Taps


def direct(teacher: Any) -> nn.Module:
    """The teacher, on its device, with direct layers; itself where its layers are others than BERT's."""
    if isinstance(teacher, PackedModel) or not is_packed(teacher):
        return teacher  # type: ignore[no-any-return]
    layers = family_of(teacher).layers(teacher.base_model)
    return DirectTeacher(teacher) if all(map(is_plain, layers)) else teacher


class DirectTeacher(PackedModel):
    """A frozen teacher that answers by :class:`DirectLayer`, and as any model where it trains or its dropout is asked for."""

    def __init__(self, teacher: Any) -> None:
        super().__init__()
        self.teacher = teacher
        with torch.no_grad():
            self._layers = [DirectLayer(layer) for layer in family_of(teacher.eval()).layers(teacher.base_model)]

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        if self.training or torch.is_grad_enabled():
            return forward(self.teacher, batch, taps)
        return run_layers(self.teacher, batch, taps, self._layers)

    def cost(self) -> Cost:
        return cost(self.teacher)
