"""Padding-free batches: sequences lie end to end in one row, and this file runs a BERT over them.

Linear layers see only real tokens; attention is computed per sequence. The result equals the padded
computation up to rounding. Shape legend used here and in every method file:

    T tokens of the whole batch    B sequences    L longest sequence of the batch
    H heads    D width of one head    W hidden width    C classes
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, BertForSequenceClassification

from methods.api import Batch, EmptyAttention, Needs, Out, TaskHead


@dataclass(frozen=True)
class Layout:
    """Where each sequence lies in a packed row.

    Attributes:
        lengths_B: tokens of each sequence, int64 on the batch's device.
        longest: max(lengths_B), and
        total: sum(lengths_B): held as ints so that no step has to wait for the device.
    """

    lengths_B: Tensor
    longest: int
    total: int

    @classmethod
    def of(cls, lengths: list[int], device: torch.device | str = "cpu") -> Layout:
        """Raises ValueError when a sequence is empty: a model cannot read nothing."""
        if not lengths or min(lengths) < 1:
            raise ValueError(f"every sequence needs at least one token; got lengths {lengths[:8]}")
        return cls(torch.tensor(lengths, device=device), max(lengths), sum(lengths))

    @cached_property
    def starts_B(self) -> Tensor:
        """Index of each sequence's first token ([CLS]) in the packed row."""
        return torch.cumsum(self.lengths_B, 0) - self.lengths_B

    @cached_property
    def mask_BL(self) -> Tensor:
        """True where the padded view holds a real token."""
        return torch.arange(self.longest, device=self.lengths_B.device)[None, :] < self.lengths_B[:, None]

    @cached_property
    def gather_N(self) -> Tensor:
        """For each of the B*L places of the padded view, the packed token to show there (0 at padding)."""
        place_BL = self.starts_B[:, None] + torch.arange(self.longest, device=self.lengths_B.device)[None, :]
        return torch.where(self.mask_BL, place_BL, 0).flatten()

    @cached_property
    def scatter_T(self) -> Tensor:
        """For each packed token, its place in the flattened padded view."""
        rows_B = torch.arange(len(self.lengths_B), device=self.lengths_B.device) * self.longest
        return (rows_B - self.starts_B).repeat_interleave(self.lengths_B, output_size=self.total) + torch.arange(
            self.total, device=self.lengths_B.device
        )

    @cached_property
    def positions_T(self) -> Tensor:
        """Position of each token within its own sequence."""
        return self.scatter_T % self.longest

    def padded(self, x_TX: Tensor) -> Tensor:
        """[T, ...] -> [B, L, ...]; padding places repeat the first token: mask before use."""
        return x_TX.index_select(0, self.gather_N).unflatten(0, (len(self.lengths_B), self.longest))

    def packed(self, x_BLX: Tensor) -> Tensor:
        """[B, L, ...] -> [T, ...], real tokens only."""
        return x_BLX.flatten(0, 1).index_select(0, self.scatter_T)

    def first(self, x_TW: Tensor) -> Tensor:
        """The [CLS] state of each sequence, [B, W]."""
        return x_TW.index_select(0, self.starts_B)

    def mean(self, x_TW: Tensor) -> Tensor:
        """Mean over each sequence's real tokens, [B, W]."""
        x_BLW = self.padded(x_TW).masked_fill(~self.mask_BL[..., None], 0.0)
        return x_BLW.sum(1) / self.lengths_B[:, None].to(x_TW.dtype)

    def max(self, x_TW: Tensor) -> Tensor:
        """Largest value of each feature over each sequence's real tokens, [B, W]."""
        return self.padded(x_TW).masked_fill(~self.mask_BL[..., None], float("-inf")).amax(1)


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    *,
    layout: Layout,
    keep_scores: dict[int, Tensor] | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Attention of each sequence over itself, for one packed row of shape [1, H, T, D].

    ``keep_scores`` receives, under the module's 0-based layer number, the scores before the softmax
    (scaled, unmasked, [B, H, L, L]). The arithmetic is the same whether or not they are kept, so asking
    for scores can never change a result.
    """
    q_BHLD, k_BHLD, v_BHLD = (layout.padded(x[0].transpose(0, 1)).transpose(1, 2) for x in (query, key, value))
    scores_BHLL = torch.matmul(q_BHLD, k_BHLD.transpose(2, 3)) * (scaling or query.size(-1) ** -0.5)
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    if keep_scores is not None and layer in keep_scores:
        keep_scores[layer] = scores_BHLL
    masked_BHLL = scores_BHLL.masked_fill(~layout.mask_BL[:, None, None, :], float("-inf"))
    weights_BHLL = nn.functional.dropout(masked_BHLL.softmax(-1), p=dropout, training=module.training)
    mixed_BLHD = torch.matmul(weights_BHLL, v_BHLD).transpose(1, 2)
    return layout.packed(mixed_BLHD)[None], None


AttentionInterface.register("packed", packed_attention)


def forward(classifier: nn.Module, batch: Batch, needs: Needs) -> Out:
    """One pass of a BERT sequence classifier over a packed batch, returning only what ``needs`` names.

    Hidden index 0 is the embedding output, i the output of encoder layer i (1-based). The pooler and the
    head read the first token of each sequence.

    Raises:
        EmptyAttention: the model uses another attention kernel, or a layer kept no scores.
    """
    model = cast(BertForSequenceClassification, classifier)
    if model.config._attn_implementation != "packed":
        raise EmptyAttention(
            f"this model's attention is {model.config._attn_implementation!r}: attention scores would come back empty. "
            f"Call model.set_attn_implementation('packed') after building it"
        )
    layout = batch.layout
    encoder = model.bert
    depth = len(encoder.encoder.layer)
    scores = {layer - 1: torch.empty(0) for layer in needs.scores}
    hidden: dict[int, Tensor] = {}
    x_1TW = encoder.embeddings(
        input_ids=batch.token_ids[None], token_type_ids=batch.segment_ids[None], position_ids=layout.positions_T[None]
    )
    if 0 in needs.hidden:
        hidden[0] = x_1TW[0]
    last = depth if needs.logits else max(needs.hidden | needs.scores, default=0)
    for number, layer in enumerate(encoder.encoder.layer[:last], start=1):
        x_1TW = layer(x_1TW, layout=layout, keep_scores=scores or None)
        if isinstance(x_1TW, tuple):
            x_1TW = x_1TW[0]
        if number in needs.hidden:
            hidden[number] = x_1TW[0]
    if any(kept.numel() == 0 for kept in scores.values()):
        raise EmptyAttention("attention scores came back empty: a layer did not run through the packed kernel")
    logits = None
    if needs.logits:
        pooled_BW = model.dropout(cast(nn.Module, encoder.pooler)(layout.first(x_1TW[0])[:, None]))
        head = model.classifier
        logits = head(pooled_BW, batch.task) if isinstance(head, TaskHead) else head(pooled_BW)
    return Out(layout, logits, hidden, {layer + 1: value for layer, value in scores.items()})
