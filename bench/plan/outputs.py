"""Which outputs of their teachers the students of a plan read from a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bench.cache import Slot
from bench.errors import InputError
from bench.plan.plan import OutputsPlan, Planned, TaskPlan
from bench.plan.planned_tasks import setup_of
from bench.plan.scheduled_stages import kept_terms
from bench.plan.spelling import MethodRow
from bench.record.keys import SCHEMA, digest
from bench.request import Request
from bench.request.choices import OUTPUT_FORMATS

if TYPE_CHECKING:
    from methods.api import Stage, Taps


OUTPUTS_VERSION = 1
"""Goes up whenever the same teacher and examples would give other outputs."""
SQUARED_LENGTHS = 1.3
"""Mean squared length over the squared mean length, chosen by hand."""
ROWS_A_PASS = 32
"""Examples of a batch in which kept outputs are computed."""


def is_readable(stage: Stage) -> bool:
    """Whether the teacher's outputs for this stage are the same in every epoch, so that a file can
    have them.

    Then nothing is masked or filled with [PAD], and the teacher has no dropout.
    """
    return stage.masking is None and not stage.padding and not stage.teacher_dropout


def readable_taps(stages: Sequence[Stage], dropped: Sequence[str]) -> Taps:
    """The outputs of the teacher that the terms of these stages can read from a file."""
    read: Taps = frozenset()
    for stage in stages:
        if is_readable(stage):
            for term in kept_terms(stage, dropped).values():
                read = read | term.teacher
    return read


def row_taps(row: MethodRow, tasks: Sequence[TaskPlan]) -> Taps:
    """The outputs that a row reads from a file.

    They are none where it has no teacher, or one that sees masked or padded text, or has dropout.
    """
    if not row.method.needs_teacher:
        return frozenset()
    return readable_taps(row.stages(setup_of(tasks, {})), row.dropped)


def plan_outputs(
    request: Request, tasks: Sequence[TaskPlan], cells: Sequence[Planned]
) -> list[str]:
    """Note for each task which outputs of its teacher are kept: all that some row of the plan
    reads.

    Where that is more or less of the teacher, they are another file.

    Returns:
        Lines for a reader of the plan.

    Raises:
        InputError: they need more room than the limit.
    """
    # a file for each task, with what its students read
    for task in tasks:
        taps: Taps = frozenset()
        for planned in cells:
            of_task = planned.cell.tasks == (task.name,)
            if of_task and planned.cell.teacher_outputs and isinstance(planned.row, MethodRow):
                together = tasks if planned.cell.together else [task]
                taps = taps | row_taps(planned.row, together)
        if taps:
            task.outputs = _outputs_of(task, taps, request)
    if any(task.outputs for task in tasks):
        return []
    return [
        "--teacher-outputs changes nothing here: no row reads a teacher that sees the examples as "
        "they are"
    ]


def _outputs_of(task: TaskPlan, taps: Taps, request: Request) -> OutputsPlan:
    """The file of these outputs of a task's teacher.

    Raises:
        InputError: it needs more room than the limit.
    """
    # what the file is identified by
    number_format = request.teacher_outputs
    identity = {
        "schema": SCHEMA,
        "what": ["teacher outputs", OUTPUTS_VERSION, ROWS_A_PASS, number_format],
        "taps": [list(tap) for tap in sorted(taps)],
        "teacher": task.teacher.key,
        "data": task.data.train,
        "tokenizer": task.tokenizer,
        "max_length": task.recipe.max_length,
        "numeric": task.numeric.identity(),
    }
    if task.recipe.truncation != "head":
        identity["truncation"] = task.recipe.truncation
    title = f"outputs of the teacher of {task.shown}"
    slot = Slot("teacher-outputs", digest(identity), (), title, identity)

    # its size: a question with a long text is several examples, its windows, of at most max_length
    # tokens
    config = task.checkpoint.config
    mean = min(task.mean_tokens, task.recipe.max_length)
    examples = task.training_rows * task.mean_tokens / mean
    # numbers of a mean example, by the kind of output; all other kinds are as large as logits
    numbers = {
        "hidden": mean * config.hidden_size,
        "vectors": 3 * mean * config.hidden_size,
        "scores": SQUARED_LENGTHS * mean**2 * config.num_attention_heads,
        "pooled": config.hidden_size,
    }
    # of spans each token has one for the start and one for the end
    logits = 2 * mean if task.task.spans else task.task.num_labels
    numbers_an_example = sum(numbers.get(tap.kind, logits) for tap in taps)
    bytes_a_number = np.dtype(OUTPUT_FORMATS[number_format]).itemsize
    size = round(bytes_a_number * numbers_an_example * examples)

    # a file that is too large is refused before anything is trained
    limit = request.teacher_outputs_limit * 1e9
    if size > limit:
        raise InputError(
            f"--teacher-outputs {number_format}: {task.shown} needs about {size / 1e9:.1f} GB, "
            f"above --teacher-outputs-limit {limit / 1e9:g}; raise the limit, take fewer examples "
            "(--max-train-rows) or methods, or leave the option out"
        )
    return OutputsPlan(slot, number_format, taps, size)
