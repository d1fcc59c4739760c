"""The request whose plan has a record's cell again. No torch."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from bench.data.own_tasks import expand
from bench.errors import InputError
from bench.record.recipe import PAPER, Recipe
from bench.record.schema import Record
from bench.record.task_facts import data_facts
from bench.request import AS_RECORDED, Request
from bench.request.recorded import PretrainingText, Recorded, numbers


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

    # what the record states, but for what was typed
    tokens = _text_tokens(record)
    told = Recorded(cell, record.point)
    if request.corpus_tokens is None and len(tokens) == 1:
        told = replace(told, text=PretrainingText((), tokens.pop()))
    stated = Request.of(told)
    taken = {name: getattr(stated, name) for name in AS_RECORDED if name not in typed}
    if request.corpus_tokens is not None:
        taken["corpus_tokens"] = request.corpus_tokens
    # it is asked for again whatever the file of its teacher's outputs took, also of a search
    if cell.teacher_outputs:
        taken["teacher_outputs_limit"] = math.inf
    data = data_facts(cell.data.slug)
    of_record = replace(request, **taken, held_back=data.held_back, held_back_draw=data.draw)
    if cell.data.task_file and not request.corpus:
        _refuse_other_texts(record, of_record)

    # a recipe that was typed has its own epochs; a task of one's own may have another usual length
    if of_record.recipe == PAPER and "epochs" not in typed:
        of_record = replace(of_record, epochs=None)
    if "numbers" in typed:
        return of_record
    task, _ = expand(of_record.tasks, of_record.offline)[0]
    usual = Recipe().as_dict() | {"max_length": task.max_length}
    return replace(of_record, numbers=numbers(replace(told, usual=usual)))


def _text_tokens(record: Record) -> set[int]:
    """How many tokens of text the pre-trainings of a record have read."""
    texts = [artefact.get("text") for artefact in record.artefacts.values()]
    return {text["tokens"] for text in texts if text}


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
