"""Infer columns, classes and metrics of a task that is typed by its data alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pandas import Series

from bench.data.columns import text_columns
from bench.data.label_kinds import classes_of, rare_class
from bench.data.labels import KINDS, REFUSE, REGRESSION, UNLABELLED
from bench.data.tasks import with_positive
from bench.errors import InputError, one_line, unknown

if TYPE_CHECKING:
    from bench.data.table import Tables


@dataclass(frozen=True)
class Inferred:
    """The facts of a task by its rows and by what was typed."""

    columns: tuple[str, ...]
    """the text, and its pair"""
    label_column: str
    labels: tuple[str, ...]
    """names of the classes in the order of their codes; empty for a regression"""
    metrics: tuple[str, ...]
    unlabelled: str
    """what becomes of rows without a label, of :data:`bench.data.labels.UNLABELLED`"""
    why_macro_f1: str = ""
    """why macro-F1 is the first metric although nobody typed it"""


def inferred(rows: Tables, given: Mapping[str, str], where: str) -> Inferred:
    """Read the facts of a task off its training rows.

    Args:
        given: the settings that were typed, name -> value.
        where: how messages begin.

    Raises:
        InputError: a column that is not there, or something that would be a guess; it names the
            setting that decides.
    """
    kind = given.get("kind", "")
    unlabelled = given.get("unlabelled", REFUSE)
    label = given.get("label", "label")
    text = tuple(given["text"].split("+")) if "text" in given else ()
    _check_typed(rows, given, label, text, where)

    # as they are stored: a table of pandas makes 1.0 of 1 where another cell is empty
    values = Series(rows[label], dtype=object, name=label)
    # the hub's parquet files say the names of classes
    labels = rows.class_names.get(label, ()) if kind != REGRESSION else ()
    if not labels:
        labels = tuple(classes_of(values, kind, unlabelled, where))
    group = given.get("group", "")
    names = [name for name in rows.names if name != group]
    columns = text or text_columns(rows.to_pandas(names), label, where)

    why_macro_f1 = ""
    if "metrics" in given:
        metrics = given["metrics"].split("+")
    else:
        metrics = _usual(labels)
        # accuracy says little of a class that hardly any row has
        why_macro_f1 = rare_class(values, labels, unlabelled) if labels else ""
        if why_macro_f1:
            metrics = list(dict.fromkeys(["macro_f1", *metrics]))
    metrics_of_task = with_positive(metrics, given.get("positive", ""), labels, where)
    return Inferred(columns, label, labels, metrics_of_task, unlabelled, why_macro_f1)


def _check_typed(
    rows: Tables, given: Mapping[str, str], label: str, text: Sequence[str], where: str
) -> None:
    """Raises InputError: a setting has no such value, or a column is not there."""
    for key, values in (("kind", KINDS), ("unlabelled", UNLABELLED)):
        if key in given and given[key] not in values:
            raise unknown(f"{key} of {where}", given[key], values)
    groups = [given["group"]] if "group" in given else []
    for column in (label, *text, *groups):
        if not rows.has(column):
            hint = "" if "label" in given or column != label else "; add :label=COLUMN"
            listed = one_line(", ".join(rows.names))[:400]
            raise InputError(f"{where}: no column {column!r}; there are: {listed}{hint}")
    if {*groups} & {label, *text}:
        raise InputError(
            f"{where}: group={groups[0]} is also the text or the label; name a column that says "
            "which rows belong together, or leave it out: equal texts stay together anyway"
        )
    if len(set(text)) < len(text) or len(text) > 2 or label in text:
        raise InputError(
            f"{where}: name one column of text, or two with a plus: :text=COLUMN+COLUMN; none of "
            "them twice, and not that of the labels"
        )


def _usual(labels: Sequence[str]) -> list[str]:
    """The metrics of a task of these classes, or of a regression."""
    if not labels:
        # correlations do not see answers on a wrong scale
        return ["r2", "spearman", "pearson"]
    return ["accuracy", "f1" if len(labels) == 2 else "macro_f1"]
