"""Differences between rows: on the same examples, with intervals and verdicts, and of ablations to
their full rows.

Holm's adjustment runs over the columns of one line; its mean is a test of its own. So no verdict
depends on the other lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from bench.report.paired_rows import (
    BORDERLINE,
    NOT_SIGNIFICANT,
    TOO_FEW_SEEDS,
    Comparison,
    RowDifference,
    comparison_notes,
    p_in_words,
)
from bench.report.study import Study
from bench.report.table import COMPARED, DASH, Column, Line, Table, TableCell, number
from bench.report.tables.parts import line_of, sources_of_variance
from bench.report.verdicts import differences_between_systems, reference_of
from bench.stats.power import LEVEL, POWER

SYSTEMS = "paired comparisons"
VARIANTS = "variants and ablations"
EACH_OTHER = "compared with each other"
"""The names of the tables' files."""

INTERVALS = (
    "Differences in points, computed before rounding, with 95 % intervals (paired bootstrap over "
    "examples, with Student's t over several seeds; not adjusted). "
)
LEAST = (
    "Minimum detectable difference: the true difference that such comparisons find in "
    f"{100 * POWER:.0f} of 100 cases (the median of the column). docs/statistics.md explains all "
    "this."
)
NOTE = (
    f"{INTERVALS}Test of one seed each: McNemar's (mid-p) for shares of right answers, a "
    "permutation test for other metrics; else the bootstrap. A verdict needs p below "
    f"{LEVEL:g} after Holm's adjustment over the tests of its line; the mean is one test, not "
    "adjusted. So an interval can exclude 0 without a verdict. The lines are not adjusted for each "
    "other: of 20 rows that equal what they are compared with, about one has a verdict all the "
    f"same. {BORDERLINE.capitalize()}: other resamples may end otherwise. {LEAST}"
)
UNTESTED = f"{INTERVALS}{LEAST}"
"""The note of a table without verdicts."""


def systems_compared(study: Study) -> Table | None:
    """Systems and the reference; None where no predictions are stored."""
    title = f"Systems compared with {study.called(reference_of(study))}"
    return _table(title, study, study.differences, SYSTEMS)


def variants_compared(study: Study) -> Table | None:
    """Variants and ablations, and their own rows; None where no predictions are stored."""
    title = "Variants and ablations compared with their own row"
    return _table(title, study, study.variants, VARIANTS)


def differences_to_first(study: Study) -> Table | None:
    """A paper's table of differences to its first row; None where no predictions are stored."""
    title = f"Differences to {reference_of(study)}, with intervals"
    return _table(title, study, study.differences)


def compared_with_each_other(study: Study) -> Table | None:
    """The systems that were asked for together, besides the reference."""
    differences = differences_between_systems(study)
    return _table("Systems compared with each other", study, differences, EACH_OTHER)


def _table(
    title: str, study: Study, differences: Sequence[RowDifference], file: str = ""
) -> Table | None:
    """A row's difference to another one, 95 % interval and verdict, by column and on average."""
    if not differences:
        return None
    has_means = len(study.averaged) > 1
    lines = []
    for difference in differences:
        other = TableCell(study.called(difference.other), plain=difference.other)
        cells = [other, number(difference.tests, "d")]
        for column in study.columns:
            keys = difference.keys.get(column, ())
            cells.append(difference_cell(difference.columns.get(column), keys))
        if has_means:
            cells.append(difference_cell(difference.mean, difference.all_keys))
        lines.append(line_of(study, difference.row, cells))

    # below the lines, what comparisons like these would find
    least = [TableCell(""), TableCell("")]
    in_columns: list[Comparison] = []
    for column in study.columns:
        compared = [each.columns[column] for each in differences if column in each.columns]
        least.append(_least_of(compared, number(None)))
        in_columns += compared
    if has_means:
        means = [each.mean for each in differences if each.mean is not None]
        least.append(_least_of(means, number(None) if means else TableCell("")))
    lines.append(Line("min. detectable", least, row=""))

    heads = [Column("System"), Column("compared with", words=True), Column("tests", digits=0)]
    heads += [Column(column.title, csv=COMPARED) for column in study.columns]
    if has_means:
        heads.append(Column(f"mean of {len(study.averaged)} differences", csv=COMPARED))
    has_verdicts = any(not line.no_verdict for line in in_columns)
    note = NOTE if has_verdicts else UNTESTED
    notes = [note, *sources_of_variance(study), *comparison_notes(in_columns)]
    return Table(title, heads, lines, notes, file)


def _least_of(compared: Iterable[Comparison], without: TableCell) -> TableCell:
    """The median of the minimum detectable differences; ``without`` where none has one."""
    values = [line.least for line in compared if line.least is not None]
    return number(float(np.median(values))) if values else without


def difference_cell(line: Comparison | None, keys: tuple[str, ...]) -> TableCell:
    """A difference with its interval and verdict; with its p where the interval alone would say
    something else."""
    if line is None:
        return TableCell(DASH)
    n = len(line.seeds) or None
    if line.no_verdict:
        return number(line.difference, "+.1f", low=line.low, high=line.high, n=n, keys=keys)
    cell = number(
        line.difference,
        "+.1f",
        low=line.low,
        high=line.high,
        p=line.adjusted,
        alone=line.p,
        verdict=line.verdict,
        n=n,
        keys=keys,
    )
    return replace(cell, text=f"{cell.text} {_verdict_in_words(line)}")


def _verdict_in_words(line: Comparison) -> str:
    """A verdict, with its p where the interval alone would say something else."""
    excludes_zero = line.low > 0 or line.high < 0
    p = f"(p = {p_in_words(line.adjusted)})"
    if line.verdict == TOO_FEW_SEEDS:
        return TOO_FEW_SEEDS
    if line.verdict == BORDERLINE:
        return f"{BORDERLINE} {p}"
    if line.verdict == NOT_SIGNIFICANT:
        return f"{NOT_SIGNIFICANT} after Holm {p}" if excludes_zero else NOT_SIGNIFICANT
    return line.verdict if excludes_zero else f"{line.verdict} {p}"
