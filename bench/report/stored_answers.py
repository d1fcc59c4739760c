"""The stored predictions of a study: what is suspect about them, what the best constant prediction
scores, and their scores on resampled examples. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.record.cell import TEACHER
from bench.record.rescored import score_of
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.resampled import Resampled, resampled
from bench.report.score_column import ScoreColumn
from bench.report.study import Place, Study
from bench.report.teachers import teacher_weights
from bench.stats.guards import Suspicion, suspicions
from bench.stats.metrics import metric_of


def resample(study: Study, store: Store) -> dict[ScoreColumn, Resampled]:
    """The stored predictions of the study's records; columns without any are left out."""
    columns: dict[ScoreColumn, Resampled] = {}
    for column in study.columns:
        answers: list[tuple[Record, Mapping[str, np.ndarray]]] = []
        for label in study.systems:
            for record in study.finished(label, column):
                arrays = store.stored_predictions(record)
                if arrays is not None:
                    answers.append((record, arrays))
        if not answers:
            continue
        data = resampled(column, answers)
        teachers = _further_teachers(data, [record for record, _ in answers], store)
        columns[column] = replace(data, teachers=teachers)
    return columns


def _further_teachers(
    data: Resampled, answered: Sequence[Record], store: Store
) -> dict[str, tuple[float, np.ndarray]]:
    """Further trainings of the teacher, that a student names and that are not the current one.

    Args:
        answered: the records whose predictions these are.

    Returns:
        sha256 of the weights -> the score and its [resamples] scores.
    """
    shown = [r for r in answered if r.row == TEACHER and data.has([r])]
    if len(shown) != 1:
        return {}
    named = {teacher_weights(r) for r in answered} - {None, teacher_weights(shown[0])}
    if not named:
        return {}
    column = data.column
    teachers: dict[str, tuple[float, np.ndarray]] = {}
    for name, attempt in store.attempts(shown[0]).items():
        weights = teacher_weights(attempt)
        if weights in named and column.evaluation in attempt.scores:
            arrays = store.predictions(attempt, name)
            score = score_of(attempt, arrays, column.evaluation, column.metric)
            drawn = resampled(column, [(attempt, arrays)])
            teachers[str(weights)] = (score, drawn.scores_R[attempt.key])
    return teachers


Stored = Mapping[str, Mapping[str, np.ndarray]]
"""Key of a record -> its predictions, as a store has them."""


def stored_answers(study: Study, store: Store) -> Stored:
    """The predictions of the study's finished records; a record without them is left out."""
    stored: dict[str, Mapping[str, np.ndarray]] = {}
    for record in study.records:
        arrays = store.stored_predictions(record) if record.status == "ok" else None
        if arrays is not None:
            stored[record.key] = arrays
    return stored


def _answers_in(
    study: Study, column: ScoreColumn, stored: Stored
) -> Iterator[tuple[Record, np.ndarray, np.ndarray]]:
    """Record, logits and labels of all stored predictions in a column."""
    for label in study.systems:
        for record in study.finished(label, column):
            if record.key in stored:
                arrays = stored[record.key]
                logits = arrays[f"logits.{column.evaluation}"]
                yield record, logits, arrays[f"labels.{column.evaluation}"]


Faults = dict[Place, dict[str, dict[int, Suspicion]]]
"""(row, column) -> what is wrong with its predictions -> seed -> how it shows there"""


def faults_of(study: Study, stored: Stored) -> Faults:
    """What is suspect about the stored predictions of each row and column, by the column's own
    metric."""
    faults: Faults = {}
    for column in study.columns:
        for record, logits, labels in _answers_in(study, column, stored):
            for suspicion in suspicions(logits, labels, record.task.labels or (), column.metric):
                in_column = faults.setdefault((record.row, column), {})
                in_column.setdefault(suspicion.what, {})[record.cell.seed] = suspicion
    return faults


def faults_of_all(faults: Faults, place: Place) -> dict[str, dict[int, Suspicion]]:
    """Those of a row in a column that concern all its predictions, not some classes alone."""
    concerning_all = {}
    for what, of_seed in faults.get(place, {}).items():
        if not next(iter(of_seed.values())).is_partial:
            concerning_all[what] = of_seed
    return concerning_all


@dataclass(frozen=True)
class Judged:
    """What is suspect about stored predictions.

    Attributes:
        suspicions: (row, column) -> a line for each fault; one text for all rows that have it.
        partly_suspect: the (row, column) whose suspicions are of some classes alone.
        baselines: column -> percent that the best constant prediction scores.
    """

    suspicions: Mapping[Place, Sequence[str]]
    partly_suspect: Sequence[Place]
    baselines: Mapping[ScoreColumn, float]


def judge(study: Study, store: Store) -> Judged:
    """What is suspect about the stored predictions of a study, and what the best constant
    prediction scores."""
    stored = stored_answers(study, store)
    faults = faults_of(study, stored)

    # one line a fault of a column, which names every row and seed that has it
    number = {label: i for i, label in enumerate(study.systems)}
    rows_with: dict[tuple[ScoreColumn, str], dict[str, str]] = {}
    for label, column in sorted(faults, key=lambda place: number[place[0]]):
        for what, of_seed in faults[label, column].items():
            seeds = f"{label}, {seeds_in_words(of_seed)}"
            rows_with.setdefault((column, what), {})[label] = seeds
    lines: dict[Place, list[str]] = {}
    for (column, what), rows in rows_with.items():
        text = f"{column.name}, {what}: {'; '.join(rows.values())}"
        for label in rows:
            lines.setdefault((label, column), []).append(text)

    # the best constant prediction: the first record's labels are those of all
    baselines: dict[ScoreColumn, float] = {}
    for column in study.printed_columns:
        metric = metric_of(column.metric)
        for _, logits, labels in _answers_in(study, column, stored):
            _, score = metric.form.constant(labels, logits.shape[1], metric.score)
            baselines[column] = 100 * score
            break

    partly = [place for place in faults if not faults_of_all(faults, place)]
    return Judged(lines, partly, baselines)


def seeds_in_words(of_seed: Mapping[int, Suspicion]) -> str:
    """``seeds 0 and 2 (50.1, 49.9)``, or without figures where there are none."""
    *most, last = [str(seed) for seed in sorted(of_seed)]
    named = f"seeds {', '.join(most)} and {last}" if most else f"seed {last}"
    figures = [of_seed[seed].figure for seed in sorted(of_seed)]
    shown = ", ".join(figure for figure in figures if figure)
    return f"{named} ({shown})" if shown else named
