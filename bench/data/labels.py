"""Labels as files have them -> codes of classes, or numbers; and the rows that have none."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from bench.data.tasks import Task
from bench.errors import InputError, one_line

CLASSES = "classes"
REGRESSION = "regression"
KINDS = (CLASSES, REGRESSION)
"""The values of ``:kind=``."""
REFUSE = "refuse"
DROP = "drop"
KEEP = "keep"
UNLABELLED = (REFUSE, DROP, KEEP)
"""Ways to treat rows without a label: an error, left out, or taken as a class of their own."""
MARKERS = ("-1", "-", "--", "?", "n/a", "nan", "null", "<na>")
"""Texts that stand in the place of a label in many data sets, in lower case."""
NUMBER = r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?"
"""A number as text, with a decimal point or a decimal comma."""
BEYOND_FLOAT32 = "beyond what 32-bit numbers hold (3.4e38)"
THOUSANDS = r"[+-]?[1-9]\d{0,2}(,\d{3})+"
"""The form of a number that may be 1.234 or 1234."""


def written(text: str, names: Sequence[str]) -> str:
    """The class that a cell names: spreadsheets, and our own files, write ``'=x`` for ``=x``."""
    bare = text.removeprefix("'")
    return bare if text not in names and bare in names else text


def number_of(text: str) -> float | None:
    """The number that a text is; None for any other text."""
    text = text.strip()
    return float(text.replace(",", ".")) if re.fullmatch(NUMBER, text) else None


def refuse_lists(values: Sequence[object], where: str, label: str) -> None:
    """Raises InputError: a row has a list of labels."""
    for row, value in enumerate(values):
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if isinstance(value, list | tuple | set):
            raise InputError(
                f"{where}, row {row}: {label} is the list {one_line(str(list(value)))[:80]}: "
                "several labels for one text, or one for each of its words, are not supported; "
                "give each row one class or one number"
            )


def unlabelled_rows(
    values: Sequence[object], names: Sequence[str], is_regression: bool
) -> dict[int, str]:
    """Row -> what it has in the place of a label, "" for nothing.

    Args:
        names: of the classes; what is one of them is a label.
        is_regression: whether -1 is a number like others.
    """
    rows: dict[int, str] = {}
    for row, value in enumerate(values):
        # empty cells and NaN are none, and so are marks like -1 or ?
        text = "" if value is None else str(value).strip()
        if isinstance(value, float) and math.isnan(value):
            text = ""
        if value == -1:
            text = "-1"
        is_number = is_regression and text == "-1"
        is_marker = text.lower() in MARKERS and text not in names and not is_number
        if not text or is_marker:
            rows[row] = text
    return rows


def labels_with_rows(
    values: Sequence[object], task: Task, where: str, split: str
) -> tuple[np.ndarray, list[int]]:
    """The labels of a split, and the rows that have them.

    These are all rows, unless the task leaves out those without a label.

    Args:
        where: the file, for messages.
        split: what the rows are for, for messages.

    Raises:
        InputError: a row without a label, or with one that the task does not know.
    """
    # no row has a label: a test set whose labels are not public
    refuse_lists(values, where, task.label_column)
    missing = unlabelled_rows(values, task.labels, task.regression)
    if missing and len(missing) == len(values):
        found = next(iter(missing.values())) or "no label"
        raise InputError(
            f"{where}: {task.label_column} is {found} in all {len(values):,} rows of {split}, "
            "which marks a test split whose labels are not public; scores on it would mean "
            "nothing. Use the validation split"
        )
    if missing and task.unlabelled != DROP:
        raise _unlabelled(missing, len(values), task, where, split)

    # the labels of the rows that have one
    rows = [row for row in range(len(values)) if row not in missing]
    return labels_of(values, task, where, rows), rows


def _unlabelled(
    missing: dict[int, str], rows: int, task: Task, where: str, split: str
) -> InputError:
    """The error for rows without a label: which, how many, and how to leave them out."""
    # the first such row, and how many are like it
    row, found = next(iter(missing.items()))
    alike = sum(other == found for other in missing.values())
    way = "leave these rows out of the file"
    if task.file.endswith(".toml"):
        way = f'unlabelled = "drop" in {task.file} leaves them out'
    elif task.file:
        way = "add :unlabelled=drop to leave them out"
    what = f"{task.label_column}: the cell is empty, in"
    if found:
        what = f"{task.label_column} is {found}, which marks rows without a label, in"
    return InputError(f"{where}, row {row}: {what} {alike:,} of {rows:,} rows of {split}; {way}")


def labels_of(
    values: Sequence[object], task: Task, where: str, rows: Sequence[int] | None = None
) -> np.ndarray:
    """Codes or targets; names of classes are translated to their codes.

    What CSV and JSON read as truth values are names. Numbers are names where all names are numbers.

    Args:
        rows: those whose labels are wanted; all if None.

    Raises:
        InputError: a label that the task does not know, with its row.
    """
    # how the classes may be written
    names = {name.lower(): name for name in task.labels}
    by_number = _names_by_number(task.labels)
    if task.regression:
        _refuse_thousands(values, where)

    # each label as the task spells it, then as its code
    cleaned = []
    if rows is None:
        rows = range(len(values))
    for row in rows:
        value = values[row]
        # one word makes text of all numbers of a CSV file's column
        if task.regression and isinstance(value, str):
            number = number_of(value)
            value = value if number is None else number
        elif isinstance(value, str):
            value = written(value, task.labels)
        elif isinstance(value, bool):
            value = names.get(str(value).lower(), value)
        elif by_number and isinstance(value, int | float):
            value = by_number.get(float(value), f"{value:g}")
        try:
            cleaned.append(task.form.label(value, task.labels, task.name))
        except InputError as error:
            raise InputError(f"{where}, row {row}: {error}") from None

    # in 32 bits, where a number may become infinite
    with np.errstate(over="ignore"):
        labels = np.array(cleaned, dtype=task.form.dtype)
    _refuse_infinite(labels, cleaned, range(len(values)) if rows is None else rows, where)
    return labels


def _refuse_infinite(
    labels: np.ndarray, cleaned: Sequence[float], rows: Sequence[int], where: str
) -> None:
    """Raises InputError: a number became infinite in 32 bits."""
    too_large = np.flatnonzero(~np.isfinite(labels))
    if len(too_large):
        first = int(too_large[0])
        raise InputError(f"{where}, row {rows[first]}: {cleaned[first]:g} is {BEYOND_FLOAT32}")


def _names_by_number(names: Sequence[str]) -> dict[float, str]:
    """Number -> the name of the class that is this number; empty where some name is no number."""
    known: dict[float, str] = {}
    for name in names:
        number = number_of(name)
        if number is None:
            return {}
        known[number] = name
    return known


def _refuse_thousands(values: Sequence[object], where: str) -> None:
    """Raises InputError: commas that may be decimal commas, or between thousands."""
    # one comma that cannot stand between thousands is a decimal one
    commas = [value for value in values if isinstance(value, str) and "," in value]
    if commas and all(re.fullmatch(THOUSANDS, value.strip()) for value in commas):
        row = list(values).index(commas[0])
        raise InputError(
            f"{where}, row {row}: {commas[0]} may be a number with decimals or with thousands; "
            "write it with a decimal point, or without the comma"
        )
