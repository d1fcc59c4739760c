"""The request whose plan has the cell of a record: most options are read from the record. Trains nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import methods
from bench.errors import InputError
from bench.plan.request import CHECKPOINT_OPTION_OF_RULE, EXACT, NUMBERS, Request
from bench.plan.spelling import PACE, defaults, spell
from bench.record.cell import CHECKPOINT, IN_8_BITS, TEACHER, Cell
from bench.record.recipe import PAPER, Recipe
from bench.record.schema import Record
from bench.record.task_facts import data_facts


def spelling_of(cell: Cell) -> str:
    """How to type the row of a cell, without the pace of its learning rate, which is in no setting."""
    return spell(cell.method, cell.settings, defaults(methods.get(cell.method)), cell.dropped)


def request_from_record(record: Record, request: Request, typed: Collection[str] = ()) -> Request:
    """The request whose plan contains this record's cell.

    Row, tasks, seeds and the options of the training are read from the record, unless ``typed`` names them. Data, teacher,
    corpus and device are those of ``request``.

    Args:
        typed: names of the request's fields that somebody typed.

    Raises:
        InputError: the plan cannot be made, or the file of one's own task was not typed.
    """
    cell = record.cell
    if cell.data.task_file and "tasks" not in typed:
        raise InputError(f"{cell.tasks[0]} is a task of one's own: add --tasks FOLDER/{cell.data.task_file}")
    own = {name: value for name, value in _asked(cell).items() if name not in typed}
    if "methods" not in typed:
        own["methods"] = _row(cell) if record.point != IN_8_BITS else f"{_row(cell) or TEACHER}+{IN_8_BITS}"
    asked = replace(request, **own)
    if asked.recipe == PAPER and "epochs" not in typed:
        asked = replace(asked, epochs=None)
    if cell.method in (TEACHER, CHECKPOINT) or "methods" in typed:
        return asked
    usual = {name: getattr(Recipe, name) for name in NUMBERS}
    if cell.search is None and all(cell.recipe.get(name, usual[name]) == usual[name] for name in NUMBERS):
        return asked
    return _with_numbers(cell, asked, typed)


def _asked(cell: Cell) -> dict[str, Any]:
    """The options of a request that a cell answers by itself."""
    data = data_facts(cell.data.slug)
    rule = cell.selection.rule if cell.selection else "half" if data.half_dev else ""
    own: dict[str, Any] = {
        "tasks": ",".join(partner.task for partner in cell.together) or cell.tasks[0],
        "seeds": (cell.seed,),
        "recipe": cell.recipe["name"] if cell.method != TEACHER else "common",
        "checkpoint": CHECKPOINT_OPTION_OF_RULE[rule],
        "optimizer": cell.recipe.get("optimizer"),
        "precision": cell.numeric.precision,
        "deterministic": cell.numeric.deterministic,
        "teacher_outputs": cell.teacher_outputs,
        "kernels": cell.kernels or EXACT,
        "threads": cell.numeric.threads,
        "max_train_rows": cell.row_limit,
        "epochs": None if cell.recipe["name"] == PAPER else cell.recipe["epochs"],
        "held_back": data.held_back,
    }
    if cell.teacher_outputs:
        own["teacher_outputs_limit"] = math.inf  # a record is asked for again, whatever its file took
    if data.augmented is not None:
        own |= {"augment": data.augmented.kind, "augment_times": data.augmented.times}
    return own


def _row(cell: Cell) -> str:
    """How to type the row; "" for a teacher, and for a finished checkpoint, whose folder is in no record."""
    if cell.method in (TEACHER, CHECKPOINT):
        return ""
    pace = re.search(rf":{PACE}=[^: ]+", cell.label)
    return spelling_of(cell) + (pace[0] if pace and cell.search is None else "")


def _with_numbers(cell: Cell, asked: Request, typed: Collection[str]) -> Request:
    """With the numbers of a recipe that were set for the record, and of a row that a search found also its pace."""
    from bench.plan.build import build

    planned = next(p for p in build(asked).cells if p.cell.method == cell.method)
    if "numbers" not in typed:
        asked = replace(asked, numbers=_numbers(cell.recipe, planned.cell.recipe))
    pace = cell.recipe["learning_rate"] / planned.cell.recipe["learning_rate"]
    if cell.search is None or abs(pace - 1) < 1e-9:
        return asked
    # a ratio of two floats: 15 digits give back what was typed
    row, plus, point = asked.methods.partition("+")
    return replace(asked, methods=f"{row}:{PACE}={pace:.15g}{plus}{point}")


def _numbers(recorded: Mapping[str, Any], planned: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """The numbers of a recipe that were set for the record; a length that this teacher cannot read is left out."""
    own = {name: recorded.get(name, 0) for name in NUMBERS if recorded.get(name) != planned.get(name)}
    if planned["max_length"] < Recipe.max_length and own.get("max_length", 0) > planned["max_length"]:
        del own["max_length"]
    return tuple(sorted(own.items()))
