"""Does padding reach a term? The same examples are shown to it in another padded view."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from methods.core.packed import Chunk, Layout

FURTHER_PLACES = 3
"""Places that a wider view has behind the longest sequence."""


class OtherView(Layout):
    """The same sequences in a padded view that differs at padding alone: by more places, or by the
    token that is shown there.

    Args:
        further: places that every padded view has behind its longest sequence.
        shown: the packed token that is seen at places of padding.
    """

    def __init__(self, layout: Layout, further: int, shown: int) -> None:
        super().__init__(layout.lengths, layout.real, layout.one_chunk)
        self.further = further
        self.shown = shown
        self._plain = layout

    def _widened(self, mask_nL: Tensor) -> Tensor:
        places = mask_nL.new_zeros(mask_nL.size(0), self.further)
        return torch.cat([mask_nL, places], dim=1)

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        chunks = []
        start = 0
        for chunk in self._plain.chunks:
            longest = chunk.longest + self.further
            stop = start + len(chunk.sequences) * longest
            mask_nL = self._widened(chunk.mask_nL)
            keys_nL = self._widened(chunk.keys_nL)
            full = chunk.full and not self.further
            places = slice(start, stop)
            chunks.append(Chunk(chunk.sequences, longest, places, mask_nL, keys_nL, full))
            start = stop
        return tuple(chunks)

    @cached_property
    def mask_BL(self) -> Tensor:
        return self._widened(self._plain.mask_BL)

    @cached_property
    def tokens_BL(self) -> Tensor:
        first_places = self._plain.tokens_BL
        further = first_places.new_zeros(len(self.lengths), self.further)
        tokens_BL = torch.cat([first_places, further], dim=1)
        return tokens_BL.masked_fill(~self.mask_BL, self.shown)


def other_views(layout: Layout) -> dict[str, OtherView]:
    """How a view differs, as messages say it, and the view."""
    wider = f"where the padded view of the same examples is {FURTHER_PLACES} places wider"
    other = "where padding shows another token"
    last_token = layout.total - 1
    return {
        wider: OtherView(layout, FURTHER_PLACES, 0),
        other: OtherView(layout, 0, last_token),
    }
