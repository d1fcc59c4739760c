"""The product: its training loop, its method, its exact kernels, and the shares of the gradient that it measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from work import Work

from bench.plan.outputs_plan import FILE, readable_taps
from bench.plan.scheduled_stages import schedule_stages
from bench.train.loop import LoopOptions, train_task
from bench.train.numerics import ComputeSettings
from bench.train.student_trainer import SHARE_POINTS, StudentTrainer
from bench.train.teacher_outputs import KeptTeacher, TeacherOutputs, write_outputs
from methods.fast_kernels import FastLinear, FastTeacher


def share_steps(steps: int) -> list[int]:
    """Steps of a stage at which the shares of the gradient are measured."""
    return sorted({part * steps // SHARE_POINTS for part in range(SHARE_POINTS)})


@dataclass(frozen=True)
class Ours:
    """The product with options of its own."""

    numerics: ComputeSettings = ComputeSettings()
    kept: str = ""
    """format of the teacher's outputs in a file, as ``--teacher-outputs``; "" where the teacher answers"""

    is_fast: bool = False
    """whether the kernels are those of ``--kernels fast``"""

    def train(self, work: Work, on_step: Callable[[], None]) -> float:
        """All steps of the work."""
        trainer, teacher = trainer_of(work, self.numerics), self.teacher(work)
        kernels: AbstractContextManager[object] = FastLinear() if self.is_fast else nullcontext()
        with kernels:  # current in this thread alone
            run([trainer], work, teacher, on_step)
        values = [sum(step) for curves in trainer.log.terms.values() for step in zip(*curves.values(), strict=True)]
        return sum(values) / len(values)

    def teacher(self, work: Work) -> Any:
        """The work's, or one that reads its outputs; they are written before the first turn ends."""
        if not self.kept:
            return FastTeacher(work.teacher) if self.is_fast else work.teacher
        taps = readable_taps(work.row.method.stages(work.setup), work.row.dropped)
        return kept_teacher(work, taps, self.kept, self.numerics)


def kept_teacher(work: Work, taps: Any, number_format: str, numerics: ComputeSettings) -> KeptTeacher:
    """The work's teacher, which reads these of its outputs from a file that is written now."""
    file = work.folder / FILE
    parts = write_outputs(file, work.teacher, work.data, taps, number_format, numerics)
    outputs = TeacherOutputs(file, parts, number_format, work.data)
    file.unlink()  # it is open, so it can still be read, and nothing is left when this process ends
    kept = KeptTeacher(work.teacher, outputs)
    kept.eval()
    return kept


def trainer_of(work: Work, numerics: ComputeSettings) -> StudentTrainer:
    """The work's student before its first step."""
    student, random = work.student()
    stages = schedule_stages(work.row.method.stages(work.setup), work.row.dropped, work.recipe, len(work.data))
    return StudentTrainer(work.row.spelling, student, random, *stages, numerics)


def run(trainers: Sequence[StudentTrainer], work: Work, teacher: Any, on_step: Callable[[], None]) -> None:
    """The product's loop; a student's error stops it, where the product would go on with the others.

    Raises:
        Exception: what a student's step raised.
    """

    def told(done: int, total: int) -> None:
        for trainer in trainers:
            if trainer.error is not None:
                raise trainer.error
        on_step()

    options = LoopOptions(work.seed, trainers[0].numerics, work.recipe.batch_size, told)
    train_task(trainers, work.data, teacher, options)
    for trainer in trainers:
        if trainer.error is not None:
            raise trainer.error
