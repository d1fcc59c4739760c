"""Compare average columns and rows with the rule that most of their table follows, and totals with
sums.

A cell is a finding only if no rounding of the scores behind the printed ones is likely to have
given it, or if the table visibly cuts its averages off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from bench.audit.findings import ARITHMETIC, INFERENCE, Finding, of_cell
from bench.audit.names import (
    COUNTED,
    DETECTABLE,
    TEACHER,
    UNCERTAIN,
    derived_kind,
    is_average,
    is_average_row,
    is_plain,
    is_score,
    is_total_row,
    task_of,
)
from bench.audit.printed import PrintedNumber
from bench.audit.table import PrintedRow, Sheet

DEVIATIONS = 3.5
"""An average may be off by so many standard deviations of the rounding of its scores."""
AX = re.compile(r"\bax\b|\bdiagnostic|\bax[-_ ]?[bg]\b", re.IGNORECASE)
MISMATCHED = r"mnli.*mm|\bmm\b|mismatched"
"""MNLI-mm, and no other name with these letters, as MMLU."""

MOST_AVERAGES = 20
"""Columns of averages that are checked in one table."""
TOTALS_OFF_BY = Decimal("1.9")
"""A total is named if it is off by more than so many standard deviations of the rounding of its
parts. It is a guess while all roundings together can explain it."""
NEAR = Decimal("0.02")
"""A total further off than this share of itself is of other parts than these."""


def averaging_rules(columns: Sequence[str]) -> dict[str, list[list[str]]]:
    """Ways in which a table may average: name -> groups of columns whose means are averaged."""

    def by(key: Callable[[str], str], chosen: Sequence[str]) -> list[list[str]]:
        groups: dict[str, list[str]] = {}
        for column in chosen:
            groups.setdefault(key(column), []).append(column)
        return list(groups.values())

    def without(pattern: str) -> list[str]:
        return [column for column in columns if not re.search(pattern, column, re.IGNORECASE)]

    # columns by what counts once
    scored = [column for column in columns if not AX.search(column)]
    rules = {
        "the mean of all columns": by(str, columns),
        "the mean with the two MNLI columns as one": by(
            lambda c: "mnli" if "mnli" in c.lower() else c, columns
        ),
        "the mean without WNLI": by(str, without("wnli")),
        "the mean without MNLI-mm": by(str, without(MISMATCHED)),
        "the mean without WNLI and MNLI-mm": by(str, without(f"wnli|{MISMATCHED}")),
        "the mean of tasks, two metrics of one task as one": by(task_of, columns),
        "the GLUE mean: MNLI and two metrics of one task as one, AX left out": by(task_of, scored),
        "the GLUE mean without WNLI": by(task_of, [c for c in scored if "wnli" not in c.lower()]),
        "the mean without AX": by(str, scored),
    }
    return {name: groups for name, groups in rules.items() if len(groups) >= 2}


def mean_of(groups: Sequence[Sequence[str]], cells: Mapping[str, PrintedNumber]) -> Decimal | None:
    """The mean of the means of groups of columns; None where a cell is missing."""
    # the mean of each group
    means = []
    for group in groups:
        values = [cells[column].value for column in group if column in cells]
        if len(values) < len(group):
            return None
        means.append(sum(values, Decimal(0)) / len(values))
    return sum(means, Decimal(0)) / len(means)


def slack_of_mean(cell: PrintedNumber, count: int, step: Decimal) -> Decimal:
    """How far an average may lie from that of the printed scores, by its rounding and theirs."""
    # a score rounded to a step is off by a uniform error: variance step**2 / 12;
    # of a mean of n scores, 1/n of that
    spread = Decimal(str(DEVIATIONS)) * step / Decimal(12 * count).sqrt()
    return cell.step / 2 + min(step / 2, spread)


@dataclass(frozen=True)
class JudgedAverage:
    """An average that a row prints, beside the mean that a rule gives of its scores.

    Attributes:
        step: the coarsest step of the scores.
        fits: whether some rounding of the scores may give the printed average.
    """

    row: PrintedRow
    cell: PrintedNumber
    mean: Decimal
    step: Decimal
    fits: bool

    @property
    def is_rounded(self) -> bool:
        return self.cell.is_rounded(self.mean)

    @property
    def is_only_cut(self) -> bool:
        return self.cell.is_only_cut(self.mean)

    @property
    def is_finer(self) -> bool:
        """Whether the average has more digits than its scores."""
        return self.cell.step < self.step


@dataclass(frozen=True)
class AveragingRule:
    """A way of averaging, and the averages of one column judged by it."""

    name: str
    averages: Sequence[JudgedAverage]

    @property
    def fitting(self) -> int:
        return sum(average.fits for average in self.averages)

    @cached_property
    def cut(self) -> int:
        """How many averages are cut off where they would be rounded up."""
        return sum(average.is_only_cut for average in self.averages)

    @cached_property
    def exact(self) -> int:
        """How many averages are the mean of the printed scores to the digit."""
        return sum(average.is_rounded for average in self.averages)

    @cached_property
    def cuts_everywhere(self) -> bool:
        """Whether all of six averages are cut off: some may look so by chance, but not all."""
        if self.cut < 3 or len(self.averages) < 6:
            return False
        return all(average.cell.is_cut(average.mean) for average in self.averages)


def averages(sheet: Sheet) -> Iterator[Finding]:
    """Compare average columns with the rule that most rows follow.

    A finding is a cell that the rule does not give, and one that is cut off in a table that
    shows that it cuts.
    """
    columns = [column for column in sheet.columns if is_average(column)]
    for column in columns[:MOST_AVERAGES]:
        # the rule of most rows, and what it says of each
        rule = _rule_of(sheet, column)
        for average in rule.averages:
            finding = _of_average(sheet, column, rule, average)
            if finding is not None:
                yield finding


def _of_average(
    sheet: Sheet, column: str, rule: AveragingRule, average: JudgedAverage
) -> Finding | None:
    """The finding of one average, by what the others of its column show; None where it is right."""
    # do the other averages follow the printed scores to the digit?
    others = len(rule.averages) - 1
    others_exact = rule.exact - average.is_rounded
    follows_printed = average.is_finer and others >= 2 and others_exact >= 0.8 * others

    # no rounding of the scores gives it, and cutting does only if another cell is cut too
    is_only_cut = average.is_only_cut
    is_explained = average.fits or (is_only_cut and rule.cut >= 2)
    is_alone = follows_printed and not average.is_rounded and not is_only_cut
    if not is_explained or is_alone:
        why = f"{rule.name} of this row"
        return of_cell(sheet, average.row, column, average.mean, "average", why)
    if not is_only_cut:
        return None

    # rounding cannot give it, or so many digits or cells show that the table cuts
    digits_show = average.is_finer and (rule.cut >= 2 or follows_printed)
    if average.fits and not rule.cuts_everywhere and not digits_show:
        return None
    how = "is truncated here and rounded elsewhere" if rule.exact else "is truncated, not rounded"
    why = f"{rule.name} {how}"
    return of_cell(sheet, average.row, column, average.mean, "truncation", why, "a digit")


def _rule_of(sheet: Sheet, column: str) -> AveragingRule:
    """The way of averaging that most rows follow, two at least; an empty one if none convinces."""
    # of which columns may the average be?
    index = sheet.columns.index(column)
    before = sheet.columns[:index]
    last = max((at for at, name in enumerate(before) if is_average(name)), default=-1)
    candidates = {
        "": [name for name in sheet.columns if name != column],
        " before it": before,
        " since the average before": before[last + 1 :],
    }
    rows = [
        row for row in sheet.rows if column in row.cells and (is_plain(row) or is_average_row(row))
    ]

    # the first of those ways that most rows follow
    best = AveragingRule("", [])
    for suffix, names in candidates.items():
        scores = [name for name in names if is_score(name)]
        for name, groups in averaging_rules(scores).items():
            rule = AveragingRule(f"{name}{suffix}", _judged(rows, column, scores, groups))
            if rule.fitting > best.fitting:
                best = rule
    convinces = best.fitting >= max(2, len(best.averages) / 2)
    return best if convinces else AveragingRule("", [])


def _judged(
    rows: Sequence[PrintedRow],
    column: str,
    scores: Sequence[str],
    groups: Sequence[Sequence[str]],
) -> list[JudgedAverage]:
    """The averages of the rows that have all scores, judged by the mean of groups of columns."""
    judged = []
    for row in rows:
        mean = mean_of(groups, row.cells)
        if mean is None:
            continue
        cell = row.cells[column]
        step = max(row.cells[score].step for score in scores if score in row.cells)
        fits = abs(cell.value - mean) <= slack_of_mean(cell, len(groups), step)
        judged.append(JudgedAverage(row, cell, mean, step, fits))
    return judged


@dataclass(frozen=True)
class RowMeans:
    """The averages that a row would have if it averaged certain rows above it.

    Attributes:
        name: which rows, in words.
        means: column -> the mean of its cells in these rows.
        fitting: the columns whose printed average some rounding of these cells may give.
    """

    name: str
    means: Mapping[str, Decimal]
    fitting: frozenset[str]


def average_rows(sheet: Sheet) -> Iterator[Finding]:
    """Compare rows of averages with the set of rows above that most of their columns follow."""
    for row, choices in rows_above(sheet, is_average_row):
        best = RowMeans("", {}, frozenset())
        for name, chosen in choices.items():
            if len(chosen) < 2:
                continue
            means = _row_means(row, name, chosen)
            if len(means.fitting) > len(best.fitting):
                best = means
        if len(best.fitting) < max(2, len(best.means) / 2):
            continue

        # a cell of other digits, or of another scale, is no mean of the scores above it
        usual = {row.cells[column].places for column in best.fitting}
        for column, mean in best.means.items():
            is_comparable = row.cells[column].places in usual and not _is_no_mean(column)
            if column not in best.fitting and is_comparable:
                why = f"the mean of {best.name} in this column"
                yield of_cell(sheet, row, column, mean, "average", why, "a headline")


def _row_means(row: PrintedRow, name: str, chosen: Sequence[PrintedRow]) -> RowMeans:
    """The means of the chosen rows in the columns that they all have."""
    means: dict[str, Decimal] = {}
    fitting = set()
    for column, cell in row.cells.items():
        parts = [other.cells[column] for other in chosen if column in other.cells]
        if len(parts) < len(chosen):
            continue
        means[column] = _sum(parts) / len(parts)
        step = max(cell.step, *(part.step for part in parts))
        if abs(cell.value - means[column]) <= slack_of_mean(cell, len(parts), step):
            fitting.add(column)
    return RowMeans(name, means, frozenset(fitting))


def _is_no_mean(column: str) -> bool:
    """Whether a column's average is no mean of its cells.

    It may be a ratio of means, a geometric mean, a count, or say how sure a number is.
    """
    if derived_kind(column) or re.search(r"%$|geo", column, re.IGNORECASE):
        return True
    return any(pattern.search(column) for pattern in (COUNTED, DETECTABLE, UNCERTAIN))


def rows_above(
    sheet: Sheet, is_special: Callable[[PrintedRow], bool]
) -> Iterator[tuple[PrintedRow, dict[str, list[PrintedRow]]]]:
    """Each row of averages or totals, and the sets of rows above that it may be of.

    Where such rows are many, each sees less far up.
    """
    special = [index for index, row in enumerate(sheet.rows) if is_special(row)]
    window = max(100, 40_000 // max(1, len(special)))
    for index in special:
        row = sheet.rows[index]

        # the rows above it, and those since the last special one
        above: list[PrintedRow] = []
        since: list[PrintedRow] = []
        between = False
        for other in sheet.rows[max(0, index - window) : index]:
            if is_plain(other):
                since = [] if between else since
                since.append(other)
                above.append(other)
            between = not is_plain(other)
        yield (
            row,
            {
                "all rows above": above,
                "all rows above except the first": above[1:],
                "all rows above but teachers": [r for r in above if not TEACHER.search(r.system)],
                "all rows above except the first two": above[2:],
                "the rows above since the last average": since,
                "the rows above of this label": [r for r in above if r.label == row.label],
                "the rows above of this group": [r for r in above if r.group == row.group],
            },
        )


def sums(sheet: Sheet) -> Iterator[Finding]:
    """Find totals that no set of the rows above gives, although the nearest almost does."""
    for row, choices in rows_above(sheet, is_total_row):
        for column, total in row.cells.items():
            # the parts of each set of rows above
            ways = []
            for chosen in choices.values():
                parts = [other.cells[column] for other in chosen if column in other.cells]
                if len(parts) >= 2:
                    ways.append(parts)
            if not ways or not total.value or any(_fits(total, parts) for parts in ways):
                continue
            finding = _of_total(sheet, row, column, ways)
            if finding is not None:
                yield finding


def _of_total(
    sheet: Sheet, row: PrintedRow, column: str, ways: Sequence[Sequence[PrintedNumber]]
) -> Finding | None:
    """The finding of a total by the nearest of its sets of parts; None where it is of others."""
    total = row.cells[column]
    # the nearest of the sets of parts
    parts = min(ways, key=lambda parts: abs(_sum(parts) - total.value))
    off = abs(_sum(parts) - total.value)
    units = {part.unit for part in parts}
    if off > NEAR * abs(total.value) or len(units) > 1:
        return None

    # it is a guess while all roundings together can explain the difference
    all_roundings = total.step / 2 + sum((part.step / 2 for part in parts), Decimal(0))
    why = "the sum of the rows above in this column"
    basis = ARITHMETIC
    if _is_fractional(parts) and off <= all_roundings:
        why = f"{why}; rounding of the parts hardly gives this"
        basis = INFERENCE
    return of_cell(sheet, row, column, _sum(parts), "sum", why, "a total", basis)


def _sum(parts: Sequence[PrintedNumber]) -> Decimal:
    return sum((part.value for part in parts), Decimal(0))


def _is_fractional(parts: Sequence[PrintedNumber]) -> bool:
    """Whether parts are rounded numbers: those with decimals or with a unit, as 4 M."""
    return any(part.places or part.unit for part in parts)


def _fits(total: PrintedNumber, parts: Sequence[PrintedNumber]) -> bool:
    """Whether a total is the sum of its parts within what their rounding makes likely.

    Whole numbers have to add up exactly.
    """
    slack = total.step / 2
    if _is_fractional(parts):
        # a number rounded to a step is off by a uniform error: variance step**2 / 12
        spread = (sum((part.step**2 for part in parts), Decimal(0)) / 12).sqrt()
        slack += TOTALS_OFF_BY * spread
    return abs(total.value - _sum(parts)) <= slack
