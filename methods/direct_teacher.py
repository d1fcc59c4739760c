"""A frozen teacher whose layers run without their modules: the same formulas, in fewer and larger operations.

A step of a small student on a GPU waits for Python and the driver, which start one kernel after another, and most of them are the
teacher's. Here queries, keys and values of a layer are one product and one gather, and nothing is called but torch's functions.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.electra.modeling_electra import ElectraLayer
from transformers.models.roberta.modeling_roberta import RobertaLayer

from methods.families import family_of
from methods.models import Cost, PackedModel, cost, forward, is_packed, run_layers
from methods.packed import AttentionTrace, Batch
from methods.taps import Out, Taps

LIKE_BERT = (BertLayer, RobertaLayer, ElectraLayer)
"""Classes whose parts are called and connected as BERT's."""


def direct(teacher: Any) -> nn.Module:
    """The teacher, on its device, with direct layers; itself where its layers are others than BERT's."""
    if isinstance(teacher, PackedModel) or not is_packed(teacher):
        return teacher  # type: ignore[no-any-return]
    layers = family_of(teacher).layers(teacher.base_model)
    return DirectTeacher(teacher) if all(type(layer) in LIKE_BERT for layer in layers) else teacher


class DirectTeacher(PackedModel):
    """A frozen teacher that answers by :class:`DirectLayer`, and by its own modules where it trains or its dropout is asked for."""

    def __init__(self, teacher: Any) -> None:
        super().__init__()
        self.teacher = teacher
        with torch.no_grad():
            self._layers = [DirectLayer(layer) for layer in family_of(teacher).layers(teacher.base_model)]

    def packed_forward(self, batch: Batch, taps: Taps) -> Out:
        if self.training or torch.is_grad_enabled():
            return forward(self.teacher, batch, taps)
        return run_layers(self.teacher, batch, taps, self._layers)

    def cost(self) -> Cost:
        return cost(self.teacher)


class DirectLayer:
    """A layer of BERT in evaluation mode, for batches in one chunk. The weights of queries, keys and values are copied when it is made:
    of a teacher that neither learns nor moves any more."""

    def __init__(self, layer: Any) -> None:
        own, mixing = layer.attention.self, layer.attention.output
        self.heads, self.head_width = own.num_attention_heads, own.attention_head_size
        three = (own.query, own.key, own.value)
        self.project = partial(
            nn.functional.linear, weight=torch.cat([p.weight for p in three]), bias=torch.cat([p.bias for p in three])
        )
        self.mix, self.widen, self.narrow = map(_linear, (mixing.dense, layer.intermediate.dense, layer.output.dense))
        self.norm_mixed, self.norm = _norm(mixing.LayerNorm), _norm(layer.output.LayerNorm)
        self.activation = layer.intermediate.intermediate_act_fn

    def __call__(self, x_1TW: Tensor, trace: AttentionTrace) -> Tensor:
        """[1, T, W] -> [1, T, W]; the trace gets the scores and vectors that it asks for."""
        x_TW, layout, scale = x_1TW[0], trace.layout, self.head_width**-0.5
        (chunk,) = layout.chunks
        qkv_TX = self.project(x_TW)
        if trace.keeps_vectors:
            trace.vectors = qkv_TX.chunk(3, 1)
        shape = (len(chunk.sequences), chunk.longest, 3, self.heads, self.head_width)
        q_nHLD, k_nHLD, v_nHLD = qkv_TX.index_select(0, layout.gather_N).view(shape).permute(2, 0, 3, 1, 4)
        if trace.keeps_scores:
            trace.scores = (torch.matmul(q_nHLD, k_nHLD.transpose(2, 3)) * scale,)
        keys = None if chunk.full else chunk.added_n11L
        mixed_nHLD = nn.functional.scaled_dot_product_attention(q_nHLD, k_nHLD, v_nHLD, keys, scale=scale)
        mixed_NW = mixed_nHLD.transpose(1, 2).flatten(2).flatten(0, 1)
        x_TW = self.norm_mixed(x_TW + self.mix(mixed_NW.index_select(0, layout.scatter_T)))
        return self.norm(x_TW + self.narrow(self.activation(self.widen(x_TW))))[None]


def _linear(layer: nn.Linear) -> partial[Tensor]:
    return partial(nn.functional.linear, weight=layer.weight, bias=layer.bias)


def _norm(layer: nn.LayerNorm) -> partial[Tensor]:
    shape = list(layer.normalized_shape)
    return partial(
        nn.functional.layer_norm, normalized_shape=shape, weight=layer.weight, bias=layer.bias, eps=layer.eps
    )
