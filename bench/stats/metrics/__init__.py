"""The metrics: one :class:`Metric` for each, which holds all that the program has to know of it.

A file of this folder that defines one adds it. No torch.

How to add a metric: docs/extend.md.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.errors import InputError, unknown
from bench.stats.form import Form, Scoring
from bench.stats.resampling import Repeated, Resampling


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: as task files and records have it: lower case, digits and ``_``.
        label: as tables print it.
        form: of the answers that it scores.
        score: [n, ...] predicted answers and labels -> a number from ``low`` to ``high``; more is
            better. It needs no more than numpy when its file is imported.
        resampled_by: how it scores many resamples at once, faster than by ``score`` on every one of
            them.
        right: [n, ...] predicted answers and labels -> [n] whether each is right, of a metric that
            is the share of right answers. Two systems of one seed are then compared by McNemar's
            test, else by swapping answers.
        misfit: the names of a task's labels -> why the metric does not suit them; "" where it does.

    Raises:
        ValueError: a name or a range that records and tables cannot hold.
    """

    name: str
    label: str
    form: Form
    score: Scoring
    low: float = 0.0
    high: float = 1.0
    resampled_by: Resampling | None = None
    right: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    misfit: Callable[[Sequence[str]], str] = lambda names: ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise ValueError(
                f"a metric is called {self.name!r}: lower case, digits and _ are allowed"
            )
        if not -1 <= self.low < self.high <= 1:
            raise ValueError(
                f"{self.name}: records hold scores from -1 to 1, not {self.low:g} to {self.high:g}"
            )

    @property
    def resampling(self) -> Resampling:
        """How it scores resamples."""
        return self.resampled_by or Repeated(self.score)

    @property
    def is_signed(self) -> bool:
        """Whether it is a correlation, with 0 for answers that know nothing."""
        return self.low < 0

    @property
    def largest_difference(self) -> float:
        """How far two scores can be apart."""
        return self.high - self.low

    def possible_ratios(self, denominators: np.ndarray) -> tuple[float, float]:
        """The least and the largest ratio of a score to these positive ones, on average.

        NaN is left out.
        """
        least = float(np.nanmean(self.low / denominators))
        largest = float(np.nanmean(self.high / denominators))
        return least, largest


NAME_YOURS = "one in a file of your own is named by --metric MODULE:NAME, like kappa:KAPPA"
METRICS: dict[str, Metric] = {}
"""name -> metric, in the order of the files' names."""


def register(metric: Metric) -> Metric:
    """Add a metric. Those of this folder are added by themselves.

    Raises:
        ValueError: another one has its name.
    """
    if METRICS.setdefault(metric.name, metric) is not metric:
        raise ValueError(f"two metrics are called {metric.name!r}")
    return metric


def metric_of(name: str) -> Metric:
    """The metric of this name.

    Raises:
        InputError: there is none.
    """
    if name not in METRICS:
        raise InputError(f"{unknown('metric', name, METRICS)}; {NAME_YOURS}")
    return METRICS[name]


def fitting(form: Form) -> list[Metric]:
    """The metrics of answers of this form."""
    return [metric for metric in METRICS.values() if metric.form == form]


OF_ONE_CLASS = {"f1": 1, "f1_of_class_0": 0}
"""Metrics of one of two classes -> its code."""


def scored_class(name: str, classes: Sequence[str]) -> str:
    """The class that a metric is of; "" for one of all classes, and where classes have no names."""
    code = OF_ONE_CLASS.get(name)
    return classes[code] if code is not None and len(classes) == 2 else ""


def label_of(name: str, classes: Sequence[str] = ()) -> str:
    """As tables print it; the name itself of a metric that is not registered, as one of a paper.

    Args:
        classes: names of the classes of a user's own task: ``F1 (of fine)``. In GLUE everybody
            knows the class.
    """
    if only := scored_class(name, classes):
        return f"{METRICS['f1'].label} (of {only})"
    return METRICS[name].label if name in METRICS else name


def named_in(text: str) -> str:
    """The name of the metric that a column's title names by its name or label; "" for none."""
    # by its name or its label
    words = []
    for metric in METRICS.values():
        words.append((metric.name, metric.name))
        words.append((metric.label.lower(), metric.name))
    # the longest first: "macro F1" names macro_f1, not f1
    words.sort(key=lambda pair: -len(pair[0]))
    for word, name in words:
        if re.search(rf"\b{re.escape(word).replace('_', '[_ ]')}\b", text.lower()):
            return name
    return ""


def table() -> str:
    """All metrics as Markdown. No row is padded: a new metric changes none of the others."""
    header = ["metric", "printed as", "tasks", "range", "test when each row has one seed"]
    rows = [header, ["---"] * len(header)]
    for metric in METRICS.values():
        scores = f"{metric.low:g} to {metric.high:g}"
        test = "McNemar" if metric.right else "permutation"
        rows.append([metric.name, metric.label, metric.form.task, scores, test])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def discover() -> None:
    """Register every metric of the files of this folder."""
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        for value in vars(module).values():
            if isinstance(value, Metric):
                register(value)


discover()
