"""Reading what somebody else's system answered: one file for each evaluation set, put in the order of the task's examples."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.data.table_files import Split, labels_of, table_of
from bench.data.tasks import READERS, EvaluationSet, Task
from bench.errors import InputError, one_line

INDEX, PREDICTION, LABEL = ("index", "idx"), "prediction", "label"
SEED = re.compile(r"(?:seed[-_=]?)?(\d+)")
IMPOSSIBLE = 1e-12
"""What stands for a probability of 0, whose logarithm is no number."""


@dataclass(frozen=True)
class Predictions:
    """The answers of one model, or of one seed, to the evaluation sets of a task."""

    asked: str
    """as it was typed"""
    seed: int | None
    """None: one model for all seeds"""
    logits: Mapping[str, np.ndarray]
    """evaluation set -> [n, C] float32. Of classes alone: 1 for the one that was answered, 0 for the others"""
    sha256: str
    """of the answers of all seeds, in whatever files they were: a mean never mixes seeds of two systems"""


def read_predictions(folder: Path, task: Task, evaluation: Mapping[str, Split], asked: str) -> list[Predictions]:
    """Those of each seed that has a folder of its own (``0``, ``seed-1``), or those of the folder itself.

    Args:
        evaluation: the task's evaluation sets.
        asked: what messages call the row.

    Raises:
        InputError: no folder, no file of an evaluation set that is scored, or a file that cannot be these answers.
    """
    if not folder.is_dir():
        raise InputError(f"{asked}: no such folder")
    if task.writes or task.spans:
        raise InputError(f"{asked} on {task.name}: only classes and numbers are read, no texts and no spans of one")
    seeds = {int(match[1]): f for f in folder.iterdir() if f.is_dir() and (match := SEED.fullmatch(f.name.lower()))}
    folders: Sequence[tuple[int | None, Path]] = sorted(seeds.items()) or [(None, folder)]
    answers = {seed: _of_one(place, task, evaluation, asked) for seed, place in folders}
    digest = hashlib.sha256()
    for seed, logits in answers.items():
        for name, logits_NC in sorted(logits.items()):
            digest.update(f"{seed} {name} {logits_NC.shape} ".encode() + logits_NC.astype("<f4").tobytes())
    return [Predictions(asked, seed, logits, digest.hexdigest()) for seed, logits in answers.items()]


def _of_one(folder: Path, task: Task, evaluation: Mapping[str, Split], asked: str) -> dict[str, np.ndarray]:
    there = {_plain(file.stem): file for file in sorted(folder.iterdir()) if file.suffix in READERS}
    logits = {}
    for each in task.evaluation:
        if each.name not in evaluation:
            continue
        file = next((there[name] for name in map(_plain, _names(task, each)) if name in there), None)
        if file is not None:
            logits[each.name] = _read(file, task, evaluation[each.name])
        elif each.labelled:
            has = ", ".join(file.name for file in there.values()) or "none"
            raise InputError(
                f"{asked}: {folder} has no file of {task.name}, like {_names(task, each)[0]}.tsv; it has: {one_line(has)[:200]}"
            )
    return logits


def _names(task: Task, each: EvaluationSet) -> list[str]:
    """What the file of an evaluation set may be called; first as tables call it."""
    if not each.labelled:
        return [each.name]
    short = {"matched": f"{task.name}-m", "mismatched": f"{task.name}-mm"}.get(each.name)
    alone = sum(other.labelled for other in task.evaluation) == 1
    return [*([short] if short else []), *([task.name] if alone else []), f"{task.name}-{each.name}"]


def _plain(name: str) -> str:
    """GLUE's own files are called SST-2 and STS-B."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _read(file: Path, task: Task, split: Split) -> np.ndarray:
    """[n, C] in the order of the examples."""
    table = table_of(file)
    columns = {name.strip().lower(): name for name in table.column_names}

    def values(name: str) -> list[Any]:
        read = table[columns[name]][:]
        if None in read:
            raise InputError(f"{file}, row {read.index(None)}: {name} is empty")
        return read

    if len(table) != len(split):
        raise InputError(f"{file} has {len(table):,} rows; {task.name} has {len(split):,} examples")
    order = np.arange(len(split))
    if index := next((name for name in INDEX if name in columns), None):
        order = _order(values(index), split, f"{file}, {index}")
    if split.labels is not None and LABEL in columns:
        given = labels_of(values(LABEL), task, str(file))[order]
        wrong = np.flatnonzero(given != split.labels)
        if len(wrong):
            first = int(wrong[0])
            pair = f"{_named(given[first], task)}, in {task.name} {_named(split.labels[first], task)}"
            raise InputError(
                f"{file}: its labels are not the task's, in {len(wrong):,} of {len(split):,} examples, the first for example {first}: {pair}. "
                f"Other examples, another order, or other codes of the classes, which are {', '.join(task.labels) or 'numbers'}"
            )
    scores = [name.lower() for name in task.labels]
    if scores and set(scores) <= columns.keys():
        try:
            logits_NC = np.array([values(name) for name in scores], dtype=np.float64).T
        except (TypeError, ValueError):
            raise InputError(f"{file}: the columns {', '.join(scores)} should be numbers") from None
        if (logits_NC >= 0).all() and np.allclose(logits_NC.sum(1), 1, atol=1e-3):
            logits_NC = np.log(np.maximum(logits_NC, IMPOSSIBLE))
    elif PREDICTION in columns:
        answers = labels_of(values(PREDICTION), task, str(file))
        logits_NC = np.eye(len(scores))[answers] if scores else answers[:, None].astype(np.float64)
    else:
        wanted = PREDICTION + (f", or one for each class: {', '.join(task.labels)}" if scores else "")
        raise InputError(f"{file} has no column {wanted}; it has: {one_line(', '.join(table.column_names))[:200]}")
    if not np.isfinite(logits_NC).all():
        raise InputError(
            f"{file}, row {int(np.flatnonzero(~np.isfinite(logits_NC).all(1))[0])}: a number is not finite"
        )
    return logits_NC[order].astype(np.float32)


def _order(index: Sequence[Any], split: Split, where: str) -> np.ndarray:
    """[n] the row of each example. The index is an example's id, as GLUE has it, or its place."""
    rows = {value: row for row, value in enumerate(index)}
    if len(rows) < len(index):
        twice, _ = Counter(index).most_common(1)[0]
        raise InputError(f"{where}: {twice!r} is there twice")
    for names in (split.ids, range(len(split))):
        if rows.keys() == set(names):
            return np.array([rows[name] for name in names])
    unknown = next(value for value in index if value not in set(range(len(split))))
    raise InputError(f"{where}: {unknown!r} is none of 0 to {len(split) - 1}, nor are these the ids of the examples")


def _named(label: Any, task: Task) -> str:
    return task.labels[int(label)] if task.labels else f"{label:g}"
