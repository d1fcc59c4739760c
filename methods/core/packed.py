"""Padding-free batches: sequences lie end to end in one row, and attention is computed chunk by
chunk.

Linear layers see only real tokens; attention is computed per sequence. The result equals the padded
computation up to rounding. Shape legend used here and in every method file:

    T tokens of the whole batch    B sequences    L longest sequence
    n sequences of a chunk         N places of all chunks, padding included
    H heads    D width of one head    W hidden width    C classes
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

TOLERATED_PADDING = 8192
"""Score places (query x key) of one head that a chunk may waste on padding before another chunk is
cheaper, on a CPU: an accelerator is given all sequences in one chunk, because there the launches of
a chunk cost more than its padding."""
NO_PLACE = -1e4
"""Logit of a place without a token: its probability is 0, and finite, so that a divergence of two
models has no NaN."""
INDEXES = ("lengths_B", "starts_B", "positions_T", "gather_N", "scatter_T", "tokens_BL", "mask_BL")
"""Tensors of a layout besides those of its chunks."""


def moved(tensors: Mapping[str, Tensor], device: torch.device) -> Mapping[str, Tensor]:
    """All of them on a device by one copy that nobody waits for: their bytes lie end to end in
    pinned memory. As they are on a CPU."""
    if device.type == "cpu":
        return tensors
    # numbers of every format may begin at multiples of 16
    sizes = (-(-x.nbytes // 16) * 16 for x in tensors.values())
    starts = [0, *itertools.accumulate(sizes)]
    bytes_here = torch.empty(starts[-1], dtype=torch.uint8, pin_memory=device.type == "cuda")
    for start, x in zip(starts, tensors.values(), strict=False):
        bytes_here[start : start + x.nbytes] = x.contiguous().view(torch.uint8).flatten()
    there = bytes_here.to(device, non_blocking=True)
    return {
        name: there[start : start + x.nbytes].view(x.dtype).view(x.shape)
        for start, (name, x) in zip(starts, tensors.items(), strict=False)
    }


@dataclass(frozen=True)
class Chunk:
    """Sequences of similar length whose attention is computed together, padded to the longest of
    them."""

    sequences: tuple[int, ...]  # which of the batch's, in the order of the chunk's rows
    longest: int
    places: slice  # where the chunk's n * L places lie among all chunks' places
    mask_nL: Tensor  # True where a place holds a token of the packed row
    # True where that token may be attended to: all but the [PAD] of filled sequences
    keys_nL: Tensor
    full: bool = False  # whether every place holds a token that may be attended to

    @cached_property
    def added_n11L(self) -> Tensor:
        """The numbers that :attr:`keys_nL` adds to scores, 0 or -inf: made once a batch, where a
        fused attention makes it of booleans in every layer."""
        n, longest = self.keys_nL.shape
        # rows begin at multiples of 8, else CUDA's kernel copies them into rows that do
        added_n11L = torch.zeros(n, 1, 1, -(-longest // 8) * 8, device=self.keys_nL.device)[
            ..., :longest
        ]
        return added_n11L.masked_fill_(~self.keys_nL[:, None, None, :], float("-inf"))


class Layout:
    """Where each sequence lies in a packed row, and how attention cuts the row into chunks. It is
    laid out on the CPU and crosses to a device as a whole (:meth:`to`); lengths are kept as ints,
    so that no step has to wait for the device. ``real``: how many tokens of each sequence are not
    [PAD], where sequences are filled."""

    def __init__(
        self, lengths: Sequence[int], real: Sequence[int] | None = None, one_chunk: bool = False
    ) -> None:
        # without [PAD] all tokens are real
        self.lengths = tuple(lengths)
        self.real = self.lengths if real is None else tuple(real)
        if not lengths or min(self.real) < 1:
            raise ValueError(
                f"every sequence needs at least one token; got lengths {list(self.real[:8])}"
            )
        self.device = torch.device("cpu")
        self.one_chunk = one_chunk
        self.total = sum(lengths)

    def to(self, device: torch.device) -> Layout:
        """The same sequences on a device: in one chunk, where it is no CPU."""
        if device == self.device:
            return self
        layout = Layout(self.lengths, self.real, one_chunk=True)
        return layout.with_tensors(moved(layout.tensors(), device))

    def tensors(self) -> dict[str, Tensor]:
        """All that a pass may read of it, by name."""
        masks: dict[str, Tensor] = {}
        for i, chunk in enumerate(self.chunks):
            masks[f"mask_nL {i}"] = chunk.mask_nL
            masks[f"keys_nL {i}"] = chunk.keys_nL
        return {name: getattr(self, name) for name in INDEXES} | masks

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Layout:
        """The same with these in the place of :meth:`tensors`."""
        layout = Layout(self.lengths, self.real, self.one_chunk)
        layout.device = tensors["lengths_B"].device
        chunks = [
            replace(chunk, mask_nL=tensors[f"mask_nL {i}"], keys_nL=tensors[f"keys_nL {i}"])
            for i, chunk in enumerate(self.chunks)
        ]
        vars(layout).update({name: tensors[name] for name in INDEXES}, chunks=tuple(chunks))
        return layout

    @cached_property
    def lengths_B(self) -> Tensor:
        """Tokens of each sequence, int64."""
        return torch.tensor(self.lengths)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *itertools.accumulate(self.lengths)][:-1]

    @cached_property
    def starts_B(self) -> Tensor:
        """Index of each sequence's first token ([CLS]) in the packed row."""
        return torch.tensor(self._starts)

    @cached_property
    def positions_T(self) -> Tensor:
        """Position of each token within its own sequence."""
        return torch.cat([torch.arange(length) for length in self.lengths])

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """Every sequence in exactly one chunk; a batch of similar lengths is one chunk in its own
        order."""
        # the longest first; a chunk ends where its padding would cost more than another chunk
        groups: list[list[int]] = [[]]
        wasted = 0
        for i in sorted(range(len(self.lengths)), key=lambda i: -self.lengths[i]):
            if groups[-1]:
                wasted += self.lengths[groups[-1][0]] ** 2 - self.lengths[i] ** 2
            if wasted > TOLERATED_PADDING and not self.one_chunk:
                groups.append([])
                wasted = 0
            groups[-1].append(i)

        # its sequences stay in the order of the batch
        chunks: list[Chunk] = []
        start = 0
        for group in groups:
            rows = tuple(sorted(group))
            longest = max(self.lengths[i] for i in rows)
            places = slice(start, start + len(rows) * longest)
            place_1L = torch.arange(longest)[None, :]
            mask_nL = place_1L < _column(self.lengths, rows)
            keys_nL = place_1L < _column(self.real, rows)
            full = all(self.real[i] == longest for i in rows)
            chunks.append(Chunk(rows, longest, places, mask_nL, keys_nL, full))
            start = places.stop
        return tuple(chunks)

    @cached_property
    def gather_N(self) -> Tensor:
        """For each place of the chunks, the packed token to show there (0 at padding)."""
        places = [self._tokens(chunk.sequences, chunk.longest).flatten() for chunk in self.chunks]
        return torch.cat(places)

    @cached_property
    def scatter_T(self) -> Tensor:
        """For each packed token, its place among the places of the chunks."""
        place_T = torch.empty(self.total, dtype=torch.int64)
        for chunk in self.chunks:
            for row, i in enumerate(chunk.sequences):
                first = chunk.places.start + row * chunk.longest
                own = slice(self._starts[i], self._starts[i] + self.lengths[i])
                place_T[own] = torch.arange(first, first + self.lengths[i])
        return place_T

    def _tokens(self, sequences: Sequence[int], longest: int) -> Tensor:
        """[n, L] packed index of each place, 0 at padding."""
        place_1L = torch.arange(longest)[None, :]
        starts_n1 = _column(self._starts, sequences)
        lengths_n1 = _column(self.lengths, sequences)
        return torch.where(place_1L < lengths_n1, starts_n1 + place_1L, 0)

    @cached_property
    def mask_BL(self) -> Tensor:
        """True where the padded view holds a token; the [PAD] of a filled sequence is one."""
        return torch.arange(max(self.lengths))[None, :] < self.lengths_B[:, None]

    @cached_property
    def tokens_BL(self) -> Tensor:
        """Index of the packed token at each place of the padded view, 0 at padding."""
        return self._tokens(range(len(self.lengths)), max(self.lengths))

    @property
    def owner_T(self) -> Tensor:
        """Which of the sequences each token is of."""
        sequences = torch.arange(len(self.lengths), device=self.lengths_B.device)
        return sequences.repeat_interleave(self.lengths_B, output_size=self.total)

    def padded(self, x_TX: Tensor) -> Tensor:
        """[T, ...] -> [B, L, ...]; padding places repeat the first token: mask before use."""
        return x_TX.index_select(0, self.tokens_BL.flatten()).unflatten(0, self.tokens_BL.shape)

    def first(self, x_TW: Tensor) -> Tensor:
        """The [CLS] state of each sequence, [B, W]."""
        return x_TW.index_select(0, self.starts_B)

    def mean(self, x_TW: Tensor) -> Tensor:
        """[B, W] mean over the tokens of each sequence; the [PAD] of a filled sequence counts."""
        x_BLW = self.padded(x_TW).masked_fill(~self.mask_BL[..., None], 0.0)
        return x_BLW.sum(1) / self.lengths_B[:, None].to(x_TW.dtype)

    def sum(self, x_TX: Tensor) -> Tensor:
        """[B, X] sum over the tokens of each sequence."""
        return x_TX.new_zeros(len(self.lengths), x_TX.size(1)).index_add_(0, self.owner_T, x_TX)

    def max(self, x_TW: Tensor) -> Tensor:
        """[B, W] largest value of each feature over the tokens of each sequence; the [PAD] of a
        filled sequence counts."""
        return self.padded(x_TW).masked_fill(~self.mask_BL[..., None], float("-inf")).amax(1)


def _column(numbers: Sequence[int], rows: Sequence[int]) -> Tensor:
    """[n, 1] the numbers of these rows."""
    return torch.tensor([numbers[i] for i in rows])[:, None]


@dataclass(frozen=True)
class Batch:
    """One packed mini-batch: tensors on the device, texts for methods with a vocabulary of their
    own."""

    example_ids: Sequence[int]
    token_ids: Tensor  # [T] int64
    segment_ids: Tensor  # [T] int64: 0 in the first sentence, 1 in the second
    layout: Layout
    labels: Tensor | None
    """[B] int64 classes, or float32 targets of a regression; [B, 2] places of first and last token,
    of spans; None for unlabelled text"""
    task: int = 0  # position of this batch's task in Setup.tasks
    texts: Sequence[tuple[str, str | None]] = ()
    masked_positions: Tensor | None = None
    """[K] int64: places in the packed row whose token a stage's masking has masked."""
    masked_ids: Tensor | None = None  # [K] int64: the tokens that stood there
    # whether a part of the sequence is the answer: logits are then of every token
    spans: bool = False
    label_weights: Tensor | None = None
    """[B] float32: of each example in the loss on labels, where classes have weights; masked words
    and teachers' answers have none."""

    def to(self, device: torch.device | str) -> Batch:
        """The batch, put together on the CPU, on a device: all that it holds crosses in one
        copy."""
        if (there := torch.device(device)) == self.layout.device:
            return self
        own = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        layout = Layout(self.layout.lengths, self.layout.real, one_chunk=True)
        tensors = moved({**own, **layout.tensors()}, there)
        there_now: dict[str, Any] = {name: tensors[name] for name in own}
        return replace(self, layout=layout.with_tensors(tensors), **there_now)


def span_logits(layout: Layout, x_T2: Tensor) -> Tensor:
    """Each token's logits as first and as last of an answer -> [2 B, L]: a row of starts and a row
    of ends for each sequence. So a span is two choices among L places, and losses of logits are
    those of classes; a place without a token is never chosen."""
    x_B2L = layout.padded(x_T2).transpose(1, 2)
    return x_B2L.masked_fill(~layout.mask_BL[:, None], NO_PLACE).flatten(0, 1)


def logits_of_tokens(layout: Layout, logits: Tensor) -> Tensor:
    """The opposite of :func:`span_logits`: [2 B, L] -> [T, 2]."""
    return logits.unflatten(0, (-1, 2)).transpose(1, 2)[layout.mask_BL]


POOLS: Mapping[str, Callable[[Layout, Tensor], Tensor]] = {
    "cls": Layout.first,
    "mean": Layout.mean,
    "max": Layout.max,
}
"""[T, W] states -> one [B, W] state of each sequence."""


@dataclass
class AttentionTrace:
    """A record for the attention of one layer: what it has to know of its packed row, what it
    should keep for terms, and what it kept."""

    layout: Layout
    keeps_scores: bool = False
    keeps_vectors: bool = False
    # before the softmax, scaled, unmasked, [n, H, L, L] of each of layout.chunks
    scores: tuple[Tensor, ...] = ()
    vectors: tuple[Tensor, ...] = ()  # queries, keys and values, [T, H * D] each


ChunkKernel = Callable[[Tensor, Tensor, Tensor, Chunk], tuple[Tensor, Tensor | None]]
"""Queries, keys and values of one chunk, [n, H, L, D] each -> the mixed values of that shape, and
the chunk's scores where they are kept."""


def keys_to_read(chunk: Chunk, window: int | None) -> Tensor | None:
    """[n, 1, 1 or L, L] True where a query may read a key; None where all may read all. ``window``:
    a key so many places away, or further, is not read (transformers' ``sliding_window``)."""
    keys = None if chunk.full else chunk.keys_nL[:, None, None, :]
    if window is None or chunk.longest <= window:
        return keys
    place = torch.arange(chunk.longest, device=chunk.keys_nL.device)
    near = ((place[:, None] - place[None, :]).abs() < window)[None, None]
    if keys is None:
        return near
    # a place without a token reads all keys: with none its softmax would be NaN, and so would be
    # every gradient
    return keys & (near | ~chunk.keys_nL[:, None, :, None])


def attention_by_chunk(
    query: Tensor, key: Tensor, value: Tensor, trace: AttentionTrace, kernel: ChunkKernel
) -> tuple[Tensor, None]:
    """Attention of each sequence over itself, for one packed row of shape [1, H, T, D] -> [1, T, H,
    D], chunk by chunk: short sequences are not padded to the batch's longest. The second value is
    what transformers calls the attention weights: none."""
    if trace.keeps_vectors:
        trace.vectors = tuple(x.squeeze(0).transpose(0, 1).flatten(1) for x in (query, key, value))
    # from the packed row into the places of the chunks
    layout = trace.layout
    q_NHD, k_NHD, v_NHD = (
        x.squeeze(0).transpose(0, 1).index_select(0, layout.gather_N) for x in (query, key, value)
    )
    scores: list[Tensor] = []
    mixed: list[Tensor] = []
    is_one = len(layout.chunks) == 1
    for chunk in layout.chunks:
        shape = (len(chunk.sequences), chunk.longest)
        # an index would cost a kernel on the way back: zeros to copy the gradient into
        parts = (x if is_one else x[chunk.places] for x in (q_NHD, k_NHD, v_NHD))
        q_nHLD, k_nHLD, v_nHLD = (x.unflatten(0, shape).transpose(1, 2) for x in parts)
        mixed_nHLD, kept_nHLL = kernel(q_nHLD, k_nHLD, v_nHLD, chunk)
        mixed.append(mixed_nHLD.transpose(1, 2).flatten(0, 1))
        if kept_nHLL is not None:
            scores.append(kept_nHLL)
    trace.scores = tuple(scores)

    # and back into the packed row
    mixed_NHD = mixed[0] if len(mixed) == 1 else torch.cat(mixed)
    return mixed_NHD.index_select(0, layout.scatter_T)[None], None


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: None,
    *,
    trace: AttentionTrace,
    **options: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls for each layer's attention: :func:`attention_by_chunk`
    with torch's own operations; on an accelerator :func:`fused_attention`. The arithmetic is the
    same whether or not scores are kept, so asking for them can never change a result. There is no
    mask: the layout says where sequences end. Options: ``scaling`` of the scores, else 1 / sqrt(D),
    the probability of ``dropout``, the ``sliding_window`` of a layer that sees near tokens alone
    (its kept scores are of all), and ``position_bias``, [1, H, L, L] of the longest sequence, which
    is added to the scaled scores."""
    if query.device.type != "cpu":
        return fused_attention(module, query, key, value, mask, trace=trace, **options)
    scale = options.get("scaling") or query.size(-1) ** -0.5
    dropout = options.get("dropout", 0.0)
    bias_1HLL = options.get("position_bias")

    def kernel(
        q_nHLD: Tensor, k_nHLD: Tensor, v_nHLD: Tensor, chunk: Chunk
    ) -> tuple[Tensor, Tensor | None]:
        # in place where nothing else reads the numbers: a tensor of n * H * L * L less to write
        # and to read
        scores_nHLL = torch.matmul(q_nHLD, k_nHLD.transpose(2, 3)).mul_(scale)
        if bias_1HLL is not None:
            scores_nHLL.add_(bias_1HLL[..., : chunk.longest, : chunk.longest])
        masked_nHLL = scores_nHLL
        if (keys := keys_to_read(chunk, options.get("sliding_window"))) is not None:
            fill = scores_nHLL.masked_fill if trace.keeps_scores else scores_nHLL.masked_fill_
            masked_nHLL = fill(~keys, float("-inf"))
        weights_nHLL = nn.functional.dropout(
            masked_nHLL.softmax(-1), p=dropout, training=module.training
        )
        return torch.matmul(weights_nHLL, v_nHLD), scores_nHLL if trace.keeps_scores else None

    return attention_by_chunk(query, key, value, trace, kernel)


def fused_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: None,
    *,
    trace: AttentionTrace,
    **options: Any,
) -> tuple[Tensor, None]:
    """:func:`packed_attention` by ``scaled_dot_product_attention``, which never writes the scores
    to memory. Kept scores are computed next to the attention and not for it: asking for them cannot
    change a result."""
    scale = options.get("scaling") or query.size(-1) ** -0.5
    dropout = options.get("dropout", 0.0) if module.training else 0.0
    bias_1HLL = options.get("position_bias")

    def kernel(
        q_nHLD: Tensor, k_nHLD: Tensor, v_nHLD: Tensor, chunk: Chunk
    ) -> tuple[Tensor, Tensor | None]:
        # scores that terms read
        scores_nHLL = (
            torch.matmul(q_nHLD, k_nHLD.transpose(2, 3)) * scale if trace.keeps_scores else None
        )
        # what is added to the scores before the softmax
        keys = keys_to_read(chunk, options.get("sliding_window"))
        if keys is not None and keys.size(2) == 1:
            keys = chunk.added_n11L
        if bias_1HLL is not None:
            added_1HLL = bias_1HLL[..., : chunk.longest, : chunk.longest]
            scores_nHLL = None if scores_nHLL is None else scores_nHLL + added_1HLL
            keys = (added_1HLL if keys is None else keys + added_1HLL).to(q_nHLD.dtype)
        mixed_nHLD = nn.functional.scaled_dot_product_attention(
            q_nHLD, k_nHLD, v_nHLD, keys, dropout, scale=scale
        )
        return mixed_nHLD, scores_nHLL

    return attention_by_chunk(query, key, value, trace, kernel)


AttentionInterface.register("packed", packed_attention)
