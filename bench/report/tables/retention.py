"""Whether a student keeps its teacher's score: ratios with intervals, tested as non-inferiority."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.record.cell import TEACHER
from bench.record.schema import Record
from bench.report import frame
from bench.report.comparison import UNCLEAR
from bench.report.frame import EXACT, Footnote, Frame, FrameLine, TableCell
from bench.report.groups import ReportGroup, ScoreColumn
from bench.report.resampled import Resampled, finished, rng_for, teacher_weights
from bench.report.tables.parts import (
    DASH,
    cheaper,
    keys_of,
    left_out_of_means,
    line_of,
    no_ratio,
    sound_teacher,
    students_of,
)
from bench.report.tables.registry import KEPT, RETENTION, ReportData, table
from bench.stats.metrics import metric_of
from bench.stats.paired import interval, over_seeds

KEEPS, LOSES, REFUSED = "keeps", "loses", "refused"
KEPT_OF_THE_TEACHER = "retention"
"""The name of its files."""


@table(RETENTION, place=40)
def _frames(data: ReportData) -> Iterable[Frame | None]:
    return [retentions(data.group, data.answered, data.kept)]


@dataclass(frozen=True)
class Retention:
    """Student over teacher in percent, with the 95 % interval and the verdict on a margin."""

    ratio: float
    low: float
    high: float
    verdict: str

    def text(self) -> str:
        return f"{self.ratio:.1f} % ({self.low:.1f} to {self.high:.1f}) {self.verdict}"


def retention(student: Sequence[float], teacher: float, samples: np.ndarray, kept: float = KEPT) -> Retention:
    """Non-inferiority: kept if the 95 % interval lies above the margin, lost if below, else the data are inconclusive."""
    low, high = interval(samples[~np.isnan(samples)])
    verdict = KEEPS if low >= kept else LOSES if high < kept else UNCLEAR
    return Retention(100 * float(np.mean(student)) / teacher, 100 * low, 100 * high, verdict)


@dataclass(frozen=True)
class _Kept:
    """What a student keeps in one column."""

    found: Retention
    drawn: np.ndarray
    """[resamples] ratios"""
    student: float
    teacher: float
    """the two scores, as shares"""


def retentions(group: ReportGroup, answered: Mapping[ScoreColumn, Resampled], kept: float = KEPT) -> Frame | None:
    """Retention with intervals, one cell a student and column; behind them the mean of ratios and the ratio of means.

    ``kept`` is the share of the teacher's score that counts as kept. A student whose record names another teacher than
    the one in the table is refused, with the two hashes, unless the store has that teacher's answers to the same examples:
    then its ratio is to that teacher.
    """
    columns = [c for c in group.columns if group.values(TEACHER, c)]
    sound = [c for c in columns if sound_teacher(group, c)]
    students = [_Student(group, answered, label, kept) for label in students_of(group)]
    lines = [line for student in students if (line := student.line(columns, sound)) is not None]
    if not lines:
        return None
    heads = (
        frame.TableColumn("System"),
        *(frame.TableColumn(c.title, csv=EXACT) for c in columns),
        frame.TableColumn("mean of ratios"),
        frame.TableColumn("ratio of means"),
    )
    note = (
        f"The student's score in percent of its own teacher's, with the 95 % interval of a paired bootstrap. "
        f"keeps: the whole interval, before rounding, is above {100 * kept:g} %. loses: the whole interval is below. "
        f"{UNCLEAR}: the interval contains {100 * kept:g} %, so these examples and seeds do not decide. "
        "Mean of ratios: the mean of the columns' ratios. Ratio of means: the student's mean score divided by its "
        "teacher's. These two have no verdict."
    )
    if any(cell.text == REFUSED for line in lines for cell in line.cells):
        note += f" {REFUSED}: not comparable, for the reason in the footnote."
    notes = (note + left_out_of_means(columns, sound),)
    return Frame("Retention with intervals", heads, tuple(lines), notes, file=KEPT_OF_THE_TEACHER)


@dataclass(frozen=True)
class _Student:
    """One line of the table in the making."""

    group: ReportGroup
    answered: Mapping[ScoreColumn, Resampled]
    label: str
    kept: float

    def line(self, columns: Sequence[ScoreColumn], sound: Sequence[ScoreColumn]) -> FrameLine | None:
        """None where nothing is known of the student."""
        found = {c: one for c in sound if (one := self._kept(c)) is not None}
        cells = [self._cell(c, found.get(c), sound) for c in columns]
        if all(cell.text == DASH and not cell.footnotes for cell in cells):
            return None
        whole = list(found.values()) if len(found) == len(sound) > 1 else []
        return line_of(self.group, self.label, [*cells, *_means(whole)])

    def _sides(self, column: ScoreColumn) -> tuple[list[Record], list[Record]]:
        return finished(self.group, self.label, column), finished(self.group, TEACHER, column)

    def _refused(self, column: ScoreColumn) -> str:
        return _refusal(self.label, column, *self._sides(column), self.answered.get(column))

    def _kept(self, column: ScoreColumn) -> _Kept | None:
        """None where there is no ratio."""
        own, theirs = self._sides(column)
        data = self.answered.get(column)
        if data is None or not (data.has(own) and data.has(theirs)):
            return None
        if self._refused(column) or not cheaper(self.group, self.label):
            return None
        teacher, teacher_R = _teacher_seen(own, theirs[0], column, data)
        # `sound_teacher` checked the teacher of the table; this may be another training of it
        if teacher <= 0:
            return None
        teacher_R = np.where(teacher_R > 0, teacher_R, np.nan)
        ratio_RS = data.stacked(own) / teacher_R[:, None]
        spread = over_seeds(ratio_RS, (ratio_RS,), rng_for(column, "ratio", self.label, TEACHER))
        drawn = metric_of(column.metric).possible_ratios(spread, teacher_R)
        scores = [record.scores[column.evaluation][column.metric] for record in own]
        return _Kept(retention(scores, teacher, drawn, self.kept), drawn, float(np.mean(scores)), teacher)

    def _cell(self, column: ScoreColumn, one: _Kept | None, sound: Sequence[ScoreColumn]) -> TableCell:
        own, theirs = self._sides(column)
        if refused := self._refused(column):
            return TableCell(REFUSED, footnotes=(Footnote(refused),))
        if own and cheaper(self.group, self.label) and column not in sound:
            return no_ratio(self.group, column)
        if one is None:
            return TableCell(DASH)
        found = one.found
        return TableCell(
            found.text(),
            value=found.ratio,
            low=found.low,
            high=found.high,
            n=len(own),
            keys=keys_of([*own, *theirs]),
            verdict=found.verdict,
        )


def _means(whole: Sequence[_Kept]) -> tuple[TableCell, TableCell]:
    """The mean of ratios and the ratio of means, of a student that has all of several columns."""
    if not whole:
        return TableCell(DASH), TableCell(DASH)
    ratio = float(np.mean([100 * one.student / one.teacher for one in whole]))
    drawn = np.stack([one.drawn for one in whole])
    # a resample in which the teacher has no score above 0 in any column has no ratio
    drawn = np.compress(~np.isnan(drawn).all(0), drawn, axis=1)
    low, high = (100 * bound for bound in interval(np.nanmean(drawn, axis=0)))
    of_means = 100 * sum(one.student for one in whole) / sum(one.teacher for one in whole)
    return (
        TableCell(f"{ratio:.1f} % ({low:.1f} to {high:.1f})", value=ratio, low=low, high=high),
        TableCell(f"{of_means:.1f} %", value=of_means),
    )


def _refusal(
    label: str, column: ScoreColumn, own: Sequence[Record], theirs: Sequence[Record], data: Resampled | None
) -> str:
    """Why a ratio would mean nothing: another teacher, or other examples; "" where it means something."""
    other = next(((record, teacher) for record in own for teacher in theirs if not same_teacher(record, teacher)), None)
    if other is not None and not _further_teacher(own, data):
        hashes = " and ".join(str(teacher_weights(record))[:12] for record in other)
        return f"{label}, {column.title}: trained from another teacher ({hashes})"
    if data is not None and any(record.key in data.others for record in (*own, *theirs)):
        return f"{label}, {column.title}: scored on other examples than the rest of the column"
    return ""


def _further_teacher(own: Sequence[Record], data: Resampled | None) -> str:
    """The weights that all these students name, where they are of a further training of the teacher; else ""."""
    named = {teacher_weights(record) for record in own}
    weights = named.pop() if len(named) == 1 else None
    return weights if weights and data is not None and weights in data.teachers else ""


def _teacher_seen(
    own: Sequence[Record], shown: Record, column: ScoreColumn, data: Resampled
) -> tuple[float, np.ndarray]:
    """Score and [resamples] scores of the teacher that these students learned from."""
    if further := _further_teacher(own, data):
        return data.teachers[further]
    return shown.scores[column.evaluation][column.metric], data.scores_R[shown.key]


def same_teacher(student: Record, teacher: Record) -> bool:
    """Whether both records name the same teacher: by its weights where both do, else by its key."""
    own, theirs = teacher_weights(student), teacher_weights(teacher)
    if own and theirs:
        return own == theirs
    return student.cell.teacher.key == teacher.cell.teacher.key
