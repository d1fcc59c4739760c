"""The files that GLUE's server scores: test sets predicted by saved models, written, zipped, and checked line by line."""

from __future__ import annotations

import csv
import math
import re
import zipfile
from collections.abc import Mapping, Sequence
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
"""Name of a file -> what it holds. The server counts the lines, and takes an archive only with all of them."""
AX_CATEGORIES = ("Lexical Semantics", "Predicate-Argument Structure", "Logic", "Knowledge")
"""The columns of diagnostic-full.tsv that name what an example tests."""


def submit(
    saved: Sequence[Path],
    data: str,
    to: Path,
    row: str = "",
    seed: int | None = None,
    constant_rest: bool = False,
    device: str = "auto",
    offline: bool = False,
) -> dict[str, Any]:
    """Predict GLUE's test sets with saved models, and write the server's files and their archive into a new folder.

    Args:
        saved: folders in which ``--save-students`` wrote, or that hold one model a task in folders called like the tasks.
        row, seed: of the models that are meant, where a task has several.
        constant_rest: whether tasks without a model are answered with their first class, so that the archive is complete.

    Returns:
        The ``archive``; ``models``: the folder behind each file, "" for constant answers.

    Raises:
        InputError: a task without a model or with several, test sets that are not there or not whole; nothing is left behind.
    """
    if to.exists():
        raise InputError(f"--to {to}: is there already; name a new folder")
    folders = models_by_task(saved, row, seed)
    missing = sorted({file.task for file in FILES.values()} - set(folders))
    if missing and not constant_rest:
        raise InputError(
            f"no saved model of {', '.join(missing)}; the server takes all tasks or nothing: add --constant-rest to answer "
            "these with one class"
        )
    models: dict[str, str] = {}
    with folder_in_place_of(to) as whole:
        for name, file in FILES.items():
            task = GLUE[file.task]
            if file.task in folders:
                ids, answers = _predicted(
                    folders[file.task], task, file.test, data, device, offline
                )
            else:
                ids, answers = range(file.rows), np.zeros(file.rows)
            models[name] = str(folders.get(file.task, ""))
            lines = [
                HEADER,
                *(
                    f"{i}\t{spelled(task, file, answer)}"
                    for i, answer in zip(ids, answers, strict=True)
                ),
            ]
            (whole / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        with zipfile.ZipFile(whole / ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in FILES:  # without the hour, so that the same answers give the same bytes
                archive.writestr(
                    zipfile.ZipInfo(name), (whole / name).read_bytes(), zipfile.ZIP_DEFLATED
                )
        if wrong := faults(whole / ARCHIVE):
            raise InputError(f"these are not GLUE's test sets: {wrong[0]}")
    return {"archive": str(to / ARCHIVE), "models": models}


def models_by_task(saved: Sequence[Path], row: str, seed: int | None) -> dict[str, Path]:
    """The one folder of each task's model.

    Raises:
        InputError: no model, or several for a task.
    """
    models: dict[str, list[Path]] = {}
    labels: dict[Path, str] = {}
    for config in sorted({file for folder in saved for file in folder.rglob("config.json")}):
        folder = config.parent
        task = next((name for name in (folder.name, folder.parent.name) if name in GLUE), None)
        own = dict(json_of(config, str(config)).get(checkpoints.OURS) or {})
        of_seed = own.get(
            "seed", next(map(int, re.findall(r"-seed-(\d+)-\w+$", folder.name)), None)
        )
        if task is not None and row in ("", own.get("row")) and seed in (None, of_seed):
            models.setdefault(task, []).append(folder)
            labels[folder] = f"{own.get('row', folder.name)} seed {of_seed}"
    if not models:
        where = ", ".join(map(str, saved))
        which = "".join(
            f" {name} {value}"
            for name, value in (("row", row), ("seed", seed))
            if value not in ("", None)
        )
        raise InputError(f"{where}: no saved model of a GLUE task{which and ' of' + which}")
    for task, folders in models.items():
        if len(folders) > 1:
            listed = ", ".join(labels[folder] for folder in folders[:5])
            raise InputError(
                f"{task} has {len(folders)} models ({listed}); choose with --row and --seed, or name a smaller folder"
            )
    return {task: folders[0] for task, folders in models.items()}


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
            f"--data {data}: it has no test sets of GLUE; use hub, or a folder with files like rte/test-00000-of-00001.parquet"
        )
    split = source.load(task, test)
    checkpoint = checkpoints.find(str(folder), task, offline, ours=True, asked=str(folder))
    if not checkpoint.finetuned:
        raise InputError(f"{folder}: it has no trained classifier of {task.name}")
    length = int(
        dict(getattr(checkpoint.config, checkpoints.OURS, None) or {}).get("max_length", 128)
    )
    encoded = encode(checkpoints.tokenizer_of(checkpoint), split, length)
    logits = predict(
        base_model(folder, task.num_labels, labels=checkpoint.labels),
        encoded,
        ComputeSettings(device_of(device)),
    )
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
            texts = {name: files.read(name).decode("utf-8", "replace") for name in files.namelist()}
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{archive} cannot be read as a zip archive: {error}") from None
    wrong = [
        f"{name} is not there, at the top of the archive" for name in FILES if name not in texts
    ]
    wrong += [f"{name} is none of the server's files" for name in texts if name not in FILES]
    for name in FILES.keys() & texts.keys():
        wrong += [f"{name}: {why}" for why in _faults_of(texts[name], FILES[name])]
    return wrong


def _faults_of(text: str, file: ServerFile) -> list[str]:
    header, *lines = text.splitlines() or [""]
    if header != HEADER:
        return [f"its first line is {header[:40]!r}; it should be {HEADER!r}"]
    task, ids = GLUE[file.task], []
    names = tuple(map(str, range(len(task.labels)))) if file.in_codes else task.labels
    for number, line in enumerate(lines, start=2):
        index, tab, answer = line.partition("\t")
        if not (tab and index.isdecimal()):
            return [f"line {number} is {line[:40]!r}; it should be a number, a tab and an answer"]
        ids.append(int(index))
        if task.regression:
            fits = (
                bool(re.fullmatch(r"\d+(\.\d+)?", answer))
                and math.isfinite(float(answer))
                and float(answer) <= 5
            )
        else:
            fits = answer in names
        if not fits:
            return [
                f"line {number}: the answer {answer[:40]!r} should be {'0 to 5' if task.regression else ' or '.join(names)}"
            ]
    if dropped := sorted(set(range(file.rows)) - set(ids)):
        return [
            f"{len(dropped)} of {file.rows} lines are missing; the first one is that of id {dropped[0]}"
        ]
    if len(ids) > file.rows:
        return [f"{len(ids)} lines; the server has {file.rows}"]
    disorder = next((number for number, index in enumerate(ids) if number != index), None)
    return [] if disorder is None else [f"id {ids[disorder]} stands where {disorder} should be"]


def diagnostics(answers: Path, labelled: Path) -> list[dict[str, Any]]:
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
    if lacking := [name for name in (*AX_CATEGORIES, "Label") if name not in rows]:
        raise InputError(
            f"{labelled}: no column {lacking[0]!r}; diagnostic-full.tsv of GLUE has it"
        )
    if strange := sorted(set(rows["Label"]) - set(names)):
        raise InputError(f"{labelled}: the label {strange[0]!r} should be {' or '.join(names)}")
    predicted = np.array(
        [
            names.index(line.partition("\t")[2])
            for line in answers.read_text(encoding="utf-8").splitlines()[1:]
        ]
    )
    true = np.array([names.index(label) for label in rows["Label"]])
    if len(true) != len(predicted):
        raise InputError(f"{labelled} has {len(true)} examples, {answers.name} {len(predicted)}")
    groups: dict[tuple[str, str], Any] = {("all", ""): np.arange(len(true))}
    for column in AX_CATEGORIES:
        kinds = rows[column].str.split(";").explode().str.strip()
        kinds = kinds[kinds != ""]
        groups |= {(column, ""): kinds.index.unique().to_numpy()} if len(kinds) else {}
        groups |= {
            (column, str(kind)): own.index.to_numpy()
            for kind, own in kinds.groupby(kinds, sort=False)
        }
    return [
        {
            "category": coarse,
            "kind": kind,
            "examples": len(own),
            "matthews": MATTHEWS.score(predicted[own], true[own]),
        }
        for (coarse, kind), own in groups.items()
    ]
