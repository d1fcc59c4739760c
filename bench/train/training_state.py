"""The state of trainings that are under way, kept in the cache every few minutes.

Each student has a file. A training that broke off goes on exactly where it was. The state belongs
to one student, not to the students that it trained with: another number of jobs, another group or
a neighbour that failed loses nothing.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from bench.cache import cache_root
from bench.files import put_in_place
from bench.folders import STATES
from bench.plan.scheduled_stages import PREPARATION
from bench.record.keys import digest
from bench.train.sealed_files import HASH, NOT_SEALED, damage_of, seal
from bench.train.student_trainer import StudentTrainer

EVERY_SECONDS = 300.0
WORTH = 50
"""After a save that took t seconds the next one comes at least 50 t seconds later.

So saving takes at most 2 % of the time.
"""
FORGOTTEN_SECONDS = 30 * 86_400.0
"""A state that was not written for so long is removed, unless it is asked for."""


StepsDone = tuple[int, int]
"""How many steps of its preparation, and how many counted ones, a student has done."""
NONE_DONE: StepsDone = (0, 0)


def steps_done(file: Path, say: Callable[[str], Any] = lambda text: None) -> StepsDone:
    """How far the student of a state is; :data:`NONE_DONE` where there is none that can be used.

    Args:
        say: told that a state is there and is damaged, so that its training begins anew.
    """
    # a state that cannot be used costs the time that it saved, and nothing else
    try:
        wrong = damage_of(file)
        if not wrong:
            with safe_open(file, framework="pt") as state:
                preparation, counted = json.loads(state.metadata()["state"])["done"]
            return preparation, counted
    except FileNotFoundError:
        return NONE_DONE
    except OSError as error:
        wrong = f"it cannot be read: {error.strerror}"
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        wrong = f"it is no state of a training: {error}"
    say(f"  {file}: this state of a training is not used, and the training begins anew: {wrong}")
    return NONE_DONE


class TrainingStates:
    """The states of students that train together: a safetensors file each, which is replaced whole.

    The loop asks it to :meth:`resume` at the beginning, and after each step whether it
    :attr:`is_due` and to :meth:`save`.
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
            trainings: of each student, what tells its training from all others; anything that JSON
                can hold. Only the same training finds a state again: of the same student, torch,
                number of threads and code.
            say: told that a training goes on where another stopped.
            every: seconds between two writings, :data:`EVERY_SECONDS` by default; 0 for one after
                each step.
            folder: where the files lie; a folder of the cache by default.
            code: of each student, the hash of what computes its training; "" for code that cannot
                be read: nobody could tell whether a state is of today's, so nobody finds it. None
                at all where no code is named.
            is_stopping: whether somebody wants the training to keep its state now and to end.
        """
        self._folder = folder or cache_root() / STATES
        self._say = say
        self._is_stopping = is_stopping
        self._clock = clock
        self._every = EVERY_SECONDS if every is None else every
        # only the same training on the same software has the same file
        self.files: list[Path] = []
        for training, of_code in zip(trainings, code or [" "] * len(trainings), strict=True):
            software = [of_code or uuid4().hex, torch.__version__, torch.get_num_threads()]
            name = digest([training, *software])[:24]
            self.files.append(self._folder / f"{name}.safetensors")
        self._all = self.files
        self._kept = clock()
        self._preparation = 0
        self._looked_at: dict[Path, StepsDone] = {}
        """file -> how far its student is; shared by the states of some of the students alone"""

    def _steps_done(self, file: Path) -> StepsDone:
        """:func:`steps_done`, which reads the whole file once."""
        if file not in self._looked_at:
            self._looked_at[file] = steps_done(file, self._say)
        return self._looked_at[file]

    def groups(self) -> list[tuple[list[int], TrainingStates]]:
        """The students in groups that can go on together, as positions with their states.

        Those of a group are at the same step; there is one group where no state was kept. Students
        whose state was kept at different steps go on apart.
        """
        groups: dict[StepsDone, list[int]] = {}
        for number, file in enumerate(self.files):
            preparation, counted = self._steps_done(file)
            # in the counted steps it says nothing how long the preparation was
            step = (0, counted) if counted else (preparation, 0)
            groups.setdefault(step, []).append(number)
        return [(group, self._of(group)) for group in groups.values()]

    def _of(self, numbers: Sequence[int]) -> TrainingStates:
        """The states of some of the students alone."""
        some = copy.copy(self)
        some.files = [self.files[number] for number in numbers]
        some._kept = self._clock()
        return some

    def resume(self, trainers: Sequence[StudentTrainer], total: int) -> int:
        """Bring the students, newly built, to where an earlier training left them.

        They have to be equally far (:meth:`groups`).

        Args:
            total: steps of the whole training.

        Returns:
            How many of the steps are done; 0 where no earlier training left a state.
        """
        self._forget()
        self._preparation = max((t.steps(PREPARATION) for t in trainers), default=0)
        # the step of the loop at which the furthest student is, and whether all are there
        done = [self._steps_done(file) for file in self.files]
        before = max((preparation for preparation, _ in done), default=0)
        counted = max((counted for _, counted in done), default=0)
        number = self._preparation + counted if counted else before
        if not number or done != [self._done(trainer, number) for trainer in trainers]:
            return 0
        # a student that had not begun stays as it was built
        for trainer, file, far in zip(trainers, self.files, done, strict=True):
            if any(far):
                with safe_open(file, framework="pt") as state:
                    names = state.keys()
                    tensors = {name: state.get_tensor(name) for name in names}
                    trainer.restore(tensors, json.loads(state.metadata()["state"])["student"])
        self._say(f"  resumes at step {number:,} of {total:,}")
        return number

    def _done(self, trainer: StudentTrainer, number: int) -> StepsDone:
        """How far a student is after so many steps of the loop.

        The loop begins with the longest preparation of all.
        """
        return min(number, trainer.steps(PREPARATION)), max(0, number - self._preparation)

    @property
    def is_due(self) -> bool:
        """Whether to write a state now.

        The last one is long enough ago, or somebody wants the training to end.
        """
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
            for trainer, file in zip(trainers, self.files, strict=True):
                done = self._done(trainer, number)
                _write(file, trainer, done)
                self._looked_at[file] = done
        # a full disk must not end a training that could go on
        except (OSError, SafetensorError) as error:
            self._say(
                f"  its state could not be kept ({error}); if it breaks off it goes on from the "
                "last one that was kept"
            )
        # slower disks get fewer states
        self._kept = self._clock()
        if self._every:
            self._every = max(self._every, WORTH * (self._kept - begun))
        if self._is_stopping():
            raise KeyboardInterrupt

    def clear(self) -> None:
        """The trainings have ended, or must begin anew."""
        for file in self.files:
            file.unlink(missing_ok=True)
            self._looked_at.pop(file, None)

    @property
    def has_begun(self) -> bool:
        """Whether an earlier training left a state of one of them."""
        return any(any(self._steps_done(file)) for file in self.files)

    def _forget(self) -> None:
        """Remove old states of others, and what killed processes have half-written of these."""
        stems = {file.stem for file in self._all}
        for file in self._folder.glob("*"):
            # another process was faster, or the cache cannot be written
            with contextlib.suppress(OSError):
                if file in self._all:
                    continue
                is_half = file.stem in stems  # <stem>.<process>
                if is_half or time.time() - file.stat().st_mtime > FORGOTTEN_SECONDS:
                    file.unlink()


def _write(file: Path, trainer: StudentTrainer, done: StepsDone) -> None:
    """Replace a state.

    Raises:
        OSError: it cannot be written; the old one is still there.
    """
    tensors, student = trainer.state()
    # contiguous, and none in the memory of another: safetensors takes no tied weights
    seen: set[int] = set()
    for name, value in tensors.items():
        value = value.detach().contiguous()
        address = value.untyped_storage().data_ptr()
        tensors[name] = value.clone() if address in seen else value
        seen.add(address)
    file.parent.mkdir(parents=True, exist_ok=True)
    # whole or not at all: a file of its own first, with its hash
    new = file.with_suffix(f".{os.getpid()}")
    try:
        state = json.dumps({"done": done, "student": student})
        save_file(tensors, new, {"state": state, HASH: NOT_SEALED})
        seal(new)
        put_in_place(new, file)
    finally:
        new.unlink(missing_ok=True)
