"""What a reader should know of a plan before he trains: a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.data.checkpoints import Checkpoint, names_labels, odd_notes
from bench.data.example_files import named
from bench.data.own_tasks import files_line
from bench.errors import InputError
from bench.plan.artefacts import ArtefactPlanner
from bench.plan.plan import Planned, TaskPlan
from bench.plan.planned_tasks import share_cut
from bench.request.choices import SAMPLE

if TYPE_CHECKING:
    from bench.stats.metrics.metric import Metric

OUTLINE = "{} is a configuration without weights and tokenizer here: no record can be looked for"
MANY_CUT = 0.1
"""The share of texts that are cut from which on a plan speaks of it."""
SEEN_BY_SENTENCE_ENCODERS = ("mnli", "qqp")
"""Tasks whose texts the embedded teacher has seen."""


def data_notes(tasks: Sequence[TaskPlan], own_metrics: Sequence[Metric]) -> list[str]:
    """Which files were read, and what is odd about examples, teachers and metrics.

    Examples that are scored and were seen, by students in training or by the embedded teacher
    before it; texts that are cut; teachers that come tuned with labels without names.
    """
    # checkpoints and examples, one kind of note after another
    notes = []
    if any(task.checkpoint.outline for task in tasks):
        notes.append(OUTLINE.format("the teacher"))
    for note_of in (_reading_notes, _seen_notes, _cut_notes, _scale_notes, _tuned_notes):
        for task in tasks:
            notes += note_of(task)

    # the embedded teacher saw texts of two tasks
    teachers = set()
    for task in tasks:
        if task.task.name in SEEN_BY_SENTENCE_ENCODERS and not task.source.slug.startswith(SAMPLE):
            teachers.add(task.checkpoint.note)
    notes += sorted(note for note in teachers if note)

    # a metric that scores nothing
    scored_by = {name for task in tasks for name in task.task.metrics}
    for metric in own_metrics:
        if metric.name not in scored_by:
            notes.append(f"the metric {metric.name}: no task names it among its metrics")
    return notes


def _reading_notes(task: TaskPlan) -> list[str]:
    """Which files a user's own task was read from, and what was inferred about them."""
    if not task.task.files:
        return []
    splits = [task.train, *task.evaluation.values()]
    said = dict.fromkeys(line for split in splits for line in split.said)
    return [files_line(task.task, task.data.rows), *said]


def _seen_notes(task: TaskPlan) -> list[str]:
    """Examples that are scored and are also trained on."""
    notes = []
    for name, split in task.evaluation.items():
        if shared := split.shared_with(task.train):
            notes.append(
                f"{task.shown}: {shared:,} of {len(split):,} examples of {name} are also in train"
            )
    return notes


def _cut_notes(task: TaskPlan) -> list[str]:
    """Whether many texts are longer than what a model reads of them."""
    if task.task.spans or task.task.writes or task.checkpoint.outline:
        return []
    most = task.recipe.max_length
    share = share_cut(task.checkpoint, task.train, most)
    if share < MANY_CUT:
        return []
    return [
        f"{task.shown}: {100 * share:.0f} % of its texts are longer than {most} tokens and are cut "
        "(max_length)"
    ]


def _scale_notes(task: TaskPlan) -> list[str]:
    """Whether a model is trained on other values than those of the file."""
    if task.scale is None:
        return []
    return [
        f"{task.shown}: trained on standardised labels ({task.scale}); answers are in the labels' "
        "units"
    ]


def _tuned_notes(task: TaskPlan) -> list[str]:
    """Whether a teacher that comes tuned has labels without names."""
    return _nameless(task, task.checkpoint) if task.checkpoint.finetuned else []


def nameless_labels(tasks: Sequence[TaskPlan], cells: Sequence[Planned]) -> list[str]:
    """A note for each finished classifier that has labels without names."""
    by_name = {task.name: task for task in tasks}
    notes = []
    for planned in cells:
        if isinstance(planned.row, Checkpoint):
            notes += _nameless(by_name[planned.cell.tasks[0]], planned.row)
    return notes


def _nameless(task: TaskPlan, checkpoint: Checkpoint) -> list[str]:
    """A note where the labels of a classifier have no names that could be compared with the
    task's."""
    if not task.task.labels or task.task.spans or names_labels(checkpoint.config):
        return []
    order = ", ".join(task.task.labels)
    return [
        f"{task.shown}: the labels of {checkpoint.asked} have no names; they are taken in the "
        f"task's order: {order}"
    ]


def checkpoint_notes(
    tasks: Sequence[TaskPlan],
    own_tasks: Mapping[str, Sequence[TaskPlan]],
    cells: Sequence[Planned],
) -> list[str]:
    """Notes on what is odd about the checkpoints of a plan, each of them once."""
    # folder -> its checkpoint, since several tasks may read one
    read: dict[Path, Checkpoint] = {}
    for group in (tasks, *own_tasks.values()):
        read |= {task.checkpoint.folder: task.checkpoint for task in group}
    for cell in cells:
        if isinstance(cell.row, Checkpoint):
            read[cell.row.folder] = cell.row
    notes: list[str] = []
    for checkpoint in read.values():
        notes += odd_notes(checkpoint)
    return notes


def artefact_notes(planner: ArtefactPlanner, why_others: str) -> list[str]:
    """Which text pre-training reads, and whether it begins with random weights.

    Args:
        why_others: why it reads another text, where a user might expect his own.
    """
    from methods.core.artefacts import TruncatedShape, why_random

    # whose text it reads
    notes = []
    if any(entry.text is not None for entry in planner.entries):
        if planner.training_texts is not None:
            notes.append(planner.training_texts.line(planner.budget))
        elif why_others:
            notes.append(why_others)

    # a pre-training that has to learn everything from its text
    reasons: dict[str, None] = {}
    for entry in planner.entries:
        if isinstance(entry.artefact, TruncatedShape):
            reasons[why_random(entry.checkpoint.config)] = None
    for why in filter(None, reasons):
        notes.append(
            f"the pre-training on text begins with random weights, because {why}; it needs more "
            "text than one that begins as its teacher truncated"
        )
    return notes


def check_labels(task: TaskPlan) -> None:
    """Raises InputError where all training examples have one label."""
    labels = task.train.labels
    if labels is None or task.task.spans or len(set(labels.tolist())) > 1:
        return
    # standardised labels are around 0, wherever they were
    value = labels[0] if task.scale is None else task.scale.mean
    label = task.task.labels[int(value)] if task.task.labels else f"{value:g}"
    # where the labels stand, and what would change them
    files = [Path(file) for split, file in task.task.files if split == "train"]
    where = f" in {named(files)}" if files else ""
    more_rows = ", or raise --max-train-rows" if task.data.max_train_rows else ""
    raise InputError(
        f"{task.shown}: all {len(labels):,} training examples{where} have the label {label}, so "
        f"there is nothing to learn; add examples with other labels{more_rows}"
    )
