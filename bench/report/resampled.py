"""The stored answers to a column, scored on the same resampled examples.

What is drawn follows from names alone: the examples from the column (task, evaluation set, metric), the trainings from the
column and the two rows. So one comparison has one interval, whatever other rows, tasks and order are there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bench.record.cell import TEACHER
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.groups import ReportGroup, ScoreColumn
from bench.stats.metrics import metric_of
from bench.stats.paired import resampled_scores

EXAMPLES = "examples"
ANY_SET = "validation"
"""In place of the evaluation set where :func:`rng_for` draws trainings: all sets of a task have the same draws."""


@dataclass(frozen=True)
class Resampled:
    """Finished records of a column, scored on the same resampled examples."""

    column: ScoreColumn
    labels: np.ndarray
    predicted: dict[str, np.ndarray]
    """record key -> answers"""
    scores_R: dict[str, np.ndarray]
    """record key -> [resamples] scores"""
    others: set[str]
    """keys of records that were scored on other examples"""
    teachers: dict[str, tuple[float, np.ndarray]] = field(default_factory=dict)
    """sha256 of a teacher's weights -> its score and its [resamples] scores: of further trainings of the column's teacher"""

    def has(self, records: Sequence[Record]) -> bool:
        """Whether there are records, and all of them were scored on the column's examples."""
        return bool(records) and all(record.key in self.scores_R for record in records)

    def stacked(self, records: Sequence[Record]) -> np.ndarray:
        """[resamples, seeds]"""
        return np.stack([self.scores_R[record.key] for record in records], 1)


def resampled(column: ScoreColumn, records: Sequence[Record], store: Store) -> Resampled:
    """These records' stored answers to the column, of one record or more.

    Records with other examples than the first one's are only named.
    """
    labels = examples = None
    form = metric_of(column.metric).form
    predicted: dict[str, np.ndarray] = {}
    others = set()
    for record in records:
        arrays = store.predictions(record)
        if labels is None or examples is None:
            labels, examples = arrays[f"labels.{column.evaluation}"], arrays[f"examples.{column.evaluation}"]
        if np.array_equal(examples, arrays[f"examples.{column.evaluation}"]):
            predicted[record.key] = form.predicted(arrays[f"logits.{column.evaluation}"])
        else:
            others.add(record.key)
    assert labels is not None
    drawn = resampled_scores(list(predicted.values()), labels, column.metric, rng_for(column, EXAMPLES))
    return Resampled(column, labels, predicted, dict(zip(predicted, drawn.T, strict=True)), others)


def finished(group: ReportGroup, label: str, column: ScoreColumn) -> list[Record]:
    """The finished records of a row in a column, in the order of their seeds."""
    records = [r for r in group.of(label, column.task) if r.status == "ok" and column.evaluation in r.scores]
    return sorted(records, key=lambda r: r.cell.seed)


def resample(group: ReportGroup, store: Store) -> dict[ScoreColumn, Resampled]:
    """The stored answers of the group's records; columns without any are left out."""
    made = {}
    for column in group.columns:
        records = [
            r
            for label in group.systems
            for r in group.of(label, column.task)
            if r.status == "ok" and column.evaluation in r.scores and store.has_predictions(r)
        ]
        if records:
            made[column] = resampled(column, records, store)
        shown = [r for r in records if r.cell.method == TEACHER and made[column].has([r])]
        if len(shown) == 1:
            made[column] = with_further_teachers(made[column], shown[0], records, store)
    return made


def with_further_teachers(made: Resampled, teacher: Record, students: Sequence[Record], store: Store) -> Resampled:
    """Add the trainings of the teacher that a student names and that are not the current one.

    The same training on another machine may end with other last digits. What was taught by it is compared with it, where
    the store has its answers to the same examples.
    """
    column, known = made.column, teacher_weights(teacher)
    named = {weights for student in students if (weights := teacher_weights(student)) and weights != known}
    found = {}
    for name, attempt in store.attempts(teacher).items() if named else ():
        weights = teacher_weights(attempt)
        if weights not in named or column.evaluation not in attempt.scores:
            continue
        arrays, current = store.predictions(attempt, name), store.predictions(teacher)
        if np.array_equal(arrays[f"examples.{column.evaluation}"], current[f"examples.{column.evaluation}"]):
            given = metric_of(column.metric).form.predicted(arrays[f"logits.{column.evaluation}"])
            drawn = resampled_scores([given], made.labels, column.metric, rng_for(column, EXAMPLES))
            found[weights] = attempt.scores[column.evaluation][column.metric], drawn[:, 0]
    return replace(made, teachers=found)


def teacher_weights(record: Record) -> str | None:
    """sha256 of the weights of the teacher that a record names; None where it names none."""
    found = record.artefacts.get("teacher") or record.artefacts.get(f"teacher.{record.cell.tasks[0]}")
    return found["weights"] if found else None


def rng_for(column: ScoreColumn, purpose: str, *rows: str) -> np.random.Generator:
    """The generator of a column's examples, or of two rows' trainings (in whichever order): always the same one.

    Each evaluation set has its own examples. The trainings behind all sets of a task are the same, and so is what is drawn for
    them. If each set had draws of its own, a mean over the sets would look too certain.
    """
    evaluation = column.evaluation if purpose == EXAMPLES else ANY_SET
    names = [column.task, evaluation, column.metric, purpose, *sorted(rows)]
    return np.random.default_rng(int.from_bytes(hashlib.sha256(json.dumps(names).encode()).digest(), "big"))
