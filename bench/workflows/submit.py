"""The files that GLUE's server scores: test sets predicted by saved models, written, zipped, and
checked line by line."""

from __future__ import annotations

import csv
import math
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas

import bench.data.checkpoints as checkpoints
from bench.data.sources import Folder, source_for
from bench.data.tasks import GLUE, EvaluationSet, Task
from bench.errors import InputError, one_line
from bench.files import folder_in_place_of
from bench.user_files import json_of

ARCHIVE = "submission.zip"
MOST_BYTES = 50_000_000
"""The most that an archive may unpack to: ten times what GLUE's files have."""
HEADER = "index\tprediction"


class ServerFile(NamedTuple):
    """One of the files that the server asks for."""

    task: str
    test: EvaluationSet
    rows: int
    in_codes: bool
    """whether an answer is the class's code (0, 1) or its name"""


def _file(
    task: str, rows: int, in_codes: bool, config: str = "", split: str = "test"
) -> ServerFile:
    return ServerFile(
        task, EvaluationSet(split, config or task, split, labelled=False), rows, in_codes
    )


FILES: Mapping[str, ServerFile] = {
    "CoLA.tsv": _file("cola", 1063, True),
    "SST-2.tsv": _file("sst2", 1821, True),
    "MRPC.tsv": _file("mrpc", 1725, True),
    "STS-B.tsv": _file("stsb", 1379, False),
    "QQP.tsv": _file("qqp", 390_965, True),
    "MNLI-m.tsv": _file("mnli", 9796, False, split="test_matched"),
    "MNLI-mm.tsv": _file("mnli", 9847, False, split="test_mismatched"),
    "QNLI.tsv": _file("qnli", 5463, False),
    "RTE.tsv": _file("rte", 3000, False),
    "WNLI.tsv": _file("wnli", 146, True),
    "AX.tsv": _file("mnli", 1104, False, config="ax"),
}
"""Name of a file -> what it holds. The server counts the lines, and takes an archive only with all
of them."""
AX_CATEGORIES = ("Lexical Semantics", "Predicate-Argument Structure", "Logic", "Knowledge")
"""The columns of diagnostic-full.tsv that name what an example tests."""


@dataclass(frozen=True)
class Submission:
    """Files for GLUE's server."""

    archive: str
    """the zip archive that is uploaded"""
    models: Mapping[str, str]
    """name of a file -> the folder of the model behind it, "" for constant answers"""


def submit(
    saved: Sequence[Path],
    data: str,
    to: Path,
    row: str = "",
    seed: int | None = None,
    constant_rest: bool = False,
    device: str = "auto",
    offline: bool = False,
) -> Submission:
    """Predict GLUE's test sets with saved models, and write the server's files and their archive
    into a new folder.

    Args:
        saved: folders in which ``--save-students`` wrote, or that hold one model a task in folders
            called like the tasks.
        row, seed: of the models that are meant, where a task has several.
        constant_rest: whether tasks without a model are answered with their first class, so that
            the archive is complete.

    Raises:
        InputError: a task without a model or with several, test sets that are not there or not
            whole; nothing is left behind.
    """
    if to.exists():
        raise InputError(f"--to {to}: is there already; name a new folder")
    folders = models_by_task(saved, row, seed)
    missing = sorted({file.task for file in FILES.values()} - set(folders))
    if missing and not constant_rest:
        raise InputError(
            f"no saved model of {', '.join(missing)}; the server takes all tasks or nothing: add "
            "--constant-rest to answer these with one class"
        )
    models: dict[str, str] = {}
    with folder_in_place_of(to) as whole:
        for name, file in FILES.items():
            task = GLUE[file.task]
            if file.task in folders:
                folder = folders[file.task]
                ids, answers = _predicted(folder, task, file.test, data, device, offline)
            else:
                ids = range(file.rows)
                answers = np.zeros(file.rows)
            models[name] = str(folders.get(file.task, ""))
            lines = [HEADER]
            for number, answer in zip(ids, answers, strict=True):
                lines.append(f"{number}\t{spelled(task, file, answer)}")
            (whole / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        with zipfile.ZipFile(whole / ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in FILES:
                # without the hour, so that the same answers give the same bytes
                entry = zipfile.ZipInfo(name)
                archive.writestr(entry, (whole / name).read_bytes(), zipfile.ZIP_DEFLATED)
        wrong = faults(whole / ARCHIVE)
        if wrong:
            raise InputError(f"these are not GLUE's test sets: {wrong[0]}")
    return Submission(str(to / ARCHIVE), models)


class SavedModel(NamedTuple):
    """A folder with the model of a task, and what it is a model of."""

    folder: Path
    task: str
    row: str | None
    """None where its configuration does not say it"""
    seed: int | None
    """None where neither its configuration nor its name says it"""

    @property
    def label(self) -> str:
        """The row and the seed."""
        return f"{self.folder.name if self.row is None else self.row} seed {self.seed}"

    def is_meant(self, row: str, seed: int | None) -> bool:
        """Whether it is of this row and this seed; "" and None for any."""
        return row in ("", self.row) and seed in (None, self.seed)


def models_by_task(saved: Sequence[Path], row: str, seed: int | None) -> dict[str, Path]:
    """The one folder of each task's model.

    Raises:
        InputError: no model, or several for a task.
    """
    models: dict[str, list[SavedModel]] = {}
    configs = {file for folder in saved for file in folder.rglob("config.json")}
    for config in sorted(configs):
        model = _saved_model(config)
        if model is not None and model.is_meant(row, seed):
            models.setdefault(model.task, []).append(model)
    if not models:
        which = f" row {row}" if row else ""
        which += "" if seed is None else f" seed {seed}"
        where = ", ".join(map(str, saved))
        raise InputError(f"{where}: no saved model of a GLUE task{which and ' of' + which}")
    for task, found in models.items():
        if len(found) > 1:
            listed = ", ".join(model.label for model in found[:5])
            raise InputError(
                f"{task} has {len(found)} models ({listed}); choose with --row and --seed, or name "
                "a smaller folder"
            )
    return {task: found[0].folder for task, found in models.items()}


def _saved_model(config: Path) -> SavedModel | None:
    """The model of a folder, by its configuration and the names of its folders; None where they
    name no task of GLUE."""
    folder = config.parent
    said = dict(json_of(config, str(config)).get(checkpoints.OURS) or {})
    if "seed" in said:
        seed = said["seed"]
    else:
        number = re.search(r"-seed-(\d+)-\w+$", folder.name)
        seed = int(number[1]) if number else None
    for name in (folder.name, folder.parent.name):
        if name in GLUE:
            return SavedModel(folder, name, said.get("row"), seed)
    return None


def _predicted(
    folder: Path, task: Task, test: EvaluationSet, data: str, device: str, offline: bool
) -> tuple[Sequence[int], np.ndarray]:
    """Ids and predicted answers of one test set, read as the model's training read its examples."""
    from bench.data.encoding import encode
    from bench.make.teacher import base_model
    from bench.measure.devices import device_of
    from bench.train.numerics import ComputeSettings
    from bench.train.prediction import predict

    source = source_for(task, data, offline)
    if not isinstance(source, Folder):
        raise InputError(
            f"--data {data}: it has no test sets of GLUE; use hub, or a folder with files like "
            "rte/test-00000-of-00001.parquet"
        )
    split = source.load(task, test)
    checkpoint = checkpoints.find(str(folder), task, offline, ours=True, asked=str(folder))
    if not checkpoint.finetuned:
        raise InputError(f"{folder}: it has no trained classifier of {task.name}")
    said = dict(getattr(checkpoint.config, checkpoints.OURS, None) or {})
    length = int(said.get("max_length", 128))
    encoded = encode(checkpoints.tokenizer_of(checkpoint), split, length)
    model = base_model(folder, task.num_labels, labels=checkpoint.labels)
    logits = predict(model, encoded, ComputeSettings(device_of(device)))
    return split.ids, task.form.predicted(logits)


def spelled(task: Task, file: ServerFile, answer: Any) -> str:
    """An answer as the server reads it: a code, a name, or a similarity from 0 to 5."""
    if task.regression:
        return f"{min(5.0, max(0.0, float(answer))):.3f}"
    return str(int(answer)) if file.in_codes else task.labels[int(answer)]


def faults(archive: Path) -> list[str]:
    """What GLUE's server would refuse in an archive, one line each: files, lines, ids and answers.

    Raises:
        InputError: it is no zip archive.
    """
    try:
        with zipfile.ZipFile(archive) as files:
            size = sum(info.file_size for info in files.infolist())
            if size > MOST_BYTES:
                raise InputError(
                    f"{archive} unpacks to {size:,} bytes; GLUE's files have less than "
                    f"{MOST_BYTES:,}"
                )
            texts = {name: files.read(name).decode("utf-8", "replace") for name in files.namelist()}
    # RuntimeError: a password; NotImplementedError: a compression that Python does not have
    except (OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
        raise InputError(f"{archive} cannot be read as a zip archive: {error}") from None
    wrong = [
        f"{name} is not there, at the top of the archive" for name in FILES if name not in texts
    ]
    wrong += [f"{name} is none of the server's files" for name in texts if name not in FILES]
    for name in FILES:
        if name in texts:
            wrong += [f"{name}: {why}" for why in _faults_of(texts[name], FILES[name])]
    return wrong


def _faults_of(text: str, file: ServerFile) -> list[str]:
    """What is wrong with one file: its first fault, or how its ids are not those of the test
    set."""
    header, *lines = text.splitlines() or [""]
    if header != HEADER:
        return [f"its first line is {header[:40]!r}; it should be {HEADER!r}"]

    # line by line: an id, and an answer that the task has
    task = GLUE[file.task]
    names = task.labels
    if file.in_codes:
        names = tuple(map(str, range(len(task.labels))))
    ids = []
    for number, line in enumerate(lines, start=2):
        index, tab, answer = line.partition("\t")
        if not tab or not re.fullmatch(r"[0-9]{1,9}", index):
            return [f"line {number} is {line[:40]!r}; it should be a number, a tab and an answer"]
        ids.append(int(index))
        fits = _is_similarity(answer) if task.regression else answer in names
        if not fits:
            answers = "0 to 5" if task.regression else " or ".join(names)
            return [f"line {number}: the answer {answer[:40]!r} should be {answers}"]

    # the ids: each once, in their order
    dropped = sorted(set(range(file.rows)) - set(ids))
    if dropped:
        return [
            f"{len(dropped)} of {file.rows} lines are missing; the first one is that of id "
            f"{dropped[0]}"
        ]
    if len(ids) > file.rows:
        return [f"{len(ids)} lines; the server has {file.rows}"]
    for place, own_id in enumerate(ids):
        if place != own_id:
            return [f"id {own_id} stands where {place} should be"]
    return []


def _is_similarity(text: str) -> bool:
    """Whether a text is a number from 0 to 5."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return False
    return math.isfinite(float(text)) and float(text) <= 5


@dataclass(frozen=True)
class CategoryScore:
    """How well one category of AX, or one kind in it, is answered."""

    category: str
    kind: str
    """"" for the whole category"""
    examples: int
    matthews: float
    """Matthews' correlation, R3 for three classes"""

    def in_words(self) -> str:
        """One line for a terminal."""
        title = f"{self.category}: {self.kind}" if self.kind else self.category
        score = f"Matthews {100 * self.matthews:5.1f}"
        return f"{title:55} {self.examples:5} examples  {score}"


def diagnostics(answers: Path, labelled: Path) -> list[CategoryScore]:
    """Matthews' correlation (R3 for three classes) on AX by category, as GLUE's paper prints it.

    Args:
        answers: an AX.tsv.
        labelled: diagnostic-full.tsv, which GLUE's page offers.

    Raises:
        InputError: columns are missing, or the two have other numbers of examples.
    """
    from bench.stats.metrics.matthews import MATTHEWS

    names = GLUE["mnli"].labels
    try:
        rows = pandas.read_csv(
            labelled, sep="\t", dtype=str, keep_default_na=False, quoting=csv.QUOTE_NONE
        )
    except (OSError, ValueError) as error:
        raise InputError(f"{labelled} cannot be read: {one_line(str(error))}") from None
    lacking = [name for name in (*AX_CATEGORIES, "Label") if name not in rows]
    if lacking:
        raise InputError(
            f"{labelled}: no column {lacking[0]!r}; diagnostic-full.tsv of GLUE has it"
        )
    strange = sorted(set(rows["Label"]) - set(names))
    if strange:
        raise InputError(f"{labelled}: the label {strange[0]!r} should be {' or '.join(names)}")
    lines = answers.read_text(encoding="utf-8").splitlines()[1:]
    predicted = np.array([names.index(line.partition("\t")[2]) for line in lines])
    true = np.array([names.index(label) for label in rows["Label"]])
    if len(true) != len(predicted):
        raise InputError(f"{labelled} has {len(true)} examples, {answers.name} {len(predicted)}")

    # the examples of each category, and of each kind in it
    groups: dict[tuple[str, str], np.ndarray] = {("all", ""): np.arange(len(true))}
    for column in AX_CATEGORIES:
        kinds = rows[column].str.split(";").explode().str.strip()
        kinds = kinds[kinds != ""]
        if len(kinds):
            groups[column, ""] = kinds.index.unique().to_numpy()
        for kind, of_kind in kinds.groupby(kinds, sort=False):
            groups[column, str(kind)] = of_kind.index.to_numpy()
    scores = []
    for (category, kind), examples in groups.items():
        score = MATTHEWS.score(predicted[examples], true[examples])
        scores.append(CategoryScore(category, kind, len(examples), score))
    return scores
