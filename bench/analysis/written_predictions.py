"""Write a row's stored answers as the files that ``predictions:FOLDER`` reads, so that others can
compare without the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import InputError
from bench.files import folder_in_place_of
from bench.record.cell import is_one_model
from bench.record.cell_differences import left_out_lines, newest
from bench.record.known_tasks import recorded_tasks
from bench.record.named_rows import row_named
from bench.record.raw_predictions import INDEX, LABEL, PREDICTION
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import recorded_names, task_names
from bench.report.escape import spreadsheet
from bench.report.score_column import ScoreColumn
from bench.stats.form import CLASSES, FORMS, SCORE

if TYPE_CHECKING:
    import numpy as np


def write_predictions(
    results: Path, row: str, to: Path, tasks: Sequence[str] = (), tuned: bool = False
) -> tuple[list[str], list[str]]:
    """One file for each evaluation set, below a folder of its seed: the right label, the
    prediction, and logits where it is a class.

    Returns:
        The files, as paths below ``to``; and for a reader of which data they are, and which records
        of the row are not among them.

    Raises:
        InputError: no such row, answers that are not stored or are no classes and numbers, or a
            folder that is there.
    """
    # the row's records
    store = Store(results)
    records = list(store.records())
    row = row_named(row, records, results, tuned)
    tasks = recorded_tasks(tasks, recorded_names(record.cell for record in records), results)
    own: list[Record] = []
    for record in records:
        has_task = not tasks or not task_names(record.cell).isdisjoint(tasks)
        if record.row == row and record.status == "ok" and has_task:
            own.append(record)
    if not own:
        raise InputError(f"no finished record of {row} in {results} on {', '.join(tasks)}")
    if to.exists():
        raise InputError(f"--to {to}: is there already; name a new folder")

    # their files
    own, left = newest(own)
    files: list[str] = []
    with folder_in_place_of(to) as written:
        for record in own:
            folder = written
            if not is_one_model(record.cell):
                folder = written / f"seed-{record.cell.seed}"
            folder.mkdir(exist_ok=True)
            for name, table in _tables(record, store).items():
                file = folder / f"{name}.tsv"
                file.write_text(table, encoding="utf-8")
                files.append(str(file.relative_to(written)))
    data = ", ".join(sorted({record.cell.data.name for record in own}))
    return sorted(files), [f"of {data}", *left_out_lines(left)]


def _tables(record: Record, store: Store) -> dict[str, str]:
    """Name of a file, as the reports' columns have it -> its text.

    Raises:
        InputError: answers that are not stored, or are no classes and numbers.
    """
    (task,) = record.cell.tasks
    names = record.task.labels
    if FORMS.get(record.task.form) not in (CLASSES, SCORE) or names is None:
        raise InputError(
            f"{record.row} on {task}: only classes and numbers are written, no texts and no spans "
            "of one"
        )
    if not store.has_predictions(record):
        raise InputError(
            f"{record.row} on {task}, seed {record.cell.seed}: its answers are not stored; "
            "run it again with --rerun"
        )
    arrays = store.predictions(record)
    tables: dict[str, str] = {}
    for evaluation in (*record.scores, *record.predicted):
        logits = arrays[f"logits.{evaluation}"]
        labels = arrays.get(f"labels.{evaluation}")
        name = evaluation
        if labels is not None:
            name = ScoreColumn(task, evaluation, "").name
        if name == task and len(record.scores) > 1:
            name = f"{task}-{evaluation}"
        tables[name] = _table(logits, labels, names)
    return tables


def _table(logits: np.ndarray, labels: np.ndarray | None, names: Sequence[str]) -> str:
    """The text of one file. Logits are printed so that reading gives the same float32.

    Args:
        logits: a row for each example.
        labels: the right answers; None where they are not public.
        names: of the classes; none where answers are numbers.
    """
    header = [INDEX]
    if labels is not None:
        header.append(LABEL)
    header += [PREDICTION, *names]
    lines = [header]
    for place, values in enumerate(logits):
        line = [str(place)]
        if labels is not None:
            label = labels[place]
            line.append(names[int(label)] if names else f"{label:.9g}")
        if names:
            line.append(names[int(values.argmax())])
        line += [f"{value:.9g}" for value in values]
        lines.append(line)
    return "".join("\t".join(map(spreadsheet, line)) + "\n" for line in lines)
