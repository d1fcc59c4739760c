"""Export the model that an answer names, and compare the file's predictions with its record's."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from bench.analysis.answer_page import Taken
from bench.analysis.choose import Choice
from bench.errors import InputError
from bench.files import slug
from bench.make.linear import FILE as LINEAR_FILE
from bench.make.linear import lines_that_use_it, load
from bench.measure.backends import INT8, ONNX
from bench.plan.plan import TaskPlan
from bench.progress import Progress
from bench.record.cell import CHECKPOINT, PREDICTIONS
from bench.record.schema import Record
from bench.record.store import Store
from bench.workflows.export import HF, export
from bench.workflows.question import Question, Trials

RECORD = "record.txt"
"""The file of an exported folder that names its record."""


def refuse_folder_of_others(to: Path | None) -> None:
    """Raises InputError: the folder of the exported model is there, and no answer wrote it."""
    if to is not None and to.exists() and not (to / RECORD).is_file():
        raise InputError(f"--to {to}: is there already; name a new folder")


def take_chosen(
    question: Question,
    trials: Trials,
    choice: Choice,
    label: str,
    linear_folder: Path,
    progress: Progress,
) -> Taken:
    """Export the best seed of a row, or write its folder anew, and compare its predictions.

    Args:
        label: the row.
        linear_folder: of the linear model.

    Raises:
        InputError: the folder is there and is another model's.
    """
    # the seed of the highest score
    group = choice.group
    column = choice.columns[0]
    records = group.finished(label, column)
    record = max(records, key=lambda r: r.scores[column.evaluation][column.metric])

    # its folder
    task = trials.task
    name = f"{task.name}-{slug(group.called(label))}-{record.key[:8]}"
    to = question.to or Path("chosen") / name
    if to.exists():
        shutil.rmtree(_own_folder(to, record))
    if record.cell.method == PREDICTIONS:
        return _linear_taken(task, record, linear_folder, to, Store(question.results))

    # its file: of ONNX Runtime in 8 bits, and where the limits are of its times
    form = HF
    if record.point:
        form = INT8
    elif question.backend == ONNX:
        form = ONNX
    taken = export(
        record.key,
        question.results,
        replace(trials.request, save_students=None, yes=True),
        to,
        form,
        None if record.cell.method == CHECKPOINT else question.students,
        progress,
        typed={"tasks"},
    )
    if not taken.folder:
        raise InputError(f"{group.called(label)} cannot be exported: {taken.why}")
    (to / RECORD).write_text(f"{record.key}\n", encoding="utf-8")
    sets = taken.sets.values()
    return Taken(
        folder=to,
        megabytes=taken.bytes / 1e6,
        examples=sum(each["examples"] for each in sets),
        changed=sum(each["changed"] for each in sets),
        lines=_lines_of_card(to, form, task),
    )


def _own_folder(to: Path, record: Record) -> Path:
    """A folder that an earlier answer wrote for the same record.

    Raises:
        InputError: it is another one.
    """
    file = to / RECORD
    if not file.is_file() or file.read_text(encoding="utf-8").strip() != record.key:
        raise InputError(f"--to {to}: is there already; name a new folder")
    return to


def _linear_taken(task: TaskPlan, record: Record, folder: Path, to: Path, store: Store) -> Taken:
    """The linear model as a folder of its own."""
    to.mkdir(parents=True)
    shutil.copy(folder / LINEAR_FILE, to / LINEAR_FILE)
    (to / RECORD).write_text(f"{record.key}\n", encoding="utf-8")
    model = load(to / LINEAR_FILE)
    stored = store.predictions(record)
    examples = 0
    changed = 0
    for name, split in task.evaluation.items():
        logits = model.logits(split.texts)
        known = stored[f"logits.{name}"]
        examples += len(logits)
        is_other = logits.argmax(1) != known.argmax(1) if task.task.labels else logits != known
        changed += int(is_other.sum())
    lines = [line.replace("THIS-FOLDER", str(to)) for line in lines_that_use_it(task.task)]
    size = (to / LINEAR_FILE).stat().st_size / 1e6
    return Taken(to, size, examples, changed, tuple(lines))


def _lines_of_card(folder: Path, form: str, task: TaskPlan) -> tuple[str, ...]:
    """The indented lines of an exported folder's page: Python that uses it and prints an answer."""
    text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)[2]
    lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    if form == HF and task.task.labels:
        lines.append("print(model.config.id2label[int(logits.argmax())])")
    elif form == HF:
        lines.append("print(float(logits))")
    return tuple(line.replace("THIS-FOLDER", str(folder)) for line in lines)
