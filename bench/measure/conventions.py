"""The ways in which papers count: the number that each convention gives for one model, to recognise a printed one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.measure.parameters import count
from methods.models import cost


@dataclass(frozen=True)
class Counts:
    """Convention -> count. The first of each is this harness's own."""

    parameters: Mapping[str, int]
    flops: Mapping[str, int]


def counts(model: Any, length: int) -> Counts:
    """Of a sequence classifier, on any device including ``meta``.

    Papers say neither which parameters they count nor how; the FLOPs of BERT rows in two papers' tables
    lie above 2 x MACs by the same amount at every depth, and equal it to the printed digit when one more
    square linear layer (the pooler, say) is counted at every token.
    """
    own, config, price = count(model), model.config, cost(model)
    width, vocabulary = config.hidden_size, config.vocab_size
    encoder = own.total - own.head
    pretraining_heads = width * width + width + 2 * width + vocabulary + 2 * width + 2
    parameters = {
        "whole classifier": own.total,
        "encoder with pooler": encoder,
        "encoder without pooler": encoder - own.pooler,
        "encoder with pooler and pre-training heads": encoder + pretraining_heads,
        "without embedding": own.total - own.embedding,
        "active for a token": own.active,
        "active for a token, without pooler": own.active - own.pooler_and_head,
        "tied tensors once for each name": own.declared,
    }
    multiplied = price.of_length(length)
    flops = {
        "2 x MACs": 2 * multiplied,
        "2 x MACs and a square layer over all tokens": 2 * (multiplied + length * width * width),
        "2 x MACs without attention's products": 2 * (price.per_token * length + price.per_sequence),
        "MACs": multiplied,
    }
    return Counts(parameters, flops)
