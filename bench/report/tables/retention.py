"""Retention: a student's score in percent of its teacher's; and whether it keeps it, tested as non-inferiority.

The retention of several columns is the mean of theirs, as the field's tables of reappearance percent have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bench.record.cell import TEACHER, is_one_model
from bench.record.schema import Record
from bench.report.comparison import BORDERLINE, TOO_FEW_SEEDS, not_shown_better
from bench.report.frame import teacher_weights, teachers_of
from bench.report.groups import KEPT, ReportGroup, ScoreColumn, why_no_verdict
from bench.report.resampled import Answers, Resampled
from bench.report.table import DASH, INTERVAL, JUDGED, Column, Line, Table, TableCell, number
from bench.report.tables.parts import (
    keys_of,
    left_out_of_means,
    line_of,
    listed,
    sources_of_variance,
    students_of,
)
from bench.stats.distribution import Distribution
from bench.stats.metrics import metric_of
from bench.stats.paired import Resamples, mean_over_columns, over_seeds
from bench.stats.power import LEVEL

KEEPS, LOSES, INCONCLUSIVE, REFUSED = "keeps", "loses", "inconclusive", "refused"
KEPT_OF_THE_TEACHER = "retention"
"""The name of the table's files."""


def _teacher(group: ReportGroup) -> tuple[dict[ScoreColumn, float], dict[ScoreColumn, str], str]:
    """The teacher's score in each column that it has, in percent; the columns in which a share of it says nothing, and why; and a
    sentence that names those."""
    scored = {
        c: group.summaries[TEACHER, c].mean for c in group.columns if group.values(TEACHER, c)
    }
    unsound = {c: f"the teacher scores {score:.1f}" for c, score in scored.items() if not score > 0}
    for c in scored:
        if group.suspicions.get((TEACHER, c)) and (TEACHER, c) not in group.partly_suspect:
            unsound[c] = "the answers of the teacher are suspect, see its notes in the results"
    names = [c.name for c in scored if c in unsound]
    which = f"{listed(names)}, which {'has' if len(names) == 1 else 'have'} no ratio"
    reasons = {c: f"{c.title}: {why}; a ratio to it means nothing" for c, why in unsound.items()}
    left_out = f" All means of this table leave out {which}." if names else ""
    return (
        scored,
        reasons,
        left_out + (f" {left_out_of_means(group)}" if group.left_out_of_means else ""),
    )


def _is_cheaper(group: ReportGroup, label: str) -> bool:
    """Whether a student's FLOPs are below its teacher's: without that no retention is printed.

    Of one whose sequences leave early, averaged over the exits that they took.
    """
    own, teacher = (
        [r.sizes.flops for r in group.records_of(row) if r.sizes] for row in (label, TEACHER)
    )
    return bool(own and teacher and min(own) < min(teacher))


def retention(share: float, drawn: Distribution, kept: float = KEPT) -> TableCell:
    """Non-inferiority: kept if the 95 % interval lies above the margin, lost if below, else the
    data are inconclusive.

    Args:
        share: the student's score as a share of its teacher's.
        drawn: that, as other examples and trainings would give it.
    """
    low, high = drawn.interval()
    verdict = KEEPS if low >= kept else LOSES if high < kept else INCONCLUSIVE
    below = drawn.below(kept)
    limit = min(LEVEL / 2, 1 - LEVEL / 2, key=lambda share: abs(below - share))
    # so far from the limit no draw of the examples would decide otherwise
    if abs(below - limit) < LEVEL / 4:
        error = drawn.error_of(lambda own: own.below(kept))
        verdict = BORDERLINE if abs(below - limit) < 2 * error else verdict
    cell = number(
        100 * share,
        unit=" %",
        low=100 * low,
        high=100 * high,
        verdict=verdict,
    )
    return replace(cell, text=f"{cell.text} {verdict}")


class Teacher(NamedTuple):
    """A teacher's score in one column, and that on each resample of the examples."""

    score: float
    score_R: np.ndarray


@dataclass(frozen=True)
class Share:
    """A student's score as a share of its teacher's in one column.

    Attributes:
        task: of the column, whose trainings it has.
        value: of all its seeds and examples.
        part: it on each resample, and the variance that other trainings give it.
        ends: the least and the largest that its metric allows.
    """

    task: str
    value: float
    part: Resamples
    ends: tuple[float, float]

    def distribution(self) -> Distribution:
        return self.part.distribution().within(*self.ends)


def recorded_teachers(data: Resampled, records: Sequence[Record]) -> list[Teacher]:
    """The scores of teachers that have records with stored answers."""
    column = data.column
    teachers = []
    for record in records:
        score = record.scores[column.evaluation][column.metric]
        teachers.append(Teacher(score, data.scores_R[record.key]))
    return teachers


def share_of(data: Resampled, own: Sequence[Record], teachers: Sequence[Teacher]) -> Share:
    """The share of a row in one column.

    Args:
        own: its records, one for each seed.
        teachers: the one of all seeds, or that of each; their scores are above 0. On a resample
            where one is not above 0 there is no share.
    """
    column = data.column
    scores = [record.scores[column.evaluation][column.metric] for record in own]
    if len(teachers) == 1:
        value = float(np.mean(scores)) / teachers[0].score
    else:
        pairs = zip(scores, teachers, strict=True)
        value = float(np.mean([score / teacher.score for score, teacher in pairs]))
    # one column of teachers, or one for each seed
    taught_RS = np.stack([teacher.score_R for teacher in teachers], 1)
    taught_RS = np.where(taught_RS > 0, taught_RS, np.nan)
    ratio_RS = data.stacked(own) / taught_RS
    return Share(
        column.task,
        value,
        over_seeds(ratio_RS, ratio_RS),
        metric_of(column.metric).possible_ratios(taught_RS),
    )


def mean_share(shares: Sequence[Share]) -> float:
    """The mean of the columns' shares, in percent."""
    return float(np.mean([100 * share.value for share in shares]))


def ends_of(shares: Sequence[Share]) -> tuple[float, float]:
    """The 95 % interval of the mean of the columns' shares, in percent."""
    ends = np.mean([share.ends for share in shares], axis=0)
    # a resample in which the teacher has no score above 0 in any column has no ratio
    drawn = mean_over_columns([(share.task, share.part) for share in shares]).distribution()
    return drawn.within(*ends).times(100).interval()


def retentions(group: ReportGroup, answers: Answers, kept: float = KEPT) -> Table | None:
    """One cell a student and column, with its interval; behind them their mean.

    ``kept`` is the share of the teacher's score that counts as kept. A student whose record names another teacher than
    the one in the table is refused, with the two hashes, unless the store has that teacher's answers to the same examples:
    then its ratio is to that teacher.
    """
    (scored, unsound, left_out), lines = _teacher(group), []
    averaged = [column for column in scored if column not in unsound and column in group.averaged]
    noise = not_shown_better(group, answers)
    for label in students_of(group):
        is_cheaper = _is_cheaper(group, label)
        cells = list[TableCell]()
        # of the columns of the mean
        shares = list[Share]()
        for column in scored:
            own, theirs, data = (
                group.finished(label, column),
                group.finished(TEACHER, column),
                answers.get(column),
            )
            taught_by = teachers_of(own, theirs)
            # or from a further training of the table's teacher, which `unsound` is of
            named = {teacher_weights(record) for record in own}
            further = (
                data.teachers.get(str(*named)) if data is not None and len(named) == 1 else None
            )
            cells.append(TableCell(DASH))
            if own and theirs and not taught_by and further is None:
                other = next(r for r in own if not teachers_of([r], theirs))
                hashes = " and ".join(str(teacher_weights(r))[:12] for r in (other, theirs[0]))
                refused = f"{label}, {column.title}: trained from another teacher ({hashes})"
                cells[-1] = TableCell(REFUSED, footnotes=(refused,))
            elif column in unsound:
                cells[-1] = TableCell(
                    DASH, footnotes=(unsound[column],) if own and is_cheaper else ()
                )
            elif data is not None and data.has(own) and data.has(theirs) and is_cheaper:
                teachers = [Teacher(*further)] if further else recorded_teachers(data, taught_by)
                if all(teacher.score > 0 for teacher in teachers):
                    share = share_of(data, own, teachers)
                    cell = retention(share.value, share.distribution(), kept)
                    if group.has_seeds_apart([label], [column]):
                        plain = cell.text.removesuffix(cell.verdict)
                        cell = replace(cell, text=plain + TOO_FEW_SEEDS, verdict=TOO_FEW_SEEDS)
                    is_suspect = cell.verdict == KEEPS and group.suspicions.get((label, column))
                    # a constant answer keeps a teacher that is no better
                    seeds = None if is_one_model(own[0].cell) else len(own)
                    if column in noise or is_suspect or why_no_verdict(column.data, seeds):
                        cell = replace(
                            cell, text=cell.text.removesuffix(f" {cell.verdict}"), verdict=""
                        )
                    cells[-1] = replace(cell, n=len(own), keys=keys_of([*own, *theirs]))
                    if column in averaged:
                        shares.append(share)
        if any(cell.text != DASH or cell.footnotes for cell in cells):
            mean = TableCell(DASH)
            if len(shares) == len(averaged) > 1:
                low, high = ends_of(shares)
                mean = number(mean_share(shares), unit=" %", low=low, high=high)
            lines.append(line_of(group, label, [*cells, mean]))
    if not lines:
        return None
    note = (
        "The student's score in percent of its own teacher's, with the 95 % interval of a paired bootstrap. "
        f"{_on_verdicts(group, lines, kept)} "
        "The mean retention is the mean of the columns', without a verdict. Rows that need at least as many FLOPs as their teacher are "
        "no compressed models, and not here."
    )
    if any(cell.verdict == TOO_FEW_SEEDS for line in lines for cell in line.cells):
        note += f" {TOO_FEW_SEEDS.capitalize()}: the row's seeds end in results of several kinds."
    heads = [Column("System"), *(Column(c.title, csv=JUDGED) for c in scored)]
    heads += [Column("mean retention", csv=INTERVAL)]
    notes = (note + left_out, *sources_of_variance(group))
    return Table("Retention", heads, lines, notes, KEPT_OF_THE_TEACHER, margin=kept)


def _on_verdicts(group: ReportGroup, lines: Sequence[Line], kept: float) -> str:
    """What the verdicts of these lines mean; or why they have none."""
    if group.no_verdict and not any(cell.verdict for line in lines for cell in line.cells):
        return group.no_verdict
    return (
        f"keeps: the whole interval, before rounding, is above {100 * kept:g} %. loses: the whole interval is below. "
        f"{INCONCLUSIVE}: the interval contains {100 * kept:g} %, so these examples and seeds do not decide. "
        f"{BORDERLINE}: other resamples may end otherwise. No verdict: the teacher is not shown to be better than one answer to everything, or "
        "suspect answers would keep it; or the data are generated, or there is one seed."
    )
