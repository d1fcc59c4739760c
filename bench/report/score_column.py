"""A column of scores, and whether anything may be said of the better ones in it. No torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.record.task_facts import SAMPLE, data_facts, shown_task
from bench.stats.metrics import label_of, scored_class

GENERATED = (
    "Nothing is ranked, tested or called better: these data are generated, and show that the "
    "program works, not which method is better."
)
ONE_SEED = (
    "Nothing is ranked, tested or called better where there is one seed: a difference may be that "
    "of two training runs, not of two methods."
)


def why_no_verdict(data: str, seeds: int | None) -> str:
    """The sentence that says why nothing is ranked, tested or called better; "" where it may be.

    Args:
        data: the short name of the source of the examples.
        seeds: of the row that was trained most often; None where each row is one finished model.
    """
    if data_facts(data).source == SAMPLE:
        return GENERATED
    return ONE_SEED if seeds == 1 else ""


@dataclass(frozen=True)
class ScoreColumn:
    """One evaluation set of one task, shown by one metric.

    Attributes:
        classes: the names of the classes of a user's own task: a metric of one class is printed
            with it.
        data: the short name of the source of its examples: generated ones are shown as such.
    """

    task: str
    evaluation: str
    metric: str
    classes: tuple[str, ...] = field(default=(), compare=False)
    data: str = field(default="", compare=False)

    @property
    def shown(self) -> str:
        """The task as people see it."""
        return shown_task(self.task, self.data)

    @property
    def name(self) -> str:
        """The task as people see it, and which of its evaluation sets where it has two."""
        suffixes = {"matched": "-m", "mismatched": "-mm"}
        return f"{self.shown}{suffixes.get(self.evaluation, '')}"

    @property
    def label(self) -> str:
        """The metric as tables print it."""
        if only := scored_class(self.metric, self.classes):
            return f"{label_of('f1')} of {only}"
        return label_of(self.metric)

    @property
    def title(self) -> str:
        """The task and the metric, as the head of a column."""
        return f"{self.name} ({self.label})"
