"""Layers of BERT that run without their modules: the same formulas, in fewer and larger operations.

A step of a small student on a GPU waits for Python and the driver, which start one kernel after
another. Here queries, keys and values of a layer are one product and one gather, forwards and
backwards, and nothing is called but torch's functions.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.electra.modeling_electra import ElectraLayer
from transformers.models.roberta.modeling_roberta import RobertaLayer

from methods.core.packed import AttentionTrace

LIKE_BERT = (BertLayer, RobertaLayer, ElectraLayer)
"""Classes whose parts are called and connected as BERT's."""
PLAIN = ("torch.nn.modules.", "transformers.")
"""Where the classes of a layer come from, if no part of it was replaced, masked or quantised."""


def is_plain(layer: nn.Module) -> bool:
    """Whether a layer is one of BERT's, as transformers makes it, and nobody observes a part of
    it."""
    return type(layer) in LIKE_BERT and all(
        type(part).__module__.startswith(PLAIN)
        and not part._forward_hooks
        and not part._forward_pre_hooks
        for part in layer.modules()
    )


class DirectLayer:
    """A plain layer, for batches in one chunk. The weights of queries, keys and values are put
    together when this is made: for one pass, with their gradients, or for as long as they do not
    change."""

    def __init__(self, layer: Any) -> None:
        own = layer.attention.self
        mixing = layer.attention.output
        self.heads = own.num_attention_heads
        self.head_width = own.attention_head_size
        # queries, keys and values are one product
        three = (own.query, own.key, own.value)
        self.project = partial(
            nn.functional.linear,
            weight=torch.cat([p.weight for p in three]),
            bias=torch.cat([p.bias for p in three]),
        )
        self.mix = _linear(mixing.dense)
        self.widen = _linear(layer.intermediate.dense)
        self.narrow = _linear(layer.output.dense)
        self.norm_mixed = _norm(mixing.LayerNorm)
        self.norm = _norm(layer.output.LayerNorm)
        self.activation = layer.intermediate.intermediate_act_fn
        self.drop_mixed = _dropout(mixing.dropout)
        self.drop = _dropout(layer.output.dropout)
        self.weights_dropped = own.dropout.p if own.dropout.training else 0.0

    def __call__(self, x_1TW: Tensor, trace: AttentionTrace) -> Tensor:
        """[1, T, W] -> [1, T, W]; the trace gets the scores and vectors that it asks for."""
        x_TW = x_1TW[0]
        layout = trace.layout
        (chunk,) = layout.chunks

        # attention
        scale = self.head_width**-0.5
        qkv_TX = self.project(x_TW)
        if trace.keeps_vectors:
            trace.vectors = qkv_TX.chunk(3, 1)
        shape = (len(chunk.sequences), chunk.longest, 3, self.heads, self.head_width)
        # from packed tokens to the places of the chunk, and back after attention
        q_nHLD, k_nHLD, v_nHLD = (
            qkv_TX.index_select(0, layout.gather_N).view(shape).permute(2, 0, 3, 1, 4)
        )
        if trace.keeps_scores:
            trace.scores = (torch.matmul(q_nHLD, k_nHLD.transpose(2, 3)) * scale,)
        keys = None if chunk.full else chunk.added_n11L
        mixed_nHLD = nn.functional.scaled_dot_product_attention(
            q_nHLD, k_nHLD, v_nHLD, keys, self.weights_dropped, scale=scale
        )
        mixed_NW = mixed_nHLD.transpose(1, 2).flatten(2).flatten(0, 1)
        mixed_TW = self.mix(mixed_NW.index_select(0, layout.scatter_T))
        x_TW = self.norm_mixed(self.drop_mixed(mixed_TW) + x_TW)

        # feed-forward
        given_TW = self.narrow(self.activation(self.widen(x_TW)))
        return self.norm(self.drop(given_TW) + x_TW)[None]


def _linear(layer: nn.Linear) -> partial[Tensor]:
    return partial(nn.functional.linear, weight=layer.weight, bias=layer.bias)


def _norm(layer: nn.LayerNorm) -> partial[Tensor]:
    shape = list(layer.normalized_shape)
    return partial(
        nn.functional.layer_norm,
        normalized_shape=shape,
        weight=layer.weight,
        bias=layer.bias,
        eps=layer.eps,
    )


def _dropout(layer: nn.Dropout) -> partial[Tensor]:
    return partial(nn.functional.dropout, p=layer.p, training=layer.training)
