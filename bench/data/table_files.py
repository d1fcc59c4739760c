"""Examples read from files: parquet, CSV, TSV and JSON lines, checked and refused in one line where they are wrong."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bench.data.tasks import READERS, Task
from bench.errors import InputError, one_line
from bench.user_files import refused_as_json, text_of

if TYPE_CHECKING:
    import datasets


class Answers(NamedTuple):
    """The right answers of questions."""

    of_questions: Sequence[tuple[tuple[int, str], ...]]
    """of each where it begins in the text, and its words; several ways to say it, or none"""
    may_be_none: bool
    """whether some questions have no answer, as in version 2.0 of SQuAD"""
    names: Sequence[str]
    """what the data call each question, its place where they do not"""


@dataclass(frozen=True)
class Split:
    """Examples in their source's order. ``labels``: int64 codes, float32 targets, or None where not public; of questions, which have
    ``answers``, whether there is one."""

    first: Sequence[str]
    second: Sequence[str] | None
    labels: np.ndarray | None
    ids: Sequence[int]
    answers: Answers | None = None

    def __len__(self) -> int:
        return len(self.first)

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Of each example, the second one "" where there is none."""
        return list(zip(self.first, self.second or [""] * len(self), strict=True))

    def example_hashes(self) -> np.ndarray:
        """[n] uint64, from each example's id and texts: pairs predictions of different runs without text."""
        rows = zip(self.ids, self.texts, strict=True)
        digests = (hashlib.sha256(f"{i}\x1f{a}\x1f{b}".encode()).digest()[:8] for i, (a, b) in rows)
        return np.frombuffer(b"".join(digests), dtype=np.uint64)

    def fingerprint(self) -> str:
        """sha256 of the content: the same examples from the hub, a folder or a re-encoded file agree."""
        digest = hashlib.sha256()
        labels = (
            [""] * len(self)
            if self.labels is None
            else [repr(label) for label in self.labels.tolist()]
        )
        if self.answers is not None:
            labels = [repr(answers) for answers in self.answers.of_questions]
        for texts, label in zip(self.texts, labels, strict=True):
            digest.update("\x1f".join((*texts, label)).encode() + b"\x1e")
        return digest.hexdigest()

    def shared_with(self, other: Split) -> int:
        """How many of these examples are among the other's, letter by letter."""
        known = set(other.texts)
        return sum(texts in known for texts in self.texts)

    def take(self, rows: Sequence[int]) -> Split:
        return Split(
            [self.first[i] for i in rows],
            None if self.second is None else [self.second[i] for i in rows],
            None if self.labels is None else self.labels[list(rows)],
            [self.ids[i] for i in rows],
            self.answers
            and Answers(
                [self.answers.of_questions[i] for i in rows],
                self.answers.may_be_none,
                [self.answers.names[i] for i in rows],
            ),
        )

    def halves(self) -> tuple[Split, Split]:
        """Two halves, one to choose on and one to report; of each label's examples every second one, by the hash of their texts.

        The same examples fall into the same half wherever they come from and in whatever order.
        """
        if self.labels is None:
            raise ValueError("examples without labels choose nothing")
        texts = [f"{a}\x1f{b}".encode() for a, b in self.texts]
        order = sorted(
            range(len(self)), key=lambda i: (hashlib.sha256(texts[i]).digest(), self.ids[i])
        )
        if self.labels.dtype.kind == "i":
            order.sort(key=lambda i: int(self.labels[i]))  # type: ignore[index]
        return self.take(sorted(order[::2])), self.take(sorted(order[1::2]))

    def limited(self, count: int | None) -> Split:
        """At most ``count`` examples, drawn once with a fixed seed and kept in their order."""
        if count is None or count >= len(self):
            return self
        return self.take(_drawn(len(self), count))


@lru_cache  # a plan asks for the same ones some hundred times
def _drawn(examples: int, count: int) -> list[int]:
    chosen = np.random.default_rng(0).permutation(examples)[:count]
    return sorted(chosen.tolist())


def read(files: Sequence[Path], task: Task, labelled: bool) -> Split:
    """Rows of one split, checked. Each file is read alone, so that a message can name it.

    Raises:
        InputError: unreadable file (with the parser's row), missing column, no rows, a text that is not
            text, a label outside the task's codes (-1 marks labels that are not public).
    """
    parts: list[Split] = []
    for file in files:
        parts.append(_read_one(file, task, labelled, sum(map(len, parts))))
    ids = [example_id for part in parts for example_id in part.ids]
    return Split(
        [text for part in parts for text in part.first],
        [text for part in parts for text in part.second or ()] if len(task.columns) == 2 else None,
        None
        if any(part.labels is None for part in parts)
        else np.concatenate([part.labels for part in parts]),  # type: ignore[misc]
        ids if len(set(ids)) == len(ids) else list(range(len(ids))),
    )


def _read_one(file: Path, task: Task, labelled: bool, rows_before: int) -> Split:
    """The rows of one file, as :func:`read` promises them."""
    table = table_of(file, task.columns)
    if any("." in column for column in task.columns):
        table = table.flatten()
    where, has_labels = str(file), labelled and not task.writes
    for column in [*task.columns, *([task.label_column] if has_labels else [])]:
        if column not in table.column_names:
            key = 'label = "..."' if column == task.label_column else "text = [...]"
            hint = f"; {key} in {task.file} names it" if task.file.endswith(".toml") else ""
            if task.file and not hint:
                hint = "; all files of a task have the same columns"
            there = one_line(", ".join(table.column_names))[:400]
            raise InputError(
                f"{where} has no column {column!r} for {task.name}; it has: {there}{hint}"
            )
    if len(table) == 0:
        raise InputError(f"{where} has no rows; {task.name} needs at least one")

    def values(column: str) -> list[Any]:
        try:
            # in one piece: one row after the other takes twenty times as long
            return table[column][:]
        except UnicodeDecodeError as error:  # parquet may call bytes a text that are none
            why = f"{error.reason} at byte {error.start}"
            raise InputError(f"{where}: column {column!r} is not UTF-8 text ({why})") from None

    texts = [values(column) for column in task.columns]
    for column, column_texts in zip(task.columns, texts, strict=True):
        for row, value in enumerate(column_texts):
            if value is None:
                fix = "write a text there, or leave the row out"
                raise InputError(
                    f"{where}, row {row}: {column} should be text, but the cell is empty; {fix}"
                )
            if not isinstance(value, str):
                raise InputError(
                    f"{where}, row {row}: {column} should be text, found {_shown(value)}"
                )
            if not value.isascii() and any(
                "\ud800" <= character <= "\udfff" for character in value
            ):
                raise InputError(
                    f"{where}, row {row}: {column} has half a character (a lone surrogate)"
                )
    ids: Sequence[Any] = range(rows_before, rows_before + len(table))
    if "idx" in table.column_names:
        ids = values("idx")
        for row, value in enumerate(ids):
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(
                    f"{where}, row {row}: idx should be a whole number, found {_shown(value)}"
                )
    labels = labels_of(values(task.label_column), task, where) if has_labels else None
    return Split(texts[0], texts[1] if len(texts) == 2 else None, labels, ids)


def table_of(file: Path, texts: Sequence[str] = ()) -> datasets.Dataset:
    """The rows of a file.

    Args:
        texts: columns that are text, also where a CSV file has numbers in them.

    Raises:
        InputError: the file cannot be read.
    """
    import datasets
    import pandas
    import pyarrow.parquet

    suffix = file.suffix.lower()
    kind = READERS.get(suffix)
    if kind is None:
        raise InputError(f"{file} has no ending that can be read; known: {', '.join(READERS)}")
    if not os.path.isfile(file) or not file.stat().st_size:
        raise InputError(
            f"{file} cannot be read as {kind}: {'it is empty' if os.path.isfile(file) else 'no such file'}"
        )
    rows = _json_rows(file) if kind == "json" else []
    text = text_of(file, str(file)) if kind == "csv" else ""
    header = text.lstrip().partition("\n")[0]
    if suffix == ".csv" and ";" in header and "," not in header:
        raise InputError(
            f"{file} seems to be separated by semicolons; save it with commas, or with tabs as .tsv"
        )
    try:
        if kind == "json":
            return datasets.Dataset.from_list(rows)
        if kind == "parquet":
            return datasets.Dataset(pyarrow.parquet.read_table(file))
        as_text: Any = dict.fromkeys(texts, str)
        # GLUE's quotes are text
        tsv: Any = {"sep": "\t", "quoting": csv.QUOTE_NONE} if suffix == ".tsv" else {}
        # pandas would read words like None and NA as missing
        frame = pandas.read_csv(
            io.StringIO(text), keep_default_na=False, na_values=[""], dtype=as_text, **tsv
        )
        if isinstance(frame.index, pandas.RangeIndex):
            return datasets.Dataset.from_pandas(frame, preserve_index=False)
    except Exception as error:  # the parsers raise many kinds; theirs name the row
        why = (
            _where_kinds_change(rows) or one_line(str(error).strip())[:400] or type(error).__name__
        )
        raise InputError(f"{file} cannot be read as {kind}: {why}") from None
    # pandas takes the first fields of rows that are longer than the header for names of rows
    named = len(frame.columns)
    fix = (
        "take out what is too much"
        if tsv
        else "put a text with a comma into quotes, and end no row with a comma"
    )
    raise InputError(
        f"{file}, row 0: it has {named + frame.index.nlevels} fields, the header {named}; {fix}"
    )


def _where_kinds_change(rows: Sequence[dict[str, Any]]) -> str:
    """Where a column of a JSON file is no longer of the kind that it was; "" where none changes."""
    kinds: dict[str, type] = {}
    for number, row in enumerate(rows):
        for column, value in row.items():
            kind = float if type(value) is int else type(value)
            if value is not None and kinds.setdefault(column, kind) is not kind:
                before = {str: "text", float: "a number", bool: "a truth value"}.get(
                    kinds[column], "of another kind"
                )
                return f"row {number}: {column} is {_shown(value)}, and {before} in the rows before it; write one kind"
    return ""


def _json_rows(file: Path) -> list[Any]:
    """The objects of a JSON file: one a line, or a list of them, or one alone. The parquet library's reader ends the process where a file
    holds anything else.

    Raises:
        InputError: naming the line.
    """

    def no_number(word: str) -> float:
        raise ValueError(f"{word} is not a finite number")

    text, rows = text_of(file, str(file)), list[Any]()
    try:
        whole = json.loads(text, parse_constant=no_number)
        rows = whole if isinstance(whole, list) else [whole]
    except (ValueError, RecursionError):
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                with refused_as_json(f"{file}, line {number}"):
                    rows.append(json.loads(line, parse_constant=no_number))
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InputError(
                f"{file}, row {number}: a row should be an object {{...}}, found {_shown(row)}"
            )
    if not rows:
        raise InputError(f"{file} has no rows: it is empty")
    return rows


def _shown(value: object) -> str:
    """A value in a message: short, on one line."""
    text = one_line(repr(value))
    return text if len(text) <= 80 else f"{text[:77]}..."


BEYOND_FLOAT32 = "beyond what 32-bit numbers hold (3.4e38)"


def labels_of(values: Sequence[object], task: Task, where: str) -> np.ndarray:
    """Codes or targets; names of classes are translated to their codes.

    What CSV and JSON read as truth values are names; whole numbers are, where all names are such.

    Raises:
        InputError: what is no label, or a number that would become infinite in 32 bits.
    """
    form, cleaned = task.form, []
    names = {name.lower(): name for name in task.labels}
    are_numbers = bool(names) and all(re.fullmatch(r"-?\d+", name) for name in names)
    for row, value in enumerate(values):
        named = value
        # one word makes text of all numbers of a CSV file's column
        if task.regression and isinstance(value, str):
            with suppress(ValueError):
                named = float(value)
        elif isinstance(value, bool):
            named = names.get(str(value).lower(), value)
        elif are_numbers and isinstance(value, int):
            named = str(value)
        try:
            cleaned.append(form.label(named, task.labels, task.name))
        except InputError as error:
            raise InputError(f"{where}, row {row}: {error}") from None
    with np.errstate(over="ignore"):
        labels = np.array(cleaned, dtype=form.dtype)
    too_large = np.flatnonzero(~np.isfinite(labels))
    if len(too_large):
        row = int(too_large[0])
        raise InputError(f"{where}, row {row}: {cleaned[row]:g} is {BEYOND_FLOAT32}")
    return labels
