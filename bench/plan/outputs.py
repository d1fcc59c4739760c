"""Which outputs of their teachers the students of a plan read from a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bench.cache import Slot
from bench.errors import InputError
from bench.plan.plan import OutputsPlan, Plan, TaskPlan
from bench.plan.request import OUTPUT_FORMATS
from bench.plan.scheduled_stages import kept_terms
from bench.plan.spelling import MethodRow
from bench.plan.tasks import setup_of
from bench.record.keys import SCHEMA, digest

if TYPE_CHECKING:
    from methods.api import Stage, Taps


OUTPUTS_VERSION = 1
"""Goes up whenever the same teacher and examples would give other outputs."""
ROWS_A_PASS = 32
"""Examples of a batch in which kept outputs are computed."""


def is_readable(stage: Stage) -> bool:
    """Whether the teacher's outputs for this stage are the same in every epoch, so that they can be read from a file: nothing is
    masked or filled with [PAD], and the teacher has no dropout."""
    return stage.masking is None and not stage.padding and not stage.teacher_dropout


def readable_taps(stages: Sequence[Stage], dropped: Sequence[str]) -> Taps:
    """What the terms of these stages read of the teacher and can read from a file."""
    read: Taps = frozenset()
    for stage in stages:
        if is_readable(stage):
            read = read.union(*(term.teacher for term in kept_terms(stage, dropped).values()))
    return read


def row_taps(row: MethodRow, tasks: Sequence[TaskPlan]) -> Taps:
    """What a row reads of a file of outputs; nothing where it has no teacher, or one that sees masked or padded text, or has dropout."""
    if not row.method.needs_teacher:
        return frozenset()
    return readable_taps(row.stages(setup_of(tasks, {})), row.dropped)


def plan_outputs(plan: Plan) -> None:
    """Note for each task which outputs of its teacher are kept: all that some row of the plan reads.

    Raises:
        InputError: they need more room than the limit.
    """
    limit = plan.request.teacher_outputs_limit * 1e9
    for task in plan.tasks:
        taps: Taps = frozenset()
        for planned in plan.cells_of(task.name):
            if planned.cell.teacher_outputs and isinstance(planned.row, MethodRow):
                taps = taps | row_taps(planned.row, plan.tasks if planned.cell.together else [task])
        if not taps:
            continue
        task.outputs = outputs_plan(task, plan.request.teacher_outputs, taps)
        if task.outputs.disk_bytes > limit:
            raise InputError(
                f"--teacher-outputs {task.outputs.number_format}: {task.name} needs about "
                f"{task.outputs.disk_bytes / 1e9:.1f} GB, above --teacher-outputs-limit {limit / 1e9:g}; raise the limit, take fewer "
                f"examples (--max-train-rows) or methods, or leave the option out"
            )
    if not any(task.outputs for task in plan.tasks):
        plan.notes.append(
            "--teacher-outputs changes nothing here: no row reads a teacher that sees the examples as they are"
        )


def outputs_plan(task: TaskPlan, number_format: str, taps: Taps) -> OutputsPlan:
    """Where these outputs are kept: another place where more or less of the teacher is read."""
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
    slot = Slot("teacher-outputs", digest(identity), (), f"outputs of the teacher of {task.name}", identity)
    config, lengths = task.checkpoint.config, _lengths(task)
    mean, squared = np.mean(lengths), np.mean(np.square(lengths))
    numbers = {
        "hidden": mean * config.hidden_size,
        "vectors": 3 * mean * config.hidden_size,
        "scores": squared * config.num_attention_heads,
        "pooled": config.hidden_size,
    }
    each = sum(numbers.get(tap.kind, task.task.num_labels) for tap in taps)
    size = np.dtype(OUTPUT_FORMATS[number_format]).itemsize
    return OutputsPlan(slot, number_format, taps, round(size * each * task.training_rows))


def _lengths(task: TaskPlan) -> list[float]:
    """Tokens of some training examples: their words, in the plan's proportion of tokens to words."""
    some = task.train.limited(256)
    words = [len(text.split()) for text in some.first]
    if some.second is not None:
        words = [count + len(text.split()) for count, text in zip(words, some.second, strict=True)]
    per_word = task.mean_tokens * len(words) / max(1, sum(words))
    return [max(1.0, count * per_word) for count in words]
