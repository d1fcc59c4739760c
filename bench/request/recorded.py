"""What a record states of each option of a request: how it would be typed again.

Each function answers for one option; None where the record does not say. No torch, and no pydantic
until a record is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.record.known_teachers import EMBEDDED_NAME, EMBEDDED_SHA256
from bench.record.recipe import PAPER, Recipe
from bench.request.choices import (
    CHECKPOINT_OPTION_OF_RULE,
    EMBEDDED,
    EXACT,
    HUB,
    NUMBERS,
    PACE,
    SAMPLE,
)
from bench.request.text import as_typed

if TYPE_CHECKING:
    from bench.record.cell import Cell
    from bench.record.task_facts import DataFacts


@dataclass(frozen=True)
class PretrainingText:
    """The text of a pre-training, as options name it."""

    files: tuple[str, ...]
    """of ``--corpus``; none where the option is left out"""
    tokens: int


@dataclass(frozen=True)
class Recorded:
    """A cell, with what else its record and the other records of its folder state."""

    cell: Cell
    point: str = ""
    """the operating point"""
    usual: Mapping[str, Any] | None = None
    """numbers of a recipe in which nobody set one; None for those of :class:`Recipe`"""
    text: PretrainingText | None = None
    metrics: tuple[str, ...] = ()
    """those of a user's own, each MODULE:NAME"""


def row(told: Recorded) -> str:
    """The row with all its settings; "" for a teacher, and for a finished row, whose folder is in
    no record."""
    from bench.record.cell import FINISHED, PLUS_INT8, POINTS_IN_8_BITS, TEACHER

    cell = told.cell
    typed = "" if cell.method in (TEACHER, *FINISHED) else row_of(cell)
    if told.point in POINTS_IN_8_BITS:
        return (typed or TEACHER) + PLUS_INT8
    return typed


def row_of(cell: Cell) -> str:
    """The row of a trained cell with all its settings, whatever their defaults are today."""
    parts = [f"{name}={as_typed(value)}" for name, value in sorted(cell.settings.items())]
    parts += [f"-{term}" for term in sorted(cell.dropped)]
    # the learning rate's multiplier is in no setting; a search chose the row of its best trial
    label = cell.label if cell.search is None else cell.search.best.row
    pace = re.search(rf":({PACE}=[^: ]+)", label)
    if pace:
        parts.append(pace[1])
    return ":".join([cell.method, *parts])


def tasks(told: Recorded) -> str:
    """The task, or all that are learned together; a user's own by its file."""
    cell = told.cell
    together = [partner.task for partner in cell.together]
    return ",".join(task_as_typed(name, [cell]) for name in together or cell.tasks[:1])


def task_as_typed(task: str, cells: Iterable[Cell]) -> str:
    """How one task of some cells of the same data was typed: a user's own by its file."""
    from bench.record.known_tasks import KNOWN
    from bench.record.task_facts import OWN, data_facts

    cells = list(cells)
    if task in KNOWN or data_facts(cells[0].data.slug).source != OWN:
        return task
    for cell in cells:
        if task in cell.tasks and cell.data.task_file:
            return cell.data.task_file
    return f"{task}.toml"


def seeds(told: Recorded) -> tuple[int, ...]:
    """The seed of the training."""
    return (told.cell.seed,)


def vary(told: Recorded) -> tuple[str, ...]:
    return told.cell.varied.sources if told.cell.varied else ()


def metric(told: Recorded) -> tuple[str, ...]:
    """The metrics in files of their users."""
    return told.metrics


def _data(told: Recorded) -> DataFacts:
    """What the examples are."""
    from bench.record.task_facts import data_facts

    return data_facts(told.cell.data.slug)


def data(told: Recorded) -> str:
    """The source of the examples; "" where the task's own file names them."""
    from bench.record.task_facts import OWN

    facts = _data(told)
    if facts.source == OWN:
        return ""
    return facts.source if facts.source in (SAMPLE, HUB) else facts.folder


def teacher(told: Recorded) -> str:
    """The teacher's name; the embedded one is known by its weights, since a folder may have any
    name."""
    named = told.cell.teacher
    is_embedded = (named.name, named.base) == (EMBEDDED_NAME, EMBEDDED_SHA256)
    return EMBEDDED if is_embedded else named.name


def recipe(told: Recorded) -> str | None:
    """The recipe's name; None for a teacher, which has one recipe."""
    from bench.record.cell import TEACHER

    cell = told.cell
    return None if cell.method == TEACHER else cell.recipe["name"]


def numbers(told: Recorded) -> tuple[tuple[str, int], ...]:
    """The numbers of the recipe that are not the usual ones; none for a teacher, which keeps
    them."""
    from bench.record.cell import TEACHER

    cell = told.cell
    usual = Recipe().as_dict() if told.usual is None else told.usual
    changed = []
    for name in sorted(NUMBERS):
        value = cell.recipe.get(name, 0)
        if cell.method != TEACHER and value != usual.get(name, 0):
            changed.append((name, value))
    return tuple(changed)


def optimizer(told: Recorded) -> str | None:
    """The students' optimiser; None where it is the usual one."""
    return told.cell.recipe.get("optimizer")


def epochs(told: Recorded) -> float | None:
    """None for a paper's recipe, which has its own number."""
    of_recipe = told.cell.recipe
    return None if of_recipe["name"] == PAPER else of_recipe["epochs"]


def precision(told: Recorded) -> str:
    """The number format of the training."""
    return told.cell.numeric.precision


def teacher_outputs(told: Recorded) -> str:
    """The number format of the teacher's outputs on file; "" where none were kept."""
    return told.cell.teacher_outputs


def kernels(told: Recorded) -> str:
    """Which CPU kernels trained."""
    return told.cell.kernels or EXACT


def device(told: Recorded) -> str:
    """The kind of device, without its number."""
    return told.cell.numeric.device


def deterministic(told: Recorded) -> bool:
    """Whether only kernels were taken that give the same bits each time."""
    return told.cell.numeric.deterministic


def threads(told: Recorded) -> int:
    """CPU threads of the training."""
    return told.cell.numeric.threads


def max_train_rows(told: Recorded) -> int | None:
    """The limit of training examples; None for all."""
    return told.cell.row_limit


def corpus(told: Recorded) -> tuple[str, ...] | None:
    """The files of the text of pre-training."""
    return told.text.files if told.text else None


def corpus_tokens(told: Recorded) -> int | None:
    """How many tokens of it were read."""
    return told.text.tokens if told.text else None


def augment(told: Recorded) -> str | None:
    """How further training rows were made; None where none were."""
    augmented = _data(told).augmented
    return augmented.kind if augmented else None


def augment_times(told: Recorded) -> int | None:
    """How many rows were made for each row."""
    augmented = _data(told).augmented
    return augmented.times if augmented else None


def word_vectors(told: Recorded) -> Path | None:
    """The name of the file of word vectors, without its folder."""
    augmented = _data(told).augmented
    return Path(augmented.vectors) if augmented and augmented.vectors else None


def checkpoint(told: Recorded) -> str:
    """The rule that chose the epoch; a teacher's record says it by its data alone."""
    rule = "half" if _data(told).half_dev else ""
    if told.cell.selection is not None:
        rule = told.cell.selection.rule
    return CHECKPOINT_OPTION_OF_RULE[rule]
