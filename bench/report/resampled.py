"""Stored predictions, scored on the same resampled examples. No torch.

What is drawn follows from names alone: the examples from the column (task, evaluation set, metric),
the trainings from the column and the two rows. So one comparison has one interval, whatever other
rows, tasks and order are there.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.record.schema import Record
from bench.report.score_column import ScoreColumn
from bench.stats.metrics import metric_of
from bench.stats.paired import scores_by_system

IN_MEMORY = 2**26
"""Bytes of a column's scores that stay in memory: those of 800 records."""
EXAMPLES = "examples"
ANY_SET = "validation"
"""In place of the evaluation set where :func:`rng_for` draws trainings: all sets of a task have the
same trainings, and the same draws."""


@dataclass(frozen=True)
class Resampled:
    """Finished records of a column, scored on the same resampled examples.

    Attributes:
        predicted, logits: record key -> answers, and what the model gave.
        scores_R: record key -> [resamples] scores.
        teachers: sha256 of a teacher's weights -> its score and its [resamples] scores: of further
            trainings of the column's teacher. The same training on another machine may end with
            other last digits. What was taught by it is compared with it, where the store has its
            answers.
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


def resampled(
    column: ScoreColumn, answers: Sequence[tuple[Record, Mapping[str, np.ndarray]]]
) -> Resampled:
    """The answers of one record or more to a column, as a store has them.

    Their examples are the same in the same order: a column's records have one fingerprint of them
    (:mod:`bench.record.cell_differences`).
    """
    form = metric_of(column.metric).form
    place = column.evaluation
    labels = answers[0][1][f"labels.{place}"]
    logits = {record.key: own[f"logits.{place}"] for record, own in answers}
    predicted = {key: form.predicted(given) for key, given in logits.items()}
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
    """The generator of a column's examples, or of two rows' trainings, of a column or of a mean.

    It is always the same one, in whichever order the rows are.

    The order of the columns says nothing: a mean has one interval in every table.
    """
    names: list[str] = []
    for column in sorted(columns, key=lambda column: (column.task, column.evaluation)):
        names += [column.task, column.evaluation if purpose == EXAMPLES else ANY_SET, column.metric]
    names += [purpose, *sorted(rows)]
    return np.random.default_rng(
        int.from_bytes(hashlib.sha256(json.dumps(names).encode()).digest(), "big")
    )
