"""The stored answers of a group: scored on the same resampled examples, and what is suspect there.

What is drawn follows from names alone: the examples from the column (task, evaluation set, metric),
the trainings from the column and the two rows. So one comparison has one interval, whatever other
rows, tasks and order are there. No torch.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.record.cell import TEACHER
from bench.record.rescored import score_of
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.frame import teacher_weights
from bench.report.groups import ReportGroup, ScoreColumn
from bench.stats.guards import Suspicion, suspicions
from bench.stats.metrics import metric_of
from bench.stats.paired import scores_by_system

IN_MEMORY = 2**26
"""Bytes of a column's scores that stay in memory: those of 800 records."""
EXAMPLES = "examples"
ANY_SET = "validation"
"""Stands for every evaluation set where :func:`rng_for` draws trainings.

All sets of a task have the same trainings, and the same draws.
"""


@dataclass(frozen=True)
class Resampled:
    """Finished records of a column, scored on the same resampled examples.

    Attributes:
        predicted, logits: record key -> answers, and what the model gave.
        scores_R: record key -> [resamples] scores.
        teachers: sha256 of a teacher's weights -> its score and its [resamples] scores. They are of
            further trainings of the column's teacher: the same training on another machine may
            end with other last digits. What was taught by it is compared with it, where the store
            has its answers.
    """

    column: ScoreColumn
    labels: np.ndarray
    predicted: dict[str, np.ndarray]
    scores_R: Mapping[str, np.ndarray]
    teachers: dict[str, tuple[float, np.ndarray]] = field(default_factory=dict)
    logits: dict[str, np.ndarray] = field(default_factory=dict)

    def has(self, records: Sequence[Record]) -> bool:
        """Whether there are records, and the answers of all of them are stored."""
        return bool(records) and all(record.key in self.scores_R for record in records)

    def stacked(self, records: Sequence[Record]) -> np.ndarray:
        """[resamples, seeds]"""
        return np.stack([self.scores_R[record.key] for record in records], 1)


Answers = Mapping[ScoreColumn, Resampled]


def resample(group: ReportGroup, store: Store) -> dict[ScoreColumn, Resampled]:
    """The stored answers of the group's records; columns without any are left out."""
    columns = {}
    for column in group.columns:
        done = [r for label in group.systems for r in group.finished(label, column)]
        stored = [(record, store.stored_predictions(record)) for record in done]
        answers = [(record, arrays) for record, arrays in stored if arrays is not None]
        if not answers:
            continue
        columns[column] = data = resampled(column, answers)
        _add_further_teachers(data, [record for record, _ in answers], store)
    return columns


def _add_further_teachers(data: Resampled, answered: Sequence[Record], store: Store) -> None:
    """Further trainings of the teacher, that a student names and that are not the current one.

    Args:
        answered: the records whose answers these are.
    """
    shown = [r for r in answered if r.row == TEACHER and data.has([r])]
    if len(shown) != 1:
        return
    named = {teacher_weights(r) for r in answered} - {None, teacher_weights(shown[0])}
    if not named:
        return
    column = data.column
    for name, attempt in store.attempts(shown[0]).items():
        weights = teacher_weights(attempt)
        if weights in named and column.evaluation in attempt.scores:
            arrays = store.predictions(attempt, name)
            score = score_of(attempt, arrays, column.evaluation, column.metric)
            drawn = resampled(column, [(attempt, arrays)])
            data.teachers[str(weights)] = score, drawn.scores_R[attempt.key]


def resampled(
    column: ScoreColumn, answers: Sequence[tuple[Record, Mapping[str, np.ndarray]]]
) -> Resampled:
    """The answers of one record or more to a column, as a store has them.

    Their examples are the same in the same order: a column's records have one fingerprint of them
    (:mod:`bench.record.differences`).
    """
    form = metric_of(column.metric).form
    _, first_arrays = answers[0]
    labels = first_arrays[f"labels.{column.evaluation}"]
    logits = {record.key: arrays[f"logits.{column.evaluation}"] for record, arrays in answers}
    predicted = {key: form.predicted(values) for key, values in logits.items()}

    # every record is scored on the same resampled examples
    rng = rng_for([column], EXAMPLES)
    scores_MR = scores_by_system(list(predicted.values()), labels, column.metric, rng)
    if scores_MR.nbytes <= IN_MEMORY:
        scores: Mapping[str, np.ndarray] = dict(zip(predicted, scores_MR, strict=True))
    else:
        scores = ScoresInFile(list(predicted), scores_MR)
    return Resampled(column, labels, predicted, scores, logits=logits)


class ScoresInFile(Mapping[str, np.ndarray]):
    """Record key -> [resamples] scores, in a temporary file without a name.

    Five columns of 2,000 records would take 800 MB of memory.
    """

    def __init__(self, keys: Sequence[str], scores_MR: np.ndarray) -> None:
        self._place = {key: place for place, key in enumerate(keys)}
        self._count = scores_MR.shape[1]
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as this does
        weakref.finalize(self, self._file.close)
        scores_MR.tofile(self._file)

    def __getitem__(self, key: str) -> np.ndarray:
        self._file.seek(self._place[key] * self._count * np.dtype(float).itemsize)
        return np.fromfile(self._file, float, self._count)

    def __contains__(self, key: object) -> bool:
        return key in self._place

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)


def rng_for(columns: Sequence[ScoreColumn], purpose: str, *rows: str) -> np.random.Generator:
    """The generator of a column's examples, or of two rows' trainings in a column or a mean.

    It is always the same one, in whichever order rows and columns come: a mean has one interval in
    every table.
    """
    names: list[str] = []
    for column in sorted(columns, key=lambda column: (column.task, column.evaluation)):
        names += [column.task, column.evaluation if purpose == EXAMPLES else ANY_SET, column.metric]
    names += [purpose, *sorted(rows)]
    seed = hashlib.sha256(json.dumps(names).encode()).digest()
    return np.random.default_rng(int.from_bytes(seed, "big"))


Stored = Mapping[str, Mapping[str, np.ndarray]]
"""Key of a record -> its answers, as a store has them."""


def stored_answers(group: ReportGroup, store: Store) -> Stored:
    """The answers of the group's finished records; a record without them is left out."""
    finished = [record for record in group.records if record.status == "ok"]
    stored = {record.key: store.stored_predictions(record) for record in finished}
    return {key: arrays for key, arrays in stored.items() if arrays is not None}


def _answers_of(
    group: ReportGroup, column: ScoreColumn, stored: Stored
) -> Iterator[tuple[Record, np.ndarray, np.ndarray]]:
    """Record, logits and labels of each stored answer to a column."""
    for label in group.systems:
        for record in group.finished(label, column):
            if record.key in stored:
                arrays = stored[record.key]
                logits = arrays[f"logits.{column.evaluation}"]
                yield record, logits, arrays[f"labels.{column.evaluation}"]


Faults = dict[tuple[str, ScoreColumn], dict[str, dict[int, Suspicion]]]
"""(row, column) -> what is wrong with its answers -> seed -> how it shows there"""


def faults_of(group: ReportGroup, stored: Stored) -> Faults:
    """What is suspect about the stored answers of each row and column, by the column's metric."""
    faults: Faults = {}
    for column in group.columns:
        for record, logits, labels in _answers_of(group, column, stored):
            for suspicion in suspicions(logits, labels, record.task.labels or (), column.metric):
                of_place = faults.setdefault((record.row, column), {})
                of_place.setdefault(suspicion.what, {})[record.cell.seed] = suspicion
    return faults


def faults_of_all(
    faults: Faults, place: tuple[str, ScoreColumn]
) -> dict[str, dict[int, Suspicion]]:
    """The faults of a row in a column that concern all its answers, not some classes alone."""
    return {
        what: of_seed
        for what, of_seed in faults.get(place, {}).items()
        if not next(iter(of_seed.values())).is_partial
    }


def judge_answers(group: ReportGroup, store: Store) -> None:
    """Tell a group what is suspect about its stored answers.

    It is also told what the best single answer to every example scores.
    """
    stored = stored_answers(group, store)
    faults = faults_of(group, stored)
    group.suspicions = {}
    group.baselines = {}
    group.partly_suspect = [place for place in faults if not faults_of_all(faults, place)]
    order = {label: place for place, label in enumerate(group.systems)}
    rows_of: dict[tuple[ScoreColumn, str], dict[str, str]] = {}
    for label, column in sorted(faults, key=lambda place: order[place[0]]):
        for what, of_seed in faults[label, column].items():
            rows_of.setdefault((column, what), {})[label] = f"{label}, {seeds_in_words(of_seed)}"
    for (column, what), rows in rows_of.items():
        # one line a fault, naming every row and seed: one text for all of its rows
        text = f"{column.name}, {what}: {'; '.join(rows.values())}"
        for label in rows:
            group.suspicions.setdefault((label, column), []).append(text)
    for column in group.printed_columns:
        metric = metric_of(column.metric)
        # the first record's labels are those of all
        for _, logits, labels in _answers_of(group, column, stored):
            _, score = metric.form.constant(labels, logits.shape[1], metric.score)
            group.baselines[column] = 100 * score
            break


def seeds_in_words(of_seed: Mapping[int, Suspicion]) -> str:
    """``seeds 0 and 2 (50.1, 49.9)``, or without figures where there are none."""
    seeds = sorted(of_seed)
    *most, last = map(str, seeds)
    named = f"seeds {', '.join(most)} and {last}" if most else f"seed {last}"
    figures = [of_seed[seed].figure for seed in seeds]
    shown = ", ".join(filter(None, figures))
    return f"{named} ({shown})" if shown else named
