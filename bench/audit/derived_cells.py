"""Rows and columns of percentages or differences, compared with the two rows or columns that they come from.

The pair is the one that most of the derived cells follow. A cell is a finding if no rounding of the two scores gives what
is printed, or if the row visibly works on the printed scores and this cell does not follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import comb, prod
from statistics import NormalDist
from typing import Any

from bench.audit.averages import averaging_rules, mean_of, slack_of_mean
from bench.audit.findings import ARITHMETIC, Finding, of_cell
from bench.audit.names import (
    DIFFERENCE,
    RATIO,
    UNCERTAIN,
    derived_kind,
    is_average,
    is_average_row,
    is_plain,
    is_total_row,
    plain_name,
    scores_of,
)
from bench.audit.printed import PrintedNumber
from bench.audit.table import PrintedRow, Sheet

Cells = Mapping[Any, PrintedNumber]
Source = tuple[str, Cells]


FORMULAS = {
    "ratio": (
        lambda a, b: 100 * a / b,
        lambda a, b: (100 / abs(b), 100 * abs(a) / b**2),
        "100 x {a} / {b}",
    ),
    "difference": (lambda a, b: a - b, lambda a, b: (1, 1), "{a} - {b}"),
}
"""How a cell is made of two scores: kind -> value, its slopes in both, and the rule in words. They take decimals and arrays."""
LIKELY = 0.02
"""Expected number of unrelated pairs that would fit as well by chance. Above it, no pair is taken as the source."""
CONVINCING = 1e-3
"""Cells count as computed from the printed scores if the probability that unrounded scores gave all their digits is below this."""
MOST_SOURCES = 64
"""Rows or columns that are tried as sources of one: those that its name has, then those nearest to it."""
MOST_TRIED = 16
"""Cells of a derived row or column on which its sources are chosen, and pairs of sources that are then compared exactly."""


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
    def chance(self) -> float:
        """Probability that unrounded scores behind the printed ones, each uniform within its rounding, round to the cell."""
        # an error that is uniform within its half-width h has the variance h**2 / 3; their sum is taken as normal
        spread = float(sum((part**2 for part in self.parts), Decimal(0)) / 3) ** 0.5
        if not spread:
            return float(self.is_rounded)
        unrounded = NormalDist(float(self.value), spread)
        half = float(self.cell.step) / 2
        return unrounded.cdf(float(self.cell.value) + half) - unrounded.cdf(
            float(self.cell.value) - half
        )


@dataclass(frozen=True)
class DerivedFrom:
    """The two sources of a derived row or column, and what they give for each of its cells."""

    kind: str
    first: str
    second: str
    cells: dict[Any, DerivedCell]
    sources: tuple[Cells, Cells]

    @property
    def rule(self) -> str:
        return FORMULAS[self.kind][2].format(a=self.first, b=self.second)

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
        values = [float(derived.cell.value) for derived in self.cells.values()]
        # at least a tenth of the largest: else, where the cells are close together, every fit would count as chance
        scale = max(max(values) - min(values), max(map(abs, values)) / 10, 1e-9)
        shown = {
            derived.cell.value: derived
            for derived in self.cells.values()
            if derived.value not in (0, 1, 100)
        }
        # Unrelated numbers, spread over `scale`, fit with probability 2 slack / scale. With its sign reversed a cell
        # has twice the chance: it is half the evidence.
        fits = [
            min(1.0, (4 if derived.is_turned else 2) * float(derived.slack) / scale)
            for derived in shown.values()
            if derived.is_possible or derived.is_turned
        ]
        if len(shown) > 500:  # so many cells are no chance
            return pairs * prod(fits)
        # comb: the ways to choose which of the cells fit
        return pairs * comb(len(shown), len(fits)) * prod(fits)


def _derived(kind: str, cell: PrintedNumber, a: PrintedNumber, b: PrintedNumber) -> DerivedCell:
    value, slopes, _ = FORMULAS[kind]
    of_a, of_b = slopes(a.value, b.value)
    return DerivedCell(cell, value(a.value, b.value), (of_a * a.step / 2, of_b * b.step / 2))


def _origin(
    target: Cells, sources: Sequence[Source], kind: str, name: str, least: int, share: float
) -> DerivedFrom | None:
    """The pair of sources that most of the target's cells follow; None where no pair convinces."""
    if not target or not sources:
        return None
    best: DerivedFrom | None = None
    for at_first, at_second in _likeliest(kind, target, [cells for _, cells in sources]):
        (first, x), (second, y) = sources[at_first], sources[at_second]
        shared = [c for c in target if c in x and c in y and (kind == "difference" or y[c].value)]
        origin = DerivedFrom(
            kind, first, second, {c: _derived(kind, target[c], x[c], y[c]) for c in shared}, (x, y)
        )
        if (
            origin.fitting >= least
            and origin.share >= share
            and (best is None or origin.share > best.share)
        ):
            best = origin
    if best is None:
        return None
    # a name with both sources needs no further evidence, one with one of them less: "Difference (A to B)"
    labels = map(plain_name, (best.first, best.second))
    named = sum(bool(label) and label in plain_name(name) for label in labels)
    tried = len(sources) if named else max(1, len(sources) * (len(sources) - 1))
    if named < 2 and best.expected(tried) > LIKELY:
        return None
    return _in_points(best, target, sources) if kind == "difference" else best


def _in_points(origin: DerivedFrom, target: Cells, sources: Sequence[Source]) -> DerivedFrom | None:
    """The origin of differences, without the cells that are the difference to the best (or worst) of the other sources, which may be
    another one in each column; None where the cells are rather changes in percent of the second source."""
    x, y = origin.sources
    relative, cells_in_points = 0, dict(origin.cells)
    for place, derived in origin.cells.items():
        cell, a, b = target[place], x[place], y[place]
        if b.value:
            of_a, of_b = 50 * a.step / abs(b.value), 50 * b.step * abs(a.value) / b.value**2
            relative += (
                abs(cell.value - 100 * (a.value - b.value) / b.value) <= cell.step / 2 + of_a + of_b
            )
        others = [
            cells[place].value for name, cells in sources if name != origin.first and place in cells
        ]
        ends = (a.value - end for end in (max(others), min(others)))
        if not derived.is_possible and any(
            abs(cell.value - value) <= derived.slack for value in ends
        ):
            del cells_in_points[place]
    return replace(origin, cells=cells_in_points) if relative <= origin.fitting else None


def _likeliest(kind: str, target: Cells, sources: Sequence[Cells]) -> list[tuple[int, int]]:
    """The places of the pairs of sources that can give most of some of the target's cells, of those that they share."""
    import numpy

    places = list(target)
    places = [
        places[round(at)] for at in numpy.linspace(0, len(places) - 1, min(len(places), MOST_TRIED))
    ]
    cells = [[source.get(place) for place in places] for source in (target, *sources)]
    numbers = [
        [(float(c.value), float(c.step) / 2) if c else (numpy.nan, numpy.nan) for c in row]
        for row in cells
    ]
    (printed, *values), (half, *halves) = numpy.moveaxis(numpy.array(numbers), -1, 0)
    a, b = numpy.array(values)[:, None, :], numpy.array(values)[None, :, :]
    half_a, half_b = numpy.array(halves)[:, None, :], numpy.array(halves)[None, :, :]
    value, slopes, _ = FORMULAS[kind]
    with numpy.errstate(all="ignore"):
        computed = value(a, b)
        of_a, of_b = slopes(a, b)
        slack = half + of_a * half_a + of_b * half_b
        # a little more: what fits within floating point is compared again in decimals
        fitting = (abs(computed - printed) <= slack * (1 + 1e-9) + 1e-9).sum(axis=-1)
        shared = numpy.isfinite(computed).sum(axis=-1)
        shares = numpy.where(shared > 0, fitting / numpy.maximum(shared, 1), 0.0)
    numpy.fill_diagonal(shares, 0)
    best = (-shares.ravel()).argsort(kind="stable")[:MOST_TRIED].tolist()  # of equal ones the first
    pairs = [divmod(at, len(sources)) for at in best]
    return [pair for pair in pairs if shares[pair] > 0.3]  # a smaller share is chance


def _nearest(name: str, place: int, sources: Sequence[tuple[int, Source]]) -> list[Source]:
    """At most :data:`MOST_SOURCES` of the sources, in their order: those that the name has, then those nearest to its place."""
    plain = plain_name(name)

    def distance(source: tuple[int, Source]) -> tuple[bool, int]:
        label = plain_name(source[1][0])
        return not (label and label in plain), abs(source[0] - place)

    if len(sources) > MOST_SOURCES:
        sources = sorted(sorted(sources, key=distance)[:MOST_SOURCES], key=lambda source: source[0])
    return [source for _, source in sources]


def derived_rows(sheet: Sheet) -> Iterator[Finding]:
    """Rows of percentages or differences against the two rows that they come from."""
    plain = [
        (place, (row.system, row.cells)) for place, row in enumerate(sheet.rows) if is_plain(row)
    ]
    percents = [
        (place, (row.system, row.cells))
        for place, row in enumerate(sheet.rows)
        if RATIO.search(row.system)
    ]
    ratios: list[tuple[PrintedRow, DerivedFrom]] = []
    differences: list[tuple[PrintedRow, DerivedFrom]] = []
    for place, row in enumerate(sheet.rows):
        if is_plain(row) or is_average_row(row) or is_total_row(row):
            continue
        scores = scores_of(row.cells)
        is_difference = bool(DIFFERENCE.search(row.system)) or "percentage_points" in {
            m for m, _ in row.kinds.values()
        }
        kind = "difference" if is_difference else "ratio"
        # a difference may also be one of two rows of ratios; a ratio is always of two rows of scores
        further = [source for source in percents if source[0] != place] if is_difference else []
        sources = _nearest(row.system, place, plain) + _nearest(row.system, place, further)
        if origin := _origin(scores, sources, kind, row.system, 2, 0.5):
            (differences if is_difference else ratios).append((row, origin))
    # differences of two rows of ratios: of the ratios before they were rounded, where those give the digits printed
    unrounded = {row.system: origin.cells for row, origin in ratios}
    for _, origin in differences:
        x, y = unrounded.get(origin.first, {}), unrounded.get(origin.second, {})
        for column in origin.cells.keys() & x.keys() & y.keys():
            cell, value = origin.cells[column].cell, x[column].value - y[column].value
            if cell.is_rounded(value):
                origin.cells[column] = DerivedCell(cell, value, x[column].parts + y[column].parts)
    habits = [
        _habit(
            [
                derived
                for _, origin in rows
                for derived in origin.cells.values()
                if derived.is_possible
            ]
        )
        for rows in (ratios, differences)
    ]
    # together they show that the table works on its printed scores, and not on others that nobody sees
    by_chance = prod(habit[1] for habit in habits if habit)
    for rows, habit in zip((ratios, differences), habits, strict=True):
        for row, origin in rows:
            yield from _row(
                sheet, row, origin, habit[0] if habit and by_chance < CONVINCING else None
            )
    for row, origin in differences:
        yield from _label(sheet, row, origin, {r.system: f"{r.system} {o.rule}" for r, o in ratios})
    for row, origin in (*ratios, *differences):
        yield from _own_average(sheet, row, origin)


def _habit(cells: Sequence[DerivedCell]) -> tuple[bool, float] | None:
    """How a table makes the cells of one kind: all, or all but one, have exactly the digits that the printed scores give.

    Whether it cuts them off where they would be rounded up, and the probability that unrounded scores gave these digits,
    times the number of cells that might be the odd one. None where two cells or more are neither rounded nor cut.
    """
    habits = []
    for cuts in (False, True):
        conforming = [d for d in cells if (d.cell.is_cut(d.value) if cuts else d.is_rounded)]
        odd = len(cells) - len(conforming)
        # without two cells that rounding would not give nothing tells cutting from rounding
        if odd <= 1 and not (cuts and sum(not derived.is_rounded for derived in conforming) < 2):
            by_chance = prod(
                (derived.chance for derived in conforming), start=float(len(cells) if odd else 1)
            )
            habits.append((odd, by_chance, cuts))
    if not habits:
        return None
    _, by_chance, cuts = min(habits)
    return cuts, by_chance


def _row(
    sheet: Sheet, row: PrintedRow, origin: DerivedFrom, cuts: bool | None
) -> Iterator[Finding]:
    """Cells that the rule cannot give; where the table works on its printed scores, also those that these do not give.

    ``cuts`` is None where it does not, else whether it cuts digits off.
    """
    for column, derived in origin.cells.items():
        if not derived.is_possible:
            check = "sign" if derived.is_turned else origin.kind
            changes = "the sign of a comparison" if derived.value * derived.cell.value < 0 else ""
            why = f"{origin.rule}{': the sign is reversed' if derived.is_turned else ''}"
            yield of_cell(sheet, row, column, derived.value, check, why, changes)
        elif cuts is not None and derived.cell.is_only_cut(derived.value):
            others = "agree with truncating" if cuts else "are rounded"
            why = f"{origin.rule} is truncated, not rounded; the other cells {others}"
            yield of_cell(sheet, row, column, derived.value, "truncation", why, "a digit")
        elif cuts is not None and not derived.is_rounded:
            why = f"{origin.rule}; the other cells follow their printed scores to the digit"
            yield of_cell(sheet, row, column, derived.value, origin.kind, why)


def _label(
    sheet: Sheet, row: PrintedRow, origin: DerivedFrom, rules: Mapping[str, str]
) -> Iterator[Finding]:
    """A label like ``Difference (A-B)`` whose numbers are B - A; ``rules`` say what the rows of ratios are made of."""
    named = re.search(r"(\w+)\s*[-−–]\s*(\w+)", re.sub(r".*\(|\).*", "", row.system))
    if not named:
        return
    left, right = map(plain_name, named.groups())
    first, second = (plain_name(rules.get(name, name)) for name in (origin.first, origin.second))
    if left in second and right in first and left not in first and right not in second:
        yield Finding(
            where=sheet.where,
            row=row.system,
            column="",
            printed=named[0],
            recomputed=f"{named[2]}-{named[1]}",
            basis=ARITHMETIC,
            check="sign",
            why=f"its cells are {origin.rule}: the other way round",
            changes="the sign of a comparison",
        )


def _own_average(sheet: Sheet, row: PrintedRow, origin: DerivedFrom) -> Iterator[Finding]:
    """The average cell of a derived row: of its own cells, or the same operation on the averages of its two sources.

    Papers do either, over all columns or some; a cell is a finding if none of these gives it.
    """
    own = scores_of(row.cells)
    means = [
        (mean_of(groups, own), len(groups), name)
        for name, groups in averaging_rules(list(own)).items()
    ]
    for column in filter(is_average, row.cells):
        cell = row.cells[column]
        ways: list[tuple[Decimal, Decimal, str]] = []
        first, second = (cells.get(column) for cells in origin.sources)
        if first and second and (origin.kind == "difference" or second.value):
            derived = _derived(origin.kind, cell, first, second)
            if derived.is_turned:
                why = f"{origin.rule}, as the other cells are: the sign is reversed"
                yield of_cell(sheet, row, column, derived.value, "sign", why, "a headline")
                continue
            ways.append((derived.value, derived.slack, f"{origin.rule} of this column"))
        for mean, count, name in means:
            if mean is not None:
                slack = slack_of_mean(cell, count, max(score.step for score in own.values()))
                ways.append((mean, slack, f"{name} of this row's own cells"))
        if origin.kind == "ratio" and len(origin.cells) >= 2:
            sums = [
                sum((cells[c].value for c in origin.cells), Decimal(0)) for cells in origin.sources
            ]
            whole = 100 * sums[0] / (sums[1] or 1)
            ways.append(
                (
                    whole,
                    slack_of_mean(cell, len(origin.cells), cell.step),
                    "the ratio of the two means",
                )
            )
        if ways and all(abs(cell.value - value) > slack for value, slack, _ in ways):
            yield of_cell(sheet, row, column, ways[0][0], "average", ways[0][2], "a headline")


def derived_columns(sheet: Sheet) -> Iterator[Finding]:
    """Columns of percentages or differences against the two columns that they come from."""
    by_column: dict[str, dict[int, PrintedNumber]] = {column: {} for column in sheet.columns}
    for place, row in enumerate(sheet.rows):
        for column, cell in row.cells.items():
            by_column[column][place] = cell
    sources = [
        (at, source)
        for at, source in enumerate(by_column.items())
        if not UNCERTAIN.search(source[0])
    ]
    for place, (column, target) in enumerate(by_column.items()):
        kind = derived_kind(column)
        if kind not in FORMULAS or is_average(column) or len(target) < 3:
            continue
        nearest = _nearest(column, place, [source for source in sources if source[0] != place])
        if (origin := _origin(target, nearest, kind, "", 3, 0.65)) is None:
            continue
        # a mean of ratios is near the ratio of means
        of_means = re.search(
            r"\b(?:mean|average|avg)\b", f"{origin.first} {origin.second}", re.IGNORECASE
        )
        near = Decimal("0.002" if of_means else 0)
        for at, derived in origin.cells.items():
            off = abs(derived.cell.value - derived.value)
            if not derived.is_possible and off > near * abs(derived.value):
                check, changes = (
                    ("sign", "the sign of a comparison")
                    if derived.is_turned
                    else (origin.kind, "a digit")
                )
                yield of_cell(
                    sheet, sheet.rows[at], column, derived.value, check, origin.rule, changes
                )
