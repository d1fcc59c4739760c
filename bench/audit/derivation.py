"""Find the two rows or columns that a row or column of percentages or differences comes from.

The pair is the one that most of the derived cells follow, by their printed numbers and what may
have been before rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import comb, prod
from statistics import NormalDist
from typing import Any

from bench.audit.names import plain_name
from bench.audit.printed import PrintedNumber

Cells = Mapping[Any, PrintedNumber]
"""The cells of a row by their columns, or those of a column by the numbers of their rows."""
Source = tuple[str, Cells]
"""The name of a row or column, and its cells."""


@dataclass(frozen=True)
class Formula:
    """How a derived cell is made of two scores. The functions take decimals and arrays.

    Attributes:
        value: of the cell.
        slopes: how much it moves for each unit of the first and of the second score.
        words: the rule as a text, with places for the names of both.
    """

    value: Callable[[Any, Any], Any]
    slopes: Callable[[Any, Any], tuple[Any, Any]]
    words: str


FORMULAS = {
    "ratio": Formula(
        lambda a, b: 100 * a / b,
        lambda a, b: (100 / abs(b), 100 * abs(a) / b**2),
        "100 x {a} / {b}",
    ),
    "difference": Formula(lambda a, b: a - b, lambda a, b: (1, 1), "{a} - {b}"),
}
LIKELY = 0.02
"""Expected number of unrelated pairs that would fit as well by chance. Above it, no pair is taken
as the source."""
MOST_SOURCES = 64
"""Rows or columns that are tried as sources of one: those that its name has, then those nearest
to it."""
MOST_TRIED = 16
"""Cells of a derived row or column on which its sources are chosen, and pairs of sources that are
then compared exactly."""
SMALL_SHARE = 0.3
"""Pairs that give no greater share of the cells fit by chance."""


@dataclass(frozen=True)
class DerivedCell:
    """One derived cell, and what it should be.

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
    def chance(self) -> float:
        """The probability that unrounded scores behind the printed ones round to the cell.

        Each is uniform within its rounding.
        """
        # an error that is uniform within its half-width h has the variance h**2 / 3;
        # their sum is taken as normal
        variance = float(sum((part**2 for part in self.parts), Decimal(0)) / 3)
        spread = variance**0.5
        if not spread:
            return float(self.is_rounded)
        unrounded = NormalDist(float(self.value), spread)
        half = float(self.cell.step) / 2
        below_upper_end = unrounded.cdf(float(self.cell.value) + half)
        return below_upper_end - unrounded.cdf(float(self.cell.value) - half)


def derived_cell(kind: str, cell: PrintedNumber, a: PrintedNumber, b: PrintedNumber) -> DerivedCell:
    """A cell as it should be: the ratio or difference of two scores."""
    formula = FORMULAS[kind]
    slope_a, slope_b = formula.slopes(a.value, b.value)
    parts = (slope_a * a.step / 2, slope_b * b.step / 2)
    return DerivedCell(cell, formula.value(a.value, b.value), parts)


@dataclass(frozen=True)
class Derivation:
    """The two sources of a derived row or column, and what they give for each of its cells."""

    kind: str
    first: str
    second: str
    cells: Mapping[Any, DerivedCell]
    sources: tuple[Cells, Cells]

    @property
    def rule(self) -> str:
        return FORMULAS[self.kind].words.format(a=self.first, b=self.second)

    @property
    def fitting(self) -> int:
        """How many of the cells the two sources can give."""
        return sum(derived.is_possible for derived in self.cells.values())

    @property
    def share(self) -> float:
        return self.fitting / len(self.cells) if self.cells else 0.0

    def expected(self, pairs: int) -> float:
        """How many of so many unrelated pairs would give as many of these cells.

        A cell that is the same whatever it is made of (0, 1, 100 %) shows nothing.
        """
        # unrelated numbers are spread over this scale: at least a tenth of the largest, else,
        # where the cells are close together, every fit would count as chance
        values = [float(derived.cell.value) for derived in self.cells.values()]
        scale = max(max(values) - min(values), max(map(abs, values)) / 10, 1e-9)

        # of cells that print one number, one shows as much as all
        shown = {}
        for derived in self.cells.values():
            if derived.value not in (0, 1, 100):
                shown[derived.cell.value] = derived

        # An unrelated number fits with probability 2 slack / scale. With its sign reversed a cell
        # has twice the chance: it is half the evidence.
        fits = []
        for derived in shown.values():
            if derived.is_possible or derived.is_turned:
                times = 4 if derived.is_turned else 2
                fits.append(min(1.0, times * float(derived.slack) / scale))
        if len(shown) > 500:  # so many cells are no chance
            return pairs * prod(fits)
        # comb: the ways to choose which of the cells fit
        return pairs * comb(len(shown), len(fits)) * prod(fits)


def derivation_of(
    target: Cells, sources: Sequence[Source], kind: str, name: str, least: int, share: float
) -> Derivation | None:
    """The pair of sources that most of the target's cells follow; None where no pair convinces.

    Args:
        target: the cells of the derived row or column.
        kind: a key of :data:`FORMULAS`.
        name: of the target; a pair that it names needs less evidence.
        least, share: how many cells have to follow, as a number and of all that the pair has.
    """
    if not target or not sources:
        return None
    # the first of the likeliest pairs that most cells follow
    best: Derivation | None = None
    for at_first, at_second in _likeliest(kind, target, [cells for _, cells in sources]):
        derivation = _derivation(kind, target, sources[at_first], sources[at_second])
        convinces = derivation.fitting >= least and derivation.share >= share
        if convinces and (best is None or derivation.share > best.share):
            best = derivation
    if best is None:
        return None

    # a name with both sources needs no further evidence, one with one of them less:
    # "Difference (A to B)"
    labels = [plain_name(best.first), plain_name(best.second)]
    named = sum(bool(label) and label in plain_name(name) for label in labels)
    tried = len(sources) if named else max(1, len(sources) * (len(sources) - 1))
    if named < 2 and best.expected(tried) > LIKELY:
        return None
    return _in_points(best, target, sources) if kind == "difference" else best


def _derivation(kind: str, target: Cells, first: Source, second: Source) -> Derivation:
    """The cells that the target shares with two sources, as these give them."""
    first_name, x = first
    second_name, y = second
    cells = {}
    for key, cell in target.items():
        is_shared = key in x and key in y
        if is_shared and (kind == "difference" or y[key].value):
            cells[key] = derived_cell(kind, cell, x[key], y[key])
    return Derivation(kind, first_name, second_name, cells, (x, y))


def _in_points(
    derivation: Derivation, target: Cells, sources: Sequence[Source]
) -> Derivation | None:
    """Differences in points without those that are to another source.

    A cell may be the difference to the best or the worst of the other sources, which is another
    one in each column. None where the cells are rather changes in percent of the second source.
    """
    x, y = derivation.sources
    others = [cells for name, cells in sources if name != derivation.first]
    in_percent = 0
    kept = {}
    for key, derived in derivation.cells.items():
        cell = target[key]
        first = x[key]
        in_percent += _is_change_in_percent(cell, first, y[key])
        rivals = [cells[key].value for cells in others if key in cells]
        # rows of one name have no rivals by name
        best = max(rivals, default=y[key].value)
        worst = min(rivals, default=y[key].value)
        is_to_rival = any(
            abs(cell.value - (first.value - rival)) <= derived.slack for rival in (best, worst)
        )
        if derived.is_possible or not is_to_rival:
            kept[key] = derived
    return replace(derivation, cells=kept) if in_percent <= derivation.fitting else None


def _is_change_in_percent(cell: PrintedNumber, a: PrintedNumber, b: PrintedNumber) -> bool:
    """Whether a cell may be the difference of two scores in percent of the second."""
    if not b.value:
        return False
    exact = 100 * (a.value - b.value) / b.value
    slack_a = 50 * a.step / abs(b.value)
    slack_b = 50 * b.step * abs(a.value) / b.value**2
    return abs(cell.value - exact) <= cell.step / 2 + slack_a + slack_b


def _likeliest(kind: str, target: Cells, sources: Sequence[Cells]) -> list[tuple[int, int]]:
    """The numbers of the pairs of sources that can give most of the target's cells.

    It compares some of the cells, of those that both sources have, in floating point.
    """
    import numpy

    # some cells from the first to the last
    keys = list(target)
    tried = numpy.linspace(0, len(keys) - 1, min(len(keys), MOST_TRIED))
    keys = [keys[round(at)] for at in tried]

    # value and half a step of each, first of the target and then of each source
    values = numpy.full((1 + len(sources), len(keys)), numpy.nan)
    halves = values.copy()
    for number, cells in enumerate((target, *sources)):
        for at, key in enumerate(keys):
            if key in cells:
                values[number, at] = float(cells[key].value)
                halves[number, at] = float(cells[key].step) / 2

    # every source with every other one: [first, second, cell]
    a = values[1:, None, :]
    b = values[None, 1:, :]
    formula = FORMULAS[kind]
    with numpy.errstate(all="ignore"):
        computed = formula.value(a, b)
        slope_a, slope_b = formula.slopes(a, b)
        slack = halves[0] + slope_a * halves[1:, None, :] + slope_b * halves[None, 1:, :]
        # a little more: what fits within floating point is compared again in decimals
        fitting = (abs(computed - values[0]) <= slack * (1 + 1e-9) + 1e-9).sum(axis=-1)
        shared = numpy.isfinite(computed).sum(axis=-1)
        shares = numpy.where(shared > 0, fitting / numpy.maximum(shared, 1), 0.0)
    numpy.fill_diagonal(shares, 0)

    # the greatest shares; of equal ones the first
    best = (-shares.ravel()).argsort(kind="stable")[:MOST_TRIED].tolist()
    pairs = [divmod(at, len(sources)) for at in best]
    return [pair for pair in pairs if shares[pair] > SMALL_SHARE]


def nearest(name: str, index: int, sources: Sequence[tuple[int, Source]]) -> list[Source]:
    """At most :data:`MOST_SOURCES` of the sources of a row or column, in their order.

    They are those that its name has, then those nearest to it.

    Args:
        index: of the row or column in its table; each source has its own before it.
    """
    plain = plain_name(name)

    def distance(source: tuple[int, Source]) -> tuple[bool, int]:
        label = plain_name(source[1][0])
        return not (label and label in plain), abs(source[0] - index)

    if len(sources) > MOST_SOURCES:
        closest = sorted(sources, key=distance)[:MOST_SOURCES]
        sources = sorted(closest, key=lambda source: source[0])
    return [source for _, source in sources]
