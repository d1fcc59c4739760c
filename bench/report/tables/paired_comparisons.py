"""Differences between rows on the same examples, with intervals and verdicts.

Made from the stored predictions. Every system is compared with plain fine-tuning where there is such a row, else with the
teacher; an ablation with its full row, a row of changed settings with the plain one. Holm's adjustment runs over each of
the two tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.record.cell import TEACHER
from bench.report import frame
from bench.report.comparison import (
    NOT_SIGNIFICANT,
    UNCLEAR,
    Comparison,
    compared,
    comparison_notes,
    of_mean,
    p_in_words,
)
from bench.report.frame import EXACT, Frame, FrameLine, TableCell
from bench.report.groups import ReportGroup, ScoreColumn
from bench.report.resampled import Resampled, finished
from bench.report.tables.parts import DASH, keys_of, line_of
from bench.report.tables.registry import PAIRED, ReportData, table
from bench.stats.multiple import holm
from bench.stats.power import LEVEL, POWER

SYSTEMS = "paired comparisons"
"""The name of the first table's files."""
MEAN_OF = "mean of"
"""Begins the heading of the last column."""
BASELINE = "finetune"
"""The row that full rows are compared with, where there is one."""


@table(PAIRED, place=20)
def _frames(data: ReportData) -> Iterable[Frame]:
    return paired_comparisons(data.group, data.answered)


def reference_of(group: ReportGroup) -> str:
    """The row that full rows are compared with: plain fine-tuning with the shared start, else the teacher."""
    return BASELINE if BASELINE in group.systems else TEACHER


def own_row(group: ReportGroup, label: str) -> str:
    """The row that a variant belongs to: an ablation's full row, or a method's plain row for one with changed settings.

    "" for a system of its own.
    """
    cell = group.of(label)[0].cell
    return cell.ablation_of or (cell.method if cell.label != cell.method and cell.method in group.systems else "")


def systems_of(group: ReportGroup) -> list[str]:
    """The rows that are compared with the reference: systems of their own, and no variants or ablations of another row."""
    reference = reference_of(group)
    if reference not in group.systems:
        return []
    return [label for label in group.systems if label not in (TEACHER, reference) and not own_row(group, label)]


def paired_comparisons(group: ReportGroup, answered: Mapping[ScoreColumn, Resampled]) -> list[Frame]:
    """Systems and a common reference, variants and their own rows: two questions, each adjusted over its table."""
    reference = reference_of(group)
    systems = dict.fromkeys(systems_of(group), reference)
    variants = {label: own for label in group.systems if (own := own_row(group, label)) in group.systems}
    to_baseline = _compared(f"Systems compared with {group.called(reference)}", group, systems, answered)
    to_own_row = _compared("Variants and ablations compared with their own row", group, variants, answered)
    named = ((to_baseline, SYSTEMS), (to_own_row, "variants and ablations"))
    return [replace(frame, file=file) for frame, file in named if frame is not None]


def differences_to(group: ReportGroup, full: str, answered: Mapping[ScoreColumn, Resampled]) -> Frame | None:
    """Every row of a group compared with one of them, with intervals and verdicts; None where no answers are stored."""
    others = {label: full for label in group.systems if label not in (TEACHER, full)}
    return _compared(f"Differences to {full}, with intervals", group, others, answered)


@dataclass(frozen=True)
class _Compared:
    """The comparison of one row with another in one column."""

    line: Comparison
    """with its p adjusted over the table"""
    drawn: np.ndarray
    """[resamples] differences in percent"""
    keys: tuple[str, ...]


Found = Mapping[tuple[str, ScoreColumn], _Compared]
"""(row, column) -> its comparison"""


def _compared(
    title: str, group: ReportGroup, other_of: Mapping[str, str], answered: Mapping[ScoreColumn, Resampled]
) -> Frame | None:
    """Each row's difference to another, 95 % interval and verdict, by column and on average."""
    found = _comparisons(group, other_of, answered)
    if not found:
        return None
    means = _means(group.columns, other_of, found)
    has_means = len(group.columns) > 1
    lines = [
        _line(group, label, other, found, [means.get(label)] if has_means else [])
        for label, other in other_of.items()
        if any((label, column) in found for column in group.columns)
    ]
    columns = (
        frame.TableColumn("System"),
        frame.TableColumn("compared with"),
        *(frame.TableColumn(c.title, csv=EXACT) for c in group.columns),
        *([frame.TableColumn(f"{MEAN_OF} {len(group.columns)} differences", csv=EXACT)] if has_means else []),
    )
    said = comparison_notes([one.line for one in found.values()])
    return Frame(
        title, columns, (*lines, _least_detectable(group.columns, found, means)), (_note(found, bool(means)), *said)
    )


def _comparisons(group: ReportGroup, other_of: Mapping[str, str], answered: Mapping[ScoreColumn, Resampled]) -> Found:
    """The comparisons of a table, with Holm's adjustment over all of them."""
    found: dict[tuple[str, ScoreColumn], _Compared] = {}
    for label, other in other_of.items():
        for column, data in answered.items():
            sides = finished(group, label, column), finished(group, other, column)
            if data.has(sides[0]) and data.has(sides[1]):
                line, drawn = compared(data, sides, column.title)
                found[label, column] = _Compared(line, drawn, keys_of([*sides[0], *sides[1]]))
    adjusted = holm([one.line.p for one in found.values()])
    return {
        key: replace(one, line=replace(one.line, adjusted=p))
        for (key, one), p in zip(found.items(), adjusted, strict=True)
    }


def _line(group: ReportGroup, label: str, other: str, found: Found, mean: Sequence[_Compared | None]) -> FrameLine:
    """The differences of a row in each column, and their mean where the table has a column for it."""
    cells = [_cell(one) for one in (*(found.get((label, column)) for column in group.columns), *mean)]
    return line_of(group, label, [TableCell(group.called(other), plain=other), *cells])


def _cell(one: _Compared | None) -> TableCell:
    if one is None:
        return TableCell(DASH)
    line = one.line
    return TableCell(
        f"{line.difference:+.1f} ({line.low:+.1f} to {line.high:+.1f}) {_verdict(line)}",
        value=line.difference,
        low=line.low,
        high=line.high,
        n=len(line.seeds) or None,
        keys=one.keys,
        verdict=line.verdict,
    )


def _verdict(line: Comparison) -> str:
    """The verdict in words; with its p where the interval alone would say something else."""
    without_zero = line.low > 0 or line.high < 0
    if line.verdict == UNCLEAR:
        return f"{NOT_SIGNIFICANT} after Holm (p = {p_in_words(line.adjusted)})" if without_zero else NOT_SIGNIFICANT
    return line.verdict if without_zero else f"{line.verdict} (p = {p_in_words(line.adjusted)})"


def _means(columns: Sequence[ScoreColumn], labels: Iterable[str], found: Found) -> dict[str, _Compared]:
    """Row -> the mean of its differences, where it has all of several columns; with Holm's adjustment over the means."""
    whole: dict[str, _Compared] = {}
    for label in labels:
        there = [one for column in columns if (one := found.get((label, column))) is not None]
        if len(there) == len(columns) > 1:
            drawn = [one.drawn for one in there]
            keys = tuple(key for one in there for key in one.keys)
            whole[label] = _Compared(of_mean([one.line for one in there], drawn), np.mean(drawn, axis=0), keys)
    adjusted = holm([one.line.p for one in whole.values()])
    return {
        label: replace(one, line=replace(one.line, adjusted=p))
        for (label, one), p in zip(whole.items(), adjusted, strict=True)
    }


def _least_detectable(columns: Sequence[ScoreColumn], found: Found, means: Mapping[str, _Compared]) -> FrameLine:
    """The smallest true difference that comparisons like those of a column, and like those of the means, would find."""
    cells = [_least([one.line for (_, where), one in found.items() if where == column]) for column in columns]
    if len(columns) > 1:
        cells.append(_least([one.line for one in means.values()]) if means else TableCell(""))
    return FrameLine("minimum detectable difference", (TableCell(""), *cells), only="markdown", row="")


def _least(lines: Collection[Comparison]) -> TableCell:
    values = [line.least for line in lines if line.least is not None]
    return TableCell(f"{np.median(values):.1f}", value=float(np.median(values))) if values else TableCell(DASH)


TESTS = {
    "McNemar, mid-p": "McNemar's test (mid-p) for shares of right answers",
    "permutation": "a permutation test",
}
"""How a note names the tests of two rows with one seed each."""


def _note(found: Found, has_means: bool) -> str:
    tests = {one.line.test for one in found.values()}
    single = ", ".join(words for test, words in TESTS.items() if test in tests)
    if "permutation" in tests and len(tests & TESTS.keys()) > 1:
        single += " for other metrics"
    if single and tests - TESTS.keys():
        single += ", if both rows have one seed. Otherwise the bootstrap"
    means = " Means are tested with the bootstrap and adjusted separately." if has_means else ""
    return (
        "Differences in points, computed before rounding, with 95 % intervals (paired bootstrap over examples, with Student's t over "
        "several seeds). "
        f"Test: {single or 'the bootstrap'}. A verdict needs p below {LEVEL:g} after Holm's adjustment over the {len(found)} comparisons "
        f"of single columns.{means} The intervals are not adjusted. So an interval can exclude 0 without a verdict: then the cell "
        f"says '{NOT_SIGNIFICANT} after Holm' and p. Minimum detectable difference: the true difference that such comparisons "
        f"find in {100 * POWER:.0f} of 100 cases (the median of the column). docs/statistics.md explains all this."
    )
