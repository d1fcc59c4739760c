"""Write a row's stored answers as the files that ``predictions:FOLDER`` reads, so that others can compare without the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.errors import InputError, known_row
from bench.files import folder_in_place_of
from bench.record.answers import INDEX, LABEL, PREDICTION
from bench.record.cell import is_one_model
from bench.record.differences import left_out_lines, newest
from bench.record.known_tasks import recorded_tasks
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import recorded_names, task_names
from bench.report.escape import spreadsheet
from bench.report.groups import ScoreColumn
from bench.stats.form import CLASSES, FORMS, SCORE


def write_predictions(
    results: Path, row: str, to: Path, tasks: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """One file for each evaluation set, below a folder of its seed: the right label, the prediction, and logits where it is a class.

    Returns:
        The files, as paths below ``to``; and for a reader of which data they are, and which records of the row are not among them.

    Raises:
        InputError: no such row, answers that are not stored or are no classes and numbers, or a folder that is there.
    """
    store = Store(results)
    records = list(store.records())
    row = known_row(row, {r.row for r in records}, results)
    tasks = recorded_tasks(tasks, recorded_names(r.cell for r in records), results)
    own = [
        r
        for r in records
        if r.row == row
        and r.status == "ok"
        and (not tasks or task_names(r.cell).intersection(tasks))
    ]
    if not own:
        raise InputError(f"no finished record of {row} in {results} on {', '.join(tasks)}")
    if to.exists():
        raise InputError(f"--to {to}: is there already; name a new folder")
    own, left = newest(own)
    files = list[str]()
    with folder_in_place_of(to) as whole:
        for record in own:
            folder = whole if is_one_model(record.cell) else whole / f"seed-{record.cell.seed}"
            folder.mkdir(exist_ok=True)
            for name, table in _tables(record, store).items():
                (folder / f"{name}.tsv").write_text(table, encoding="utf-8")
                files.append(f"{folder.relative_to(whole) / name}.tsv")
    return sorted(files), [
        f"of {', '.join(sorted({r.cell.data.name for r in own}))}",
        *left_out_lines(left),
    ]


def _tables(record: Record, store: Store) -> dict[str, str]:
    """Name of a file, as the reports' columns have it -> its text. Logits are printed so that reading gives the same float32."""
    (task,), form = record.cell.tasks, FORMS.get(record.task.form)
    if form not in (CLASSES, SCORE) or record.task.labels is None:
        raise InputError(
            f"{record.row} on {task}: only classes and numbers are written, no texts and no spans of one"
        )
    if not store.has_predictions(record):
        raise InputError(
            f"{record.row} on {task}, seed {record.cell.seed}: its answers are not stored; run it again with --rerun"
        )
    arrays, names, tables = store.predictions(record), record.task.labels, {}
    for evaluation in (*record.scores, *record.predicted):
        logits, labels = arrays[f"logits.{evaluation}"], arrays.get(f"labels.{evaluation}")
        header = [INDEX, *([LABEL] if labels is not None else []), PREDICTION, *names]
        lines = ["\t".join(map(spreadsheet, header))]
        for place, values in enumerate(logits):
            right = (
                []
                if labels is None
                else [names[int(labels[place])] if names else f"{labels[place]:.9g}"]
            )
            numbers = [f"{value:.9g}" for value in values]
            answer = [names[int(values.argmax())], *numbers] if names else numbers
            lines.append("\t".join(map(spreadsheet, [str(place), *right, *answer])))
        called = evaluation if labels is None else ScoreColumn(task, evaluation, "").name
        if called == task and len(record.scores) > 1:
            called = f"{task}-{evaluation}"
        tables[called] = "\n".join(lines) + "\n"
    return tables
