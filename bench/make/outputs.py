"""The outputs of a task's teacher, kept in the cache: there, or computed now in one pass over the training rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from bench.cache import keep
from bench.data.checkpoints import sha256_of
from bench.make.task_data import TaskData
from bench.plan.plan import OutputsPlan
from bench.train.teacher_outputs import TeacherOutputs, write_outputs

FILE = "outputs.bin"


def kept_outputs(task_data: TaskData, plan: OutputsPlan) -> dict[str, Any]:
    """What is known of the file in the cache, which is made where it is not there.

    Raises:
        CellError: a number of the teacher does not fit into the format.
    """
    work, slot = task_data.work, plan.slot

    def write(folder: Path) -> dict[str, Any]:
        teacher, data, file = task_data.teacher[0], task_data.train, folder / FILE
        begun = time.perf_counter()
        with work.progress.task(f"{task_data.name}: outputs of the teacher, kept in {plan.number_format}") as on_step:
            taps = write_outputs(file, teacher, data, plan.taps, plan.number_format, work.numerics, on_step)
        lengths = [len(tokens) for tokens in data.tokens]
        return {
            "weights": sha256_of(file),
            "seconds": round(time.perf_counter() - begun, 3),
            "bytes": file.stat().st_size,
            "tokens": sum(lengths),
            "squared_lengths": sum(length**2 for length in lengths),
            "taps": taps,
        }

    if not slot.is_made:
        _ = task_data.teacher  # it says by itself how far it is
    return keep(slot, write, {"teacher": task_data.teacher[1]}, FILE, work.progress.say)


def opened(task_data: TaskData, plan: OutputsPlan) -> TeacherOutputs:
    """The outputs of a task's teacher, to be read."""
    taps = kept_outputs(task_data, plan)["taps"]
    return TeacherOutputs(plan.slot.folder / FILE, taps, plan.number_format, task_data.train)
