"""What a term is given besides the two models' answers: a mini-batch, and how its tokens may be masked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from methods.packed import Layout, moved


@dataclass(frozen=True)
class Batch:
    """One packed mini-batch: tensors on the device, texts for methods with a vocabulary of their own."""

    example_ids: Sequence[int]
    token_ids: Tensor  # [T] int64
    segment_ids: Tensor  # [T] int64: 0 in the first sentence, 1 in the second
    layout: Layout
    labels: Tensor | None
    """[B] int64 classes, or float32 targets of a regression; [B, 2] places of first and last token, of spans; None for unlabelled text"""
    task: int = 0  # position of this batch's task in Setup.tasks
    texts: Sequence[tuple[str, str | None]] = ()
    masked_positions: Tensor | None = None
    """[K] int64: places in the packed row whose token a stage's masking has masked."""
    masked_ids: Tensor | None = None  # [K] int64: the tokens that stood there
    spans: bool = False  # whether a part of the sequence is the answer: logits are then of every token

    def to(self, device: torch.device | str) -> Batch:
        """The batch, put together on the CPU, on a device: all that it holds crosses in one copy."""
        if (there := torch.device(device)) == self.layout.device:
            return self
        own = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        layout = Layout(self.layout.lengths, self.layout.real, one_chunk=True)
        tensors = moved({**own, **layout.tensors()}, there)
        there_now: dict[str, Any] = {name: tensors[name] for name in own}
        return replace(self, layout=layout.with_tensors(tensors), **there_now)


@dataclass(frozen=True)
class Masking:
    """Hide some tokens of every batch: of the chosen ones 80 % become [MASK], 10 % another token, 10 % stay. Devlin et
    al. 2019, section 3.1; drawn anew at every visit. Student and teacher read the same masked text."""

    share: float = 0.15  # of the tokens that are not [CLS], [SEP] or [PAD]
    smoothing: float = 0.0
    """Tokens are chosen with weight count ** -smoothing: above 0, rare ones more often (DistilBERT's code: 0.7)."""
