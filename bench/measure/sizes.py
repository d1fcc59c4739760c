"""Sizes of a classifier: parameters, traced and closed-form MACs. Needs no trained weights and no network."""

from __future__ import annotations

from typing import Any

from bench.measure.flops import macs
from bench.measure.parameters import count
from bench.record.schema import Sizes
from methods.models import cost

LENGTH = 128
"""The papers' FLOPs columns are at this sequence length (BERT-base 22.5 B = 2 x 11.2 G MACs)."""

_known: dict[object, Sizes] = {}


def sizes(model: Any, length: int = LENGTH) -> Sizes:
    """Parameters and MACs of a sequence classifier, batch 1, eager attention.

    A model that reads fewer than ``length`` tokens is counted at the most it reads; the length is in the answer.
    """
    length = min(length, model.config.max_position_embeddings)
    shapes = tuple((name, tuple(p.shape)) for name, p in model.named_parameters())
    key = (type(model), model.config.to_json_string(), shapes, length)
    if key not in _known:
        parameters = count(model)
        kernel = model.config._attn_implementation
        model.set_attn_implementation("eager")
        try:
            counted = macs(model, length)
        finally:
            model.set_attn_implementation(kernel)
        _known[key] = Sizes(
            parameters=parameters.total,
            active_parameters=parameters.active if parameters.active != parameters.total else None,
            embedding=parameters.embedding,
            pooler_and_head=parameters.pooler_and_head,
            macs=counted,
            macs_closed_form=cost(model).of_length(length),
            sequence_length=length,
            batch=1,
            attention="eager",
            counter="fvcore",
        )
    return _known[key]
