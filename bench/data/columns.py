"""Which columns of a table are the text and its pair, where nobody has named them.

One line says what a task's columns were taken for, however they were named.

A column is never taken for a text by its kind alone: one that says the class in other words, or
that names the rows, would make a model that has read nothing look perfect.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from bench.data.tasks import BALANCED, KNOWN, Task
from bench.errors import InputError, one_line
from bench.stats.metrics import label_of

if TYPE_CHECKING:
    from pandas import DataFrame, Series

MARKS = (
    ("1", "2"),
    ("0", "1"),
    ("a", "b"),
    ("left", "right"),
    ("first", "second"),
    ("", "2"),
    ("", "b"),
    ("", "pair"),
)
"""Endings that tell the names of a pair apart, as ``sentence1`` and ``sentence2``."""
ROLES = frozenset(
    frozenset(pair.split())
    for pair in (
        "premise hypothesis",
        "text hypothesis",
        "context hypothesis",
        "question sentence",
        "question answer",
        "question context",
        "question passage",
        "question paragraph",
        "question document",
        "question text",
        "query answer",
        "query passage",
        "query document",
        "query response",
        "query text",
        "claim evidence",
        "claim document",
        "context response",
        "prompt response",
        "headline body",
        "headline articlebody",
        "sentence paraphrase",
        "anchor positive",
        "source target",
        "post comment",
        "post reply",
    )
)
"""Names of pairs whose two texts are of two kinds."""
LONGEST_ID = 64
"""Signs of a sha256, the longest name of rows that is usual."""
MOST_NAMED = 8
"""Classes that the line names; of more the first ones."""


def described(task: Task) -> str:
    """The use of a task's columns in one line: text, pair, label, kind and metrics."""
    parts = [f"text {one_line(task.columns[0])}"]
    if len(task.columns) == 2:
        second = "target" if task.writes else "pair"
        parts.append(f"{second} {one_line(task.columns[1])}")
    if not task.writes:
        parts.append(f"label {one_line(task.label_column)}")
    # names of classes of tasks that everybody knows are not repeated beside their metrics
    classes = () if task.name in KNOWN else task.labels
    metrics = ", ".join(label_of(name, classes) for name in task.metrics)
    line = f"{task.name}: {', '.join(parts)}; {_kind(task)}; scored by {one_line(metrics)}"
    if task.why_macro_f1:
        line += f", macro F1 first because the classes are unequal: {task.why_macro_f1}"
    if task.weights == BALANCED:
        line += "; in the loss on labels, classes weigh more the fewer examples they have"
    if task.unlabelled == "drop":
        line += "; rows without a label are left out"
    return line


def _kind(task: Task) -> str:
    """The kind of a task, with the names of its classes."""
    if task.spans or not task.labels:
        return task.form.task
    named = ", ".join(one_line(name) for name in task.labels[:MOST_NAMED])
    more = ", ..." if len(task.labels) > MOST_NAMED else ""
    return f"{len(task.labels)} classes ({named}{more})"


def text_columns(table: DataFrame, label: str, where: str) -> tuple[str, ...]:
    """The one or two columns of text of a table, in its order.

    Args:
        label: the column of the labels, which is there.
        where: how messages begin.

    Raises:
        InputError: no column of text, more than two, or one that seems to be something else.
    """
    from pandas.api.types import is_string_dtype

    texts = []
    for column in table.columns:
        # a cell without a text is refused when the rows are read, by its row
        if column != label and is_string_dtype(table[column].dropna()):
            texts.append(column)
    faults = {column: _fault(table[column], table[label]) for column in texts}

    if len(texts) == 1:
        _check_only(texts[0], faults[texts[0]], table, where)
        return (texts[0],)
    if len(texts) == 2 and not any(faults.values()) and are_named_as_a_pair(*texts):
        return (texts[0], texts[1])

    found = one_line(", ".join(map(str, texts)))[:400] or "none"
    why = [f"{column!r} {fault}" for column, fault in faults.items() if fault]
    if len(texts) == 2 and not why:
        why = ["they are not called like a pair, as sentence1 and sentence2 are"]
    said = "".join(f"; {reason}" for reason in why[:3])
    ways = _ways(texts, faults) if texts else "add :text=COLUMN"
    raise InputError(f"{where}: which column is the text? Of text are: {found}{said}; {ways}")


def _check_only(column: str, fault: str, table: DataFrame, where: str) -> None:
    """Raises InputError: the only column of text is surely something else."""
    if fault and _is_surely_no_text(table[column]):
        raise InputError(
            f"{where}: its only column of text, {column!r}, {fault}; if that is the text, add "
            f":text={column}"
        )


def _ways(texts: Sequence[str], faults: dict[str, str]) -> str:
    """The settings to type: each column that may be the text, and the pair by its names."""
    sound = [column for column in texts if not faults[column]] or list(texts)
    pairs = [pair for pair in combinations(sound, 2) if are_named_as_a_pair(*pair)]
    ways = [f":text={one_line('+'.join(pair))}" for pair in pairs[:1]]
    ways += [f":text={one_line(column)}" for column in sound[:3]]
    if not pairs and len(sound) > 1:
        ways.append(f":text={one_line('+'.join(sound[:2]))} for a pair")
    return f"add {', or '.join(ways)}"


def _fault(values: Series, labels: Series) -> str:
    """Why a column of text seems to be none; "" where it may be one."""
    values = values.dropna()
    if not len(values):
        return "is empty"
    if len(values) > 1 and values.nunique() == 1:
        return "has the same words in all rows"
    if _follows(values, labels):
        return "has one value for each label: it seems to say the label in other words"
    if _are_identifiers(values):
        return "has another short word in each row: it seems to name the rows"
    return ""


def _follows(values: Series, labels: Series) -> bool:
    """Whether a column is a function of the label, or the label one of a column with few values."""
    named = labels.loc[values.index].dropna().map(str)
    values = values.loc[named.index]
    few = len(values) / 2
    # where every row has a label of its own, every column is a function of it
    if named.nunique() <= few and values.groupby(named).nunique().max() == 1:
        return True
    are_finer = values.nunique() <= min(few, 2 * named.nunique())
    return bool(are_finer and named.groupby(values).nunique().max() == 1)


def _are_identifiers(values: Series) -> bool:
    """Whether all values differ, and each is one short word of ASCII.

    Chinese texts have no blanks either, so other letters are no sign.
    """
    if values.nunique() < len(values):
        return False
    return all(
        value.isascii() and len(value) <= LONGEST_ID and not re.search(r"\s", value)
        for value in values
    )


def _is_surely_no_text(values: Series) -> bool:
    """Whether a suspect column may be refused although there is no other one.

    It has names of classes, or names of rows with a digit in each.
    """
    values = values.dropna()
    if _are_identifiers(values):
        return all(re.search(r"\d", value) for value in values)
    return all(len(value.split()) <= 2 for value in values)


def are_named_as_a_pair(first: str, second: str) -> bool:
    """Whether two columns are called like the two texts of a pair, in either order."""
    one = re.sub(r"[^a-z0-9]", "", first.lower())
    other = re.sub(r"[^a-z0-9]", "", second.lower())
    if frozenset((one, other)) in ROLES:
        return True
    return _differ_in_a_mark(one, other) or _differ_in_a_mark(other, one)


def _differ_in_a_mark(first: str, second: str) -> bool:
    for mark, other in MARKS:
        # at the end: text1, text2; at the beginning: first_text, second_text
        stem = first.removesuffix(mark)
        if first == stem + mark and second == stem + other and stem:
            return True
        stem = first.removeprefix(mark)
        if mark and first == mark + stem and second == other + stem:
            return True
    return False
