"""Read the predictions of somebody else's system, in the order of the task's examples.

There is one file for each evaluation set.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from bench.data.example_files import READERS
from bench.data.labels import BEYOND_FLOAT32, labels_of, written
from bench.data.quoting import AS_TEXT
from bench.data.spans import graded_texts
from bench.data.table import Table, table_of
from bench.data.table_files import Split
from bench.data.tasks import EvaluationSet, Task
from bench.errors import InputError, one_line
from bench.record.raw_predictions import INDEX, LABEL, PREDICTION
from bench.typed_files import TypedFile, checked
from bench.user_files import toml_of

IDX = "idx"
"""The column of an example's id in the data."""
SEED = re.compile(r"(?:seed[-_=]?)?(\d+)")
IMPOSSIBLE = 1e-12
"""The number that stands for a probability of 0, whose logarithm is no number."""
ABOUT = "about.toml"
"""The file of a folder that says how large its model is; it may be missing."""
LONGEST_INPUT = 128
"""Tokens of the text whose operations are counted."""


class About(TypedFile):
    """The facts of a model that the folder of its predictions states."""

    note: str = Field(min_length=1, max_length=1000)
    """what it is, in one sentence"""
    parameters: int = Field(strict=True, gt=0)
    """numbers that it learned"""
    macs: int = Field(strict=True, gt=0)
    """multiply-accumulate operations of one text of :data:`LONGEST_INPUT` tokens"""
    file_bytes: int = Field(strict=True, gt=0)
    """of its file"""

    def as_toml(self) -> str:
        """The lines of the file."""
        lines = [f"{name} = {json.dumps(value)}" for name, value in self.model_dump().items()]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Predictions:
    """The answers of one model, or of one seed, to the evaluation sets of a task."""

    asked: str
    """as it was typed"""
    seed: int | None
    """None: one model for all seeds"""
    logits: Mapping[str, np.ndarray]
    """evaluation set -> [n, C] float32. Of classes alone: 1 for the one that was predicted, 0 for
    the others. Of questions [n, 5] of :data:`bench.stats.form.SPANS`"""
    sha256: str
    """of the predictions of all seeds, in whatever files they were: a mean never mixes seeds of two
    systems"""
    about: About | None = None
    """what the folder says of the model; None where it says nothing"""


def read_predictions(
    folder: Path, task: Task, evaluation: Mapping[str, Split], asked: str
) -> list[Predictions]:
    """The predictions of each seed that has a folder (``0``, ``seed-1``), or of the folder itself.

    Args:
        evaluation: the task's evaluation sets.
        asked: what messages call the row.

    Raises:
        InputError: no folder, no file of an evaluation set that is scored, or a file that cannot
            be these predictions.
    """
    if not folder.is_dir():
        raise InputError(f"{asked}: no such folder")
    if task.writes:
        raise InputError(
            f"{asked} on {task.name}: classes, numbers and answers to questions are read, "
            "no texts that a system wrote"
        )
    # the predictions of each seed
    folders = _folders_of_seeds(folder, asked)
    by_seed = {}
    for seed, seeds_folder in folders:
        logits = _of_one(seeds_folder, task, evaluation)
        if logits:
            by_seed[seed] = logits
    if not by_seed:
        raise _no_file(folders, task, asked)

    # one hash of all seeds
    digest = hashlib.sha256()
    for seed, logits in by_seed.items():
        for name, logits_NC in sorted(logits.items()):
            digest.update(f"{seed} {name} {logits_NC.shape} ".encode())
            digest.update(logits_NC.astype("<f4").tobytes())
    about = _about(folder / ABOUT)
    sha256 = digest.hexdigest()
    return [Predictions(asked, seed, logits, sha256, about) for seed, logits in by_seed.items()]


def _folders_of_seeds(folder: Path, asked: str) -> list[tuple[int | None, Path]]:
    """The folders of seeds in a folder, in the order of the seeds; else the folder, without a seed.

    Raises:
        InputError: two folders of one seed, or files beside folders.
    """
    # folders of seeds, each seed once
    seeds: list[tuple[int, Path]] = []
    for inner in folder.iterdir():
        named = SEED.fullmatch(inner.name.lower())
        if named and inner.is_dir():
            seeds.append((int(named[1]), inner))
    seeds.sort()
    for (number, first), (other, second) in pairwise(seeds):
        if number == other:
            raise InputError(f"{asked}: {first.name} and {second.name} are both of seed {number}")
    if not seeds:
        return [(None, folder)]

    # files of one model, beside folders of several
    beside = _files(folder)
    if beside:
        example = next(iter(beside.values())).name
        raise InputError(
            f"{asked}: it has folders of seeds and files beside them, like {example}; keep one kind"
        )
    return [*seeds]


def _no_file(folders: Sequence[tuple[int | None, Path]], task: Task, asked: str) -> InputError:
    """The error for folders without a file of the task."""
    there: list[str] = []
    for _, folder in folders:
        there += [file.name for file in _files(folder).values()]
    has = one_line(", ".join(there) or "none")[:200]
    ending = "json" if task.spans else "tsv"
    like = f"{name_of_file(task, task.evaluation[0])}.{ending}"
    return InputError(f"{asked}: no file of {task.name} in it, like {like}; it has: {has}")


def _about(file: Path) -> About | None:
    """The facts of a model that its folder states. Raises InputError: the file has another form."""
    return checked(About, toml_of(file, str(file)), str(file)) if file.is_file() else None


def _files(folder: Path) -> dict[str, Path]:
    """The files that can be read, by their plain names. Raises InputError: two of one name."""
    files: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        if file.suffix.lower() not in READERS:
            continue
        other = files.setdefault(_plain(file.stem), file)
        if other != file:
            raise InputError(f"{folder}: {other.name} and {file.name} have one name; keep one")
    return files


def _of_one(folder: Path, task: Task, evaluation: Mapping[str, Split]) -> dict[str, np.ndarray]:
    """The predictions in one folder by evaluation set; none where it has no file of the task."""
    # the file of each evaluation set, by any of its names
    there = _files(folder)
    read = _read_texts if task.spans else _read
    logits: dict[str, np.ndarray] = {}
    missing: list[str] = []
    for each in task.evaluation:
        if each.name not in evaluation:
            continue
        name = name_of_file(task, each)
        found = [plain for plain in map(_plain, _names(task, each)) if plain in there]
        if found:
            logits[each.name] = read(there[found[0]], task, evaluation[each.name], name)
        elif each.labelled:
            missing.append(name)
    if logits and missing:
        raise InputError(f"{folder} has no file {missing[0]}.tsv, which is scored too")
    return logits


def name_of_file(task: Task, each: EvaluationSet) -> str:
    """The name of an evaluation set's file in tables, without its ending."""
    return _names(task, each)[0]


def _names(task: Task, each: EvaluationSet) -> list[str]:
    """The names that the file of an evaluation set may have; first that of tables."""
    if not each.labelled:
        return [each.name]
    names = []
    if each.name in ("matched", "mismatched"):
        short = "m" if each.name == "matched" else "mm"
        names.append(f"{task.name}-{short}")
    if sum(other.labelled for other in task.evaluation) == 1:
        names.append(task.name)
    return [*names, f"{task.name}-{each.name}"]


def _plain(name: str) -> str:
    """GLUE's own files are called SST-2 and STS-B."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@dataclass(frozen=True)
class _Columns:
    """The columns of a file of predictions."""

    file: Path
    table: Table
    names: Mapping[str, str]
    """name as it is looked for, in small letters -> name in the file"""

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def values(self, name: str) -> list[Any]:
        """The cells of a column.

        Raises:
            InputError: an empty one.
        """
        read = self.table[self.names[name]]
        if None in read:
            raise InputError(f"{self.file}, row {read.index(None)}: {name} is empty")
        return read


def _read(file: Path, task: Task, split: Split, called: str) -> np.ndarray:
    """[n, C] the predictions of a table in the order of the examples.

    Args:
        called: the evaluation set, for messages.
    """
    table = table_of(file, quotes=AS_TEXT if file.suffix.lower() == ".tsv" else "")
    # a class that begins like a formula is written with an apostrophe
    names = {written(name, task.labels).strip().lower(): name for name in table.names}
    columns = _Columns(file, table, names)
    if len(table) != len(split):
        raise InputError(f"{file} has {len(table):,} rows; {called} has {len(split):,} examples")

    order = _order_of_examples(columns, split)
    if split.labels is not None and LABEL in columns:
        labels = labels_of(columns.values(LABEL), task, f"{file}, {LABEL}")[order]
        _refuse_other_labels(labels, split.labels, task, file)

    # classes or numbers, or scores of each class, or both
    scores = [name.lower() for name in task.labels]
    has_scores = bool(scores) and all(name in columns for name in scores)
    if not has_scores and PREDICTION not in columns:
        classes = f", or one for each class: {', '.join(task.labels)}" if scores else ""
        there = one_line(", ".join(table.names))[:200]
        raise InputError(f"{file} has no column {PREDICTION}{classes}; it has: {there}")
    predicted = None
    if PREDICTION in columns:
        predicted = labels_of(columns.values(PREDICTION), task, f"{file}, {PREDICTION}")
    if has_scores:
        return _scores(columns, predicted, task)[order]
    assert predicted is not None
    logits_NC = np.eye(len(scores))[predicted] if scores else predicted[:, None].astype(np.float64)
    return logits_NC[order].astype(np.float32)


def _order_of_examples(columns: _Columns, split: Split) -> np.ndarray:
    """[n] the row of each example: by its id, else by its number, else as the rows stand."""
    order = np.arange(len(split))
    for name, ids in ((INDEX, range(len(split))), (IDX, split.ids)):
        if name in columns:
            order = _order(columns.values(name), ids, f"{columns.file}, {name}")
    return order


def _refuse_other_labels(labels: np.ndarray, right: np.ndarray, task: Task, file: Path) -> None:
    """Refuse a file whose labels are not the task's: it is of other examples.

    Raises:
        InputError: a label is another one.
    """
    # the first label that is another one
    wrong = np.flatnonzero(labels != right)
    if not len(wrong):
        return
    first = int(wrong[0])
    pair = f"{_named(labels[first], task)}, in {task.name} {_named(right[first], task)}"
    codes = ", ".join(task.labels) or "numbers"
    raise InputError(
        f"{file}: its labels are not the task's, in {len(wrong):,} of {len(right):,} examples, "
        f"the first for example {first}: {pair}. "
        f"Other examples, another order, or other codes of the classes, which are {codes}"
    )


def _scores(columns: _Columns, predicted: np.ndarray | None, task: Task) -> np.ndarray:
    """[n, C] the scores of each class, in the order of the file.

    Raises:
        InputError: cells that are no finite numbers, or of which another class than the predicted
            one is the largest.
    """
    file = columns.file
    names = [name.lower() for name in task.labels]
    try:
        scores_NC = np.array([columns.values(name) for name in names], dtype=np.float64).T
    except (TypeError, ValueError):
        raise InputError(f"{file}: the columns {', '.join(names)} should be numbers") from None
    infinite = np.flatnonzero(~np.isfinite(scores_NC).all(1))
    if len(infinite):
        raise InputError(f"{file}, row {int(infinite[0])}: a number is not finite")

    # the predicted class has the largest number
    largest_N = scores_NC.argmax(1)
    if predicted is not None and (largest_N != predicted).any():
        first = int(np.flatnonzero(largest_N != predicted)[0])
        why = f"{PREDICTION} is {_named(predicted[first], task)}"
        why += f", and {task.labels[int(largest_N[first])]} has the largest number"
        raise InputError(
            f"{file}, row {first}: {why}; keep the column {PREDICTION} or those of the classes"
        )
    return _in_32_bits(_as_logits(scores_NC, str(file)), str(file))


def _read_texts(file: Path, task: Task, split: Split, called: str) -> np.ndarray:
    """[n, 5] the answers of a file that SQuAD's official script takes.

    It is a JSON object: id of a question -> text, "" for no answer.
    """
    try:
        given = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file} is no JSON: {one_line(str(error))[:200]}") from None
    if not (isinstance(given, dict) and all(isinstance(text, str) for text in given.values())):
        raise InputError(
            f"{file}: should be a JSON object with the text of each answer by its question's id"
        )

    # each question once, and no other
    ids = set(split.answers.names) if split.answers else set[str]()
    if len(ids) < len(split):
        raise InputError(
            f"{called}: several of its questions have one id, so that {file} cannot be read by them"
        )
    differences = (
        ("has no answer to", ids - given.keys()),
        ("answers what is no question of", given.keys() - ids),
    )
    for what, some in differences:
        if some:
            example = one_line(min(some))[:80]
            raise InputError(f"{file} {what} {called}: {len(some):,} ids, like {example}")
    return graded_texts(given, split)


def _in_32_bits(logits_NC: np.ndarray, where: str) -> np.ndarray:
    """[n, C] the numbers as a record keeps them.

    Raises:
        InputError: a number would become infinite.
    """
    # a number may become infinite in 32 bits
    with np.errstate(over="ignore"):
        kept_NC = logits_NC.astype(np.float32)
    too_large = np.flatnonzero(~np.isfinite(kept_NC).all(1))
    if len(too_large):
        raise InputError(f"{where}, row {too_large[0]}: a number is {BEYOND_FLOAT32}")
    return kept_NC


def _as_logits(scores_NC: np.ndarray, where: str) -> np.ndarray:
    """Logits of scores: the logarithms of probabilities, also of rounded ones and percents.

    Logits, and classes written as 0 and 1, stay as they are.

    Raises:
        InputError: rows that are no probabilities among those that are.
    """
    # rows of probabilities sum to 1, or to 100; rounding may leave a little
    classes = scores_NC.shape[1]
    sums_N = scores_NC.sum(1)
    total = 100.0 if np.median(sums_N) > 50 else 1.0
    off_N = np.abs(sums_N - total) > 0.01 * total * classes
    is_one_hot = np.array_equal(scores_NC, np.eye(classes)[scores_NC.argmax(1)])
    if (scores_NC < 0).any() or np.median(off_N) or is_one_hot:
        return scores_NC
    if off_N.any():
        row = int(np.flatnonzero(off_N)[0])
        raise InputError(
            f"{where}, row {row}: most rows are probabilities, and this one sums to {sums_N[row]:g}"
        )
    return np.log(np.maximum(scores_NC / sums_N[:, None], IMPOSSIBLE))


def _order(index: Sequence[Any], ids: Sequence[int], where: str) -> np.ndarray:
    """[n] the row of each example, by its id."""
    for value in index:
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{where}: {one_line(repr(value))[:80]} should be a whole number")

    # each example once
    rows = {value: row for row, value in enumerate(index)}
    if len(rows) < len(index):
        twice, _ = Counter(index).most_common(1)[0]
        raise InputError(f"{where}: {twice} is there twice")
    unknown = rows.keys() - set(ids)
    if unknown:
        known = f"{min(ids)} to {max(ids)}"
        raise InputError(f"{where}: {min(unknown)} is none of the examples, which are {known}")
    return np.array([rows[name] for name in ids])


def _named(label: Any, task: Task) -> str:
    return task.labels[int(label)] if task.labels else f"{label:g}"
