"""Retention: a student's score in percent of its teacher's; and whether it keeps it, tested as
non-inferiority. No torch.

The retention of several columns is the mean of theirs, as the field's tables of reappearance
percent have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bench.record.cell import TEACHER, is_one_model
from bench.record.schema import Record
from bench.report.paired_rows import BORDERLINE, TOO_FEW_SEEDS
from bench.report.resampled import Resampled
from bench.report.score_column import ScoreColumn, why_no_verdict
from bench.report.study import KEPT, RetainedRow, Study
from bench.report.table import DASH, TableCell, number
from bench.report.teachers import teacher_weights, teachers_of
from bench.stats.distribution import Distribution
from bench.stats.metrics import metric_of
from bench.stats.paired import Resamples, mean_over_columns, over_seeds
from bench.stats.power import LEVEL

KEEPS = "keeps"
LOSES = "loses"
INCONCLUSIVE = "inconclusive"
REFUSED = "refused"
SUSPECT_TEACHER = "the answers of the teacher are suspect, see its notes in the results"


def retention(share: float, drawn: Distribution, kept: float = KEPT) -> TableCell:
    """Non-inferiority: kept if the 95 % interval lies above the margin, lost if below, else the
    data are inconclusive.

    Args:
        share: the student's score as a share of its teacher's.
        drawn: that, as other examples and trainings would give it.
    """
    low, high = drawn.interval()
    verdict = INCONCLUSIVE
    if low >= kept:
        verdict = KEEPS
    elif high < kept:
        verdict = LOSES
    # close to the limit another draw of the examples may decide otherwise
    below = drawn.below(kept)
    distance = min(abs(below - LEVEL / 2), abs(below - (1 - LEVEL / 2)))
    if distance < LEVEL / 4:
        error = drawn.error_of(lambda own: own.below(kept))
        verdict = BORDERLINE if distance < 2 * error else verdict
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
        """The share as other examples and trainings would give it."""
        return self.part.distribution().within(*self.ends)


def recorded_teachers(data: Resampled, records: Sequence[Record]) -> list[Teacher]:
    """The scores of teachers with stored predictions: one where all are the same."""
    scores = _scores(records, data.column)
    resampled = [data.scores_R[record.key] for record in records]
    pairs = zip(scores, resampled, strict=True)
    teachers = [Teacher(score, score_R) for score, score_R in pairs]
    is_shared = len({record.key for record in records}) == 1
    return teachers[:1] if is_shared else teachers


def share_of(data: Resampled, own: Sequence[Record], teachers: Sequence[Teacher]) -> Share:
    """The share of a row in one column.

    Args:
        own: its records, one for each seed.
        teachers: the one of all seeds, or that of each; their scores are above 0. On a resample
            where one is not above 0 there is no share.
    """
    column = data.column
    scores = _scores(own, column)
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


def _scores(records: Sequence[Record], column: ScoreColumn) -> list[float]:
    """The scores of records in a column, as shares."""
    return [record.scores[column.evaluation][column.metric] for record in records]


def mean_share(shares: Sequence[Share]) -> float:
    """The mean of the columns' shares, in percent."""
    return float(np.mean([100 * share.value for share in shares]))


def ends_of(shares: Sequence[Share]) -> tuple[float, float]:
    """The 95 % interval of the mean of the columns' shares, in percent."""
    ends = np.mean([share.ends for share in shares], axis=0)
    # a resample in which the teacher has no score above 0 in any column has no ratio
    drawn = mean_over_columns([(share.task, share.part) for share in shares]).distribution()
    return drawn.within(*ends).times(100).interval()


def scored_by_teacher(study: Study) -> list[ScoreColumn]:
    """The columns that the teacher has a score in."""
    return [column for column in study.columns if study.values(TEACHER, column)]


def columns_without_ratio(study: Study) -> dict[ScoreColumn, str]:
    """The columns in which a share of the teacher's score says nothing -> why."""
    reasons: dict[ScoreColumn, str] = {}
    for column in scored_by_teacher(study):
        score = study.summaries[TEACHER, column].mean
        place = (TEACHER, column)
        if study.suspicions.get(place) and place not in study.partly_suspect:
            reasons[column] = SUSPECT_TEACHER
        elif not score > 0:
            reasons[column] = f"the teacher scores {score:.1f}"
    return reasons


def retained_rows(study: Study) -> dict[str, RetainedRow]:
    """Student -> its retention in each column, and their mean; of students that have some.

    A student whose record names another teacher than the study's is refused, with the two hashes,
    unless the store has that teacher's predictions: then its ratio is to that teacher. Without a
    share of any column, or a reason to print there, a student is left out.
    """
    scored = scored_by_teacher(study)
    unsound = columns_without_ratio(study)
    averaged = [c for c in scored if c not in unsound and c in study.averaged]
    rows: dict[str, RetainedRow] = {}
    for label in study.full_students:
        cells: dict[ScoreColumn, TableCell] = {}
        shares: list[Share] = []
        for column in scored:
            cells[column], share = _retained(study, label, column, unsound)
            if share is not None and column in averaged:
                shares.append(share)
        if any(cell.text != DASH or cell.footnotes for cell in cells.values()):
            mean = TableCell(DASH)
            if len(shares) == len(averaged) > 1:
                low, high = ends_of(shares)
                mean = number(mean_share(shares), unit=" %", low=low, high=high)
            rows[label] = RetainedRow(cells, mean)
    return rows


def _retained(
    study: Study, label: str, column: ScoreColumn, unsound: Mapping[ScoreColumn, str]
) -> tuple[TableCell, Share | None]:
    """The retention of a student in a column; a dash, or ``refused``, where it has no share."""
    data = study.answers.get(column)
    own = study.finished(label, column)
    theirs = study.finished(TEACHER, column)

    # the teachers that it learned from: of the study, or a further training of the study's
    taught_by = teachers_of(own, theirs)
    further = _further_teacher(data, own)
    if own and theirs and not taught_by and further is None:
        return _refused(label, column, own, theirs), None

    # no share without a sound score of the teacher, and none of a student that is not cheaper
    if not _is_cheaper(study, label):
        return TableCell(DASH), None
    if column in unsound:
        why = f"{column.title}: {unsound[column]}; a ratio to it means nothing"
        return TableCell(DASH, footnotes=(why,) if own else ()), None
    if data is None or not data.has(own) or not data.has(theirs):
        return TableCell(DASH), None
    teachers = [further] if further else recorded_teachers(data, taught_by)
    if not all(teacher.score > 0 for teacher in teachers):
        return TableCell(DASH), None

    share = share_of(data, own, teachers)
    cell = retention(share.value, share.distribution(), study.kept)
    cell = _with_sound_verdict(study, label, column, cell)
    keys = tuple(record.key for record in (*own, *theirs))
    return replace(cell, n=len(own), keys=keys), share


def _further_teacher(data: Resampled | None, own: Sequence[Record]) -> Teacher | None:
    """The further training of the study's teacher that all these students name; None without."""
    named = {teacher_weights(record) for record in own}
    if data is None or len(named) != 1:
        return None
    further = data.teachers.get(str(named.pop()))
    return None if further is None else Teacher(*further)


def _refused(
    label: str, column: ScoreColumn, own: Sequence[Record], theirs: Sequence[Record]
) -> TableCell:
    """The cell of a student that was trained from another teacher."""
    other = next(record for record in own if not teachers_of([record], theirs))
    hashes = f"{str(teacher_weights(other))[:12]} and {str(teacher_weights(theirs[0]))[:12]}"
    why = f"{label}, {column.title}: trained from another teacher ({hashes})"
    return TableCell(REFUSED, footnotes=(why,))


def _is_cheaper(study: Study, label: str) -> bool:
    """Whether a student's FLOPs are below its teacher's: without that no retention is printed.

    Of one whose sequences leave early, averaged over the exits that they took.
    """
    own = [r.sizes.flops for r in study.records_of(label) if r.sizes]
    teacher = [r.sizes.flops for r in study.records_of(TEACHER) if r.sizes]
    return bool(own and teacher) and min(own) < min(teacher)


def _with_sound_verdict(
    study: Study, label: str, column: ScoreColumn, cell: TableCell
) -> TableCell:
    """A share with the verdict that its seeds and predictions allow, or with none."""
    text = cell.text.removesuffix(f" {cell.verdict}")
    # seeds that end in results of several kinds
    if study.has_seeds_apart([label], [column]):
        cell = replace(cell, text=f"{text} {TOO_FEW_SEEDS}", verdict=TOO_FEW_SEEDS)
    # a constant prediction keeps a teacher that is no better
    is_suspect = cell.verdict == KEEPS and study.suspicions.get((label, column))
    records = study.finished(label, column)
    seeds = None if is_one_model(records[0].cell) else len(records)
    if column in study.noise or is_suspect or why_no_verdict(column.data, seeds):
        return replace(cell, text=text, verdict="")
    return cell
