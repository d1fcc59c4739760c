"""Average columns and rows, compared with the rule that most of their own table follows; and rows of totals.

A cell is a finding only if no rounding of the scores behind the printed ones is likely to have given it, or if the table
visibly cuts its averages off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal

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
"""A total is named if it is off by more than so many standard deviations of the rounding of its parts. It is a guess while
all roundings together can explain it."""
NEAR = Decimal("0.02")
"""A total further off than this share of itself is of other parts than these."""


def averaging_rules(columns: Sequence[str]) -> dict[str, list[list[str]]]:
    """Ways in which a table may average: name -> groups of columns, the means of which are averaged."""

    def by(key: Callable[[str], str], chosen: Sequence[str]) -> list[list[str]]:
        groups: dict[str, list[str]] = {}
        for column in chosen:
            groups.setdefault(key(column), []).append(column)
        return list(groups.values())

    def without(pattern: str) -> list[str]:
        return [column for column in columns if not re.search(pattern, column, re.IGNORECASE)]

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
    if any(column not in cells for group in groups for column in group):
        return None
    means = [
        sum((cells[column].value for column in group), Decimal(0)) / len(group) for group in groups
    ]
    return sum(means, Decimal(0)) / len(groups)


def slack_of_mean(cell: PrintedNumber, count: int, step: Decimal) -> Decimal:
    """How far an average may lie from that of the printed scores: its own rounding, and that of the scores behind it."""
    # a score rounded to a step is off by a uniform error: variance step**2 / 12; of a mean of n scores, 1/n of that
    spread = Decimal(str(DEVIATIONS)) * step / Decimal(12 * count).sqrt()
    return cell.step / 2 + min(step / 2, spread)


def averages(sheet: Sheet) -> Iterator[Finding]:
    """Average columns against the rule that most rows follow.

    Named are cells that the rule does not give, and those that cut it off in a table that shows that it does.
    """
    for column in [column for column in sheet.columns if is_average(column)][:MOST_AVERAGES]:
        name, judged = _rule_of(sheet, column)
        cells = [(row.cells[column], mean) for row, mean, *_ in judged]
        cut = sum(cell.is_only_cut(mean) for cell, mean in cells)
        exact = sum(cell.is_rounded(mean) for cell, mean in cells)
        # where an average has no more digits than its scores, some look cut by chance, but never all of six
        everywhere = (
            cut >= 3 and len(judged) >= 6 and all(cell.is_cut(mean) for cell, mean in cells)
        )
        for row, mean, step, fits in judged:
            cell = row.cells[column]
            is_only_cut, is_rounded, finer = (
                cell.is_only_cut(mean),
                cell.is_rounded(mean),
                cell.step < step,
            )
            follows_printed = (
                finer and len(judged) >= 3 and exact - is_rounded >= 0.8 * (len(judged) - 1)
            )
            # no rounding of the scores gives it, and cutting does only if another cell of the column is cut too;
            # or the others follow the printed scores to the digit, and it does not
            if (not fits and not (is_only_cut and cut >= 2)) or (
                follows_printed and not is_rounded and not is_only_cut
            ):
                yield of_cell(sheet, row, column, mean, "average", f"{name} of this row")
            # rounding cannot give it, or so many digits or cells show that the table cuts
            elif is_only_cut and (
                not fits or everywhere or (finer and (cut >= 2 or follows_printed))
            ):
                how = (
                    "is truncated here and rounded elsewhere"
                    if exact
                    else "is truncated, not rounded"
                )
                yield of_cell(sheet, row, column, mean, "truncation", f"{name} {how}", "a digit")


def _rule_of(
    sheet: Sheet, column: str
) -> tuple[str, list[tuple[PrintedRow, Decimal, Decimal, bool]]]:
    """The way of averaging that most rows follow, two of them at least, and no rows where none convinces.

    Of each row: the mean, the coarsest step of its scores, whether their rounding may give the printed average.
    """
    place = sheet.columns.index(column)
    last = max((at for at, c in enumerate(sheet.columns[:place]) if is_average(c)), default=-1)
    sets = {
        "": [c for c in sheet.columns if c != column and is_score(c)],
        " before it": [c for c in sheet.columns[:place] if is_score(c)],
        " since the average before": [c for c in sheet.columns[last + 1 : place] if is_score(c)],
    }
    rows = [r for r in sheet.rows if column in r.cells and (is_plain(r) or is_average_row(r))]
    most, best = 0, ("", list[tuple[PrintedRow, Decimal, Decimal, bool]]())
    for suffix, columns in sets.items():
        for name, groups in averaging_rules(columns).items():
            judged = []
            for row in rows:
                if (mean := mean_of(groups, row.cells)) is not None:
                    step = max(row.cells[c].step for c in columns if c in row.cells)
                    slack = slack_of_mean(row.cells[column], len(groups), step)
                    judged.append((row, mean, step, abs(row.cells[column].value - mean) <= slack))
            fitting = sum(fits for *_, fits in judged)
            if fitting > most:
                most, best = fitting, (f"{name}{suffix}", judged)
    return best if most >= max(2, len(best[1]) / 2) else ("", [])


def average_rows(sheet: Sheet) -> Iterator[Finding]:
    """Rows that average the rows above them, against the set of rows that most columns follow."""
    for row, choices in rows_above(sheet, is_average_row):
        best: tuple[int, str, dict[str, Decimal], set[str]] = (0, "", {}, set())
        for name, chosen in choices.items():
            if len(chosen) < 2:
                continue
            columns = [column for column in row.cells if all(column in r.cells for r in chosen)]
            means = {
                c: sum((r.cells[c].value for r in chosen), Decimal(0)) / len(chosen)
                for c in columns
            }
            steps = {c: max(row.cells[c].step, *(r.cells[c].step for r in chosen)) for c in columns}
            slacks = {c: slack_of_mean(row.cells[c], len(chosen), steps[c]) for c in columns}
            fitting = {
                c for c, mean in means.items() if abs(row.cells[c].value - mean) <= slacks[c]
            }
            if len(fitting) > best[0]:
                best = len(fitting), name, means, fitting
        count, name, means, fitting = best
        if count < max(2, len(means) / 2):
            continue
        usual = {row.cells[c].places for c in fitting}
        for column, mean in means.items():
            # of another scale: a ratio of means, a geometric mean, a count, how sure a number is
            scale = re.search(r"%$|geo", column, re.IGNORECASE) or COUNTED.search(column)
            other = (
                derived_kind(column)
                or scale
                or DETECTABLE.search(column)
                or UNCERTAIN.search(column)
            )
            if column not in fitting and row.cells[column].places in usual and not other:
                yield of_cell(
                    sheet,
                    row,
                    column,
                    mean,
                    "average",
                    f"the mean of {name} in this column",
                    "a headline",
                )


def rows_above(
    sheet: Sheet, is_special: Callable[[PrintedRow], bool]
) -> Iterator[tuple[PrintedRow, dict[str, list[PrintedRow]]]]:
    """Each row of averages or totals, and which rows above it may be of. Where they are many, they see less far up."""
    special = [place for place, row in enumerate(sheet.rows) if is_special(row)]
    window = max(100, 40_000 // max(1, len(special)))
    for place in special:
        row = sheet.rows[place]
        above: list[PrintedRow] = []
        since: list[PrintedRow] = []
        between = False
        for other in sheet.rows[max(0, place - window) : place]:
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
    """Rows of totals that no set of the rows above gives, although the nearest almost does."""
    for row, choices in rows_above(sheet, is_total_row):
        for column, cell in row.cells.items():
            ways = [
                [r.cells[column] for r in chosen if column in r.cells]
                for chosen in choices.values()
            ]
            ways = [parts for parts in ways if len(parts) >= 2]
            if not ways or not cell.value or any(_fits(cell, parts) for parts in ways):
                continue
            parts = min(ways, key=lambda parts: abs(_sum(parts) - cell.value))
            off = abs(_sum(parts) - cell.value)
            if off > NEAR * abs(cell.value) or len({part.unit for part in parts}) > 1:
                continue
            why, basis = "the sum of the rows above in this column", ARITHMETIC
            is_fractional = any(part.places or part.unit for part in parts)
            if is_fractional and off <= cell.step / 2 + sum(
                (part.step / 2 for part in parts), Decimal(0)
            ):
                why, basis = f"{why}; rounding of the parts hardly gives this", INFERENCE
            yield of_cell(sheet, row, column, _sum(parts), "sum", why, "a total", basis)


def _sum(parts: Sequence[PrintedNumber]) -> Decimal:
    return sum((part.value for part in parts), Decimal(0))


def _fits(cell: PrintedNumber, parts: Sequence[PrintedNumber]) -> bool:
    """Whether a total is the sum of its parts within what their rounding makes likely; of whole numbers exactly."""
    # a number rounded to a step is off by a uniform error: variance step**2 / 12
    spread = (sum((part.step**2 for part in parts), Decimal(0)) / 12).sqrt()
    is_fractional = any(part.places or part.unit for part in parts)
    return abs(cell.value - _sum(parts)) <= cell.step / 2 + (
        TOTALS_OFF_BY * spread if is_fractional else 0
    )
