"""Compare rows and columns of percentages or differences with the two that they come from.

A cell is a finding if no rounding of the two scores gives what is printed, or if the row visibly
works on the printed scores and this cell does not follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import prod

from bench.audit.averages import averaging_rules, mean_of, slack_of_mean
from bench.audit.derivation import (
    FORMULAS,
    Derivation,
    DerivedCell,
    derivation_of,
    derived_cell,
    nearest,
)
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

CONVINCING = 1e-3
"""Cells count as computed from the printed scores if the probability that unrounded scores gave
all their digits is below this."""
MEAN = re.compile(r"\b(?:mean|average|avg)\b", re.IGNORECASE)
NEAR_MEAN = Decimal("0.002")
"""A ratio of two means may be off by this share of itself: it may be the mean of the ratios."""


@dataclass(frozen=True)
class DerivedRow:
    """A row of percentages or differences, and the two rows that it comes from."""

    row: PrintedRow
    origin: Derivation


def derived_rows(sheet: Sheet) -> Iterator[Finding]:
    """Compare rows of percentages or differences with the two rows that they come from."""
    ratios, differences = _rows_with_origins(sheet)
    differences = _of_unrounded_ratios(differences, ratios)

    # together they show that the table works on its printed scores, not on others that nobody sees
    habits = [_habit(rows) for rows in (ratios, differences)]
    by_chance = prod(habit.by_chance for habit in habits if habit)
    for rows, habit in zip((ratios, differences), habits, strict=True):
        cuts = habit.cuts if habit and by_chance < CONVINCING else None
        for derived in rows:
            yield from _cells_of_row(sheet, derived, cuts)

    # labels, and averages of derived rows
    rules = {
        derived.row.system: f"{derived.row.system} {derived.origin.rule}" for derived in ratios
    }
    for derived in differences:
        yield from _turned_label(sheet, derived, rules)
    for derived in (*ratios, *differences):
        yield from _averages_of_row(sheet, derived)


def _rows_with_origins(sheet: Sheet) -> tuple[list[DerivedRow], list[DerivedRow]]:
    """The rows of ratios and those of differences whose sources are found."""
    # the rows that others may come from
    plain = []
    percents = []
    for index, row in enumerate(sheet.rows):
        source = (index, (row.system, row.cells))
        if is_plain(row):
            plain.append(source)
        if RATIO.search(row.system):
            percents.append(source)

    # each derived row with its source
    ratios: list[DerivedRow] = []
    differences: list[DerivedRow] = []
    for index, row in enumerate(sheet.rows):
        if is_plain(row) or is_average_row(row) or is_total_row(row):
            continue
        metrics = {metric for metric, _ in row.kinds.values()}
        is_difference = bool(DIFFERENCE.search(row.system)) or "percentage_points" in metrics

        # the rows that it may come from
        kind = "difference" if is_difference else "ratio"
        sources = nearest(row.system, index, plain)
        if is_difference:
            # it may also be one of two rows of ratios; a ratio is always of two rows of scores
            further = [source for source in percents if source[0] != index]
            sources += nearest(row.system, index, further)

        # the two of them that most of its scores follow
        origin = derivation_of(scores_of(row.cells), sources, kind, row.system, 2, 0.5)
        if origin is not None:
            rows = differences if is_difference else ratios
            rows.append(DerivedRow(row, origin))
    return ratios, differences


def _of_unrounded_ratios(
    differences: Sequence[DerivedRow], ratios: Sequence[DerivedRow]
) -> list[DerivedRow]:
    """Differences of two rows of ratios as those before rounding, where these give the digits."""
    # what the ratios are before rounding
    unrounded = {derived.row.system: derived.origin.cells for derived in ratios}
    changed = []
    for derived in differences:
        origin = derived.origin
        first = unrounded.get(origin.first, {})
        second = unrounded.get(origin.second, {})

        # the cells of which the difference gives the printed digits
        cells = dict(origin.cells)
        for column, printed in origin.cells.items():
            if column not in first or column not in second:
                continue
            value = first[column].value - second[column].value
            if printed.cell.is_rounded(value):
                parts = first[column].parts + second[column].parts
                cells[column] = DerivedCell(printed.cell, value, parts)
        changed.append(DerivedRow(derived.row, replace(origin, cells=cells)))
    return changed


@dataclass(frozen=True)
class Habit:
    """How a table makes its derived cells of one kind from its printed scores.

    Attributes:
        odd: how many cells do not conform: none or one.
        by_chance: the probability that unrounded scores gave these digits, times the number of
            cells that might be the odd one.
        cuts: whether it cuts digits off where they would be rounded up.
    """

    odd: int
    by_chance: float
    cuts: bool


def _habit(rows: Sequence[DerivedRow]) -> Habit | None:
    """The habit to which all, or all but one, of the possible cells conform to the digit.

    None where two cells or more are neither rounded nor cut.
    """
    cells = []
    for derived_row in rows:
        cells += [cell for cell in derived_row.origin.cells.values() if cell.is_possible]

    # does the table round everywhere, or cut?
    habits = []
    for cuts in (False, True):
        if cuts:
            conforming = [derived for derived in cells if derived.cell.is_cut(derived.value)]
            # without two cells that rounding would not give nothing tells cutting from rounding
            if sum(not derived.is_rounded for derived in conforming) < 2:
                continue
        else:
            conforming = [derived for derived in cells if derived.is_rounded]
        odd = len(cells) - len(conforming)
        if odd <= 1:
            ways = float(len(cells) if odd else 1)
            by_chance = prod((derived.chance for derived in conforming), start=ways)
            habits.append(Habit(odd, by_chance, cuts))
    return min(habits, key=lambda habit: (habit.odd, habit.by_chance), default=None)


def _cells_of_row(sheet: Sheet, derived_row: DerivedRow, cuts: bool | None) -> Iterator[Finding]:
    """Find the cells of a derived row that its rule cannot give.

    Args:
        cuts: None where the table does not work on its printed scores. Where it does, whether it
            cuts digits off: then cells that these scores do not give to the digit are findings.
    """
    row = derived_row.row
    origin = derived_row.origin
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


def _turned_label(
    sheet: Sheet, derived_row: DerivedRow, rules: Mapping[str, str]
) -> Iterator[Finding]:
    """Find a label like ``Difference (A-B)`` whose numbers are B - A.

    Args:
        rules: the name of each row of ratios, and behind it what it is made of.
    """
    row = derived_row.row
    origin = derived_row.origin

    # what the label says
    named = re.search(r"(\w+)\s*[-−–]\s*(\w+)", re.sub(r".*\(|\).*", "", row.system))
    if not named:
        return
    left = plain_name(named[1])
    right = plain_name(named[2])

    # what the cells are made of
    first = plain_name(rules.get(origin.first, origin.first))
    second = plain_name(rules.get(origin.second, origin.second))
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


@dataclass(frozen=True)
class Way:
    """One way in which the average of a derived row may have been made."""

    value: Decimal
    slack: Decimal
    rule: str


def _averages_of_row(sheet: Sheet, derived_row: DerivedRow) -> Iterator[Finding]:
    """Find average cells of a derived row that no usual way gives.

    Papers average the row's own cells, or apply the operation to the averages of its two sources,
    over all columns or some.
    """
    row = derived_row.row
    origin = derived_row.origin
    for column in filter(is_average, row.cells):
        cell = row.cells[column]
        ways = []

        # the same operation on the averages of the two sources
        first, second = (cells.get(column) for cells in origin.sources)
        if first and second and (origin.kind == "difference" or second.value):
            derived = derived_cell(origin.kind, cell, first, second)
            if derived.is_turned:
                why = f"{origin.rule}, as the other cells are: the sign is reversed"
                yield of_cell(sheet, row, column, derived.value, "sign", why, "a headline")
                continue
            ways.append(Way(derived.value, derived.slack, f"{origin.rule} of this column"))

        # the mean of the row, or the ratio of two means
        ways += _ways_of_mean(row, cell)
        if origin.kind == "ratio" and len(origin.cells) >= 2:
            ways.append(_ratio_of_means(origin, cell))
        if ways and all(abs(cell.value - way.value) > way.slack for way in ways):
            yield of_cell(sheet, row, column, ways[0].value, "average", ways[0].rule, "a headline")


def _ways_of_mean(row: PrintedRow, cell: PrintedNumber) -> Iterator[Way]:
    """The means of a row's scores that its average may be."""
    # every way to average the row, with what its rounding leaves open
    scores = scores_of(row.cells)
    for name, groups in averaging_rules(list(scores)).items():
        mean = mean_of(groups, scores)
        if mean is not None:
            step = max(score.step for score in scores.values())
            slack = slack_of_mean(cell, len(groups), step)
            yield Way(mean, slack, f"{name} of this row's own cells")


def _ratio_of_means(origin: Derivation, cell: PrintedNumber) -> Way:
    """The average of a row of percentages as the ratio of the two means."""
    numerators, denominators = origin.sources
    first = sum((numerators[column].value for column in origin.cells), Decimal(0))
    second = sum((denominators[column].value for column in origin.cells), Decimal(0))
    slack = slack_of_mean(cell, len(origin.cells), cell.step)
    return Way(100 * first / (second or 1), slack, "the ratio of the two means")


def derived_columns(sheet: Sheet) -> Iterator[Finding]:
    """Compare columns of percentages or differences with the two columns that they come from."""
    # the cells of each column, and the columns that others may come from
    by_column: dict[str, dict[int, PrintedNumber]] = {column: {} for column in sheet.columns}
    for at, row in enumerate(sheet.rows):
        for column, cell in row.cells.items():
            by_column[column][at] = cell
    sources = [
        (index, (column, cells))
        for index, (column, cells) in enumerate(by_column.items())
        if not UNCERTAIN.search(column)
    ]
    for index, (column, target) in enumerate(by_column.items()):
        kind = derived_kind(column)
        if kind not in FORMULAS or is_average(column) or len(target) < 3:
            continue
        others = [source for source in sources if source[0] != index]
        origin = derivation_of(target, nearest(column, index, others), kind, "", 3, 0.65)
        if origin is not None:
            yield from _cells_of_column(sheet, column, origin)


def _cells_of_column(sheet: Sheet, column: str, origin: Derivation) -> Iterator[Finding]:
    """Find the cells of a derived column that its two sources cannot give."""
    # a mean of ratios is near the ratio of means
    is_of_means = MEAN.search(f"{origin.first} {origin.second}")
    near = NEAR_MEAN if is_of_means else Decimal(0)
    for index, derived in origin.cells.items():
        off = abs(derived.cell.value - derived.value)
        if derived.is_possible or off <= near * abs(derived.value):
            continue
        check = "sign" if derived.is_turned else origin.kind
        changes = "the sign of a comparison" if derived.is_turned else "a digit"
        row = sheet.rows[index]
        yield of_cell(sheet, row, column, derived.value, check, origin.rule, changes)
