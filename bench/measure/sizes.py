"""Sizes of a classifier: parameters, traced and closed-form MACs, and what other conventions count.

Needs no trained weights and no network.
"""

from __future__ import annotations

from typing import Any

from bench.measure.flops import macs
from bench.measure.parameters import count
from bench.record.schema import Sizes
from methods.core.models import PackedModel, cost

LENGTH = 128
"""The papers' FLOPs columns are at this sequence length (BERT-base 22.5 B = 2 x 11.2 G MACs)."""

_known: dict[object, Sizes] = {}


def sizes(model: Any, length: int = LENGTH) -> Sizes:
    """Parameters and MACs of a sequence classifier, batch 1, eager attention.

    A model that reads fewer than ``length`` tokens is counted at the most it reads; the length is
    in the answer.
    """
    length = min(length, model.config.max_position_embeddings)
    shapes = tuple((name, tuple(p.shape)) for name, p in model.named_parameters())
    key = (type(model), model.config.to_json_string(), shapes, length)
    if key not in _known:
        kernel = model.config._attn_implementation
        model.set_attn_implementation("eager")
        try:
            counted = macs(model, length)
        finally:
            model.set_attn_implementation(kernel)
        by_formula = sizes_by_formula(model, length)
        _known[key] = by_formula.model_copy(update={"macs": counted, "counter": "fvcore"})
    return _known[key]


def sizes_by_formula(model: Any, length: int = LENGTH) -> Sizes:
    """As :func:`sizes`, with MACs by their formula: nothing is run, so that the model may be on the
    device ``meta``."""
    length = min(length, model.config.max_position_embeddings)
    parameters = count(model)
    stored = model.stored() if isinstance(model, PackedModel) else {}
    multiplied = cost(model).of_length(length)
    return Sizes(
        parameters=parameters.total,
        active_parameters=parameters.active if parameters.active != parameters.total else None,
        embedding=parameters.embedding,
        pooler_and_head=parameters.pooler_and_head,
        macs=multiplied,
        macs_closed_form=multiplied,
        sequence_length=length,
        batch=1,
        attention="eager",
        counter="formula",
        file_bytes=sum(tensor.nbytes for tensor in stored.values()) or None,
    )


def counts(model: Any, length: int) -> dict[str, dict[str, int]]:
    """``parameters`` and ``flops`` of a sequence classifier by every convention.

    The model may be on any device, also on ``meta``. The first convention of each is this harness's
    own. Papers say neither which parameters they count nor how; the FLOPs of BERT rows in two
    papers' tables lie above 2 x MACs by the same amount at every depth, and equal it to the printed
    digit when one more square linear layer (the pooler, say) is counted at every token.
    """
    counted = count(model)
    width = model.config.hidden_size
    vocabulary = model.config.vocab_size
    encoder = counted.total - counted.head
    # BERT's heads for masked words and for the next sentence
    pretraining_heads = width * width + width + 2 * width + vocabulary + 2 * width + 2
    parameters = {
        "whole classifier": counted.total,
        "encoder with pooler": encoder,
        "encoder without pooler": encoder - counted.pooler,
        "encoder with pooler and pre-training heads": encoder + pretraining_heads,
        "without embedding": counted.total - counted.embedding,
        "active for a token": counted.active,
        "active for a token, without pooler": counted.active - counted.pooler_and_head,
        "tied tensors once for each name": counted.declared,
    }

    # operations, by what papers may have left out or added
    price = cost(model)
    multiplied = price.of_length(length)
    without_products = price.per_token * length + price.per_sequence
    flops = {
        "2 x MACs": 2 * multiplied,
        "2 x MACs and a square layer over all tokens": 2 * (multiplied + length * width * width),
        "2 x MACs without attention's products": 2 * without_products,
        "MACs": multiplied,
    }
    return {"parameters": parameters, "flops": flops}
