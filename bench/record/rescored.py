"""A record's scores by other metrics than it has: from its stored answers, without training.

No torch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bench.errors import InputError
from bench.record.known_tasks import KNOWN
from bench.record.schema import Record
from bench.record.task_facts import shown_tasks, task_names

if TYPE_CHECKING:
    import numpy as np

    from bench.record.store import Store

NO_ANSWERS = (
    "its answers are not stored, from which a metric is computed; run it again with --rerun"
)
"""Why a row has a gap."""


def metrics_of(record: Record) -> tuple[str, ...]:
    """The metrics that a record is scored by, in their order; none where it has no score."""
    return tuple(next(iter(record.scores.values()), ()))


def score_of(
    record: Record, arrays: Mapping[str, np.ndarray], evaluation: str, metric: str
) -> float:
    """A record's score on an evaluation set, from -1 to 1: its own, else what its answers give.

    Args:
        arrays: its answers; they are read where it has no such score.

    Raises:
        InputError: no such metric.
    """
    from bench.stats.metrics import metric_of

    if metric in record.scores[evaluation]:
        return record.scores[evaluation][metric]
    of_metric = metric_of(metric)
    predicted = of_metric.form.predicted(arrays[f"logits.{evaluation}"])
    return float(of_metric.score(predicted, arrays[f"labels.{evaluation}"]))


def rescored(record: Record, metrics: Sequence[str], store: Store) -> Record | None:
    """The record with the scores of these metrics, in this order, and of no others.

    Scores that it has are taken as they are; the others follow from its stored answers. None where
    those are needed and not there.

    Raises:
        InputError: no such metric, or answers that cannot be read.
    """
    if all(tuple(own) == tuple(metrics) for own in record.scores.values()):
        return record
    arrays: Mapping[str, np.ndarray] = {}
    is_complete = all(metric in own for own in record.scores.values() for metric in metrics)
    if not is_complete:
        stored = store.stored_predictions(record)
        if stored is None:
            return None
        arrays = stored
    scores: dict[str, dict[str, float]] = {}
    for evaluation in record.scores:
        scores[evaluation] = {
            metric: score_of(record, arrays, evaluation, metric) for metric in metrics
        }
    task = record.task.model_copy(update={"metrics": tuple(metrics)})
    return record.model_copy(update={"scores": scores, "task": task})


def _rescored_or_without(record: Record, metrics: Sequence[str], store: Store) -> Record:
    """As :func:`rescored`; without scores where answers are needed and not there.

    Its row then has a gap. By its other metrics it would have a column that the other rows lack.
    """
    return rescored(record, metrics, store) or record.model_copy(update={"scores": {}})


def scored_alike(records: Iterable[Record], store: Store) -> list[Record]:
    """The records; of a user's own task all by the metrics that were typed last, in that order.

    Args:
        store: that has their answers.
    """
    records = list(records)
    newest: dict[tuple[object, ...], Record] = {}
    for record in records:
        if not record.scores or KNOWN.keys() & set(record.cell.tasks):
            continue
        place = _place(record)
        if place not in newest or _scored_at(record) > _scored_at(newest[place]):
            newest[place] = record
    alike = []
    for record in records:
        shown = newest.get(_place(record))
        if shown is not None and record.scores:
            record = _rescored_or_without(record, metrics_of(shown), store)
        alike.append(record)
    return alike


def _place(record: Record) -> tuple[object, ...]:
    """The facts that records of one task share: a file may have had other classes under its
    name."""
    return record.cell.data.slug, record.cell.tasks, record.task.form, record.task.labels


def _scored_at(record: Record) -> tuple[str, str]:
    """When a record's scores were computed; its key decides between equal times."""
    return record.rescored or record.finished, record.key


def scored_first_by(
    records: Iterable[Record], metrics: Sequence[str], store: Store, tasks: Collection[str] = ()
) -> list[Record]:
    """The records, those of some tasks with the first of these metrics that suits before others.

    Args:
        metrics: their names; none leaves all records as they are.
        tasks: none for all tasks.

    Raises:
        InputError: no such metric, or a task that none of them suits.
    """
    if not metrics:
        return list(records)
    headed = []
    for record in records:
        if record.scores and (not tasks or task_names(record.cell).intersection(tasks)):
            wrong = {metric: _misfit(metric, record) for metric in metrics}
            suiting = [metric for metric, why in wrong.items() if not why]
            if not suiting:
                name = shown_tasks(record.cell)
                hint = "add --metric with one that it has"
                if not tasks:
                    hint += ", or choose tasks with --tasks"
                raise InputError(f"--metric {metrics[0]} on {name}: it {wrong[metrics[0]]}; {hint}")
            order = list(dict.fromkeys([suiting[0], *metrics_of(record)]))
            record = _rescored_or_without(record, order, store)
        headed.append(record)
    return headed


def _misfit(metric: str, record: Record) -> str:
    """Why a metric does not suit the task of a record; "" where it does."""
    from bench.stats.form import FORMS
    from bench.stats.metrics import metric_of

    of_metric = metric_of(metric)
    # an older record does not say its form
    form = FORMS.get(record.task.form, of_metric.form)
    if form != of_metric.form:
        return f"is for {of_metric.form.task}, and this is {form.task}"
    return of_metric.misfit(record.task.labels or ())
