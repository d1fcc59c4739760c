"""The state of trainings that are under way: kept in the cache every few minutes, one file for each student.

A training that broke off goes on exactly where it was. The state belongs to one student, not to the students that it
trained with: another number of jobs, another group or a neighbour that failed loses nothing.
"""

from __future__ import annotations

import copy
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

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


@dataclass(frozen=True)
class StepsDone:
    """How many steps of its preparation, and how many counted ones, a student has done."""

    preparation: int = 0
    counted: int = 0


NOTHING = StepsDone()


@dataclass(frozen=True)
class StudentState:
    """The state of one student, in one safetensors file that is replaced whole.

    Only the same training finds it again: the same student, torch, number of threads and code.
    """

    file: Path
    training: str
    """key of the training"""
    code: str
    """hash of all the code that it depends on"""
    is_kept: bool = True
    """False where that code cannot be read: nobody could tell whether a state is of today's"""

    @property
    def left_by_other_code(self) -> bool:
        """Whether there is a state of this training that another version of the code saved, and none of today's."""
        return not self.file.is_file() and any(self.file.parent.glob(f"{self.training}-*.safetensors"))

    def done(self) -> StepsDone:
        """How far it is; nothing where there is no state that can be used."""
        body = self._body()
        return StepsDone(**body["done"]) if body else NOTHING

    def _body(self) -> dict[str, Any]:
        try:
            with safe_open(self.file, framework="pt") as file:
                body = json.loads(file.metadata()["state"])
        except (OSError, SafetensorError, ValueError, KeyError, TypeError):
            return {}  # no state, or one that cannot be used: the training begins anew
        return dict(body) if body.get("code") == self.code and "done" in body else {}

    def restore(self, trainer: StudentTrainer) -> None:
        """Bring a newly built student to where the state says."""
        body = self._body()
        with safe_open(self.file, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        trainer.restore(tensors, body["student"])

    def write(self, trainer: StudentTrainer, done: StepsDone) -> None:
        """Replace the file.

        Raises:
            OSError: it cannot be written; the old one is still there.
        """
        tensors, student = trainer.state()
        body = {"code": self.code, "done": {PREPARATION: done.preparation, COUNTED: done.counted}}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        new = self.file.with_suffix(f".{os.getpid()}")
        try:
            save_file(_apart(tensors), new, {"state": json.dumps({**body, "student": student})})
            new.chmod(MODE)
            os.replace(new, self.file)
        finally:
            new.unlink(missing_ok=True)


@dataclass(frozen=True)
class SaveInterval:
    """How often states are written."""

    every: float | None = None
    """seconds between two writings, :data:`EVERY_SECONDS` by default; 0 for one after each step"""
    clock: Callable[[], float] = time.monotonic


class TrainingStates:
    """The states of students that train together.

    What the loop asks of it: :meth:`resume` at the beginning, :attr:`is_due` and :meth:`save` after each step.
    """

    def __init__(
        self,
        trainings: Sequence[Any],
        say: Callable[[str], Any] = lambda text: None,
        interval: SaveInterval | None = None,
        folder: Path | None = None,
        code: Sequence[str] = (),
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """
        Args:
            trainings: of each student, what tells its training from all others; anything that JSON can hold.
            say: told that a training goes on where another stopped.
            interval: how often they are written.
            folder: where the files lie; a folder of the cache by default.
            code: of each student, the hash of what computes its training, the same for all if there is one; "" for code
                that cannot be read: the state of that student is not kept.
            is_stopping: whether somebody wants the training to keep its state now and to end.
        """
        self._folder = folder or cache_root() / STATES
        # only "" means code that cannot be read; " " is for no code named, and such a state is kept
        codes = list(code) * len(trainings) if len(code) == 1 else list(code) or [" "] * len(trainings)
        self.students = self._all = [self._state(*one) for one in zip(trainings, codes, strict=True)]
        self._say, self._is_stopping, self._interval = say, is_stopping, interval or SaveInterval()
        self._every = EVERY_SECONDS if self._interval.every is None else self._interval.every
        self._kept = self._interval.clock()
        self._preparation = 0

    def _state(self, identity: Any, code: str) -> StudentState:
        training = digest([identity, torch.__version__, torch.get_num_threads()])[:24]
        whole = digest(code)
        return StudentState(self._folder / f"{training}-{whole[:12]}.safetensors", training, whole, code != "")

    def of(self, numbers: Sequence[int]) -> TrainingStates:
        """The states of some of the students alone."""
        some = copy.copy(self)
        some.students, some._kept = [self.students[number] for number in numbers], self._interval.clock()
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
        for name in dict.fromkeys(
            t.label for t, s in zip(trainers, self.students, strict=False) if s.left_by_other_code
        ):
            self._say(
                f"  {name}: this training was interrupted under another version of the code; the state saved then is not used"
            )
        found = [state.done() for state in self.students]
        number = _number(found, self._preparation)
        if not number or found != [self._done(trainer, number) for trainer in trainers]:
            return 0
        for trainer, state, done in zip(trainers, self.students, found, strict=True):
            if done != NOTHING:
                state.restore(trainer)
        self._say(f"  resumes at step {number:,} of {total:,}")
        return number

    def _done(self, trainer: StudentTrainer, number: int) -> StepsDone:
        """How far a student is after so many steps of the loop, which begins with the longest preparation of all."""
        return StepsDone(min(number, trainer.steps(PREPARATION)), max(0, number - self._preparation))

    @property
    def is_due(self) -> bool:
        """Whether the last writing is long enough ago for another, or somebody wants the training to end."""
        is_late = self._interval.clock() - self._kept >= self._every
        return self._is_stopping() or (is_late and any(state.is_kept for state in self.students))

    def save(self, trainers: Sequence[StudentTrainer], number: int) -> None:
        """Write the states after so many steps, if the last time is some minutes ago.

        Raises:
            KeyboardInterrupt: somebody wants the training to end; its state is written.
        """
        if not self.is_due:
            return
        begun = self._interval.clock()
        try:
            for trainer, state in zip(trainers, self.students, strict=True):
                if state.is_kept:
                    state.write(trainer, self._done(trainer, number))
        except (OSError, SafetensorError) as error:  # a full disk must not end a training that could go on
            self._say(
                f"  its state could not be kept ({error}); if it breaks off it goes on from the last one that was kept"
            )
        self._kept = self._interval.clock()
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
        asked_for = {state.file.stem: state.file for state in self._all}
        for file in self._folder.glob("*"):
            half_written = file.stem in asked_for  # <stem>.<process>
            try:
                if file not in asked_for.values() and (
                    half_written or time.time() - file.stat().st_mtime > FORGOTTEN_SECONDS
                ):
                    file.unlink()
            except OSError:  # another process was faster, or the cache cannot be written: neither may end a training
                pass


def _number(found: Sequence[StepsDone], preparation: int) -> int:
    """The step of the loop at which students with these steps done go on."""
    counted = max((done.counted for done in found), default=0)
    return preparation + counted if counted else max((done.preparation for done in found), default=0)


def group_by_progress(trainers: Sequence[StudentTrainer], states: TrainingStates) -> list[list[int]]:
    """The students in groups that can go on together: those of a group are at the same step.

    Students whose state was kept at different steps, because they trained in different groups, go on apart. One that has
    ended its preparation, or has none, can wait for others that are still at theirs.

    Returns:
        Positions in ``trainers``; one group where no state was kept.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    waiting = []
    for number, (trainer, state) in enumerate(zip(trainers, states.students, strict=True)):
        done = state.done()
        if done.counted:
            groups.setdefault((COUNTED, done.counted), []).append(number)
        elif done.preparation < trainer.steps(PREPARATION):
            groups.setdefault((PREPARATION, done.preparation), []).append(number)
        else:
            waiting.append(number)
    apart: list[int] = []
    for number in waiting:
        own = trainers[number].steps(PREPARATION)
        fits = (key for key in groups if key[0] == PREPARATION and key[1] >= own)
        joined = next(fits, None)
        (apart if joined is None else groups[joined]).append(number)
    found = [*groups.values(), *([apart] if apart else [])]
    return [sorted(group) for group in found]


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous, and none in the memory of another: safetensors takes no tied weights."""
    seen: set[int] = set()
    found = {}
    for name, value in tensors.items():
        value = value.detach().contiguous()
        found[name] = value.clone() if value.untyped_storage().data_ptr() in seen else value
        seen.add(value.untyped_storage().data_ptr())
    return found
