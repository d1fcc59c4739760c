"""Who is compared. A contestant joins by an entry in :data:`CONTESTANTS`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import trainer_peer
from work import Train, Work

from bench.make.task_data import OUTPUTS
from bench.plan.outputs import readable_taps
from bench.plan.scheduled_stages import schedule_stages
from bench.train.loop import LoopOptions, train_task
from bench.train.numerics import ComputeSettings
from bench.train.student_trainer import StudentTrainer
from bench.train.teacher_outputs import KeptTeacher, TeacherOutputs, write_outputs
from methods.core.fast_kernels import FastLinear, fast_teacher, problem_here

AGREE = 1e-5
"""How far a contestant's first loss may be from the first one's, as a part of it."""


def ours(kept: str = "", is_fast: bool = False) -> Train:
    """The product's loop with its method and its measurements.

    Args:
        kept: format of the teacher's outputs in a file, as ``--teacher-outputs``; "" where the teacher answers.
        is_fast: whether the kernels are those of ``--kernels fast``.
    """

    def train(work: Work, on_step: Callable[[], None]) -> float:
        numerics, stages = ComputeSettings(), work.row.stages(work.setup)
        student, random = work.student()
        scheduled = schedule_stages(stages, work.row.dropped, work.recipe, len(work.data))
        trainer = StudentTrainer(work.row.spelling, student, random, *scheduled, numerics)
        teacher: Any = fast_teacher(work.teacher) if is_fast else work.teacher
        if kept:  # its outputs are written now, before the first step
            file = work.folder / OUTPUTS
            parts = write_outputs(
                file,
                work.teacher,
                work.data,
                readable_taps(stages, work.row.dropped),
                kept,
                numerics,
            )
            teacher = KeptTeacher(work.teacher, TeacherOutputs(file, parts, kept, work.data))
            # it is open, so it can still be read, and nothing is left when this process ends
            file.unlink()
            teacher.eval()

        def told(done: int, total: int) -> None:
            if trainer.error is not None:  # the product would go on with the other students
                raise trainer.error
            on_step()

        kernels: AbstractContextManager[object] = FastLinear() if is_fast else nullcontext()
        with kernels:
            train_task(
                [trainer],
                work.data,
                teacher,
                LoopOptions(work.seed, numerics, work.recipe.batch_size, told),
            )
        if trainer.error is not None:
            raise trainer.error
        values = [
            sum(step)
            for curves in trainer.log.terms.values()
            for step in zip(*curves.values(), strict=True)
        ]
        return sum(values) / len(values)

    return train


@dataclass(frozen=True)
class Contestant:
    """One way to do the work."""

    title: str
    train: Train
    is_peer: bool = False
    """whether it is one of those that we are compared with"""
    problem: Callable[[], str] = str
    """why it cannot run on this machine; "" where it can"""


CONTESTANTS: Mapping[str, Contestant] = {
    "trainer": Contestant(
        "Hugging Face Trainer, dynamic padding", trainer_peer.train, is_peer=True
    ),
    "trainer-by-length": Contestant(
        "Hugging Face Trainer, group_by_length (other batches)",
        trainer_peer.train_by_length,
        is_peer=True,
    ),
    "ours": Contestant("bert-bench", ours()),
    "ours-fast": Contestant("bert-bench, --kernels fast", ours(is_fast=True), problem=problem_here),
    "ours-kept": Contestant("bert-bench, teacher's outputs kept (fp32)", ours(kept="fp32")),
}


class OtherWork(Exception):
    """A contestant minimises something else: its seconds would mean nothing."""


def first_losses(contestants: Mapping[str, Contestant], work: Work) -> dict[str, float]:
    """The loss of everybody's first step, on the same batch without dropout.

    Raises:
        OtherWork: they differ; it names who, and by how much.
    """
    one, losses = work.of_one_batch(), {}
    for name, contestant in contestants.items():
        with tempfile.TemporaryDirectory(dir=work.folder) as folder:
            losses[name] = contestant.train(replace(one, folder=Path(folder)), lambda: None)
    first, reference = next(iter(losses.items()))
    for name, loss in losses.items():
        off = abs(loss / reference - 1)
        if not off <= AGREE:  # NaN neither
            raise OtherWork(
                f"{name}: the loss of its first step is {loss:.8g}, that of {first} {reference:.8g} ({off:.1e} apart, "
                f"allowed {AGREE:.0e}): it does other work, so it is not timed"
            )
    return losses
