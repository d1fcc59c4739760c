"""Differences between rows: on the same examples, with intervals and verdicts, and of ablations to their full rows.

Made from the stored predictions. Every system is compared with plain fine-tuning where there is such a row, else with the
teacher; an ablation with its full row, a row of changed settings with the plain one. Holm's adjustment runs over the columns of
one line; its mean is a test of its own. So no verdict depends on the other lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from bench.record.cell import TEACHER
from bench.record.stated import stated
from bench.record.task_facts import row_as_typed
from bench.report.comparison import (
    BORDERLINE,
    MEAN,
    NOT_SIGNIFICANT,
    TOO_FEW_SEEDS,
    Comparison,
    Pair,
    compared,
    comparison_notes,
    judged,
    p_in_words,
    sides_of,
)
from bench.report.groups import ReportGroup, ScoreColumn
from bench.report.resampled import Answers
from bench.report.table import COMPARED, DASH, Column, Line, Table, TableCell, number
from bench.report.tables.parts import keys_of, line_of, sources_of_variance
from bench.stats.power import LEVEL, POWER

SYSTEMS, VARIANTS = "paired comparisons", "variants and ablations"
EACH_OTHER = "compared with each other"
"""The names of the tables' files."""
EACH_WITH_EACH = 3
"""Systems of which each is compared with each; of more, one is compared with the others."""


def reference_of(group: ReportGroup) -> str:
    """The row that full rows are compared with: the group's own reference; else one whose method says that it is to be compared with,
    as it is without settings (plain fine-tuning with the shared start), or the only one with settings; else the teacher; where no
    teacher is scored, the first of several such rows."""
    if group.reference in group.systems:
        return group.reference
    first = {label: group.records_of(label)[0] for label in group.students}
    alone = [
        label
        for label, record in first.items()
        if stated(record.cell.method, "baseline") and not record.point
    ]
    plain = [
        label for label in alone if row_as_typed(first[label].cell) == first[label].cell.method
    ]
    only = alone if len(alone) == 1 and not first[alone[0]].cell.settings.get("encoder") else []
    return next(
        iter([*plain, *only]), TEACHER if TEACHER in group.systems or not alone else alone[0]
    )


def own_row(group: ReportGroup, label: str) -> str:
    """The row that a variant belongs to: an ablation's full row, or a method's plain row for one with changed settings.

    "" for a system of its own.
    """
    cell = group.records_of(label)[0].cell
    if cell.settings.get("encoder"):  # tuned whole: it shares nothing with the method's plain row
        return ""
    return cell.ablation_of or (
        cell.method if cell.label != cell.method and cell.method in group.systems else ""
    )


def systems_compared(group: ReportGroup, answers: Answers) -> Table | None:
    """Systems and a common reference; None where no answers are stored."""
    reference = reference_of(group)
    systems = [
        label for label in group.students if label != reference and not own_row(group, label)
    ]
    title = f"Systems compared with {group.called(reference)}"
    pairs = [(label, reference) for label in systems if reference in group.systems]
    return _compared(title, group, pairs, answers, SYSTEMS)


def variants_compared(group: ReportGroup, answers: Answers) -> Table | None:
    """Variants and ablations, and their own rows; None where no answers are stored."""
    variants = {
        label: own for label in group.systems if (own := own_row(group, label)) in group.systems
    }
    title = "Variants and ablations compared with their own row"
    return _compared(title, group, list(variants.items()), answers, VARIANTS)


def differences_to(group: ReportGroup, full: str, answers: Answers) -> Table | None:
    """Every row of a group compared with one of them, with intervals and verdicts; None where no answers are stored."""
    others = [(label, full) for label in group.students if label != full]
    return _compared(f"Differences to {full}, with intervals", group, others, answers)


def compared_with_each_other(group: ReportGroup, answers: Answers) -> Table | None:
    """The systems that were asked for together, besides the common reference: each with each, or the
    one of the highest mean with the others where they are many.

    Asked for are those that were typed; of a report without an order of rows, all where they are few.
    """
    reference = reference_of(group)
    systems = [
        label for label in group.students if label != reference and not own_row(group, label)
    ]
    asked = [label for label in group.order if label in systems]
    if not group.order and len(systems) <= EACH_WITH_EACH:
        asked = systems
    if len(asked) <= EACH_WITH_EACH:
        pairs = list(combinations(asked, 2))
    else:
        # without verdicts nothing leads: the first one that was typed
        complete = (
            []
            if group.no_verdict
            else [row for row in asked if row in group.complete and not group.is_suspect(row)]
        )
        leader = max(complete, key=lambda row: group.mean_scores[row], default=asked[0])
        pairs = [(leader, row) for row in asked if row != leader]
    return _compared("Systems compared with each other", group, pairs, answers, EACH_OTHER)


def _compared(
    title: str,
    group: ReportGroup,
    rows: Sequence[tuple[str, str]],
    answers: Answers,
    file: str = "",
) -> Table | None:
    """A row's difference to another one, 95 % interval and verdict, by column and on average; None where no answers are stored.

    Args:
        rows: pairs; the second one of each is subtracted.
    """
    averaged = group.averaged
    has_means = len(averaged) > 1
    # None: the mean
    places: list[ScoreColumn | None] = [*group.columns, *([None] if has_means else [])]
    lines, compared_in = [], {place: list[Comparison]() for place in places}
    for label, other in rows:
        keys, results = (
            dict[ScoreColumn | None, tuple[str, ...]](),
            dict[ScoreColumn | None, Comparison](),
        )
        pairs = dict[ScoreColumn, Pair]()
        for column, data in answers.items():
            sides = group.finished(label, column), group.finished(other, column)
            if data.has(sides[0]) and data.has(sides[1]):
                pairs[column] = data, sides_of(*sides)
                results[column] = replace(
                    compared(*pairs[column]),
                    has_seeds_apart=group.has_seeds_apart((label, other), [column]),
                )
                keys[column] = keys_of([*sides[0], *sides[1]])
        if not results:
            continue
        is_whole = has_means and all(column in results for column in averaged)
        in_mean = {
            number: pair
            for number, (column, pair) in enumerate(pairs.items())
            if is_whole and column in averaged
        }
        family = judged(list(results.values()), in_mean)
        tests = sum(not line.no_verdict for line in family if line.task != MEAN)
        results = dict(zip([*results, *([None] if is_whole else [])], family, strict=True))
        keys[None] = tuple(key for own in keys.values() for key in own)
        for place, line in results.items():
            compared_in[place].append(line)
        cells = [TableCell(group.called(other), plain=other), number(tests, "d")]
        cells += [_cell(results.get(place), keys.get(place, ())) for place in places]
        lines.append(line_of(group, label, cells))
    if not lines:
        return None
    least = []
    # the smallest true difference that comparisons like these would find: the median
    for place in places:
        values = [line.least for line in compared_in[place] if line.least is not None]
        empty = number(None) if place or compared_in[place] else TableCell("")
        least.append(number(float(np.median(values))) if values else empty)
    lines.append(Line("min. detectable", [TableCell(""), TableCell(""), *least], row=""))
    columns = [Column("System"), Column("compared with", words=True), Column("tests", digits=0)]
    columns += [
        Column(place.title if place else f"mean of {len(averaged)} differences", csv=COMPARED)
        for place in places
    ]
    single = [line for place, of_place in compared_in.items() if place for line in of_place]
    note = NOTE if any(not line.no_verdict for line in single) else UNTESTED
    notes = [note, *sources_of_variance(group), *comparison_notes(single)]
    return Table(title, columns, lines, notes, file)


def _cell(line: Comparison | None, keys: tuple[str, ...]) -> TableCell:
    """A difference with its interval and verdict; with its p where the interval alone would say something else."""
    if line is None:
        return TableCell(DASH)
    if line.no_verdict:
        return number(
            line.difference,
            "+.1f",
            low=line.low,
            high=line.high,
            n=len(line.seeds) or None,
            keys=keys,
        )
    without_zero, p = line.low > 0 or line.high < 0, f"(p = {p_in_words(line.adjusted)})"
    if line.verdict == NOT_SIGNIFICANT:
        verdict = f"{NOT_SIGNIFICANT} after Holm {p}" if without_zero else NOT_SIGNIFICANT
    elif line.verdict == TOO_FEW_SEEDS:
        verdict = TOO_FEW_SEEDS
    elif line.verdict == BORDERLINE:
        verdict = f"{BORDERLINE} {p}"
    else:
        verdict = line.verdict if without_zero else f"{line.verdict} {p}"
    tested: dict[str, Any] = {
        "p": line.adjusted,
        "alone": line.p,
        "verdict": line.verdict,
        "n": len(line.seeds) or None,
        "keys": keys,
    }
    cell = number(line.difference, "+.1f", low=line.low, high=line.high, **tested)
    return replace(cell, text=f"{cell.text} {verdict}")


INTERVALS = (
    "Differences in points, computed before rounding, with 95 % intervals (paired bootstrap over examples, with Student's t over "
    "several seeds; not adjusted). "
)
LEAST = (
    "Minimum detectable difference: the true difference that such comparisons find in "
    f"{100 * POWER:.0f} of 100 cases (the median of the column). docs/statistics.md explains all this."
)
NOTE = (
    f"{INTERVALS}Test of one seed each: McNemar's (mid-p) for shares of right answers, a permutation test for "
    f"other metrics; else the bootstrap. A verdict needs p below {LEVEL:g} after Holm's adjustment over the tests of its line; the mean is "
    "one test, not adjusted. So an interval can exclude 0 without a verdict. The lines are not adjusted for each other: of 20 rows that "
    f"equal what they are compared with, about one has a verdict all the same. {BORDERLINE.capitalize()}: other resamples may end "
    f"otherwise. {LEAST}"
)
UNTESTED = f"{INTERVALS}{LEAST}"
"""The note of a table without verdicts."""
