"""Filling a batch with [PAD] for stages whose authors' code averages over it: a function of the batch alone."""

from __future__ import annotations

from dataclasses import replace

import torch

from bench.data.encoding import Encoded
from bench.errors import CellError
from methods.api import Batch
from methods.packed import Layout


def pad_batch(batch: Batch, data: Encoded, length: int) -> Batch:
    """Every sequence of the batch, on the CPU, with [PAD] behind it, up to ``length`` tokens; longer ones stay. Nothing attends to [PAD].

    Raises:
        CellError: the data is text without a task, or the tokenizer has no [PAD].
    """
    if data.pad is None:
        raise CellError(
            "sequences cannot be filled: only stages on a task's examples are filled, and the tokenizer needs a [PAD]"
        )
    real = batch.layout.lengths
    layout = Layout([max(length, n) for n in real], real)
    ids, segments = (
        torch.cat(
            [
                torch.nn.functional.pad(row, (0, whole - n), value=value)
                for row, n, whole in zip(packed.split(real), real, layout.lengths, strict=True)
            ]
        )
        for packed, value in ((batch.token_ids, data.pad), (batch.segment_ids, 0))
    )
    return replace(batch, token_ids=ids, segment_ids=segments, layout=layout)
