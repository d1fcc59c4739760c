"""The one training loop: every student of a group over the same batches and one shared teacher pass.

Students trained together end with weights bit-identical (on a CPU) to training each alone: they see the same
batches in the same order, each keeps its own random state, and asking the teacher for more never changes
what it answers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from bench.data.encoding import Encoded, mixed_batches
from bench.data.masking import mask_tokens, pad_batch
from bench.errors import CellError
from bench.plan.scheduled_stages import COUNTED, PREPARATION, ScheduledStage
from bench.train.numerics import ComputeSettings, RandomState, Stopwatch
from bench.train.student_trainer import MicroBatch, StudentTrainer
from bench.train.training_state import TrainingStates
from methods.api import Batch, Masking, Out, Taps
from methods.core.models import forward

SETTLE_EVERY = 16
"""Steps after which the seconds of an accelerator's work are fetched: a look after each would make it wait."""
OnStep = Callable[[int, int], Any]
"""Told how far something is: (done, total)."""
StudentStep = tuple[StudentTrainer, ScheduledStage, int]
"""A student that has a step to do: its trainer, the stage, and the number of the step within the stage."""


class View(NamedTuple):
    """What has to be alike for students to share a batch and a teacher pass."""

    masking: Masking | None
    padding: int
    teacher_dropout: bool


Batches = Mapping[View, Sequence[Batch]]
"""The examples of a step as each view has them, in parts, on the device."""


class TaskWithTeacher(NamedTuple):
    """One task's examples and the teacher that knows it."""

    data: Encoded
    teacher: nn.Module | None


@dataclass(frozen=True)
class LoopOptions:
    """What a training receives besides its students, its examples and its teachers."""

    seed: int
    numerics: ComputeSettings
    batch_size: int
    on_step: OnStep = lambda done, total: None
    """told (done, total), counted once for each student that takes a step: a step of the loop takes longer the more students
    take it, so steps of the loop would give a wrong remaining time"""
    states: TrainingStates | None = None
    """where the state is kept, for the case that this training breaks off"""
    micro_batch: int = 0
    """at most so many examples of a batch go through the models at a time; 0: all"""


class Step(NamedTuple):
    """One step of the loop: the examples of one task that every student sees at the same time."""

    series: str
    number: int
    """within the series, from 0"""
    task: int
    examples: Sequence[int]


def train_task(
    trainers: Sequence[StudentTrainer],
    data: Encoded,
    teacher: nn.Module | None,
    options: LoopOptions,
) -> None:
    """Take every student through its stages on one task. A student that fails keeps its error; the others go on."""
    train_tasks([TaskWithTeacher(data, teacher)], trainers, options)


def train_tasks(
    tasks: Sequence[TaskWithTeacher], trainers: Sequence[StudentTrainer], options: LoopOptions
) -> None:
    """:func:`train_task` on several tasks: each batch is of one task, an epoch visits all their batches in mixed order."""
    seed, batch_size, states = options.seed, options.batch_size, options.states
    sizes = [len(task.data) for task in tasks]
    per_epoch = sum(math.ceil(size / batch_size) for size in sizes)
    lengths = {
        series: max((t.steps(series) for t in trainers), default=0)
        for series in (PREPARATION, COUNTED)
    }
    earlier = 0 if states is None else states.resume(trainers, sum(lengths.values()))
    total, done = sum(t.steps(series) for t in trainers for series in lengths), 0
    stopwatch = Stopwatch(options.numerics.device)
    steps = _steps(sizes, batch_size, seed, lengths)
    done += sum(len(_due(trainers, step)) for step in itertools.islice(steps, earlier))

    def prepare(step: Step) -> Batches:
        return _batches(step, _due(trainers, step), tasks[step.task].data, options)

    ready = _one_ahead(steps, prepare, options.numerics.device)
    for number, (step, batches) in enumerate(ready, start=earlier + 1):
        due = _due(trainers, step)
        done += len(due)
        active = [student for student in due if student[0].error is None]
        _train_step(step, active, batches, tasks[step.task].teacher, options, stopwatch)
        for trainer, _, _ in active if step.series == COUNTED else ():
            is_last_of_epoch = (
                step.number + 1
            ) % per_epoch == 0 or step.number + 1 == trainer.steps(COUNTED)
            if trainer.best_epoch is not None and trainer.error is None and is_last_of_epoch:
                try:
                    trainer.best_epoch.evaluate(trainer.student)
                except Exception as error:
                    trainer.fail(error)
        options.on_step(done, total)
        if number % SETTLE_EVERY == 0:
            stopwatch.settle()
        if states is not None and states.is_due:
            stopwatch.settle()
            states.save(trainers, number)
    stopwatch.settle()
    for trainer in trainers:
        if trainer.error is None:
            trainer.finish()


def _steps(
    sizes: Sequence[int], batch_size: int, seed: int, lengths: dict[str, int]
) -> Iterator[Step]:
    """The batches of a whole training, in their order."""
    for series, length in lengths.items():
        order: list[tuple[int, list[int]]] = []
        per_epoch = sum(math.ceil(size / batch_size) for size in sizes)
        for number in range(length):
            epoch, place = divmod(number, per_epoch)
            # the preparation goes over one epoch alone, which is none of the counted ones
            if place == 0:
                order = mixed_batches(
                    sizes, batch_size, seed, -1 if series == PREPARATION else epoch
                )
            yield Step(series, number, *order[place])


def _due(trainers: Sequence[StudentTrainer], step: Step) -> list[StudentStep]:
    """The students whose stages have this step, whether or not they have failed."""
    return [
        (trainer, *at) for trainer in trainers if (at := trainer.stage_at(step.series, step.number))
    ]


def _one_ahead(
    steps: Iterable[Step], prepare: Callable[[Step], Batches], device: torch.device
) -> Iterator[tuple[Step, Batches]]:
    """Every step with its batches, which a thread puts together and sends while the step before it is taken."""
    # a thread begins with GPU 0 as its current one: pinned memory would open a context there
    here = (
        partial(torch.cuda.set_device, torch.cuda.current_device())
        if device.type == "cuda"
        else None
    )
    with ThreadPoolExecutor(1, initializer=here) as thread:
        pending = ((step, thread.submit(prepare, step)) for step in steps)
        coming = next(pending, None)
        while coming is not None:
            (step, batches), coming = coming, next(pending, None)
            yield step, batches.result()


def _batches(
    step: Step, due: Sequence[StudentStep], data: Encoded, options: LoopOptions
) -> Batches:
    # a student may fail while this runs, but none comes back: no view will be missing
    batches: dict[View, list[Batch]] = {
        _view(stage): [] for trainer, stage, _ in due if trainer.error is None
    }
    for part in _cut(step.examples, options.micro_batch) if batches else ():
        plain = data.batch(part, task=step.task)
        for view, seen in batches.items():
            batch = (
                plain
                if view.masking is None
                else mask_tokens(plain, data, view.masking, options.seed, step.number)
            )
            batch = pad_batch(batch, data, view.padding) if view.padding else batch
            seen.append(batch.to(options.numerics.device))
    return batches


def _train_step(
    step: Step,
    active: Sequence[StudentStep],
    batches: Batches,
    teacher: nn.Module | None,
    options: LoopOptions,
    stopwatch: Stopwatch,
) -> None:
    """One step of every student: those who see the batch alike share it, and one teacher pass."""
    for view in dict.fromkeys(_view(stage) for _, stage, _ in active):
        sharing = [student for student in active if _view(student[1]) == view]
        taught = [trainer for trainer, stage, _ in sharing if stage.teacher]
        asked: Taps = frozenset().union(*(stage.teacher for _, stage, _ in sharing))
        noise = None
        if view.teacher_dropout:  # a seed of its own for the teacher's dropout at every step
            drawn = np.random.default_rng(
                [options.seed, step.number, step.series == PREPARATION]
            ).integers(2**63)
            noise = RandomState(int(drawn), options.numerics.device)

        def note(seconds: float, taught: Sequence[StudentTrainer] = taught) -> None:
            for trainer in taught:
                trainer.log.teacher_seconds_shared += seconds / len(taught)
                trainer.log.teacher_seconds_alone += seconds

        parts = []
        for batch in batches[view]:
            answer = Out(batch.layout)
            if taught:
                if teacher is None:
                    raise CellError("a term reads the teacher, but this training has none")
                with stopwatch.timing(note), torch.no_grad(), options.numerics.autocast():
                    if noise is None:
                        answer = forward(teacher, batch, asked)
                    else:
                        with noise.current():
                            answer = forward(teacher.train(), batch, asked)
                        teacher.eval()
            parts.append(MicroBatch(batch, answer, len(batch.example_ids) / len(step.examples)))
        tokens = sum(batch.layout.total for batch in batches[view])
        # attention costs so much
        squared = sum(n**2 for batch in batches[view] for n in batch.layout.lengths)
        for trainer in taught:
            trainer.log.teacher_tokens += tokens
            trainer.log.teacher_squared_lengths += squared
        for trainer, stage, number in sharing:
            log = trainer.log
            with stopwatch.timing(log.add_seconds):
                try:
                    trainer.step(stage, number, parts)
                except Exception as error:  # that student's alone
                    trainer.fail(error)
            log.steps += 1
            log.examples += len(step.examples)
            log.tokens += tokens
            log.squared_lengths += squared


def _cut(examples: Sequence[int], most: int) -> list[Sequence[int]]:
    """The examples of a batch in parts of at most so many, as equal as can be; one part where ``most`` is 0."""
    count = math.ceil(len(examples) / most) if most else 1
    ends = [number * len(examples) // count for number in range(count + 1)]
    return [examples[start:end] for start, end in itertools.pairwise(ends)]


def _view(stage: ScheduledStage) -> View:
    return View(
        stage.stage.masking,
        stage.stage.padding,
        stage.stage.teacher_dropout and bool(stage.teacher),
    )
