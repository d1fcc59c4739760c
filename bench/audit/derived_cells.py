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

from bench.audit.averages import averaging_rules, slack_of_mean
from bench.audit.findings import ARITHMETIC, AuditedCell, Finding, of_cell
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

Source = tuple[str, Mapping[str, PrintedNumber]]


def _ratio(cell: PrintedNumber, a: PrintedNumber, b: PrintedNumber) -> DerivedCell:
    value = 100 * a.value / b.value
    return DerivedCell(cell, value, (50 * a.step / abs(b.value), abs(value) * b.step / 2 / abs(b.value)))


def _gap(cell: PrintedNumber, a: PrintedNumber, b: PrintedNumber) -> DerivedCell:
    return DerivedCell(cell, a.value - b.value, (a.step / 2, b.step / 2))


def _compression(cell: PrintedNumber, a: PrintedNumber, b: PrintedNumber) -> DerivedCell:
    value = b.value / a.value
    return DerivedCell(cell, value, (b.step / 2 / a.value, value * a.step / 2 / a.value))


def _fraction(cell: PrintedNumber, a: PrintedNumber, b: PrintedNumber) -> DerivedCell:
    percent = _ratio(cell, a, b)
    return DerivedCell(cell, percent.value / 100, tuple(part / 100 for part in percent.parts))


def _relative(cell: PrintedNumber, a: PrintedNumber, b: PrintedNumber) -> DerivedCell:
    ratio = _ratio(cell, a, b)
    return DerivedCell(cell, ratio.value - 100, ratio.parts)


def _reduced(cell: PrintedNumber, a: PrintedNumber, b: PrintedNumber) -> DerivedCell:
    ratio = _ratio(cell, a, b)
    return DerivedCell(cell, 100 - ratio.value, ratio.parts)


_MAKERS = {
    "ratio": _ratio,
    "fraction": _fraction,
    "difference": _gap,
    "compression": _compression,
    "increase": _relative,
    "reduction": _reduced,
}
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


@dataclass(frozen=True)
class DerivedFrom:
    """The two sources of a derived row or column, and what they give for each of its cells."""

    kind: str
    first: str
    second: str
    made: dict[str, DerivedCell]
    sources: tuple[Mapping[str, PrintedNumber], Mapping[str, PrintedNumber]]

    @property
    def rule(self) -> str:
        if self.kind in ("increase", "reduction"):
            left, right = (self.first, self.second) if self.kind == "increase" else (self.second, self.first)
            return f"100 x ({left} - {right}) / {self.second}"
        if self.kind == "compression":
            return f"{self.second} / {self.first}"
        if self.kind == "fraction":
            return f"{self.first} / {self.second}"
        return f"100 x {self.first} / {self.second}" if self.kind == "ratio" else f"{self.first} - {self.second}"

    @property
    def fitting(self) -> int:
        """How many of the cells the two sources can give."""
        return sum(made.is_possible for made in self.made.values())

    @property
    def share(self) -> float:
        return self.fitting / len(self.made) if self.made else 0.0

    def expected(self, pairs: int) -> float:
        """How many of so many unrelated pairs would give as many of these cells.

        A cell that is the same whatever it is made of (0, 1, 100 %) shows nothing.
        """
        values = [float(made.cell.value) for made in self.made.values()]
        # at least a tenth of the largest: else, where the cells are close together, every fit would count as chance
        scale = max(max(values) - min(values), max(map(abs, values)) / 10, 1e-9)
        shown = {made.cell.value: made for made in self.made.values() if made.value not in (0, 1, 100)}
        # Unrelated numbers, spread over `scale`, fit with probability 2 slack / scale. With its sign reversed a cell
        # has twice the chance: it is half the evidence.
        fits = [
            min(1.0, (4 if made.is_turned else 2) * float(made.slack) / scale)
            for made in shown.values()
            if made.is_possible or made.is_turned
        ]
        return pairs * comb(len(shown), len(fits)) * prod(fits)  # comb: the ways to choose which of the cells fit


def _origin(
    target: Mapping[str, PrintedNumber], sources: Sequence[Source], kind: str, name: str = ""
) -> DerivedFrom | None:
    """The pair of sources that most of the target's cells follow; None where no pair convinces."""
    best: DerivedFrom | None = None
    pairs = max(1, len(sources) * (len(sources) - 1))
    for (first, a), (second, b) in ((x, y) for x in sources for y in sources if x is not y):
        shared = [c for c in target if c in a and c in b and (kind == "difference" or b[c].value)]
        made = {c: _MAKERS[kind](target[c], a[c], b[c]) for c in shared}
        origin = DerivedFrom(kind, first, second, made, (a, b))
        if origin.fitting >= 2 and origin.share >= 0.5 and (best is None or origin.share > best.share):
            best = origin
    if best is None:
        return None
    # a name with both sources needs no further evidence, one with one of them less: "Difference (A to B)"
    named = [one for one in (best.first, best.second) if plain_name(one) and plain_name(one) in plain_name(name)]
    tried = len(sources) if named else pairs
    return best if len(named) == 2 or best.expected(tried) <= LIKELY else None


def derived_rows(sheet: Sheet) -> Iterator[Finding]:
    """Rows of percentages or differences against the two rows that they come from."""
    plain: list[Source] = [(row.system, row.cells) for row in sheet.rows if is_plain(row)]
    ratios: list[tuple[PrintedRow, DerivedFrom]] = []
    differences: list[tuple[PrintedRow, DerivedFrom]] = []
    for row in sheet.rows:
        if is_plain(row) or is_average_row(row) or is_total_row(row):
            continue
        metrics = {metric for metric, _ in row.kinds.values()}
        scores = scores_of(row.cells)
        others: list[Source] = [(r.system, r.cells) for r in sheet.rows if r is not row and RATIO.search(r.system)]
        # a difference may also be one of two rows of ratios; a ratio is always of two rows of scores
        if DIFFERENCE.search(row.system) or "percentage_points" in metrics:
            found, origin = differences, _origin(scores, [*plain, *others], "difference", row.system)
        else:
            of_one = all(abs(cell.value) <= FRACTION_AT_MOST for cell in scores.values())
            found, origin = ratios, _origin(scores, plain, "fraction" if of_one else "ratio", row.system)
        if origin is not None:
            found.append((row, origin))
    differences = [(row, _of_unprinted_ratios(origin, {r.system: o for r, o in ratios})) for row, origin in differences]
    habits = [habit([m for _, o in found for m in o.made.values() if m.is_possible]) for found in (ratios, differences)]
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
    first, second = ratios[origin.first].made, ratios[origin.second].made
    made = dict(origin.made)
    for column in [c for c in made if c in first and c in second]:
        value = first[column].value - second[column].value
        finer = DerivedCell(made[column].cell, value, first[column].parts + second[column].parts)
        if finer.is_rounded:
            made[column] = finer
    return replace(origin, made=made)


def _row(sheet: Sheet, row: PrintedRow, origin: DerivedFrom, shown: Habit | None) -> Iterator[Finding]:
    """Cells that the rule cannot give, and those that the printed scores do not give in a table that works on them."""
    for column, made in origin.made.items():
        if not made.is_possible:
            check = "sign" if made.is_turned else origin.kind
            changes = "the sign of a comparison" if made.value * made.cell.value < 0 else ""
            why = f"{origin.rule}{': the sign is reversed' if made.is_turned else ''}"
            yield of_cell(AuditedCell(sheet, row, column), made.value, check, why, changes)
        elif shown and made.is_cut and not made.is_rounded:
            why = f"{origin.rule} is truncated, not rounded; the other cells {'agree with truncating' if shown.cuts else 'are rounded'}"
            yield of_cell(AuditedCell(sheet, row, column), made.value, "truncation", why, "a digit")
        elif shown and not made.is_rounded:
            why = f"{origin.rule}; the other cells follow their printed scores to the digit"
            yield of_cell(AuditedCell(sheet, row, column), made.value, origin.kind, why)


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
    for column in [c for c in row.cells if is_average(c)]:
        cell = row.cells[column]
        ways: list[tuple[Decimal, Decimal, str]] = []
        first, second = (cells.get(column) for cells in origin.sources)
        if first and second and (origin.kind == "difference" or second.value):
            made = _MAKERS[origin.kind](cell, first, second)
            if made.is_turned:
                why = f"{origin.rule}, as the other cells are: the sign is reversed"
                yield of_cell(AuditedCell(sheet, row, column), made.value, "sign", why, "a headline")
                continue
            ways.append((made.value, made.slack, f"{origin.rule} of this column"))
        for name, rule in averaging_rules(list(own)).items():
            if mean := rule({c: v.value for c, v in own.items()}):
                slack = slack_of_mean(cell, mean[1], max(v.step for v in own.values()))
                ways.append((mean[0], slack, f"{name} of this row's own cells"))
        if origin.kind == "ratio" and len(origin.made) >= 2:
            sums = [sum((cells[c].value for c in origin.made), Decimal(0)) for cells in origin.sources]
            whole = 100 * sums[0] / (sums[1] or 1)
            ways.append((whole, slack_of_mean(cell, len(origin.made), cell.step), "the ratio of the two means"))
        if ways and all(abs(cell.value - value) > slack for value, slack, _ in ways):
            yield of_cell(AuditedCell(sheet, row, column), ways[0][0], "average", ways[0][2], "a headline")


def derived_columns(sheet: Sheet) -> Iterator[Finding]:
    """Columns of percentages, differences or compression against two columns, or one column and one row of it."""
    by_column = _columns_and_sizes(sheet)
    for column, target in by_column.items():
        kind = "compression" if column == "speed-up" else derived_kind(column)
        if not kind or is_average(column) or len(target) < 3:
            continue
        if all(cell.unit.lower() in ("x", "×") for cell in target.values()):
            kind = "compression"
        origin = _origin_of_column(sheet, by_column, column, kind)
        if origin is None:
            continue
        is_speed = bool(re.search(r"speed|faster", column, re.IGNORECASE))
        of_means = any(
            re.search(r"\b(?:mean|average|avg)\b", one, re.IGNORECASE) for one in (origin.first, origin.second)
        )
        for place, made in origin.made.items():
            if of_means and abs(made.cell.value - made.value) <= abs(made.value) / 500:
                continue  # a mean of ratios is near the ratio of means
            if is_speed and abs(made.cell.value - made.value) <= abs(made.value) / 20:
                continue  # times of two measurements are never quite alike
            if not made.is_possible:
                check, changes = ("sign", "the sign of a comparison") if made.is_turned else (origin.kind, "a digit")
                row = sheet.rows[int(place)]
                yield of_cell(AuditedCell(sheet, row, column), made.value, check, origin.rule, changes)


def _columns_and_sizes(sheet: Sheet) -> dict[str, dict[str, PrintedNumber]]:
    """Column -> number of the row -> cell; sizes are columns too."""
    found = {c: {str(i): r.cells[c] for i, r in enumerate(sheet.rows) if c in r.cells} for c in sheet.columns}
    for size in ("params", "flops", "speed-up"):
        cells = {str(i): r.sizes[size] for i, r in enumerate(sheet.rows) if size in r.sizes}
        if cells and len({cell.unit for cell in cells.values()}) == 1:
            found.setdefault(size, cells)
    return found


def _origin_of_column(
    sheet: Sheet, by_column: Mapping[str, Mapping[str, PrintedNumber]], column: str, kind: str
) -> DerivedFrom | None:
    """What most of a column's cells are made of: two columns, or one column and one row of it."""
    target = by_column[column]
    found = []
    uncertain = re.compile(r"interval|\bci\b|\bsd\b|\bstd\b", re.IGNORECASE)
    sources = [(c, cells) for c, cells in by_column.items() if c != column and not uncertain.search(c)]
    plain = [(c, cells) for c, cells in sources if not derived_kind(c) and c != "speed-up"]
    for one in KINDS_OF[kind]:
        found.append(_to_a_row(sheet, column, target, plain, one))
        if one != "compression":
            pair = _origin(target, sources, one)
            found.append(pair if pair and pair.fitting >= 3 and pair.share >= 0.65 else None)
    return max((origin for origin in found if origin is not None), key=lambda origin: origin.share, default=None)


def _to_a_row(
    sheet: Sheet, name: str, target: Mapping[str, PrintedNumber], sources: Sequence[Source], kind: str
) -> DerivedFrom | None:
    """The column, and the row of it, that most of the target's cells are relative to; None where none convinces."""
    best: DerivedFrom | None = None
    pairs = sum(map(len, (cells for _, cells in sources)))
    tried = pairs
    for column, cells in sources:
        for reference, base in cells.items():
            made = {
                place: _MAKERS[kind](cell, cells[place], base)
                for place, cell in target.items()
                if place in cells and place != reference and base.value and cells[place].value
            }
            row = sheet.rows[int(reference)].system
            origin = DerivedFrom(kind, column, f"{column} of {row}", made, (cells, {}))
            if origin.fitting >= 3 and origin.share >= 0.65 and (best is None or origin.share > best.share):
                best = origin
                # a column that the name repeats is the first that one would try, and the first row of any other
                tried = 1 if column in name else len(sources) if reference == min(cells, key=int) else pairs
    return best if best is not None and best.expected(max(1, tried)) <= LIKELY else None
