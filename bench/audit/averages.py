"""Average columns and average rows, compared with the rule that most of their own table follows.

A cell is a finding only if no rounding of the scores behind the printed ones is likely to have given it, or if the table
visibly cuts its averages off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from bench.audit.findings import AuditedCell, Finding, of_cell
from bench.audit.names import (
    TEACHER,
    derived_kind,
    is_average,
    is_average_row,
    is_plain,
    is_score,
    score_columns,
    task_of,
)
from bench.audit.printed import PrintedNumber
from bench.audit.table import PrintedRow, Sheet

DEVIATIONS = 3.5
"""An average may be off by so many standard deviations of the rounding of its scores."""
AX = re.compile(r"\bax\b|\bdiagnostic|\bax[-_ ]?[bg]\b", re.IGNORECASE)
MISMATCHED = r"mnli.*mm|\bmm\b|mismatched"
"""MNLI-mm, and no other name with these letters, as MMLU."""

Rule = Callable[[Mapping[str, Decimal]], "tuple[Decimal, int] | None"]


def _mean(groups: Sequence[Sequence[str]]) -> Rule:
    """The mean of the means of these groups of columns; None where a cell is missing."""

    def of(cells: Mapping[str, Decimal]) -> tuple[Decimal, int] | None:
        if len(groups) < 2 or any(column not in cells for group in groups for column in group):
            return None
        means = [sum((cells[c] for c in group), Decimal(0)) / len(group) for group in groups]
        return sum(means, Decimal(0)) / len(groups), len(groups)

    return of


def averaging_rules(columns: Sequence[str]) -> dict[str, Rule]:
    """Ways in which a table may average: name -> mean and number of parts, or None where a cell is missing."""

    def each(chosen: Sequence[str]) -> list[list[str]]:
        return [[column] for column in chosen]

    def by(key: Callable[[str], str], chosen: Sequence[str]) -> list[list[str]]:
        groups: dict[str, list[str]] = {}
        for column in chosen:
            groups.setdefault(key(column), []).append(column)
        return list(groups.values())

    def without(pattern: str) -> list[str]:
        return [column for column in columns if not re.search(pattern, column, re.IGNORECASE)]

    scored = [column for column in columns if not AX.search(column)]
    rules = {
        "the mean of all columns": each(columns),
        "the mean with the two MNLI columns as one": by(
            lambda c: "mnli" if re.search("mnli", c, re.IGNORECASE) else c, columns
        ),
        "the mean without WNLI": each(without("wnli")),
        "the mean without MNLI-mm": each(without(MISMATCHED)),
        "the mean without WNLI and MNLI-mm": each(without(f"wnli|{MISMATCHED}")),
        "the mean of tasks, two metrics of one task as one": by(task_of, columns),
        "the GLUE mean: MNLI and two metrics of one task as one, AX left out": by(task_of, scored),
        "the GLUE mean without WNLI": by(task_of, [c for c in scored if c in without("wnli")]),
        "the mean without AX": each(scored),
    }
    once: dict[str, Rule] = {}
    taken: list[list[list[str]]] = []
    for name, groups in rules.items():
        if groups not in taken:
            taken.append(groups)
            once[name] = _mean(groups)
    return once


def slack_of_mean(cell: PrintedNumber, count: int, step: Decimal) -> Decimal:
    """How far an average may lie from that of the printed scores: its own rounding, and that of the scores behind it."""
    # a score rounded to a step is off by a uniform error: variance step**2 / 12; of a mean of n scores, 1/n of that
    spread = Decimal(str(DEVIATIONS)) * step / Decimal(12 * count).sqrt()
    return cell.step / 2 + min(step / 2, spread)


@dataclass(frozen=True)
class JudgedAverage:
    """One average cell and what a rule makes of its row.

    Attributes:
        made: the mean by the rule.
        count: how many parts it is the mean of.
        step: the coarsest step of the scores.
    """

    row: PrintedRow
    cell: PrintedNumber
    made: Decimal
    count: int
    step: Decimal

    @property
    def fits(self) -> bool:
        return abs(self.cell.value - self.made) <= slack_of_mean(self.cell, self.count, self.step)

    @property
    def is_rounded(self) -> bool:
        return self.cell.is_rounded(self.made)

    @property
    def is_only_cut(self) -> bool:
        return self.cell.is_cut(self.made) and not self.is_rounded


def averages(sheet: Sheet) -> Iterator[Finding]:
    """Average columns against the rule that most rows follow."""
    for column in average_columns(sheet):
        found = _rule_of(sheet, column)
        if found is not None:
            yield from _against(sheet, column, *found)


def average_columns(sheet: Sheet) -> list[str]:
    """Columns named as averages, and those named ``X mean`` with several scores named ``X ...`` before them."""
    found = columns_called_average(sheet)
    for column in sheet.columns:
        prefix = re.fullmatch(r"(.+) mean", column, re.IGNORECASE)
        if column not in found and prefix and len(_named_alike(sheet, prefix[1], column)) >= 3:
            found.append(column)
    return found


def _named_alike(sheet: Sheet, prefix: str, column: str) -> list[str]:
    return [c for c in sheet.columns if c != column and c.startswith(f"{prefix} ") and is_score(c)]


def _column_sets(sheet: Sheet, column: str) -> dict[str, list[str]]:
    """Which columns an average may be of: all scores, those before it, those since the average before it, those named alike."""
    scores = [c for c in score_columns(sheet) if c != column]
    order = sheet.columns
    place = order.index(column)
    before = [c for c in scores if order.index(c) < place]
    others = [order.index(c) for c in columns_called_average(sheet) if order.index(c) < place]
    since = [c for c in before if not others or order.index(c) > max(others)]
    words = column.rsplit(" ", 1)
    alike = _named_alike(sheet, words[0], column) if len(words) == 2 else []
    return {"": scores, " before it": before, " since the average before": since, " named alike": alike}


def columns_called_average(sheet: Sheet) -> list[str]:
    return [column for column in sheet.columns if is_average(column)]


def _rule_of(sheet: Sheet, column: str) -> tuple[str, list[JudgedAverage]] | None:
    """The way of averaging that most rows follow, two of them at least; None where none convinces."""
    rows = [r for r in sheet.rows if column in r.cells and (is_plain(r) or is_average_row(r))]
    best: tuple[int, str, list[JudgedAverage]] | None = None
    tried: list[list[str]] = []
    for suffix, columns in _column_sets(sheet, column).items():
        if columns in tried or len(columns) < 2:
            continue
        tried.append(columns)
        for name, rule in averaging_rules(columns).items():
            judged = list(_judged(rows, column, columns, rule))
            fitting = sum(one.fits for one in judged)
            if judged and (best is None or fitting > best[0]):
                best = fitting, f"{name}{suffix}", judged
    if best is None or best[0] < max(2, len(best[2]) / 2):
        return None
    return best[1], best[2]


def _judged(rows: Sequence[PrintedRow], column: str, columns: Sequence[str], rule: Rule) -> Iterator[JudgedAverage]:
    for row in rows:
        average = rule({c: row.cells[c].value for c in columns if c in row.cells})
        if average is not None:
            yield JudgedAverage(
                row, row.cells[column], *average, max(row.cells[c].step for c in columns if c in row.cells)
            )


def _against(sheet: Sheet, column: str, name: str, judged: Sequence[JudgedAverage]) -> Iterator[Finding]:
    """Cells that the rule does not give, and those that cut it off in a table that shows that it does."""
    cut = sum(one.is_only_cut for one in judged)
    exact = [one.is_rounded for one in judged]
    # where an average has no more digits than its scores, some look cut by chance, but never all of six
    everywhere = cut >= 3 and len(judged) >= 6 and all(one.cell.is_cut(one.made) for one in judged)
    for one in judged:
        others = [e for other, e in zip(judged, exact, strict=True) if other is not one]
        finer = one.cell.step < one.step
        printed_rule = finer and len(others) >= 2 and sum(others) >= 0.8 * len(others)
        # no rounding of the scores gives it, and cutting does only if another cell of the column is cut too
        wrong = not one.fits and not (one.is_only_cut and cut >= 2)
        # the others follow the printed scores to the digit, and it does not
        wrong = wrong or (printed_rule and not one.is_rounded and not one.is_only_cut)
        # rounding cannot give it, or so many digits or cells show that the table cuts
        cut_visibly = one.is_only_cut and (not one.fits or everywhere or (finer and (cut >= 2 or printed_rule)))
        if wrong:
            yield of_cell(AuditedCell(sheet, one.row, column), one.made, "average", f"{name} of this row")
        elif cut_visibly:
            how = "is truncated here and rounded elsewhere" if any(exact) else "is truncated, not rounded"
            yield of_cell(AuditedCell(sheet, one.row, column), one.made, "truncation", f"{name} {how}", "a digit")


def average_rows(sheet: Sheet) -> Iterator[Finding]:
    """Rows that average the rows above them, against the set of rows that most columns follow."""
    for place, row in enumerate(sheet.rows):
        if not is_average_row(row) or len(row.cells) < 2:
            continue
        choices = rows_above(sheet, place)
        best: tuple[int, str, dict[str, Decimal]] | None = None
        for name, chosen in choices.items():
            made = {
                column: sum((r.cells[column].value for r in chosen), Decimal(0)) / len(chosen)
                for column in row.cells
                if len(chosen) >= 2 and all(column in r.cells for r in chosen)
            }
            fitting = sum(_fits(row.cells[c], m, choices[name], c) for c, m in made.items())
            if made and (best is None or fitting > best[0]):
                best = fitting, name, made
        if best is None or best[0] < max(2, len(best[2]) / 2):
            continue
        _, name, made = best
        usual = {row.cells[c].places for c, m in made.items() if _fits(row.cells[c], m, choices[name], c)}
        for column, mean in made.items():
            if (
                row.cells[column].places not in usual
                or derived_kind(column)
                or re.search(r"%$|geo", column, re.IGNORECASE)
            ):
                continue  # of another scale: a ratio of means, a geometric mean
            if not _fits(row.cells[column], mean, choices[name], column):
                yield of_cell(
                    AuditedCell(sheet, row, column), mean, "average", f"the mean of {name} in this column", "a headline"
                )


def rows_above(sheet: Sheet, place: int) -> dict[str, list[PrintedRow]]:
    """Which rows a row of averages or totals may be of."""
    row = sheet.rows[place]
    above = [r for r in sheet.rows[:place] if is_plain(r)]
    since: list[PrintedRow] = []
    for other in reversed(sheet.rows[:place]):
        if is_plain(other):
            since.insert(0, other)
        elif since:
            break
    return {
        "all rows above": above,
        "all rows above except the first": above[1:],
        "all rows above but teachers": [r for r in above if not TEACHER.search(r.system)],
        "all rows above except the first two": above[2:],
        "the rows above since the last average": since,
        "the rows above of this label": [r for r in above if r.label == row.label],
        "the rows above of this group": [r for r in above if r.group == row.group],
    }


def _fits(cell: PrintedNumber, mean: Decimal, rows: Sequence[PrintedRow], column: str) -> bool:
    step = max(cell.step, *(r.cells[column].step for r in rows))
    return abs(cell.value - mean) <= slack_of_mean(cell, len(rows), step)
