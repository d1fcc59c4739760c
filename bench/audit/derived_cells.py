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
from typing import Any

from bench.audit.averages import averaging_rules, slack_of_mean
from bench.audit.findings import ARITHMETIC, Finding, of_cell
from bench.audit.names import (
    DIFFERENCE,
    RATIO,
    derived_kind,
    is_average,
    is_average_row,
    is_plain,
    is_total_row,
    plain_name,
    scores_of,
)
from bench.audit.printed import PrintedNumber
from bench.audit.rounding import DerivedCell, Habit, follows_printed, habit
from bench.audit.table import PrintedRow, Sheet

Cells = Mapping[Any, PrintedNumber]
Source = tuple[str, Cells]

FORMULAS = {
    "ratio": (lambda a, b: 100 * a / b, lambda a, b: (100 / abs(b), 100 * abs(a) / b**2), "100 x {a} / {b}"),
    "fraction": (lambda a, b: a / b, lambda a, b: (1 / abs(b), abs(a) / b**2), "{a} / {b}"),
    "difference": (lambda a, b: a - b, lambda a, b: (1, 1), "{a} - {b}"),
    "compression": (lambda a, b: b / a, lambda a, b: (abs(b) / a**2, 1 / abs(a)), "{b} / {a}"),
    "increase": (
        lambda a, b: 100 * a / b - 100,
        lambda a, b: (100 / abs(b), 100 * abs(a) / b**2),
        "100 x ({a} - {b}) / {b}",
    ),
    "reduction": (
        lambda a, b: 100 - 100 * a / b,
        lambda a, b: (100 / abs(b), 100 * abs(a) / b**2),
        "100 x ({b} - {a}) / {b}",
    ),
}
"""How a cell is made of two scores: kind -> value, its slopes in both, and the rule in words. They take decimals and arrays."""
KINDS_OF = {
    "ratio": ("ratio", "fraction"),
    "difference": ("difference", "increase", "reduction"),
    "compression": ("compression", "reduction", "ratio", "fraction"),
}
"""What a column may be whose name says ratio, difference or compression."""
LIKELY = 0.02
"""Expected number of unrelated pairs that would fit as well by chance. Above it, no pair is taken as the source."""
FRACTION_AT_MOST = 2
"""Ratios up to here are fractions and not percentages."""
MOST_SOURCES = 64
"""Rows or columns that are tried as sources of one: those that its name has, then those nearest to it."""
MOST_TRIED = 16
"""Cells of a derived row or column on which its sources are chosen, and pairs of sources that are then compared exactly."""


def _made(kind: str, cell: PrintedNumber, a: PrintedNumber, b: PrintedNumber) -> DerivedCell:
    value, slopes, _ = FORMULAS[kind]
    of_a, of_b = slopes(a.value, b.value)
    return DerivedCell(cell, value(a.value, b.value), (of_a * a.step / 2, of_b * b.step / 2))


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
        return sum(made.is_possible for made in self.cells.values())

    @property
    def share(self) -> float:
        return self.fitting / len(self.cells) if self.cells else 0.0

    def expected(self, pairs: int) -> float:
        """How many of so many unrelated pairs would give as many of these cells.

        A cell that is the same whatever it is made of (0, 1, 100 %) shows nothing.
        """
        values = [float(made.cell.value) for made in self.cells.values()]
        # at least a tenth of the largest: else, where the cells are close together, every fit would count as chance
        scale = max(max(values) - min(values), max(map(abs, values)) / 10, 1e-9)
        shown = {made.cell.value: made for made in self.cells.values() if made.value not in (0, 1, 100)}
        # Unrelated numbers, spread over `scale`, fit with probability 2 slack / scale. With its sign reversed a cell
        # has twice the chance: it is half the evidence.
        fits = [
            min(1.0, (4 if made.is_turned else 2) * float(made.slack) / scale)
            for made in shown.values()
            if made.is_possible or made.is_turned
        ]
        if len(shown) > 500:  # so many cells are no chance
            return pairs * prod(fits)
        return pairs * comb(len(shown), len(fits)) * prod(fits)  # comb: the ways to choose which of the cells fit


def _origin(
    target: Cells, sources: Sequence[Source], kind: str, name: str, least: int, share: float
) -> DerivedFrom | None:
    """The pair of sources that most of the target's cells follow; None where no pair convinces."""
    numbers = _numbers(target, [cells for _, cells in sources])
    if numbers is None:
        return None
    printed, half, values, halves = numbers
    a, b = (values[:, None, :], values[None, :, :]), (halves[:, None, :], halves[None, :, :])
    fits = _fits(kind, printed, half, *a, *b)
    fits[range(len(sources)), range(len(sources))] = 0
    best: DerivedFrom | None = None
    for place in _most(fits):
        (first, x), (second, y) = sources[place // len(sources)], sources[place % len(sources)]
        origin = _from(kind, first, second, target, x, y)
        if origin.fitting >= least and origin.share >= share and (best is None or origin.share > best.share):
            best = origin
    if best is None:
        return None
    # a name with both sources needs no further evidence, one with one of them less: "Difference (A to B)"
    named = [one for one in (best.first, best.second) if plain_name(one) and plain_name(one) in plain_name(name)]
    tried = len(sources) if named else max(1, len(sources) * (len(sources) - 1))
    return best if len(named) == 2 or best.expected(tried) <= LIKELY else None


def _from(kind: str, first: str, second: str, target: Cells, x: Cells, y: Cells) -> DerivedFrom:
    divisors = {"difference": (), "compression": (x,)}.get(kind, (y,))
    shared = [c for c in target if c in x and c in y and all(cells[c].value for cells in divisors)]
    return DerivedFrom(kind, first, second, {c: _made(kind, target[c], x[c], y[c]) for c in shared}, (x, y))


def _numbers(target: Cells, sources: Sequence[Cells]) -> tuple[Any, Any, Any, Any] | None:
    """Some of the target's cells and those of all sources at these places: values and half steps; nan where there is none."""
    import numpy

    places = list(target)
    places = (
        [places[round(at)] for at in numpy.linspace(0, len(places) - 1, min(len(places), MOST_TRIED))] if places else []
    )
    if not places or not sources:
        return None
    cells = [[source.get(place) for place in places] for source in sources]
    values = numpy.array([[float(cell.value) if cell else numpy.nan for cell in row] for row in cells])
    halves = numpy.array([[float(cell.step) / 2 if cell else numpy.nan for cell in row] for row in cells])
    printed = numpy.array([float(target[place].value) for place in places])
    return printed, numpy.array([float(target[place].step) / 2 for place in places]), values, halves


def _fits(kind: str, printed: Any, half: Any, a: Any, b: Any, half_a: Any, half_b: Any) -> Any:
    """For each pair of sources the share of the target's cells that they can give, of those that they share."""
    import numpy

    value, slopes, _ = FORMULAS[kind]
    with numpy.errstate(all="ignore"):
        made = value(a, b)
        of_a, of_b = slopes(a, b)
        slack = half + of_a * half_a + of_b * half_b
        # a little more: what fits within floating point is compared again in decimals
        fitting = (abs(made - printed) <= slack * (1 + 1e-9) + 1e-9).sum(axis=-1)
        shared = numpy.isfinite(made).sum(axis=-1)
        return numpy.where(shared > 0, fitting / numpy.maximum(shared, 1), 0.0)


def _most(shares: Any) -> list[int]:
    """The places of the greatest shares that are no chance, the first of equal ones first."""
    import numpy

    flat = shares.ravel()
    return [int(at) for at in numpy.argsort(-flat, kind="stable")[:MOST_TRIED] if flat[at] > 0.3]


def _nearest(name: str, place: int, sources: Sequence[tuple[int, Source]]) -> list[Source]:
    """At most :data:`MOST_SOURCES` of the sources, in their order: those that the name has, then those nearest to its place."""
    if len(sources) > MOST_SOURCES:
        plain = plain_name(name)
        key = {
            at: (not (label and label in plain), abs(at - place))
            for at, (own, _) in sources
            for label in [plain_name(own)]
        }
        sources = sorted(
            sorted(sources, key=lambda source: key[source[0]])[:MOST_SOURCES], key=lambda source: source[0]
        )
    return [source for _, source in sources]


def derived_rows(sheet: Sheet) -> Iterator[Finding]:
    """Rows of percentages or differences against the two rows that they come from."""
    plain = [(place, (row.system, row.cells)) for place, row in enumerate(sheet.rows) if is_plain(row)]
    percents = [(place, (row.system, row.cells)) for place, row in enumerate(sheet.rows) if RATIO.search(row.system)]
    ratios: list[tuple[PrintedRow, DerivedFrom]] = []
    differences: list[tuple[PrintedRow, DerivedFrom]] = []
    for place, row in enumerate(sheet.rows):
        if is_plain(row) or is_average_row(row) or is_total_row(row):
            continue
        metrics = {metric for metric, _ in row.kinds.values()}
        scores = scores_of(row.cells)
        # a difference may also be one of two rows of ratios; a ratio is always of two rows of scores
        is_difference = bool(DIFFERENCE.search(row.system)) or "percentage_points" in metrics
        of_one = all(abs(cell.value) <= FRACTION_AT_MOST for cell in scores.values())
        kind = "difference" if is_difference else "fraction" if of_one else "ratio"
        further = [source for source in percents if source[0] != place] if is_difference else []
        sources = _nearest(row.system, place, plain) + _nearest(row.system, place, further)
        origin = _origin(scores, sources, kind, row.system, 2, 0.5)
        if origin is not None:
            (differences if is_difference else ratios).append((row, origin))
    differences = [(row, _of_unprinted_ratios(origin, {r.system: o for r, o in ratios})) for row, origin in differences]
    habits = [
        habit([m for _, o in found for m in o.cells.values() if m.is_possible]) for found in (ratios, differences)
    ]
    follows = follows_printed(habits)  # computed from the printed numbers, or from others before they were rounded
    for found, shown in zip((ratios, differences), habits, strict=True):
        for row, origin in found:
            yield from _row(sheet, row, origin, shown if follows else None)
    rules = {row.system: f"{row.system} {origin.rule}" for row, origin in ratios}
    for row, origin in differences:
        yield from _label(sheet, row, origin, rules)
    for row, origin in (*ratios, *differences):
        yield from _own_average(sheet, row, origin)


def _of_unprinted_ratios(origin: DerivedFrom, ratios: Mapping[str, DerivedFrom]) -> DerivedFrom:
    """Differences of two rows of ratios, from the ratios before they were rounded where those give the digits printed."""
    if origin.first not in ratios or origin.second not in ratios:
        return origin
    first, second = ratios[origin.first].cells, ratios[origin.second].cells
    cells = dict(origin.cells)
    for column in [c for c in cells if c in first and c in second]:
        value = first[column].value - second[column].value
        finer = DerivedCell(cells[column].cell, value, first[column].parts + second[column].parts)
        if finer.is_rounded:
            cells[column] = finer
    return replace(origin, cells=cells)


def _row(sheet: Sheet, row: PrintedRow, origin: DerivedFrom, shown: Habit | None) -> Iterator[Finding]:
    """Cells that the rule cannot give, and those that the printed scores do not give in a table that works on them."""
    for column, made in origin.cells.items():
        if not made.is_possible:
            check = "sign" if made.is_turned else origin.kind
            changes = "the sign of a comparison" if made.value * made.cell.value < 0 else ""
            why = f"{origin.rule}{': the sign is reversed' if made.is_turned else ''}"
            yield of_cell(sheet, row, column, made.value, check, why, changes)
        elif shown and made.is_cut and not made.is_rounded:
            why = f"{origin.rule} is truncated, not rounded; the other cells {'agree with truncating' if shown.cuts else 'are rounded'}"
            yield of_cell(sheet, row, column, made.value, "truncation", why, "a digit")
        elif shown and not made.is_rounded:
            why = f"{origin.rule}; the other cells follow their printed scores to the digit"
            yield of_cell(sheet, row, column, made.value, origin.kind, why)


def _label(sheet: Sheet, row: PrintedRow, origin: DerivedFrom, rules: Mapping[str, str]) -> Iterator[Finding]:
    """A label like ``Difference (A-B)`` whose numbers are B - A; ``rules`` say what the rows of ratios are made of."""
    named = re.search(r"(\w+)\s*[-−–]\s*(\w+)", re.sub(r".*\(|\).*", "", row.system))
    if not named:
        return
    left, right = (plain_name(part) for part in named.groups())
    first, second = (plain_name(rules.get(name, name)) for name in (origin.first, origin.second))
    if left in second and right in first and left not in first and right not in second:
        yield Finding(
            where=sheet.where,
            row=row.system,
            column="",
            printed=named.group(0),
            recomputed=f"{named.group(2)}-{named.group(1)}",
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
        (*mean, name)
        for name, rule in averaging_rules(list(own)).items()
        if (mean := rule({c: v.value for c, v in own.items()}))
    ]
    for column in [c for c in row.cells if is_average(c)]:
        cell = row.cells[column]
        ways: list[tuple[Decimal, Decimal, str]] = []
        first, second = (cells.get(column) for cells in origin.sources)
        if first and second and (origin.kind == "difference" or second.value):
            made = _made(origin.kind, cell, first, second)
            if made.is_turned:
                why = f"{origin.rule}, as the other cells are: the sign is reversed"
                yield of_cell(sheet, row, column, made.value, "sign", why, "a headline")
                continue
            ways.append((made.value, made.slack, f"{origin.rule} of this column"))
        for value, count, name in means:
            slack = slack_of_mean(cell, count, max(v.step for v in own.values()))
            ways.append((value, slack, f"{name} of this row's own cells"))
        if origin.kind == "ratio" and len(origin.cells) >= 2:
            sums = [sum((cells[c].value for c in origin.cells), Decimal(0)) for cells in origin.sources]
            whole = 100 * sums[0] / (sums[1] or 1)
            ways.append((whole, slack_of_mean(cell, len(origin.cells), cell.step), "the ratio of the two means"))
        if ways and all(abs(cell.value - value) > slack for value, slack, _ in ways):
            yield of_cell(sheet, row, column, ways[0][0], "average", ways[0][2], "a headline")


def derived_columns(sheet: Sheet) -> Iterator[Finding]:
    """Columns of percentages, differences or compression against two columns, or one column and one row of it."""
    by_column: dict[str, dict[int, PrintedNumber]] = {column: {} for column in sheet.columns}
    for place, row in enumerate(sheet.rows):
        for column, cell in row.cells.items():
            by_column[column][place] = cell
    for size in ("params", "flops", "speed-up"):
        cells = {place: row.sizes[size] for place, row in enumerate(sheet.rows) if size in row.sizes}
        if cells and len({cell.unit for cell in cells.values()}) == 1:
            by_column.setdefault(size, cells)
    uncertain = re.compile(r"interval|\bci\b|\bsd\b|\bstd\b", re.IGNORECASE)
    sources = [(at, source) for at, source in enumerate(by_column.items()) if not uncertain.search(source[0])]
    for place, (column, target) in enumerate(by_column.items()):
        kind = "compression" if column == "speed-up" else derived_kind(column)
        if not kind or is_average(column) or len(target) < 3:
            continue
        if all(cell.unit.lower() in ("x", "×") for cell in target.values()):
            kind = "compression"
        nearest = _nearest(column, place, [source for source in sources if source[0] != place])
        origin = _origin_of_column(sheet, column, target, nearest, kind)
        if origin is None:
            continue
        is_speed = bool(re.search(r"speed|faster", column, re.IGNORECASE))
        of_means = any(
            re.search(r"\b(?:mean|average|avg)\b", one, re.IGNORECASE) for one in (origin.first, origin.second)
        )
        for at, made in origin.cells.items():
            off = abs(made.cell.value - made.value)
            # a mean of ratios is near the ratio of means, and times of two measurements are never quite alike
            if (
                made.is_possible
                or (of_means and off <= abs(made.value) / 500)
                or (is_speed and off <= abs(made.value) / 20)
            ):
                continue
            check, changes = ("sign", "the sign of a comparison") if made.is_turned else (origin.kind, "a digit")
            yield of_cell(sheet, sheet.rows[at], column, made.value, check, origin.rule, changes)


def _origin_of_column(
    sheet: Sheet, column: str, target: Cells, sources: Sequence[Source], kind: str
) -> DerivedFrom | None:
    """What most of a column's cells are made of: two columns, or one column and one row of it."""
    found = []
    plain = [(name, cells) for name, cells in sources if not derived_kind(name) and name != "speed-up"]
    for one in KINDS_OF[kind]:
        found.append(_to_a_row(sheet, column, target, plain, one))
        if one != "compression":
            found.append(_origin(target, sources, one, "", 3, 0.65))
    return max((origin for origin in found if origin is not None), key=lambda origin: origin.share, default=None)


def _to_a_row(sheet: Sheet, name: str, target: Cells, sources: Sequence[Source], kind: str) -> DerivedFrom | None:
    """The column, and the row of it, that most of the target's cells are relative to; None where none convinces."""
    import numpy

    numbers = _numbers(target, [cells for _, cells in sources])
    if numbers is None:
        return None
    printed, half, values, halves = numbers
    candidates = []
    for number, (_, cells) in enumerate(sources):
        bases = numpy.array([[float(base.value), float(base.step) / 2] for base in cells.values()])
        own = (values[number][None, :], bases[:, :1], halves[number][None, :], bases[:, 1:])
        shares = _fits(kind, printed, half, *own)
        candidates += [(shares[at], number, list(cells)[at]) for at in _most(shares)]
    best: DerivedFrom | None = None
    pairs = sum(len(cells) for _, cells in sources)
    tried = pairs
    for _, number, reference in sorted(candidates, key=lambda one: -one[0])[:MOST_TRIED]:
        column, cells = sources[number]
        base = cells[reference]
        places = [p for p in target if p in cells and p != reference and base.value and cells[p].value]
        made = {place: _made(kind, target[place], cells[place], base) for place in places}
        origin = DerivedFrom(kind, column, f"{column} of {sheet.rows[reference].system}", made, (cells, {}))
        if origin.fitting >= 3 and origin.share >= 0.65 and (best is None or origin.share > best.share):
            best = origin
            # a column that the name repeats is the first that one would try, and the first row of any other
            tried = 1 if column in name else len(sources) if reference == min(cells) else pairs
    return best if best is not None and best.expected(max(1, tried)) <= LIKELY else None
