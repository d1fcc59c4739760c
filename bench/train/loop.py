"""The training loop: every student of a group over the same batches and one shared teacher pass.

Students trained together end with weights bit-identical (on a CPU) to training each alone: they see
the same batches in the same order, each keeps its own random state, and asking the teacher for more
never changes what it answers.
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
"""Steps after which the seconds of an accelerator's work are fetched.

A look after each would make it wait.
"""
OnStep = Callable[[int, int], Any]
"""Is told how far something is: (done, total)."""
StudentStep = tuple[StudentTrainer, ScheduledStage, int]
"""A student that has a step to do: its trainer, the stage, the number of the step in the stage."""


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
    """What a training receives besides its students, its examples and its teachers.

    Attributes:
        on_step: told (done, total), counted once for each student that takes a step. A step of the
            loop takes longer the more students take it, so steps of the loop would give a wrong
            remaining time.
        states: where the state is kept, for the case that this training breaks off.
        micro_batch: at most so many examples of a batch go through the models at a time; 0: all.
    """

    seed: int
    numerics: ComputeSettings
    batch_size: int
    on_step: OnStep = lambda done, total: None
    states: TrainingStates | None = None
    micro_batch: int = 0


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
    """Take every student through its stages on one task.

    A student that fails keeps its error; the others go on.
    """
    train_tasks([TaskWithTeacher(data, teacher)], trainers, options)


def train_tasks(
    tasks: Sequence[TaskWithTeacher], trainers: Sequence[StudentTrainer], options: LoopOptions
) -> None:
    """:func:`train_task` on several tasks: each batch is of one task.

    An epoch visits all their batches in mixed order.
    """
    states = options.states
    sizes = [len(task.data) for task in tasks]
    per_epoch = _batches_of_an_epoch(sizes, options.batch_size)
    # the loop is as long as its longest student
    lengths = {series: _longest(trainers, series) for series in (PREPARATION, COUNTED)}
    total = sum(trainer.steps(PREPARATION) + trainer.steps(COUNTED) for trainer in trainers)

    # go on where an earlier training broke off: the steps that it took are left out
    earlier = 0 if states is None else states.resume(trainers, sum(lengths.values()))
    steps = _steps(sizes, options.batch_size, options.seed, lengths)
    done = sum(len(_due(trainers, step)) for step in itertools.islice(steps, earlier))

    def prepare(step: Step) -> Batches:
        return _batches(step, _due(trainers, step), tasks[step.task].data, options)

    stopwatch = Stopwatch(options.numerics.device)
    ready = _one_ahead(steps, prepare, options.numerics.device)
    for number, (step, batches) in enumerate(ready, start=earlier + 1):
        # every student that has a step, but for those that failed
        due = _due(trainers, step)
        active = [student for student in due if student[0].error is None]
        _train_step(step, active, batches, tasks[step.task].teacher, options, stopwatch)
        if step.series == COUNTED:
            _evaluate_epochs([trainer for trainer, _, _ in active], step.number + 1, per_epoch)
        # a student that failed counts as if it had gone on
        done += len(due)
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


def _longest(trainers: Sequence[StudentTrainer], series: str) -> int:
    """The most steps of a series that a student has."""
    return max((trainer.steps(series) for trainer in trainers), default=0)


def _batches_of_an_epoch(sizes: Sequence[int], batch_size: int) -> int:
    """How many batches tasks of these numbers of examples have together."""
    return sum(math.ceil(size / batch_size) for size in sizes)


def _evaluate_epochs(trainers: Sequence[StudentTrainer], counted: int, per_epoch: int) -> None:
    """Evaluate the students that chose to be, where an epoch of theirs has ended.

    Args:
        counted: steps so far, without those of the preparation.
    """
    for trainer in trainers:
        if trainer.best_epoch is None or trainer.error is not None:
            continue
        is_end_of_epoch = counted % per_epoch == 0
        is_end_of_training = counted == trainer.steps(COUNTED)
        if is_end_of_epoch or is_end_of_training:
            try:
                trainer.best_epoch.evaluate(trainer.student)
            except Exception as error:
                trainer.fail(error)


def _steps(
    sizes: Sequence[int], batch_size: int, seed: int, lengths: dict[str, int]
) -> Iterator[Step]:
    """The batches of a whole training, in their order."""
    per_epoch = _batches_of_an_epoch(sizes, batch_size)
    for series, length in lengths.items():
        order: list[tuple[int, list[int]]] = []
        for number in range(length):
            epoch, place = divmod(number, per_epoch)
            # the preparation goes over one epoch alone, which is none of the counted ones
            if series == PREPARATION:
                epoch = -1
            if place == 0:
                order = mixed_batches(sizes, batch_size, seed, epoch)
            yield Step(series, number, *order[place])


def _due(trainers: Sequence[StudentTrainer], step: Step) -> list[StudentStep]:
    """The students whose stages have this step, whether or not they have failed."""
    due = []
    for trainer in trainers:
        found = trainer.stage_at(step.series, step.number)
        if found is not None:
            stage, number = found
            due.append((trainer, stage, number))
    return due


def _one_ahead(
    steps: Iterable[Step], prepare: Callable[[Step], Batches], device: torch.device
) -> Iterator[tuple[Step, Batches]]:
    """Every step with its batches.

    A thread puts them together and sends them while the step before is taken.
    """
    # a thread begins with GPU 0 as its current one: pinned memory would open a context there
    here = None
    if device.type == "cuda":
        here = partial(torch.cuda.set_device, torch.cuda.current_device())
    with ThreadPoolExecutor(1, initializer=here) as thread:
        # the next step is handed to the thread before this one is taken
        pending = ((step, thread.submit(prepare, step)) for step in steps)
        coming = next(pending, None)
        while coming is not None:
            step, batches = coming
            coming = next(pending, None)
            yield step, batches.result()


def _batches(
    step: Step, due: Sequence[StudentStep], data: Encoded, options: LoopOptions
) -> Batches:
    """The examples of a step as each view of its students has them, on the device."""
    # a student may fail while this runs, but none comes back: no view will be missing
    batches: dict[View, list[Batch]] = {
        _view(stage): [] for trainer, stage, _ in due if trainer.error is None
    }
    if not batches:
        return batches
    for examples in _cut(step.examples, options.micro_batch):
        # packed once; masked and filled up as each view has it
        plain = data.batch(examples, task=step.task)
        for view, parts in batches.items():
            part = plain
            if view.masking is not None:
                part = mask_tokens(plain, data, view.masking, options.seed, step.number)
            if view.padding:
                part = pad_batch(part, data, view.padding)
            parts.append(part.to(options.numerics.device))
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
        layouts = [batch.layout for batch in batches[view]]
        tokens = sum(layout.total for layout in layouts)
        # attention costs so much
        squared = sum(length**2 for layout in layouts for length in layout.lengths)

        # the teacher once for all, then each student by itself
        parts = _with_teacher(step, view, batches[view], sharing, teacher, options, stopwatch)
        for trainer, stage, number in sharing:
            log = trainer.log
            if stage.teacher:
                log.teacher_tokens += tokens
                log.teacher_squared_lengths += squared
            with stopwatch.timing(log.add_seconds):
                try:
                    trainer.step(stage, number, parts)
                except Exception as error:  # that student's alone
                    trainer.fail(error)
            log.steps += 1
            log.examples += len(step.examples)
            log.tokens += tokens
            log.squared_lengths += squared


def _with_teacher(
    step: Step,
    view: View,
    batches: Sequence[Batch],
    sharing: Sequence[StudentStep],
    teacher: nn.Module | None,
    options: LoopOptions,
    stopwatch: Stopwatch,
) -> list[MicroBatch]:
    """The parts of a batch with what the teacher answers to them, in one pass for all students.

    Args:
        sharing: the students that see the batch alike.
    """
    taught = [trainer for trainer, stage, _ in sharing if stage.teacher]
    if taught and teacher is None:
        raise CellError("a term reads the teacher, but this training has none")
    # all that some student's terms read: asking for more changes no answer
    asked: Taps = frozenset().union(*(stage.teacher for _, stage, _ in sharing))

    # a seed of its own for the teacher's dropout at every step
    noise = None
    if view.teacher_dropout:
        key = [options.seed, step.number, step.series == PREPARATION]
        seed = int(np.random.default_rng(key).integers(2**63))
        noise = RandomState(seed, options.numerics.device)

    # a pass that is shared costs each student its part, and alone the whole
    def note(seconds: float) -> None:
        for trainer in taught:
            trainer.log.teacher_seconds_shared += seconds / len(taught)
            trainer.log.teacher_seconds_alone += seconds

    parts = []
    for batch in batches:
        answer = Out(batch.layout)
        if teacher is not None and taught:
            with stopwatch.timing(note), torch.no_grad(), options.numerics.autocast():
                if noise is None:
                    answer = forward(teacher, batch, asked)
                else:
                    with noise.current():
                        answer = forward(teacher.train(), batch, asked)
                    teacher.eval()
        # parts of different sizes weigh by their examples
        share = len(batch.example_ids) / len(step.examples)
        parts.append(MicroBatch(batch, answer, share))
    return parts


def _cut(examples: Sequence[int], most: int) -> list[Sequence[int]]:
    """The examples of a batch in parts of at most so many, as equal as can be.

    It is one part where ``most`` is 0.
    """
    count = math.ceil(len(examples) / most) if most else 1
    ends = [number * len(examples) // count for number in range(count + 1)]
    return [examples[start:end] for start, end in itertools.pairwise(ends)]


def _view(stage: ScheduledStage) -> View:
    """How a stage sees its batches. Without a teacher nobody asks for its dropout."""
    return View(
        stage.stage.masking,
        stage.stage.padding,
        stage.stage.teacher_dropout and bool(stage.teacher),
    )
