"""Average columns and average rows, held against the rule that most of their own table follows.

A cell is a finding only if no rounding of the scores behind the printed ones is likely to have given it, or if the table
visibly cuts its averages off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal

from bench.audit.findings import Finding, of_cell
from bench.audit.names import AVERAGE, TEACHER, is_average, is_plain, score_columns
from bench.audit.printed import Printed
from bench.audit.sheets import Row, Sheet

DEVIATIONS = 3.5
"""Standard deviations of the rounding of the scores behind an average that are let pass."""

Rule = Callable[[Mapping[str, Decimal]], "tuple[Decimal, int] | None"]


def averaging_rules(columns: Sequence[str]) -> dict[str, Rule]:
    """Ways in which a table may average: name -> mean and number of parts, or None where a cell is missing."""

    def mean(chosen: Sequence[str]) -> Rule:
        def of(cells: Mapping[str, Decimal]) -> tuple[Decimal, int] | None:
            if len(chosen) < 2 or any(column not in cells for column in chosen):
                return None
            return sum((cells[c] for c in chosen), Decimal(0)) / len(chosen), len(chosen)

        return of

    def without(pattern: str) -> list[str]:
        return [column for column in columns if not re.search(pattern, column, re.IGNORECASE)]

    matched = [c for c in columns if re.search(r"mnli", c, re.IGNORECASE)]
    rest = [c for c in columns if c not in matched]

    def merged(cells: Mapping[str, Decimal]) -> tuple[Decimal, int] | None:
        if len(matched) != 2 or any(c not in cells for c in columns):
            return None
        both = (cells[matched[0]] + cells[matched[1]]) / 2
        return (both + sum((cells[c] for c in rest), Decimal(0))) / (len(rest) + 1), len(rest) + 1

    return {
        "the mean of all columns": mean(columns),
        "the mean with the two MNLI columns as one": merged,
        "the mean without WNLI": mean(without("wnli")),
        "the mean without MNLI-mm": mean(without("mm")),
        "the mean without WNLI and MNLI-mm": mean(without("wnli|mm")),
    }


def slack_of_mean(cell: Printed, parts: int, unit: Decimal) -> Decimal:
    """How far an average may lie from that of the printed scores: its own rounding, and that of the scores behind it."""
    spread = float(unit) / (12 * parts) ** 0.5 * DEVIATIONS
    return cell.unit / 2 + min(unit / 2, Decimal(str(round(spread, 6))))


def averages(sheet: Sheet) -> Iterator[Finding]:
    """Average columns against the rule that most rows follow."""
    for column in [c for c in sheet.columns if is_average(c)]:
        columns = score_columns(sheet)
        rows = [r for r in sheet.rows if column in r.cells and (is_plain(r) or AVERAGE.match(r.system))]
        best: tuple[int, str, list[tuple[Row, Decimal, int, Decimal]]] | None = None
        for name, rule in averaging_rules(columns).items():
            judged = []
            for row in rows:
                average = rule({c: row.cells[c].value for c in columns if c in row.cells})
                if average is not None:
                    unit = max(row.cells[c].unit for c in columns if c in row.cells)
                    judged.append((row, *average, unit))
            fitting = sum(
                abs(r.cells[column].value - m) <= slack_of_mean(r.cells[column], n, u) for r, m, n, u in judged
            )
            if judged and (best is None or fitting > best[0]):
                best = fitting, name, judged
        if best is None or best[0] < max(1, len(best[2]) / 2):
            continue
        _, name, judged = best
        exact = [r.cells[column].is_rounded(m) for r, m, _, _ in judged]
        cut = [r.cells[column].is_cut(m) and not e for (r, m, _, _), e in zip(judged, exact, strict=True)]
        # where an average has no more digits than its scores, chance cuts one now and then; never all of them
        everywhere = sum(cut) >= 2 and all(r.cells[column].is_cut(m) for r, m, _, _ in judged)
        for (row, made, parts, unit), is_exact, is_cut in zip(judged, exact, cut, strict=True):
            cell = row.cells[column]
            others = [e for (r, _, _, _), e in zip(judged, exact, strict=True) if r is not row]
            printed_rule = cell.unit < unit and len(others) >= 2 and sum(others) >= 0.8 * len(others)
            if abs(cell.value - made) > slack_of_mean(cell, parts, unit) or (
                printed_rule and not is_exact and not is_cut
            ):
                yield of_cell(sheet, row, column, made, "average", f"{name} of this row")
            elif is_cut and (everywhere or (cell.unit < unit and (sum(cut) >= 2 or printed_rule))):
                how = "is cut off here and rounded elsewhere" if any(exact) else "is cut off, not rounded"
                yield of_cell(sheet, row, column, made, "truncation", f"{name} {how}", "a digit")


def average_rows(sheet: Sheet) -> Iterator[Finding]:
    """Rows that average the rows above them, against the set of rows that most columns follow."""
    for place, row in enumerate(sheet.rows):
        if not AVERAGE.match(row.system) or len(row.cells) < 2:
            continue
        above = [r for r in sheet.rows[:place] if is_plain(r)]
        choices: dict[str, list[Row]] = {
            "all rows above": above,
            "all rows above but the first": above[1:],
            "all rows above but teachers": [r for r in above if not TEACHER.search(r.system)],
            "all rows above but the first two": above[2:],
        }
        best: tuple[int, str, dict[str, Decimal]] | None = None
        for name, chosen in choices.items():
            made = {
                column: sum((r.cells[column].value for r in chosen), Decimal(0)) / len(chosen)
                for column in row.cells
                if len(chosen) >= 2 and all(column in r.cells for r in chosen)
            }
            fitting = sum(_fits(row.cells[c], m, len(chosen)) for c, m in made.items())
            if made and (best is None or fitting > best[0]):
                best = fitting, name, made
        if best is None or best[0] < max(2, len(best[2]) / 2):
            continue
        _, name, made = best
        for column, mean in made.items():
            if not _fits(row.cells[column], mean, len(choices[name])):
                yield of_cell(sheet, row, column, mean, "average", f"the mean of {name} in this column", "a headline")


def _fits(cell: Printed, mean: Decimal, parts: int) -> bool:
    return abs(cell.value - mean) <= slack_of_mean(cell, parts, cell.unit)
