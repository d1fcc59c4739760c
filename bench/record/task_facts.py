"""Facts that a record has of its task, its data and its row's name, so that a reader needs no table
of tasks and takes no name apart.

Some facts have no field, and are read from a name; the one place that does so is here:
:func:`data_facts` and :func:`row_as_typed`. None of it is part of a key. No torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from bench.record.cell import Cell, Frozen, Search

SAMPLE = "sample"
"""Examples of the generated suite."""
HUB = "hub"
"""GLUE's examples from the hub."""
OWN = "own"
"""Examples of a task of one's own."""
FOLDER = "folder"
"""Examples from a folder of GLUE files."""


class TaskFacts(Frozen):
    """A task as its records describe it."""

    form: str = ""
    """of its answers, a name of :data:`bench.stats.form.FORMS`; "" where it is not known"""
    labels: tuple[str, ...] | None = None
    """names of its classes in the order of their codes; of other forms none; None where they are
    not known"""
    metrics: tuple[str, ...] = ()
    """the first is the one that tables show"""
    unlabelled: tuple[str, ...] = ()
    """evaluation sets whose labels are not public: they are predicted and not scored"""


class Augmented(NamedTuple):
    """How further training rows were made."""

    kind: str
    """``masked`` or ``rules``"""
    times: int
    """how many for each row"""
    vectors: str
    """name of the file of word vectors; "" for none"""


class DataFacts(NamedTuple):
    """The examples that a record is of, as far as its source's short name says."""

    source: str
    """:data:`SAMPLE`, :data:`HUB`, :data:`OWN` or :data:`FOLDER`"""
    folder: str
    """the folder's name; "" of other sources"""
    plain: str
    """the short name without the augmentation"""
    augmented: Augmented | None
    held_back: bool
    """whether training rows held back are scored, as in a search"""
    draw: int
    """of a search: which tenth of the training rows is held back"""
    half_dev: bool
    """whether half of the development rows choose the epoch and the other half is scored"""


def held_back_slug(slug: str, draw: int) -> str:
    """The short name of examples of which a tenth of the training rows is scored.

    Args:
        draw: which tenth.
    """
    return f"{slug}-held-back-{draw}" if draw else f"{slug}-held-back"


def half_dev_slug(slug: str) -> str:
    """The short name of examples of which half of the development rows choose the epoch."""
    return f"{slug}-half-dev"


def augmented_slug(slug: str, augmented: Augmented) -> str:
    """The short name of examples with further training rows."""
    made = f"{slug}-{augmented.kind}-augmented-{augmented.times}"
    return f"{made}-with-{augmented.vectors}" if augmented.vectors else made


ENDING = re.compile(
    r"(?P<base>.*?)"
    r"(?P<held_back>-held-back(?:-(?P<draw>\d+))?)?"
    r"(?P<half_dev>-half-dev)?"
    r"(?:-(?P<kind>masked|rules)-augmented-(?P<times>\d+)(?:-with-(?P<vectors>.+))?)?",
    re.DOTALL,
)
"""A short name, and what these three functions add to it, in the order in which a plan adds it."""


@cache
def data_facts(slug: str) -> DataFacts:
    """The facts behind the short name of a data source: records have the name and no fields for its
    parts.

    A folder of GLUE files whose own name ends like one of these parts is taken for it. A task of
    one's own cannot have such a name.
    """
    parts = ENDING.fullmatch(slug)
    assert parts is not None, "every part but the first may be empty"
    base = parts["base"]
    held_back = parts["held_back"] or ""
    half_dev = parts["half_dev"] or ""
    augmented = None
    if parts["kind"]:
        augmented = Augmented(parts["kind"], int(parts["times"]), parts["vectors"] or "")

    kinds = {
        "own": OWN,
        "sample": SAMPLE,
        "hub": HUB,
        "glue": HUB if base == "glue-hub" else FOLDER,
    }
    source = kinds.get(base.partition("-")[0], FOLDER)
    augmented = None
    if parts["kind"]:
        augmented = Augmented(parts["kind"], int(parts["times"]), parts["vectors"] or "")
    return DataFacts(
        source=source,
        folder=base.removeprefix("folder-") if source == FOLDER else "",
        plain=base + held_back + half_dev,
        augmented=augmented,
        held_back=bool(held_back),
        draw=int(parts["draw"] or 0),
        half_dev=bool(half_dev),
    )


def shown_task(task: str, data: str) -> str:
    """The name of a task as people see it: of generated examples ``sample-mrpc``, never GLUE's own.

    Args:
        task: its name in keys, records and commands; those of several are joined by ``+``.
        data: the short name of the source of its examples
            (:attr:`bench.record.cell.DataIdentity.slug`).
    """
    if data_facts(data).source != SAMPLE:
        return task
    return "+".join(f"{SAMPLE}-{name}" for name in task.split("+"))


def shown_tasks(cell: Cell) -> str:
    """The task of a cell as people see it."""
    return shown_task("+".join(cell.tasks), cell.data.slug)


def task_names(cell: Cell) -> set[str]:
    """The names by which a command may ask for the task of a cell: that of its key, and the one
    that people see."""
    return {*cell.tasks, shown_tasks(cell)}


def recorded_names(cells: Iterable[Cell]) -> set[str]:
    """The names by which a command may ask for the tasks of some cells."""
    return set[str]().union(*map(task_names, cells))


def several_tasks_note(tasks: str) -> str:
    """The note of a record whose student learned several tasks, with what its cost is."""
    return (
        f"one student was trained on {tasks} together: the cost of training is that of this one "
        "training run"
    )


def label_suffixes(
    search: Search | None,
    is_chosen_epoch: bool,
    outputs: str,
    kernels: str,
    recipe: Mapping[str, Any],
) -> list[str]:
    """The words that a cell's choices add to the label of its row, in this order."""
    return [
        *([f" (best of {len(search.trials)})"] if search is not None else []),
        *([" (best epoch)"] if is_chosen_epoch else []),
        *([f" ({outputs} outputs)"] if outputs else []),
        *([f" ({kernels} kernels)"] if kernels else []),
        *([f" (micro-batches of {recipe['micro_batch']})"] if recipe.get("micro_batch") else []),
    ]


def row_as_typed(cell: Cell, label: str = "") -> str:
    """How a row was typed: its label, or another one of the same cells, without what its cell's
    choices added to it."""
    added = label_suffixes(
        cell.search, cell.selection is not None, cell.teacher_outputs, cell.kernels, cell.recipe
    )
    typed = label or cell.label
    for suffix in reversed(added):
        typed = typed.removesuffix(suffix)
    return typed
