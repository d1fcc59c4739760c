"""Hiding tokens of a batch for masked-language objectives: a function of the batch, the seed and
the step alone. And filling a batch with [PAD] for stages whose authors' code averages over it: a
function of the batch alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from bench.data.encoding import Encoded
from bench.errors import CellError
from methods.api import Batch, Masking
from methods.core.packed import Layout

AS_MASK, AS_ANOTHER = 0.8, 0.1
"""Shares of the chosen tokens; the rest stay as they are (Devlin et al. 2019, appendix A.1)."""


def mask_tokens(batch: Batch, data: Encoded, masking: Masking, seed: int, step: int) -> Batch:
    """The batch, on the CPU, with some tokens masked, at least one; drawn without replacement.

    Raises:
        CellError: the data is no text, the tokenizer has no [MASK], or there is nothing but special
            tokens.
    """
    known = data.vocabulary
    if known is None:
        raise CellError(
            "tokens cannot be masked: only stages on text are masked, and the tokenizer needs a [MASK]"
        )
    ids = batch.token_ids.numpy()
    ordinary = np.flatnonzero(~known.is_special_V)
    places = np.flatnonzero(~known.is_special_V[ids])
    if not len(places):
        raise CellError("tokens cannot be masked: a batch has nothing but special tokens")
    rng = np.random.default_rng([seed, step, 1])
    weights = np.maximum(data.counts[ids[places]], 1).astype(np.float64) ** -masking.smoothing
    number = max(1, round(masking.share * len(places)))
    chosen = np.sort(rng.choice(places, size=number, replace=False, p=weights / weights.sum()))
    fate = rng.random(number)
    masked = ids.copy()
    masked[chosen[fate < AS_MASK]] = known.mask
    other = (fate >= AS_MASK) & (fate < AS_MASK + AS_ANOTHER)
    masked[chosen[other]] = rng.choice(ordinary, size=int(other.sum()))
    places_T, kept_T = torch.from_numpy(chosen), torch.from_numpy(ids[chosen])
    return replace(
        batch, token_ids=torch.from_numpy(masked), masked_positions=places_T, masked_ids=kept_T
    )


def pad_batch(batch: Batch, data: Encoded, length: int) -> Batch:
    """Every sequence of the batch, on the CPU, with [PAD] behind it, up to ``length`` tokens;
    longer ones stay. Nothing attends to [PAD].

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
