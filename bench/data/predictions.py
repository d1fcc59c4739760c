"""Reading what somebody else's system answered: one file for each evaluation set, put in the order of the task's examples."""

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
from bench.data.table import table_of
from bench.data.table_files import Split
from bench.data.tasks import EvaluationSet, Task
from bench.errors import InputError, one_line
from bench.typed_files import TypedFile, checked
from bench.user_files import toml_of

INDEX, IDX, PREDICTION, LABEL = "index", "idx", "prediction", "label"
"""Columns: an example's place from 0 on, its id in the data, what was answered, what is right."""
SEED = re.compile(r"(?:seed[-_=]?)?(\d+)")
IMPOSSIBLE = 1e-12
"""What stands for a probability of 0, whose logarithm is no number."""
ABOUT = "about.toml"
"""The file of a folder that says how large its model is; it may be missing."""
LONGEST_INPUT = 128
"""Tokens of the text whose operations are counted."""


class About(TypedFile):
    """What the folder of somebody's predictions says of their model."""

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
    """evaluation set -> [n, C] float32. Of classes alone: 1 for the one that was answered, 0 for the others. Of questions [n, 5] of
    :data:`bench.stats.form.SPANS`"""
    sha256: str
    """of the answers of all seeds, in whatever files they were: a mean never mixes seeds of two systems"""
    about: About | None = None
    """what the folder says of the model; None where it says nothing"""


def read_predictions(
    folder: Path, task: Task, evaluation: Mapping[str, Split], asked: str
) -> list[Predictions]:
    """Those of each seed that has a folder of its own (``0``, ``seed-1``), or those of the folder itself.

    Args:
        evaluation: the task's evaluation sets.
        asked: what messages call the row.

    Raises:
        InputError: no folder, no file of an evaluation set that is scored, or a file that cannot be these answers.
    """
    if not folder.is_dir():
        raise InputError(f"{asked}: no such folder")
    if task.writes:
        raise InputError(
            f"{asked} on {task.name}: classes, numbers and answers to questions are read, no texts that a system wrote"
        )
    named = (
        (SEED.fullmatch(each.name.lower()), each) for each in folder.iterdir() if each.is_dir()
    )
    seeds = sorted((int(match[1]), each) for match, each in named if match)
    for (number, first), (other, second) in pairwise(seeds):
        if number == other:
            raise InputError(f"{asked}: {first.name} and {second.name} are both of seed {number}")
    if seeds and (alone := _files(folder)):
        raise InputError(
            f"{asked}: it has folders of seeds and files beside them, like {next(iter(alone.values())).name}; keep one kind"
        )
    folders: Sequence[tuple[int | None, Path]] = [*seeds] or [(None, folder)]
    by_seed = [(seed, _of_one(place, task, evaluation)) for seed, place in folders]
    answers = {seed: logits for seed, logits in by_seed if logits}
    if not answers:
        has = (
            ", ".join(file.name for _, place in folders for file in _files(place).values())
            or "none"
        )
        like = f"{_names(task, task.evaluation[0])[0]}.{'json' if task.spans else 'tsv'}"
        raise InputError(
            f"{asked}: no file of {task.name} in it, like {like}; it has: {one_line(has)[:200]}"
        )
    digest = hashlib.sha256()
    for seed, logits in answers.items():
        for name, logits_NC in sorted(logits.items()):
            digest.update(
                f"{seed} {name} {logits_NC.shape} ".encode() + logits_NC.astype("<f4").tobytes()
            )
    about = _about(folder / ABOUT)
    return [
        Predictions(asked, seed, logits, digest.hexdigest(), about)
        for seed, logits in answers.items()
    ]


def _about(file: Path) -> About | None:
    """What a folder says of its model. Raises InputError: the file has another form."""
    return checked(About, toml_of(file, str(file)), str(file)) if file.is_file() else None


def _files(folder: Path) -> dict[str, Path]:
    """The files that can be read, by their plain names. Raises InputError: two of one name."""
    files: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        if (
            file.suffix.lower() in READERS
            and (other := files.setdefault(_plain(file.stem), file)) != file
        ):
            raise InputError(f"{folder}: {other.name} and {file.name} have one name; keep one")
    return files


def _of_one(folder: Path, task: Task, evaluation: Mapping[str, Split]) -> dict[str, np.ndarray]:
    """The answers in one folder; none where it has no file of the task."""
    there, logits, missing = _files(folder), dict[str, np.ndarray](), list[str]()
    for each in task.evaluation:
        if each.name not in evaluation:
            continue
        file = next(
            (there[name] for name in map(_plain, _names(task, each)) if name in there), None
        )
        if file is not None:
            read = _read_texts if task.spans else _read
            logits[each.name] = read(file, task, evaluation[each.name], _names(task, each)[0])
        elif each.labelled:
            missing.append(_names(task, each)[0])
    if logits and missing:
        raise InputError(f"{folder} has no file {missing[0]}.tsv, which is scored too")
    return logits


def name_of_file(task: Task, each: EvaluationSet) -> str:
    """What the file of an evaluation set is called in tables, without its ending."""
    return _names(task, each)[0]


def _names(task: Task, each: EvaluationSet) -> list[str]:
    """What the file of an evaluation set may be called; first as tables call it."""
    if not each.labelled:
        return [each.name]
    short = {"matched": f"{task.name}-m", "mismatched": f"{task.name}-mm"}.get(each.name)
    alone = sum(other.labelled for other in task.evaluation) == 1
    return [
        *([short] if short else []),
        *([task.name] if alone else []),
        f"{task.name}-{each.name}",
    ]


def _plain(name: str) -> str:
    """GLUE's own files are called SST-2 and STS-B."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _read(file: Path, task: Task, split: Split, called: str) -> np.ndarray:
    """[n, C] in the order of the examples.

    Args:
        called: the evaluation set, for messages.
    """
    table = table_of(file, quotes=AS_TEXT if file.suffix.lower() == ".tsv" else "")
    # a class that begins like a formula is written with an apostrophe
    columns = {written(name, task.labels).strip().lower(): name for name in table.names}

    def values(name: str) -> list[Any]:
        read = table[columns[name]]
        if None in read:
            raise InputError(f"{file}, row {read.index(None)}: {name} is empty")
        return read

    if len(table) != len(split):
        raise InputError(f"{file} has {len(table):,} rows; {called} has {len(split):,} examples")
    order = np.arange(len(split))
    for name, ids in ((INDEX, range(len(split))), (IDX, split.ids)):
        if name in columns:
            order = _order(values(name), ids, f"{file}, {name}")
    if split.labels is not None and LABEL in columns:
        given = labels_of(values(LABEL), task, f"{file}, {LABEL}")[order]
        wrong = np.flatnonzero(given != split.labels)
        if len(wrong):
            first = int(wrong[0])
            pair = (
                f"{_named(given[first], task)}, in {task.name} {_named(split.labels[first], task)}"
            )
            raise InputError(
                f"{file}: its labels are not the task's, in {len(wrong):,} of {len(split):,} examples, the first for example {first}: {pair}. "
                f"Other examples, another order, or other codes of the classes, which are {', '.join(task.labels) or 'numbers'}"
            )
    scores = [name.lower() for name in task.labels]
    has_scores = bool(scores) and set(scores) <= columns.keys()
    if not has_scores and PREDICTION not in columns:
        wanted = PREDICTION + (
            f", or one for each class: {', '.join(task.labels)}" if scores else ""
        )
        raise InputError(
            f"{file} has no column {wanted}; it has: {one_line(', '.join(table.names))[:200]}"
        )
    answers = (
        labels_of(values(PREDICTION), task, f"{file}, {PREDICTION}")
        if PREDICTION in columns
        else None
    )
    if not has_scores:
        assert answers is not None
        logits_NC = np.eye(len(scores))[answers] if scores else answers[:, None].astype(np.float64)
        return logits_NC[order].astype(np.float32)
    try:
        logits_NC = np.array([values(name) for name in scores], dtype=np.float64).T
    except (TypeError, ValueError):
        raise InputError(f"{file}: the columns {', '.join(scores)} should be numbers") from None
    if not np.isfinite(logits_NC).all():
        raise InputError(
            f"{file}, row {int(np.flatnonzero(~np.isfinite(logits_NC).all(1))[0])}: a number is not finite"
        )
    if answers is not None and (logits_NC.argmax(1) != answers).any():
        first = int(np.flatnonzero(logits_NC.argmax(1) != answers)[0])
        likeliest = task.labels[int(logits_NC[first].argmax())]
        why = f"{PREDICTION} is {_named(answers[first], task)}, and {likeliest} has the largest number"
        raise InputError(
            f"{file}, row {first}: {why}; keep the column {PREDICTION} or those of the classes"
        )
    return _in_32_bits(_as_logits(logits_NC, str(file)), str(file))[order]


def _read_texts(file: Path, task: Task, split: Split, called: str) -> np.ndarray:
    """[n, 5] the answers of a file that SQuAD's official script takes: a JSON object, name of a question -> text, "" for no answer."""
    try:
        given = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file} is no JSON: {one_line(str(error))[:200]}") from None
    if not (isinstance(given, dict) and all(isinstance(text, str) for text in given.values())):
        raise InputError(
            f"{file}: should be a JSON object with the text of each answer by its question's id"
        )
    names = set(split.answers.names) if split.answers else set[str]()
    if len(names) < len(split):
        raise InputError(
            f"{called}: several of its questions have one id, so that {file} cannot be read by them"
        )
    for what, some in (
        ("has no answer to", names - given.keys()),
        ("answers what is no question of", given.keys() - names),
    ):
        if some:
            raise InputError(
                f"{file} {what} {called}: {len(some):,} ids, like {one_line(min(some))[:80]}"
            )
    return graded_texts(given, split)


def _in_32_bits(logits_NC: np.ndarray, where: str) -> np.ndarray:
    """[n, C] the numbers as a record keeps them.

    Raises:
        InputError: a number would become infinite.
    """
    with np.errstate(over="ignore"):
        kept_NC = logits_NC.astype(np.float32)
    too_large = np.flatnonzero(~np.isfinite(kept_NC).all(1))
    if len(too_large):
        raise InputError(f"{where}, row {too_large[0]}: a number is {BEYOND_FLOAT32}")
    return kept_NC


def _as_logits(scores_NC: np.ndarray, where: str) -> np.ndarray:
    """Logarithms of probabilities, also rounded ones and percents; logits, and classes written as 0 and 1, as they are.

    Raises:
        InputError: rows that are no probabilities among those that are.
    """
    sums_N, classes = scores_NC.sum(1), scores_NC.shape[1]
    whole = 100.0 if np.median(sums_N) > 50 else 1.0
    off_N = np.abs(sums_N - whole) > 0.01 * whole * classes
    if (
        (scores_NC < 0).any()
        or np.median(off_N)
        or np.array_equal(scores_NC, np.eye(classes)[scores_NC.argmax(1)])
    ):
        return scores_NC
    if off_N.any():
        row = int(np.flatnonzero(off_N)[0])
        raise InputError(
            f"{where}, row {row}: most rows are probabilities, and this one sums to {sums_N[row]:g}"
        )
    return np.log(np.maximum(scores_NC / sums_N[:, None], IMPOSSIBLE))


def _order(index: Sequence[Any], ids: Sequence[int], where: str) -> np.ndarray:
    """[n] the row of each example, by its id."""
    if wrong := [value for value in index if isinstance(value, bool) or not isinstance(value, int)]:
        raise InputError(f"{where}: {one_line(repr(wrong[0]))[:80]} should be a whole number")
    rows = {value: row for row, value in enumerate(index)}
    if len(rows) < len(index):
        twice, _ = Counter(index).most_common(1)[0]
        raise InputError(f"{where}: {twice} is there twice")
    if unknown := rows.keys() - set(ids):
        raise InputError(
            f"{where}: {min(unknown)} is none of the examples, which are {min(ids)} to {max(ids)}"
        )
    return np.array([rows[name] for name in ids])


def _named(label: Any, task: Task) -> str:
    return task.labels[int(label)] if task.labels else f"{label:g}"
