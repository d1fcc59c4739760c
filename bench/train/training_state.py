"""The state of trainings that are under way: kept in the cache every few minutes, one file for each student.

A training that broke off goes on exactly where it was. The state belongs to one student, not to the students that it
trained with: another number of jobs, another group or a neighbour that failed loses nothing.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from bench.cache import cache_root
from bench.files import MODE
from bench.folders import STATES
from bench.plan.scheduled_stages import COUNTED, PREPARATION
from bench.record.keys import digest
from bench.train.student_trainer import StudentTrainer

EVERY_SECONDS = 300.0
WORTH = 50
"""After a save that took t seconds the next one comes at least 50 t seconds later: saving takes at most 2 % of the time."""
FORGOTTEN_SECONDS = 30 * 86_400.0
"""A state that was not written for so long is removed, unless it is asked for."""


class StepsDone(NamedTuple):
    """How many steps of its preparation, and how many counted ones, a student has done."""

    preparation: int = 0
    counted: int = 0


NOTHING = StepsDone()


@dataclass(frozen=True)
class StudentState:
    """The state of one student, in one safetensors file that is replaced whole."""

    file: Path

    def done(self) -> StepsDone:
        """How far it is; nothing where there is no state that can be used."""
        try:
            with safe_open(self.file, framework="pt") as file:
                body = json.loads(file.metadata()["state"])
            return StepsDone(**body["done"])
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError):
            return NOTHING  # no state, or one that cannot be used: the training begins anew

    def restore(self, trainer: StudentTrainer) -> None:
        """Bring a newly built student to where the state says."""
        with safe_open(self.file, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            trainer.restore(tensors, json.loads(file.metadata()["state"])["student"])

    def write(self, trainer: StudentTrainer, done: StepsDone) -> None:
        """Replace the file. Raises OSError: it cannot be written; the old one is still there."""
        tensors, student = trainer.state()
        seen: set[int] = set()
        for name, value in tensors.items():
            # contiguous, and none in the memory of another: safetensors takes no tied weights
            value = value.detach().contiguous()
            place = value.untyped_storage().data_ptr()
            tensors[name] = value.clone() if place in seen else value
            seen.add(place)
        body = {"done": done._asdict(), "student": student}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        new = self.file.with_suffix(f".{os.getpid()}")
        try:
            save_file(tensors, new, {"state": json.dumps(body)})
            new.chmod(MODE)
            os.replace(new, self.file)
        finally:
            new.unlink(missing_ok=True)


class TrainingStates:
    """The states of students that train together.

    What the loop asks of it: :meth:`resume` at the beginning, :attr:`is_due` and :meth:`save` after each step.
    """

    def __init__(
        self,
        trainings: Sequence[Any],
        say: Callable[[str], Any] = lambda text: None,
        every: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        folder: Path | None = None,
        code: Sequence[str] = (),
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """
        Args:
            trainings: of each student, what tells its training from all others; anything that JSON can hold. Only the same
                training finds a state again: of the same student, torch, number of threads and code.
            say: told that a training goes on where another stopped.
            every: seconds between two writings, :data:`EVERY_SECONDS` by default; 0 for one after each step.
            folder: where the files lie; a folder of the cache by default.
            code: of each student, the hash of what computes its training; "" for code that cannot be read: nobody
                could tell whether a state is of today's, so nobody finds it. None at all where no code is named.
            is_stopping: whether somebody wants the training to keep its state now and to end.
        """
        self._folder = folder or cache_root() / STATES
        self._say, self._is_stopping, self._clock = say, is_stopping, clock
        self._every = EVERY_SECONDS if every is None else every
        identities = zip(trainings, code or [" "] * len(trainings), strict=True)
        keys = [[each, own or uuid4().hex, torch.__version__, torch.get_num_threads()] for each, own in identities]
        self.students = [StudentState(self._folder / f"{digest(key)[:24]}.safetensors") for key in keys]
        self._all, self._kept, self._preparation = self.students, clock(), 0

    def of(self, numbers: Sequence[int]) -> TrainingStates:
        """The states of some of the students alone."""
        some = copy.copy(self)
        some.students, some._kept = [self.students[number] for number in numbers], self._clock()
        return some

    def resume(self, trainers: Sequence[StudentTrainer], total: int) -> int:
        """Bring the students to where an earlier training left them; they have to be equally far (:func:`group_by_progress`).

        Args:
            total: steps of the whole training.

        Returns:
            How many of the steps are done; 0 where no earlier training left a state.
        """
        self._forget()
        self._preparation = max((t.steps(PREPARATION) for t in trainers), default=0)
        done = [state.done() for state in self.students]
        counted = max((far.counted for far in done), default=0)
        number = self._preparation + counted if counted else max((far.preparation for far in done), default=0)
        if not number or done != [self._done(trainer, number) for trainer in trainers]:
            return 0
        for trainer, state, far in zip(trainers, self.students, done, strict=True):
            if far != NOTHING:
                state.restore(trainer)
        self._say(f"  resumes at step {number:,} of {total:,}")
        return number

    def _done(self, trainer: StudentTrainer, number: int) -> StepsDone:
        """How far a student is after so many steps of the loop, which begins with the longest preparation of all."""
        return StepsDone(min(number, trainer.steps(PREPARATION)), max(0, number - self._preparation))

    @property
    def is_due(self) -> bool:
        """Whether the last writing is long enough ago for another, or somebody wants the training to end."""
        return self._is_stopping() or self._clock() - self._kept >= self._every

    def save(self, trainers: Sequence[StudentTrainer], number: int) -> None:
        """Write the states after so many steps, if the last time is some minutes ago.

        Raises:
            KeyboardInterrupt: somebody wants the training to end; its state is written.
        """
        if not self.is_due:
            return
        begun = self._clock()
        try:
            for trainer, state in zip(trainers, self.students, strict=True):
                state.write(trainer, self._done(trainer, number))
        except (OSError, SafetensorError) as error:  # a full disk must not end a training that could go on
            self._say(
                f"  its state could not be kept ({error}); if it breaks off it goes on from the last one that was kept"
            )
        self._kept = self._clock()
        if self._every:
            self._every = max(self._every, WORTH * (self._kept - begun))
        if self._is_stopping():
            raise KeyboardInterrupt

    def clear(self) -> None:
        """The trainings have ended, or must begin anew."""
        for file in self.files:
            file.unlink(missing_ok=True)

    @property
    def has_begun(self) -> bool:
        """Whether an earlier training left a state of one of them."""
        return any(state.done() != NOTHING for state in self.students)

    @property
    def files(self) -> list[Path]:
        """Where the states lie."""
        return [state.file for state in self.students]

    def _forget(self) -> None:
        """Remove old states of others, and what killed processes have half-written of these."""
        own = {state.file for state in self._all}
        stems = {file.stem for file in own}
        for file in self._folder.glob("*"):
            with contextlib.suppress(OSError):  # another process was faster, or the cache cannot be written
                is_half = file.stem in stems  # <stem>.<process>
                if file not in own and (is_half or time.time() - file.stat().st_mtime > FORGOTTEN_SECONDS):
                    file.unlink()


def group_by_progress(trainers: Sequence[StudentTrainer], states: TrainingStates) -> list[list[int]]:
    """The students in groups that can go on together: those of a group are at the same step.

    Students whose state was kept at different steps, because they trained in different groups, go on apart. One that has
    ended its preparation, or has none, can wait for others that are still at theirs.

    Returns:
        Positions in ``trainers``; one group where no state was kept.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    waiting, apart = [], list[int]()
    for number, (trainer, state) in enumerate(zip(trainers, states.students, strict=True)):
        done = state.done()
        if done.counted:
            groups.setdefault((COUNTED, done.counted), []).append(number)
        elif done.preparation < trainer.steps(PREPARATION):
            groups.setdefault((PREPARATION, done.preparation), []).append(number)
        else:
            waiting.append(number)
    for number in waiting:
        own = trainers[number].steps(PREPARATION)
        fits = (group for (series, step), group in groups.items() if series == PREPARATION and step >= own)
        next(fits, apart).append(number)
    return [sorted(group) for group in [*groups.values(), apart] if group]
