"""Sizes of a BERT from its configuration alone: no weights, no network."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from bench.measure.closed_form import closed_form
from bench.measure.flops import macs
from bench.measure.parameters import count
from bench.record.schema import Sizes

LENGTH = 128
"""The papers' FLOPs columns are at this sequence length (BERT-base 22.5 B = 2 x 11.2 G MACs)."""


def sizes(config: Any, length: int = LENGTH) -> Sizes:
    """Parameters and MACs of a BERT sequence classifier of this configuration, batch 1, eager attention.

    A model that reads fewer than ``length`` tokens is counted at the most it reads; the length is in the answer.
    """
    return _sizes(config.to_json_string(), min(length, config.max_position_embeddings))


@lru_cache
def _sizes(text: str, length: int) -> Sizes:
    import json

    import torch
    from transformers import BertConfig, BertForSequenceClassification

    body = json.loads(text)
    body.pop("dtype", None)
    config = BertConfig(**body)
    config._attn_implementation = "eager"
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        model = BertForSequenceClassification(config)
    parameters = count(model)
    return Sizes(
        parameters=parameters.total,
        embedding=parameters.embedding,
        pooler_and_head=parameters.pooler_and_head,
        macs=macs(model, length),
        macs_closed_form=closed_form(config, length),
        sequence_length=length,
        batch=1,
        attention="eager",
        counter="fvcore",
    )
