"""Multiply-accumulates of one forward pass, as fvcore counts them.

The closed form is :func:`methods.core.models.cost`.

fvcore counts one per multiply-add and has no handle for scaled_dot_product_attention, the default
attention of transformers: at length 128 that loses 6.5 % of a 4 x 312 BERT, at 512 21.9 %. Here it
has one, so that eager and sdpa give the same count; and an operation that multiplies matrices and
that nobody counted is an error.
"""

from __future__ import annotations

import logging
import math
import re
from typing import Any

import torch
from torch import nn

from bench.errors import BenchError
from bench.measure.backends import LogitsOf

MATMUL_FAMILY = re.compile("mm|mv|matmul|linear|conv|einsum|attention|dot|lstm|gru|rnn")
"""Parts of the names of operations that multiply matrices."""


def macs(model: nn.Module, length: int) -> int:
    """fvcore's count for one sequence of ``length`` tokens.

    Raises:
        BenchError: an operation that multiplies matrices was not counted.
    """
    from fvcore.nn import FlopCountAnalysis

    device = next(model.parameters()).device
    ids = torch.ones(1, length, dtype=torch.long, device=device)
    was_training = model.training
    model.eval()
    logging.getLogger("fvcore").setLevel(logging.ERROR)
    analysis = FlopCountAnalysis(LogitsOf(model, ("input_ids",)), (ids,))
    analysis.set_op_handle("aten::scaled_dot_product_attention", _attention_macs)
    analysis.set_op_handle("aten::lstm", _lstm_macs)
    analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings(
        "none"
    )

    # operators that multiply matrices, and those that fvcore cannot count
    by_operator = analysis.by_operator()
    others = sum(by_operator[op] for op in NOT_MATMUL if op in by_operator)
    total = int(sum(by_operator.values()) - others)
    missed = [op for op in analysis.unsupported_ops() if MATMUL_FAMILY.search(op.split("::")[1])]
    model.train(was_training)
    if missed:
        raise BenchError(
            f"fvcore has no count for {', '.join(missed)}: the total would be too small. "
            "Count with eager attention"
        )
    return total


def _attention_macs(inputs: list[Any], outputs: list[Any]) -> int:
    """Scores and mixture: queries [..., L, D], keys [..., S, D], values [..., S, E]."""
    query, key, value = (tensor.type().sizes() for tensor in inputs[:3])
    pairs = math.prod(query[:-1]) * key[-2]
    return int(pairs * (query[-1] + value[-1]))


def _lstm_macs(inputs: list[Any], outputs: list[Any]) -> int:
    """Every weight matrix once for each token, without the gates' products, as fvcore counts."""
    tokens = math.prod(inputs[0].type().sizes()[:-1])
    shapes = [tensor.type().sizes() for tensor in inputs[2].node().inputs()]
    return int(tokens * sum(math.prod(shape) for shape in shapes if len(shape) == 2))


NOT_MATMUL = ("layer_norm", "batch_norm", "group_norm")
"""fvcore also gives normalisations a count (5 an element); the papers' FLOPs leave them out."""
