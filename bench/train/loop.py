"""The one training loop: every student of a group over the same batches and one shared teacher pass.

Students trained together end with weights bit-identical (on a CPU) to training each alone: they see the same
batches in the same order, each keeps its own random state, and asking the teacher for more never changes
what it answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from bench.data.encoding import Encoded, mixed_batches
from bench.data.masking import hide
from bench.data.padding import fill
from bench.errors import CellError
from bench.plan.scheduled_stages import Leg
from bench.train.numerics import Numerics, RandomState, Watch
from bench.train.student_trainer import Trainee
from bench.train.training_state import Halfway
from methods.api import Batch, Masking, Out, Taps
from methods.packed import forward

SETTLE_EVERY = 16
"""Steps after which the seconds of an accelerator's work are fetched: a look after each would make it wait."""
OnStep = Callable[[int, int], Any]
"""Told how far something is: (done, total)."""


@dataclass(frozen=True)
class Course:
    """One task's examples and the teacher that knows it."""

    data: Encoded
    teacher: nn.Module | None


def train(
    trainees: Sequence[Trainee],
    data: Encoded,
    seed: int,
    teacher: nn.Module | None,
    numerics: Numerics,
    batch_size: int,
    on_step: OnStep = lambda done, total: None,
    halfway: Halfway | None = None,
) -> None:
    """Take every trainee through its legs. A trainee that fails keeps its error; the others go on."""
    train_on([Course(data, teacher)], trainees, seed, numerics, batch_size, on_step, halfway)


def train_on(
    courses: Sequence[Course],
    trainees: Sequence[Trainee],
    seed: int,
    numerics: Numerics,
    batch_size: int,
    on_step: OnStep = lambda done, total: None,
    halfway: Halfway | None = None,
) -> None:
    """:func:`train` on several tasks: each batch is of one task, an epoch visits all their batches in mixed order.

    Args:
        on_step: told how many steps of students are done and how many there are: what a step costs goes by how many
            students take it, so only theirs can say how long the rest will take.
        halfway: where the state is kept, for the case that this training breaks off.
    """
    sizes = [len(course.data) for course in courses]
    per_epoch = sum(math.ceil(size / batch_size) for size in sizes)
    lengths = {series: max((t.steps(series) for t in trainees), default=0) for series in ("preparation", "counted")}
    total, done = sum(t.steps(series) for t in trainees for series in lengths), 0
    number, whole = 0, sum(lengths.values())
    before = 0 if halfway is None else halfway.take_up(trainees, whole)
    watch = Watch(numerics.device)
    for series, length in lengths.items():
        order: list[tuple[int, list[int]]] = []
        for step in range(length):
            epoch, place = divmod(step, per_epoch)
            if place == 0:
                order = mixed_batches(sizes, batch_size, seed, -1 if series == "preparation" else epoch)
            number += 1
            due = [(t, found) for t in trainees if (found := t.leg_at(series, step))]
            moving = [(t, found) for t, found in due if t.error is None]
            done += len(due)
            if number <= before:
                continue
            if moving:
                task, rows = order[place]
                data, teacher = courses[task].data, courses[task].teacher
                batch = data.batch(rows, numerics.device, task)
                for view in dict.fromkeys(_view(leg) for _, (leg, _) in moving):
                    masking, padding, dropout = view
                    seen = batch if masking is None else hide(batch, data, masking, seed, step)
                    seen = fill(seen, data, padding) if padding else seen
                    some = [(trainee, found) for trainee, found in moving if _view(found[0]) == view]
                    noise = RandomState(_seed_of(seed, series, step), numerics.device) if dropout else None
                    _lockstep(some, seen, teacher, numerics, noise, watch)
            if series == "counted":
                _end_epochs([t for t, _ in moving], step, per_epoch)
            on_step(done, total)
            if number % SETTLE_EVERY == 0:
                watch.settle()
            if halfway is not None and halfway.is_due:
                watch.settle()
                halfway.keep(trainees, number)
    watch.settle()
    for trainee in trainees:
        if trainee.error is None:
            trainee.finish()


def _end_epochs(moving: Sequence[Trainee], step: int, per_epoch: int) -> None:
    """Tell the students for whom this was the last step of an epoch, or of all."""
    for trainee in moving:
        if trainee.error is None and ((step + 1) % per_epoch == 0 or step + 1 == trainee.steps("counted")):
            try:
                if trainee.choice is not None:
                    trainee.choice.look(trainee.student)
            except Exception as error:
                trainee.error = error


def _seed_of(seed: int, series: str, step: int) -> int:
    """A seed of its own for the teacher's dropout at every step."""
    return int(np.random.default_rng([seed, step, series == "preparation"]).integers(2**63))


def _view(leg: Leg) -> tuple[Masking | None, int, bool]:
    """What has to be alike for students to share a batch and a teacher pass."""
    return leg.stage.masking, leg.stage.padding, leg.stage.teacher_dropout and bool(leg.teacher)


def _lockstep(
    moving: Sequence[tuple[Trainee, tuple[Leg, int]]],
    batch: Batch,
    teacher: nn.Module | None,
    numerics: Numerics,
    noise: RandomState | None,
    watch: Watch,
) -> None:
    taught = [trainee for trainee, (leg, _) in moving if leg.teacher]
    asked: Taps = frozenset().union(*(leg.teacher for _, (leg, _) in moving))
    answer = Out(batch.layout)
    if asked:
        if teacher is None:
            raise CellError("a term reads the teacher, but this training has none")
        with watch.timing(lambda seconds: _share(seconds, taught)), torch.no_grad(), numerics.autocast():
            if noise is None:
                answer = forward(teacher, batch, asked)
            else:
                with noise.current():
                    answer = forward(teacher.train(), batch, asked)
                teacher.eval()
    tokens, squared = batch.layout.total, sum(n**2 for n in batch.layout.lengths)
    for trainee, (leg, step) in moving:
        with watch.timing(trainee.log.took):
            try:
                trainee.step(leg, step, batch, answer)
            except Exception as error:
                trainee.error = error
        log = trainee.log
        log.steps += 1
        log.examples += len(batch.example_ids)
        log.tokens += tokens
        log.squared_lengths += squared
        if trainee in taught:
            log.teacher_tokens += tokens
            log.teacher_squared_lengths += squared


def _share(seconds: float, taught: Sequence[Trainee]) -> None:
    """Note a teacher pass in the logs of the students that shared it."""
    for trainee in taught:
        trainee.log.teacher_seconds_shared += seconds / len(taught)
        trainee.log.teacher_seconds_alone += seconds
