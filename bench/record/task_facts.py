"""What a record says of its task, so that a reader needs no table of tasks. None of it is part of a key. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from bench.data.tasks import Task


class TaskFacts(BaseModel):
    """A task as its records describe it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    form: str = ""
    """of its answers, a name of :data:`bench.stats.form.FORMS`; "" where it is not known"""
    labels: tuple[str, ...] | None = None
    """names of its classes in the order of their codes; of other forms none; None where they are not known"""
    metrics: tuple[str, ...] = ()
    """the first is the one that tables show"""
    unlabelled: tuple[str, ...] = ()
    """evaluation sets whose labels are not public: they are predicted and not scored"""


def facts_of(task: Task) -> TaskFacts:
    """Of a task that is about to be scored."""
    unlabelled = tuple(e.name for e in task.evaluation if not e.labelled)
    return TaskFacts(form=task.form.name, labels=task.labels, metrics=task.metrics, unlabelled=unlabelled)


def lifted(tasks: Sequence[str], scores: Mapping[str, Mapping[str, float]]) -> TaskFacts:
    """For a record that was written before records described their task: of GLUE's from its table, else from its scores.

    Args:
        tasks: of the cell; the first is the one that was scored.
        scores: evaluation set -> metric -> value.
    """
    from bench.data.tasks import GLUE

    if tasks and tasks[0] in GLUE:
        return _of_glue(tasks[0])
    metrics = next(iter(scores.values()), {})
    return TaskFacts(metrics=tuple(metrics))


@cache
def _of_glue(name: str) -> TaskFacts:
    from bench.data.tasks import GLUE

    return facts_of(GLUE[name])
