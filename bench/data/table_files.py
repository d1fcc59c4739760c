"""Examples read from files, checked, and refused in one line where they are wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.data.labels import labels_with_rows
from bench.data.table import Table, shown, table_of
from bench.data.tasks import Task
from bench.errors import InputError, one_line

INDEX = "idx"
"""A column of whole numbers that name the examples."""


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
    """Examples in their source's order."""

    first: Sequence[str]
    second: Sequence[str] | None
    labels: np.ndarray | None
    """int64 codes, float32 targets, or None where not public; of questions, which have ``answers``,
    whether there is one"""
    ids: Sequence[int]
    answers: Answers | None = None
    said: tuple[str, ...] = ()
    """what was inferred where the files were read, for a plan"""
    groups: Sequence[object] = ()
    """of each example what keeps it on one side of an automatic split with others; none where the
    task names no such column"""

    def __len__(self) -> int:
        return len(self.first)

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The two texts of each example, the second one "" where there is none."""
        return list(zip(self.first, self.second or [""] * len(self), strict=True))

    def example_hashes(self) -> np.ndarray:
        """[n] uint64, from each example's id and texts: pairs predictions of runs without text."""
        rows = zip(self.ids, self.texts, strict=True)
        digests = (hashlib.sha256(f"{i}\x1f{a}\x1f{b}".encode()).digest()[:8] for i, (a, b) in rows)
        return np.frombuffer(b"".join(digests), dtype=np.uint64)

    def fingerprint(self) -> str:
        """sha256 of the content: the same examples from the hub, a folder or another file agree."""
        # each example with its label, or with its answers
        digest = hashlib.sha256()
        labels = [""] * len(self)
        if self.answers is not None:
            labels = [repr(answers) for answers in self.answers.of_questions]
        elif self.labels is not None:
            labels = [repr(label) for label in self.labels.tolist()]
        for texts, label in zip(self.texts, labels, strict=True):
            digest.update("\x1f".join((*texts, label)).encode() + b"\x1e")
        return digest.hexdigest()

    def shared_with(self, other: Split) -> int:
        """How many of these examples are among the other's, letter by letter."""
        known = set(other.texts)
        return sum(texts in known for texts in self.texts)

    def take(self, rows: Sequence[int]) -> Split:
        """The examples of these rows, in this order."""
        answers = None
        if self.answers is not None:
            answers = Answers(
                [self.answers.of_questions[i] for i in rows],
                self.answers.may_be_none,
                [self.answers.names[i] for i in rows],
            )
        return Split(
            first=[self.first[i] for i in rows],
            second=None if self.second is None else [self.second[i] for i in rows],
            labels=None if self.labels is None else self.labels[list(rows)],
            ids=[self.ids[i] for i in rows],
            answers=answers,
            said=self.said,
            groups=[self.groups[i] for i in rows] if self.groups else (),
        )

    def halves(self) -> tuple[Split, Split]:
        """Two halves, one to choose on and one to report.

        Each has every second of a label's examples, by the hash of their texts. The same examples
        fall into the same half wherever they come from and in whatever order.
        """
        if self.labels is None:
            raise ValueError("examples without labels choose nothing")
        texts = [f"{a}\x1f{b}".encode() for a, b in self.texts]
        # by hash, then by label
        order = sorted(
            range(len(self)), key=lambda i: (hashlib.sha256(texts[i]).digest(), self.ids[i])
        )
        if self.labels.dtype.kind == "i":
            order.sort(key=lambda i: int(self.labels[i]))  # type: ignore[index]
        return self.take(sorted(order[::2])), self.take(sorted(order[1::2]))

    def limited(self, count: int | None, by_class: bool = False) -> Split:
        """At most ``count`` examples, drawn once with a fixed seed and kept in their order.

        Args:
            by_class: of each class its share of them, and one at least where there are so many.
        """
        if count is None or count >= len(self):
            return self
        if not by_class:
            return self.take(_drawn(len(self), count))
        assert self.labels is not None, "examples of classes have labels"
        return self.take(_drawn_by_class(self.labels.tolist(), count))


@lru_cache  # a plan asks for the same ones some hundred times
def _drawn(examples: int, count: int) -> list[int]:
    chosen = np.random.default_rng(0).permutation(examples)[:count]
    return sorted(chosen.tolist())


def _drawn_by_class(labels: Sequence[int], count: int) -> list[int]:
    """So many rows, as many of each class as its share of all."""
    # the rows of each class, in the order in which they are drawn
    rows: dict[int, list[int]] = {}
    for row in np.random.default_rng(0).permutation(len(labels)).tolist():
        rows.setdefault(labels[row], []).append(row)

    # whole rows of each share; what rounding has left goes to classes without a row, then to those
    # that lost the most
    shares = {label: count * len(own) / len(labels) for label, own in rows.items()}
    wanted = {label: int(share) for label, share in shares.items()}
    left = count - sum(wanted.values())
    for label in sorted(rows, key=lambda label: (wanted[label] > 0, wanted[label] - shares[label])):
        if left > 0:
            wanted[label] += 1
            left -= 1

    # of more classes than that some have no row; the largest ones give one each
    for label in [label for label in sorted(rows) if wanted[label] == 0]:
        largest = max(wanted, key=lambda label: wanted[label])
        if wanted[largest] > 1:
            wanted[largest] -= 1
            wanted[label] = 1
    chosen = []
    for label, own in rows.items():
        chosen += own[: wanted[label]]
    return sorted(chosen)


def read(files: Sequence[Path], task: Task, labelled: bool, split: str = "the split") -> Split:
    """Rows of one split, checked. Each file is read alone, so that a message can name it.

    Args:
        split: what messages call it.

    Raises:
        InputError: unreadable file (with the parser's row), missing column, no rows, a text that
            is not text, a label outside the task's codes (-1 marks labels that are not public).
    """
    parts: list[Split] = []
    for file in files:
        parts.append(_read_one(file, task, labelled, sum(map(len, parts)), split))

    # the rows of all files, one after the other
    first: list[str] = []
    second: list[str] = []
    ids: list[int] = []
    said: list[str] = []
    groups: list[object] = []
    labels = []
    for part in parts:
        first += part.first
        second += part.second or ()
        ids += part.ids
        said += part.said
        groups += part.groups
        if part.labels is not None:
            labels.append(part.labels)
    return Split(
        first,
        second if len(task.columns) == 2 else None,
        # one file without labels, and none are known
        np.concatenate(labels) if len(labels) == len(parts) else None,
        # two files may number their examples alike
        ids if len(set(ids)) == len(ids) else list(range(len(ids))),
        said=tuple(dict.fromkeys(said)),
        groups=groups,
    )


def _read_one(file: Path, task: Task, labelled: bool, rows_before: int, split: str) -> Split:
    """The rows of one file, as :func:`read` promises them."""
    # the columns that the task needs
    has_labels = labelled and not task.writes
    needed = list(task.columns)
    if has_labels:
        needed.append(task.label_column)
    if task.group:
        needed.append(task.group)
    table = table_of(file, task.columns, [*needed, INDEX], task.quotes)
    for column in needed:
        if not table.has(column):
            raise _no_column(table, column, task)
    if len(table) == 0:
        raise InputError(f"{file} has no rows; {task.name} needs at least one")

    # texts, and the numbers of the examples
    texts = [_texts(table, column) for column in task.columns]
    ids = _ids(table) if table.has(INDEX) else range(rows_before, rows_before + len(table))
    second = texts[1] if len(texts) == 2 else None
    if not has_labels:
        return Split(texts[0], second, None, ids, said=table.said)

    # rows with a label; an empty one may leave its row out
    labels, kept = labels_with_rows(table[task.label_column], task, str(file), split)
    first = [texts[0][row] for row in kept]
    if second is not None:
        second = [second[row] for row in kept]
    kept_ids = [ids[row] for row in kept]
    groups = _groups(table, task.group, kept) if task.group else ()
    return Split(first, second, labels, kept_ids, said=table.said, groups=groups)


def _texts(table: Table, column: str) -> list[str]:
    """The texts of a column, read in one piece: one row after the other takes twenty times as long.

    Raises:
        InputError: a cell that is empty, or no text.
    """
    texts = table[column]
    for row, value in enumerate(texts):
        if value is None:
            raise InputError(
                f"{table.file}, row {row}: {column} should be text, but the cell is empty; "
                "write a text there, or leave the row out"
            )
        if not isinstance(value, str):
            raise InputError(
                f"{table.file}, row {row}: {column} should be text, found {shown(value)}"
            )
    return texts


def _groups(table: Table, column: str, kept: Sequence[int]) -> list[str]:
    """The group of each of these rows, as text: numbers of two files are the same number.

    Raises:
        InputError: an empty cell.
    """
    values = table[column]
    for row in kept:
        value = values[row]
        # NaN, which is no number equal to itself
        if value is None or value == "" or value != value:
            raise InputError(
                f"{table.file}, row {row}: {column} is empty, so that the row has no group; "
                "write one there, or leave the row out"
            )
    return [str(values[row]) for row in kept]


def _ids(table: Table) -> list[int]:
    """The numbers that a file gives its examples."""
    ids = table[INDEX]
    for row, value in enumerate(ids):
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(
                f"{table.file}, row {row}: idx should be a whole number, found {shown(value)}"
            )
    return ids


def _no_column(table: Table, column: str, task: Task) -> InputError:
    """The error for a file that lacks a column of its task."""
    hint = ""
    if task.file.endswith(".toml"):
        key = 'label = "..."' if column == task.label_column else "text = [...]"
        hint = f"; {key} in {task.file} names it"
    elif task.file:
        hint = (
            "; all files of a task have the same columns; :validation=FILE names another to score"
        )
    there = one_line(", ".join(table.names))[:400]
    return InputError(
        f"{table.file} has no column {column!r} for {task.name}; it has: {there}{hint}"
    )
