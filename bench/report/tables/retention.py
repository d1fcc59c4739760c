"""The share of its teacher's score that each student reaches; and whether it keeps it: tested as non-inferiority."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bench.record.cell import TEACHER
from bench.record.schema import Record
from bench.report.comparison import BORDERLINE, UNCLEAR
from bench.report.frame import same_teacher, teacher_weights
from bench.report.groups import KEPT, ReportGroup, ScoreColumn
from bench.report.resampled import Answers, Resampled, rng_for
from bench.report.table import DASH, INTERVAL, JUDGED, Column, Line, Table, TableCell, number
from bench.report.tables.parts import (
    cheaper,
    counted,
    keys_of,
    left_out_of_means,
    line_of,
    missing,
    no_ratio,
    sound_teacher,
    students_of,
    teacher_score,
)
from bench.stats.metrics import metric_of
from bench.stats.paired import interval, is_near, over_seeds
from bench.stats.power import LEVEL
from bench.stats.summary import summarise

KEEPS, LOSES, REFUSED = "keeps", "loses", "refused"
KEPT_OF_THE_TEACHER = "retention"
"""The name of the files of the table with intervals."""


def reappearance(group: ReportGroup) -> Table | None:
    """Student / teacher in percent, per column and as the mean of the ratios. Needs the teacher's record."""
    columns = [c for c in group.columns if group.values(TEACHER, c)]
    students = students_of(group)
    if not columns or not students:
        return None
    sound = [c for c in columns if sound_teacher(group, c)]
    teacher = {c: teacher_score(group, c) for c in columns}
    mean = summarise([teacher[c] for c in sound]).mean if sound else None
    lines = [Line(TEACHER, [*map(number, teacher.values()), number(mean)])]
    for label in students:
        own = {c: group.summaries[label, c].mean for c in columns if (label, c) in group.summaries}
        scores = [number(own[c]) if c in own else missing(group, label, c) for c in columns]
        lines.append(Line(label, [*scores, TableCell("")], group.called(label), only="markdown"))
        ratios = {c: 100 * own[c] / teacher[c] for c in sound if c in own}
        notes: tuple[str, ...] = ()
        if ratios and not cheaper(group, label):
            why = "needs at least as many FLOPs as its teacher, so it is not a compressed model and has no retention"
            notes, cells = (f"{label} {why}",), [TableCell(DASH) for _ in range(len(columns) + 1)]
        else:
            cells = [
                no_ratio(group, c) if c in own and c not in ratios else number(ratios.get(c), unit=" %")
                for c in columns
            ]
            is_whole = len(ratios) == len(sound) > 0
            cells.append(number(summarise(list(ratios.values())).mean if is_whole else None, unit=" %"))
        name, called = f"{label}, % of teacher", f"{group.called(label)}, % of teacher"
        lines.append(Line(name, cells, called, notes, row=label, continues=True))
    note = (
        "The student's score divided by the teacher's score of the first line, on the same development set and by the same metric. "
        "The last column is the mean of the ratios (in the teacher's row: the mean of its scores). A "
        "student of another training of that teacher is divided by that training's score in the table with intervals."
    ) + left_out_of_means(columns, sound)
    heads = map(Column, ("System", *(c.title for c in columns), f"mean of {counted(len(sound), 'ratio')}"))
    return Table("Share of the teacher's score", [*heads], lines, (note,), "reappearance")


def retention(student: Sequence[float], teacher: float, samples: np.ndarray, kept: float = KEPT) -> TableCell:
    """Non-inferiority: kept if the 95 % interval lies above the margin, lost if below, else the data are inconclusive."""
    samples = samples[~np.isnan(samples)]
    low, high = interval(samples)
    verdict = KEEPS if low >= kept else LOSES if high < kept else UNCLEAR
    below = float(np.mean(samples < kept))
    if is_near(below, LEVEL / 2, len(samples)) or is_near(below, 1 - LEVEL / 2, len(samples)):
        verdict = BORDERLINE
    ratio, low, high = 100 * float(np.mean(student)) / teacher, 100 * low, 100 * high
    return TableCell(f"{ratio:.1f} % ({low:.1f} to {high:.1f}) {verdict}", ratio, low, high, verdict=verdict)


def retentions(group: ReportGroup, answers: Answers, kept: float = KEPT) -> Table | None:
    """Retention with intervals, one cell a student and column; behind them the mean of ratios and the ratio of means.

    ``kept`` is the share of the teacher's score that counts as kept. A student whose record names another teacher than
    the one in the table is refused, with the two hashes, unless the store has that teacher's answers to the same examples:
    then its ratio is to that teacher.
    """
    columns = [c for c in group.columns if group.values(TEACHER, c)]
    sound = [c for c in columns if sound_teacher(group, c)]
    lines = []
    for label in students_of(group):
        cells, drawn, scores = [], [], []
        for column in columns:
            own, theirs, data = group.finished(label, column), group.finished(TEACHER, column), answers.get(column)
            if refused := _refusal(label, column, own, theirs, data):
                cells.append(TableCell(REFUSED, footnotes=(refused,)))
                continue
            if column not in sound:
                cells.append(no_ratio(group, column) if own and cheaper(group, label) else TableCell(DASH))
                continue
            cells.append(TableCell(DASH))
            if data is None or not (data.has(own) and data.has(theirs)) or not cheaper(group, label):
                continue

            # the teacher that these students learned from; `sound_teacher` checked that of the table, this may be another training
            further = _further_teacher(own, data)
            teacher = data.teachers[further][0] if further else theirs[0].scores[column.evaluation][column.metric]
            if teacher <= 0:
                continue
            teacher_R = data.teachers[further][1] if further else data.scores_R[theirs[0].key]
            teacher_R = np.where(teacher_R > 0, teacher_R, np.nan)
            ratio_RS = data.stacked(own) / teacher_R[:, None]
            spread = over_seeds(ratio_RS, (ratio_RS,), rng_for(column, "ratio", label, TEACHER))
            drawn.append(metric_of(column.metric).possible_ratios(spread, teacher_R))
            of_seeds = [record.scores[column.evaluation][column.metric] for record in own]
            cell = retention(of_seeds, teacher, drawn[-1], kept)
            cells[-1] = replace(cell, n=len(own), keys=keys_of([*own, *theirs]))
            scores.append((float(np.mean(of_seeds)), teacher))
        if all(cell.text == DASH and not cell.footnotes for cell in cells):
            continue
        lines.append(
            line_of(group, label, [*cells, *(_means(scores, drawn) if len(drawn) == len(sound) > 1 else DASHES)])
        )
    if not lines:
        return None
    note = (
        f"The student's score in percent of its own teacher's, with the 95 % interval of a paired bootstrap. "
        f"keeps: the whole interval, before rounding, is above {100 * kept:g} %. loses: the whole interval is below. "
        f"{UNCLEAR}: the interval contains {100 * kept:g} %, so these examples and seeds do not decide. "
        f"{BORDERLINE}: other resamples may end otherwise. "
        "Mean of ratios: the mean of the columns' ratios. Ratio of means: the student's mean score divided by its "
        "teacher's. These two have no verdict."
    )
    heads = [
        *(Column(c.title, csv=JUDGED) for c in columns),
        Column("mean of ratios", csv=INTERVAL),
        Column("ratio of means"),
    ]
    notes = (note + left_out_of_means(columns, sound),)
    return Table("Retention with intervals", [Column("System"), *heads], lines, notes, KEPT_OF_THE_TEACHER)


DASHES = (TableCell(DASH), TableCell(DASH))


def _means(scores: Sequence[tuple[float, float]], drawn: Sequence[np.ndarray]) -> tuple[TableCell, TableCell]:
    """The mean of ratios and the ratio of means, of a student's and its teacher's scores in several columns."""
    ratio = float(np.mean([100 * student / teacher for student, teacher in scores]))
    drawn_CR = np.stack(drawn)
    # a resample in which the teacher has no score above 0 in any column has no ratio
    drawn_CR = np.compress(~np.isnan(drawn_CR).all(0), drawn_CR, axis=1)
    low, high = (100 * bound for bound in interval(np.nanmean(drawn_CR, axis=0)))
    of_means = 100 * sum(student for student, _ in scores) / sum(teacher for _, teacher in scores)
    return TableCell(f"{ratio:.1f} % ({low:.1f} to {high:.1f})", ratio, low, high), number(of_means, unit=" %")


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
