"""Metrics in files of their users, named as Python imports them: ``kappa:KAPPA``. No torch."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable

from bench.errors import InputError
from bench.stats.metrics import METRICS, Metric, metric_of, register

PAGE = "docs/extend.md"
_references: dict[str, str] = {}
"""Name of each metric that was loaded -> how it was named."""


def load_metrics(references: Iterable[str]) -> list[Metric]:
    """Register the metrics of these references, each ``MODULE:NAME``; one that is registered stays.

    Raises:
        InputError: it cannot be imported, is no metric, or has the name of another one.
    """
    return [_loaded(reference) for reference in references]


def named_metrics(typed: str | Iterable[str]) -> tuple[str, ...]:
    """The names of the metrics that are typed, of which those in files are registered.

    Args:
        typed: the name of a metric that is known, or ``MODULE:NAME``, or several of these.

    Raises:
        InputError: no such metric, or as :func:`load_metrics`.
    """
    words = [typed] if isinstance(typed, str) else typed
    names: list[str] = []
    for word in filter(None, words):
        metric = _loaded(word) if ":" in word else metric_of(word)
        names.append(metric.name)
    return tuple(names)


def reference_of(metric: str) -> str:
    """How the user's own metric of this name was named; "" for one of the program's."""
    return _references.get(metric, "")


def _loaded(reference: str) -> Metric:
    """The metric of one reference."""
    # what is typed has to be a module and a name
    module, colon, name = reference.partition(":")
    if reference in METRICS:
        raise InputError(
            f"--metric {reference}: it needs no option here, because it is in no file of yours; "
            "tasks name it among their metrics, and choose and compare alone score by it"
        )
    if not colon or not name or "/" in module or module.endswith(".py"):
        raise InputError(
            f"--metric {reference}: name a module as Python imports it, and what it calls the "
            "metric, like kappa:KAPPA"
        )
    # what is found there has to be a metric
    metric = _imported(reference, module, name)
    if isinstance(metric, type):
        raise InputError(
            f"--metric {reference}: that is a class; name the metric that is made of it ({PAGE})"
        )
    if not isinstance(metric, Metric):
        raise InputError(
            f"--metric {reference}: that is no metric; it should be a "
            f"bench.stats.metrics.Metric ({PAGE})"
        )
    try:
        register(metric)
    except ValueError as error:
        raise InputError(f"--metric {reference}: {error}; give it another name") from None
    _references[metric.name] = reference
    return metric


def _imported(reference: str, module: str, name: str) -> object:
    """What a module calls by this name; the module may be a file of the current folder."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # a user's module runs as it is imported
        hint = ""
        if isinstance(error, ImportError) and error.name == module:
            hint = f"; run this in the folder that has {module}.py, or install its package"
        why = f"{type(error).__name__}: {error}{hint}"
        raise InputError(f"--metric {reference}: {module} cannot be imported: {why}") from None
    if not hasattr(found, name):
        raise InputError(f"--metric {reference}: {module} has no {name}")
    return getattr(found, name)
