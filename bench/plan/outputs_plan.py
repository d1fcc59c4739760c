"""Which outputs of its teacher a task's students read, where they are kept, and how much room they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench.cache import Slot
from bench.errors import InputError
from bench.plan.extents import lengths_of, training_rows
from bench.plan.request import OUTPUT_FORMATS
from bench.plan.spelling import MethodRow
from bench.record.keys import SCHEMA, digest

if TYPE_CHECKING:
    from bench.plan.build import Plan
    from bench.plan.tasks import TaskPlan
    from methods.api import Stage, Tap, Taps

FILE = "outputs.bin"
KIND = "teacher outputs"
ROWS_A_PASS = 32
"""Examples of a batch in which outputs are computed."""
VERSION = 1
"""Goes up whenever the same teacher and examples would give other numbers."""


def in_order(taps: Taps) -> list[Tap]:
    """Taps in the order in which a file has them."""
    return sorted(taps)


def is_readable(stage: Stage) -> bool:
    """Whether the teacher's outputs for this stage are the same in every epoch, so that they can be read from a file: nothing is
    masked or filled with [PAD], and the teacher has no dropout."""
    return stage.masking is None and not stage.padding and not stage.teacher_dropout


@dataclass(frozen=True)
class OutputsPlan:
    """The outputs of one task's teacher that are kept in a file."""

    task: TaskPlan
    number_format: str
    """fp32 or fp16"""
    taps: Taps
    """all that the students of the plan read of it"""

    @property
    def slot(self) -> Slot:
        """Where they are kept: another one where more or less of the teacher is read."""
        task = self.task
        key = digest(
            {
                "schema": SCHEMA,
                "what": ["teacher outputs", VERSION, ROWS_A_PASS, self.number_format],
                "taps": [list(tap) for tap in in_order(self.taps)],
                "teacher": task.teacher.key,
                "data": task.data.train,
                "tokenizer": task.tokenizer,
                "max_length": task.recipe.max_length,
                "numeric": task.numeric.identity(),
            }
        )
        return Slot("teacher-outputs", key, (), f"outputs of the teacher of {task.task.name}")

    @property
    def disk_bytes(self) -> int:
        """Of the file, estimated from the lengths of some examples."""
        lengths = lengths_of(self.task)
        a_row = sum(self._numbers(tap, length) for tap in self.taps for length in lengths) / len(lengths)
        size = np.dtype(OUTPUT_FORMATS[self.number_format]).itemsize
        return round(size * a_row * training_rows(self.task))

    def _numbers(self, tap: Tap, length: float) -> float:
        config = self.task.checkpoint.config
        width = config.hidden_size
        each = {"hidden": length * width, "vectors": 3 * length * width, "pooled": width}
        if tap.kind == "scores":
            return float(config.num_attention_heads * length**2)
        return float(each.get(tap.kind, self.task.task.num_labels))


def readable_taps(stages: Sequence[Stage], dropped: Sequence[str]) -> Taps:
    """What the terms of these stages read of the teacher and can read from a file."""
    from bench.plan.scheduled_stages import kept_terms

    read: Taps = frozenset()
    for stage in stages:
        if is_readable(stage):
            read = read.union(*(term.teacher for term in kept_terms(stage, dropped).values()))
    return read


def row_taps(row: MethodRow, tasks: Sequence[TaskPlan]) -> Taps:
    """What a row reads of a file of outputs; nothing where it has no teacher, or one that sees masked or padded text, or has dropout."""
    from bench.plan.tasks import setup_of

    if not row.method.needs_teacher:
        return frozenset()
    return readable_taps(row.method.stages(setup_of(tasks, {})), row.dropped)


def outputs_of(plan: Plan, task: TaskPlan, limit_bytes: float) -> OutputsPlan | None:
    """What is kept for one task; None where nobody asked, or no row reads any.

    Raises:
        InputError: it needs more room than the limit.
    """
    rows = {p.row.spelling: p for p in plan.cells_of(task.task.name) if isinstance(p.row, MethodRow)}
    taps: Taps = frozenset()
    for planned in rows.values():
        if planned.cell.teacher_outputs:
            tasks = plan.tasks if planned.cell.together else [task]
            assert isinstance(planned.row, MethodRow)
            taps = taps | row_taps(planned.row, tasks)
    if not taps:
        return None
    found = OutputsPlan(task, plan.request.teacher_outputs, taps)
    if found.disk_bytes > limit_bytes:
        raise InputError(
            f"--teacher-outputs {found.number_format}: {task.task.name} needs about {found.disk_bytes / 1e9:.1f} GB, above "
            f"--teacher-outputs-limit {limit_bytes / 1e9:g}; raise the limit, take fewer examples (--max-train-rows) or methods, or "
            f"leave the option out"
        )
    return found
