"""Rows and columns of percentages or differences, held against the two rows or columns that they come from.

The pair is the one that most of the derived cells follow. A cell is a finding if no rounding of the two scores gives what
is printed, or if the row visibly works on the printed scores and this cell does not follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from bench.audit.averages import slack_of_mean
from bench.audit.findings import ARITHMETIC, Finding, of_cell
from bench.audit.names import AVERAGE, DIFFERENCE, RATIO, derived_kind, is_average, is_plain, plain_name, scores_of
from bench.audit.printed import Printed
from bench.audit.rounding import Habit, Made, follows_printed, habit
from bench.audit.sheets import Row, Sheet

Source = tuple[str, Mapping[str, Printed]]


def _ratio(cell: Printed, a: Printed, b: Printed) -> Made:
    value = 100 * a.value / b.value
    return Made(cell, value, (50 * a.unit / abs(b.value), abs(value) * b.unit / 2 / abs(b.value)))


def _gap(cell: Printed, a: Printed, b: Printed) -> Made:
    return Made(cell, a.value - b.value, (a.unit / 2, b.unit / 2))


def _compression(cell: Printed, a: Printed, b: Printed) -> Made:
    value = b.value / a.value
    return Made(cell, value, (b.unit / 2 / a.value, value * a.unit / 2 / a.value))


_MAKERS = {"ratio": _ratio, "difference": _gap, "compression": _compression}


@dataclass(frozen=True)
class Origin:
    """The two sources of a derived row or column, and what they give for each of its cells."""

    kind: str
    first: str
    second: str
    made: dict[str, Made]

    @property
    def rule(self) -> str:
        if self.kind == "compression":
            return f"{self.second} / {self.first}"
        return f"100 x {self.first} / {self.second}" if self.kind == "ratio" else f"{self.first} - {self.second}"

    @property
    def near(self) -> int:
        return sum(made.is_possible for made in self.made.values())

    @property
    def share(self) -> float:
        return self.near / len(self.made) if self.made else 0.0


def _origin(target: Mapping[str, Printed], sources: Sequence[Source], kind: str) -> Origin | None:
    """The pair of sources that most of the target's cells follow; None where no pair convinces."""
    best: Origin | None = None
    for (first, a), (second, b) in ((x, y) for x in sources for y in sources if x is not y):
        shared = [c for c in target if c in a and c in b and (kind == "difference" or b[c].value)]
        origin = Origin(kind, first, second, {c: _MAKERS[kind](target[c], a[c], b[c]) for c in shared})
        if origin.near >= 2 and origin.share >= 0.5 and (best is None or origin.share > best.share):
            best = origin
    return best


def derived_rows(sheet: Sheet) -> Iterator[Finding]:
    """Rows of percentages or differences against the two rows that they come from."""
    plain: list[Source] = [(row.system, row.cells) for row in sheet.rows if is_plain(row)]
    ratios: list[tuple[Row, Origin]] = []
    differences: list[tuple[Row, Origin]] = []
    for row in sheet.rows:
        if is_plain(row) or AVERAGE.match(row.system):
            continue
        metrics = {metric for metric, _ in row.kinds.values()}
        scores = scores_of(row.cells)
        if DIFFERENCE.search(row.system) or "percentage_points" in metrics:
            others: list[Source] = [(r.system, r.cells) for r in sheet.rows if r is not row and RATIO.search(r.system)]
            if origin := _origin(scores, [*plain, *others], "difference"):
                differences.append((row, origin))
        elif origin := _origin(scores, plain, "ratio"):
            ratios.append((row, origin))
        if row not in [r for r, _ in differences]:
            yield from _mean_of_own(sheet, row)
    differences = [(row, _of_unprinted_ratios(origin, {r.system: o for r, o in ratios})) for row, origin in differences]
    habits = [habit([m for _, o in found for m in o.made.values() if m.is_possible]) for found in (ratios, differences)]
    follows = follows_printed(habits)
    for found, shown in zip((ratios, differences), habits, strict=True):
        for row, origin in found:
            yield from _row(sheet, row, origin, shown if follows else None)
    rules = {row.system: f"{row.system} {origin.rule}" for row, origin in ratios}
    for row, origin in differences:
        yield from _label(sheet, row, origin, rules)
        of_average = list(_average_of_rule(sheet, row, origin))
        yield from of_average
        yield from (f for f in _mean_of_own(sheet, row) if f.column not in [known.column for known in of_average])


def _of_unprinted_ratios(origin: Origin, ratios: Mapping[str, Origin]) -> Origin:
    """Differences of two rows of ratios, from the ratios before they were rounded where those give the digits printed."""
    if origin.first not in ratios or origin.second not in ratios:
        return origin
    first, second = ratios[origin.first].made, ratios[origin.second].made
    made = dict(origin.made)
    for column in [c for c in made if c in first and c in second]:
        value = first[column].value - second[column].value
        finer = Made(made[column].cell, value, first[column].parts + second[column].parts)
        if finer.is_rounded:
            made[column] = finer
    return replace(origin, made=made)


def _row(sheet: Sheet, row: Row, origin: Origin, shown: Habit | None) -> Iterator[Finding]:
    """Cells that the rule cannot give, and those that the printed scores do not give in a table that works on them."""
    for column, made in origin.made.items():
        if not made.is_possible:
            check = "sign" if made.is_turned else origin.kind
            changes = "the sign of a comparison" if made.value * made.cell.value < 0 else ""
            why = f"{origin.rule}{': the sign is turned' if made.is_turned else ''}"
            yield of_cell(sheet, row, column, made.value, check, why, changes)
        elif shown and made.is_cut and not made.is_rounded:
            why = f"{origin.rule} is cut off, not rounded, {'as' if shown.cuts else 'unlike'} the other cells"
            yield of_cell(sheet, row, column, made.value, "truncation", why, "a digit")
        elif shown and not made.is_rounded:
            why = f"{origin.rule}; the other cells follow their printed scores to the digit"
            yield of_cell(sheet, row, column, made.value, origin.kind, why)


def _label(sheet: Sheet, row: Row, origin: Origin, rules: Mapping[str, str]) -> Iterator[Finding]:
    """A label like ``Difference (A-B)`` whose numbers are B - A; ``rules`` say what the rows of ratios are made of."""
    named = re.search(r"(\w+)\s*[-−–]\s*(\w+)", re.sub(r".*\(|\).*", "", row.system))
    if not named:
        return
    left, right = (plain_name(part) for part in named.groups())
    first, second = (plain_name(rules.get(name, name)) for name in (origin.first, origin.second))
    if left in second and right in first and left not in first and right not in second:
        yield Finding(
            sheet.where,
            row.system,
            "",
            named.group(0),
            f"{named.group(2)}-{named.group(1)}",
            ARITHMETIC,
            "sign",
            f"its cells are {origin.rule}: the other way round",
            "the sign of a comparison",
        )


def _average_of_rule(sheet: Sheet, row: Row, origin: Origin) -> Iterator[Finding]:
    """The average cell of a row of differences: the difference of the two averages."""
    cells = {r.system: r.cells for r in sheet.rows}
    first, second = cells[origin.first], cells[origin.second]
    for column in [c for c in row.cells if is_average(c) and c in first and c in second]:
        made = _gap(row.cells[column], first[column], second[column])
        if not made.is_possible:
            check = "sign" if made.is_turned else "difference"
            why = f"{origin.rule}{', as the other cells are: the sign is turned' if made.is_turned else ''}"
            yield of_cell(sheet, row, column, made.value, check, why, "a headline")


def _mean_of_own(sheet: Sheet, row: Row) -> Iterator[Finding]:
    """The average cell of a derived row: the mean of its own cells."""
    own = list(scores_of(row.cells).values())
    for column in [c for c in row.cells if is_average(c) and len(own) >= 2]:
        mean = sum((v.value for v in own), Decimal(0)) / len(own)
        cell = row.cells[column]
        if abs(cell.value - mean) > slack_of_mean(cell, len(own), max(v.unit for v in own)):
            yield of_cell(sheet, row, column, mean, "average", "the mean of this row's own cells", "a headline")


def derived_columns(sheet: Sheet) -> Iterator[Finding]:
    """Columns of percentages, differences or compression against two columns, or one column and one row of it."""
    columns = sheet.columns
    by_column = {c: {str(i): r.cells[c] for i, r in enumerate(sheet.rows) if c in r.cells} for c in columns}
    for column in columns:
        kind = derived_kind(column)
        if not kind or is_average(column):
            continue
        found = [_to_a_row(sheet, by_column[column], kind)]
        if kind != "compression":
            found.append(_origin(by_column[column], [(c, by_column[c]) for c in columns if c != column], kind))
        origin = max((o for o in found if o is not None), key=lambda o: o.share, default=None)
        if origin is None:
            continue
        for place, made in origin.made.items():
            if not made.is_possible:
                check, changes = ("sign", "the sign of a comparison") if made.is_turned else (kind, "a digit")
                yield of_cell(sheet, sheet.rows[int(place)], column, made.value, check, origin.rule, changes)


def _to_a_row(sheet: Sheet, target: Mapping[str, Printed], kind: str) -> Origin | None:
    """The column, and the row of it, that most of the target's cells are relative to; None where none convinces."""
    plain = [column for column in sheet.columns if not derived_kind(column)]
    sources = {c: {i: r.cells[c] for i, r in enumerate(sheet.rows) if c in r.cells} for c in plain}
    if kind == "compression":
        sources = {"parameters": {i: r.sizes["params"] for i, r in enumerate(sheet.rows) if "params" in r.sizes}}
    best: Origin | None = None
    for column, cells in sources.items():
        for reference, base in cells.items():
            made = {
                place: _MAKERS[kind](cell, cells[int(place)], base)
                for place, cell in target.items()
                if int(place) in cells and int(place) != reference and base.value and cells[int(place)].value
            }
            origin = Origin(kind, column, f"{column} of {sheet.rows[reference].system}", made)
            if origin.near >= 3 and origin.share >= 0.6 and (best is None or origin.share > best.share):
                best = origin
    return best
