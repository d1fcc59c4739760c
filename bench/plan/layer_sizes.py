"""How much a forward pass through a model's encoder layers keeps, read off its modules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from bench.plan.extents import Extent

if TYPE_CHECKING:
    from torch import nn

    from methods.api import Taps

FLOAT = 4
KEPT_SCORES = 3
"""Tensors of attention scores that a layer keeps for its backward pass: softmax, dropout's mask, their product."""
PASSING_SCORES = 4
"""Tensors of attention scores that a layer holds at most in a forward pass alone. Chosen by hand."""
BACKWARD_COPIES_OF_LAYER = 2
"""How often the backward pass holds the tensors of the layer that it is at: values and their gradients."""


@dataclass(frozen=True)
class Layers:
    """Floats of a forward pass through encoder layers.

    Attributes:
        depth: number of layers.
        width: of the states between them.
        attended: width of all heads' queries together.
        heads: of attention; 0 where there is none.
        kept: floats that one token leaves in one layer for the backward pass: input and output of each linear layer, the
            input of each normalisation. The attention scores are not in it.
    """

    depth: int
    width: int
    attended: int
    heads: int
    kept: float

    def bytes_with_backward(self, batch: Extent) -> int:
        """Bytes that a forward pass keeps for its backward pass, with what the backward pass adds in its largest layer."""
        embedding = 5 * self.width * batch.tokens  # the sum, its normalisation, dropout's mask and what is handed on
        one = self.kept * batch.tokens + KEPT_SCORES * self.heads * batch.squares
        return round(FLOAT * (embedding + (self.depth + BACKWARD_COPIES_OF_LAYER) * one))

    def bytes_forward_only(self, batch: Extent) -> int:
        """Bytes of a forward pass without a backward pass: its largest layer."""
        return round(FLOAT * (self.kept * batch.tokens + PASSING_SCORES * self.heads * batch.squares))

    def bytes_of_taps(self, taps: Taps, batch: Extent) -> int:
        """Bytes of what terms read of this pass."""
        floats = {
            "hidden": self.width * batch.tokens,
            "scores": self.heads * batch.squares,
            "vectors": 3 * self.attended * batch.tokens,
            "pooled": self.width * batch.sequences,
        }
        return round(FLOAT * sum(floats.get(tap.kind, 0) for tap in taps))

    def held_for_pooling(self, taps: Taps, batch: Extent) -> int:
        """Bytes of states that such a pass holds until they are pooled, with a weighted sum and its next summand."""
        from methods.taps import layers_of

        states = len(layers_of(taps, "pooled") - layers_of(taps, "hidden")) + 2 * any(tap.weights for tap in taps)
        return round(FLOAT * states * self.width * batch.tokens)


@lru_cache(maxsize=256)
def layer_sizes(model: nn.Module) -> Layers:
    """What a forward pass through this model keeps, read off its modules. A plan asks for the same model's a hundred times.

    A model of a family is an encoder. Of another one all linear and recurrent layers count as if every token took them.
    """
    from torch import nn
    from transformers import PreTrainedModel

    from methods.families import FAMILIES

    encoder = (
        model
        if isinstance(model, PreTrainedModel)
        else next((part for part in model.modules() if isinstance(part, PreTrainedModel)), None)
    )
    family = FAMILIES.get(encoder.base_model_prefix) if encoder is not None else None
    if encoder is None or family is None:
        kept = _kept(model)
        return Layers(1, 0, 0, 0, kept)
    body = encoder.get_submodule(encoder.base_model_prefix)
    blocks = list(family.layers(body))
    attended, heads = family.attended(encoder.config), int(encoder.config.num_attention_heads)
    width = next((norm.normalized_shape[0] for norm in blocks[0].modules() if isinstance(norm, nn.LayerNorm)), attended)
    # layers that are replaced while they train (a successor's by a predecessor's) are as large as the largest
    return Layers(len(blocks), int(width), attended, heads, max(map(_kept, blocks)))


def _kept(module: nn.Module) -> float:
    """Floats that one token leaves in a module: linear layers' inputs and outputs, a recurrent layer's gates and states."""
    from torch import nn

    kept = 0
    for part in module.modules():
        if isinstance(part, nn.Linear):
            kept += part.in_features + part.out_features
        elif isinstance(part, nn.LayerNorm):
            kept += math.prod(part.normalized_shape)
        elif isinstance(part, nn.LSTM):
            directions = 1 + part.bidirectional
            kept += directions * part.num_layers * 7 * part.hidden_size  # four gates, two states, an output
    return kept
