"""Whether cells were recomputed from the printed scores, rounded or cut off, or from unrounded scores that nobody sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import NormalDist

from bench.audit.printed import PrintedNumber

CONVINCING = 1e-3
"""Cells count as computed from the printed scores if the probability that unrounded scores gave all their digits is below this."""


@dataclass(frozen=True)
class DerivedCell:
    """What one derived cell should be.

    Attributes:
        value: from the printed scores.
        parts: for each score the half-width that its own rounding gives to ``value``.
    """

    cell: PrintedNumber
    value: Decimal
    parts: tuple[Decimal, ...]

    @property
    def slack(self) -> Decimal:
        return sum(self.parts, self.cell.step / 2)

    @property
    def is_possible(self) -> bool:
        """Whether some rounding of the scores behind the printed ones gives the cell."""
        return abs(self.cell.value - self.value) <= self.slack

    @property
    def is_turned(self) -> bool:
        """Whether its negative is possible, and it is not."""
        return not self.is_possible and abs(self.cell.value + self.value) <= self.slack

    @property
    def is_rounded(self) -> bool:
        return self.cell.is_rounded(self.value)

    @property
    def is_cut(self) -> bool:
        return self.cell.is_cut(self.value)

    @property
    def chance(self) -> float:
        """Probability that unrounded scores behind the printed ones, each uniform within its rounding, round to the cell."""
        # an error that is uniform within its half-width h has the variance h**2 / 3; their sum is taken as normal
        spread = float(sum((part**2 for part in self.parts), Decimal(0)) / 3) ** 0.5
        if not spread:
            return float(self.is_rounded)
        unrounded = NormalDist(float(self.value), spread)
        half = float(self.cell.step) / 2
        return unrounded.cdf(float(self.cell.value) + half) - unrounded.cdf(float(self.cell.value) - half)


@dataclass(frozen=True)
class Habit:
    """How a table makes its derived cells: all of a kind, or all but one, have exactly the digits that the printed scores give.

    Attributes:
        cuts: cells are cut off where they would be rounded up.
        by_chance: probability that unrounded scores gave these digits, times the number of cells that might be the odd one.
    """

    cuts: bool
    by_chance: float


def habit(cells: Sequence[DerivedCell]) -> Habit | None:
    """The habit that cells of one kind show; None where two cells or more are neither rounded from the printed scores nor cut."""
    shown = []
    for cuts in (False, True):
        conforming = [made for made in cells if (made.is_cut if cuts else made.is_rounded)]
        # without two cells that rounding would not give nothing tells cutting from rounding
        if len(conforming) < len(cells) - 1 or (cuts and sum(not made.is_rounded for made in conforming) < 2):
            continue
        odd = len(cells) - len(conforming)
        probability = float(len(cells) if odd else 1)
        for made in conforming:
            probability *= made.chance
        shown.append((odd, probability, Habit(cuts, probability)))
    return min(shown, key=lambda one: one[:2])[2] if shown else None


def follows_printed(habits: Sequence[Habit | None]) -> bool:
    """Whether the kinds of derived cells of a table together show that it works on its printed scores."""
    together = 1.0
    for shown in habits:
        together *= shown.by_chance if shown else 1.0
    return any(habits) and together < CONVINCING
