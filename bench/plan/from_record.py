"""What was typed for a record: the request whose plan has its cell, and the options of its data,
task and teacher. No torch."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from bench.data.checkpoints import EMBEDDED_NAME, EMBEDDED_SHA256
from bench.data.own_tasks import expand
from bench.data.tasks import KNOWN
from bench.errors import InputError
from bench.plan import request as requests
from bench.plan.request import CHECKPOINT_OPTION_OF_RULE, EXACT, NUMBERS, Request
from bench.plan.spelling import PACE, defaults, method_class, spell
from bench.record.cell import CHECKPOINT, FINISHED, PLUS_INT8, POINTS_IN_8_BITS, TEACHER, Cell
from bench.record.recipe import PAPER, Recipe
from bench.record.schema import Record
from bench.record.task_facts import HUB, OWN, SAMPLE, data_facts


def spelling_of(cell: Cell) -> str:
    """How to type the row of a cell, without the pace of its learning rate, which is in no
    setting."""
    return spell(cell.method, cell.settings, defaults(method_class(cell.method)), cell.dropped)


def request_from_record(record: Record, request: Request, typed: Collection[str] = ()) -> Request:
    """The request whose plan contains this record's cell.

    Row, tasks, seeds and the options of the training are read from the record, unless ``typed``
    names them, and how much text was read, unless ``request`` says it. Data, teacher, corpus and
    device are those of ``request``.

    Args:
        typed: names of the request's fields that somebody typed.

    Raises:
        InputError: the plan cannot be made, or the file of one's own task was not typed.
    """
    cell = record.cell
    if cell.data.task_file and "tasks" not in typed:
        raise InputError(
            f"{cell.tasks[0]} is a task of one's own: add --tasks FOLDER/{cell.data.task_file}"
        )

    # the row, and what its cell says of the training
    recorded = {name: value for name, value in _recorded(cell).items() if name not in typed}
    if "methods" not in typed:
        recorded["methods"] = _typed_row(record)
    tokens = _text_tokens(record)
    if request.corpus_tokens is None and len(tokens) == 1:
        recorded["corpus_tokens"] = tokens.pop()
    of_record = replace(request, **recorded)
    if cell.data.task_file and not request.corpus:
        _refuse_other_texts(record, of_record)

    # a recipe that was typed has its own epochs, and a teacher no numbers
    if of_record.recipe == PAPER and "epochs" not in typed:
        of_record = replace(of_record, epochs=None)
    if cell.method == TEACHER or "numbers" in typed:
        return of_record
    return replace(of_record, numbers=_numbers(cell, of_record))


def _text_tokens(record: Record) -> set[int]:
    """How many tokens of text the pre-trainings of a record have read."""
    texts = [artefact.get("text") for artefact in record.artefacts.values()]
    return {text["tokens"] for text in texts if text}


def _typed_row(record: Record) -> str:
    """How to type the row of a record; "" for a teacher or a finished row in its own format."""
    row = _row(record.cell)
    if record.point in POINTS_IN_8_BITS:
        return (row or TEACHER) + PLUS_INT8
    return row


def _numbers(cell: Cell, request: Request) -> tuple[tuple[str, int], ...]:
    """The numbers of a cell's recipe that are not the usual ones."""
    # a task of one's own may have another usual length
    task, _ = expand(request.tasks, request.offline)[0]
    usual = Recipe().as_dict() | {"max_length": task.max_length}
    numbers = []
    for name in sorted(NUMBERS):
        value = cell.recipe.get(name, 0)
        if value != usual.get(name, 0):
            numbers.append((name, value))
    return tuple(numbers)


def _refuse_other_texts(record: Record, request: Request) -> None:
    """Raises InputError: the pre-training of a record read the training texts of other tasks."""
    tasks = {task.name for task, _ in expand(request.tasks, request.offline)}
    for artefact in record.artefacts.values():
        read = (artefact.get("text") or {}).get("training_texts_of", [])
        if read and set(read) != tasks:
            raise InputError(
                f"the pre-training of this record read the training texts of {', '.join(read)}: "
                "name the files of these tasks with --tasks, separated by commas"
            )


def _recorded(cell: Cell) -> dict[str, Any]:
    """The options of a request that a cell answers by itself."""
    # the rule that chose the epoch; a teacher's record says it by its data alone
    data = data_facts(cell.data.slug)
    rule = "half" if data.half_dev else ""
    if cell.selection:
        rule = cell.selection.rule

    # a teacher has one recipe, and a paper its own number of epochs
    recipe = cell.recipe["name"] if cell.method != TEACHER else "common"
    epochs = None if cell.recipe["name"] == PAPER else cell.recipe["epochs"]
    together = [partner.task for partner in cell.together]
    options: dict[str, Any] = {
        "tasks": ",".join(together or cell.tasks[:1]),
        "seeds": (cell.seed,),
        "vary": cell.varied.sources if cell.varied else (),
        "recipe": recipe,
        "checkpoint": CHECKPOINT_OPTION_OF_RULE[rule],
        "optimizer": cell.recipe.get("optimizer"),
        "precision": cell.numeric.precision,
        "deterministic": cell.numeric.deterministic,
        "teacher_outputs": cell.teacher_outputs,
        "kernels": cell.kernels or EXACT,
        "threads": cell.numeric.threads,
        "max_train_rows": cell.row_limit,
        "epochs": epochs,
        "held_back": data.held_back,
        "held_back_draw": data.draw,
    }
    if cell.teacher_outputs:
        # a record is asked for again, whatever its file took
        options["teacher_outputs_limit"] = math.inf
    if data.augmented is not None:
        options["augment"] = data.augmented.kind
        options["augment_times"] = data.augmented.times
    return options


def _row(cell: Cell) -> str:
    """How to type the row; "" for a teacher, and for a finished row, whose folder is in no
    record."""
    if cell.method in (TEACHER, *FINISHED):
        return ""
    label = cell.label
    # the row that a search chose is its best trial, which has the pace in its spelling
    if cell.search is not None:
        label = cell.search.best.row
    pace = re.search(rf":{PACE}=[^: ]+", label)
    return spelling_of(cell) + (pace[0] if pace else "")


def is_own(slug: str) -> bool:
    """Whether the examples are of a task of one's own."""
    return data_facts(slug).source == OWN


def typed_task(slug: str, task: str, cells: Iterable[Cell]) -> str:
    """How a task was typed: one's own by its file, as its records name it, else called like the
    task."""
    if not is_own(slug) or task in KNOWN:
        return task
    return next(
        (file for cell in cells if task in cell.tasks and (file := cell.data.task_file)),
        f"{task}.toml",
    )


def scoring_again(cell: Cell) -> str:
    """The command that scores what a cell has trained, kept as a folder; its place is left open."""
    words = Request(
        methods=f"{CHECKPOINT}:THIS-FOLDER", tasks=typed_task(cell.data.slug, cell.tasks[0], [cell])
    ).command("run", ["methods", "tasks"])
    words += source_options(cell.data.slug, cell.teacher.name, cell.teacher.base)
    return shlex.join(words)


def source_options(slug: str, teacher: str, base: str) -> list[str]:
    """The embedded teacher is known by its weights, since a folder may have any name; the data
    of a task of one's own by its file."""
    facts = data_facts(slug)
    data = {OWN: "", SAMPLE: requests.SAMPLE, HUB: requests.HUB}.get(facts.source, facts.folder)
    named = requests.EMBEDDED if (teacher, base) == (EMBEDDED_NAME, EMBEDDED_SHA256) else teacher
    return [*(["--data", data] if data else []), "--teacher", named]
