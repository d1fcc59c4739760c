"""Hide tokens of a batch for masked-language objectives, and fill a batch with [PAD].

Hidden tokens are a function of the batch, the seed and the step alone. [PAD] is for stages whose
authors' code averages over it, and is a function of the batch alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from bench.data.encoding import Encoded
from bench.errors import CellError
from methods.api import Batch, Masking
from methods.core.packed import Layout

AS_MASK = 0.8
"""The share of chosen tokens that [MASK] hides (Devlin et al. 2019, appendix A.1)."""
AS_ANOTHER = 0.1
"""The share of chosen tokens that become another one; the rest stay as they are."""


def mask_tokens(batch: Batch, data: Encoded, masking: Masking, seed: int, step: int) -> Batch:
    """The batch, on the CPU, with some tokens masked, at least one; drawn without replacement.

    Raises:
        CellError: the data is no text, the tokenizer has no [MASK], or there is nothing but special
            tokens.
    """
    known = data.vocabulary
    if known is None:
        raise CellError(
            "tokens cannot be masked: only stages on text are masked, "
            "and the tokenizer needs a [MASK]"
        )
    ids = batch.token_ids.numpy()
    ordinary = np.flatnonzero(~known.is_special_V)
    positions = np.flatnonzero(~known.is_special_V[ids])
    if not len(positions):
        raise CellError("tokens cannot be masked: a batch has nothing but special tokens")

    # which tokens: with smoothing, rare ones more often
    rng = np.random.default_rng([seed, step, 1])
    weights = np.maximum(data.counts[ids[positions]], 1).astype(np.float64) ** -masking.smoothing
    number = max(1, round(masking.share * len(positions)))
    chosen = np.sort(rng.choice(positions, size=number, replace=False, p=weights / weights.sum()))

    # what becomes of each: [MASK], another token, or itself
    fate = rng.random(number)
    masked = ids.copy()
    masked[chosen[fate < AS_MASK]] = known.mask
    other = (fate >= AS_MASK) & (fate < AS_MASK + AS_ANOTHER)
    masked[chosen[other]] = rng.choice(ordinary, size=int(other.sum()))
    return replace(
        batch,
        token_ids=torch.from_numpy(masked),
        masked_positions=torch.from_numpy(chosen),
        masked_ids=torch.from_numpy(ids[chosen]),
    )


def pad_batch(batch: Batch, data: Encoded, length: int) -> Batch:
    """Fill every sequence of the batch, on the CPU, with [PAD] up to ``length`` tokens.

    Longer ones stay. Nothing attends to [PAD].

    Raises:
        CellError: the data is text without a task, or the tokenizer has no [PAD].
    """
    if data.pad is None:
        raise CellError(
            "sequences cannot be filled: only stages on a task's examples are filled, "
            "and the tokenizer needs a [PAD]"
        )
    real = batch.layout.lengths
    layout = Layout([max(length, tokens) for tokens in real], real)
    ids = _filled(batch.token_ids, layout, data.pad)
    segments = _filled(batch.segment_ids, layout, 0)
    return replace(batch, token_ids=ids, segment_ids=segments, layout=layout)


def _filled(packed: torch.Tensor, layout: Layout, value: int) -> torch.Tensor:
    """The rows of a packed tensor, each filled to its length in the layout."""
    rows = []
    for row, length in zip(packed.split(layout.real), layout.lengths, strict=True):
        rows.append(torch.nn.functional.pad(row, (0, length - len(row)), value=value))
    return torch.cat(rows)
