"""A training that broke off goes on exactly where it stood: its whole state is kept in the cache every few minutes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bench.plan.keys import digest
from bench.record.code import code_of
from bench.train.cache import cache_root
from bench.train.trainee import Trainee, below

EVERY_SECONDS = 300.0
WORTH = 20
"""How many times as long as a writing takes goes by before the next: big students are written more rarely."""
FORGOTTEN_SECONDS = 30 * 86_400.0
"""State that nobody took up for so long is removed."""


class Halfway:
    """The state of students that train together, in one safetensors file that is replaced whole.

    It is found again by the same training alone: same cells, same torch and threads. A state that other code left
    is not taken up, and said to be there.
    """

    def __init__(
        self,
        identity: Any,
        say: Callable[[str], Any] = lambda text: None,
        every: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        folder: Path | None = None,
        code: Sequence[str] = (),
    ) -> None:
        """
        Args:
            identity: what tells this training from all others; anything that JSON can hold.
            say: told that a training goes on where another stopped.
            every: seconds between two writings, :data:`EVERY_SECONDS` by default; 0 for one after each step.
            folder: where the file lies; a folder of the cache by default.
            code: hashes of what computes the training; "" for code that cannot be read, whose state is not kept.
        """
        self._folder, self._readable = folder or cache_root() / "halfway", "" not in code
        self._training = digest([identity, torch.__version__, torch.get_num_threads()])[:24]
        self._code = digest([*code, code_of("training state").hash])
        self.file = self._folder / f"{self._training}-{self._code[:12]}.safetensors"
        self._say, self._clock = say, clock
        self._every = EVERY_SECONDS if every is None else every
        self._kept = clock()

    def take_up(self, trainees: Sequence[Trainee], total: int) -> int:
        """Put the students where an earlier training left them.

        Args:
            total: steps of the whole training.

        Returns:
            How many of them are done; 0 where there is nothing to take up.
        """
        self._forget()
        if any(self._folder.glob(f"{self._training}-*.safetensors")) and not self.file.is_file():
            self._say("  other code than this broke off in this training: its state is not used")
        try:
            with safe_open(self.file, framework="pt") as file:
                body = json.loads(file.metadata()["state"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (FileNotFoundError, SafetensorError, KeyError, TypeError):
            return 0
        if body["code"] != self._code or [one["label"] for one in body["trainees"]] != [t.label for t in trainees]:
            return 0
        for number, (trainee, state) in enumerate(zip(trainees, body["trainees"], strict=True)):
            trainee.restore(below(f"{number}.", tensors), state)
        self._say(f"  goes on at step {body['done']:,} of {total:,}, where it broke off")
        return int(body["done"])

    @property
    def is_due(self) -> bool:
        """Whether the last writing is long enough ago for another."""
        return self._readable and self._clock() - self._kept >= self._every

    def keep(self, trainees: Sequence[Trainee], done: int) -> None:
        """Write the state after so many steps, if the last time is some minutes ago."""
        if not self.is_due:
            return
        begun = self._clock()
        tensors: dict[str, Tensor] = {}
        states = []
        for number, trainee in enumerate(trainees):
            own, state = trainee.state()
            tensors |= {f"{number}.{name}": value for name, value in own.items()}
            states.append({"label": trainee.label, **state})
        self.file.parent.mkdir(parents=True, exist_ok=True)
        new = self.file.with_suffix(f".{os.getpid()}")
        try:
            save_file(
                _apart(tensors), new, {"state": json.dumps({"code": self._code, "done": done, "trainees": states})}
            )
            os.replace(new, self.file)
        except (OSError, SafetensorError) as error:  # a full disk must not end a training that could go on
            self._say(f"  its state could not be kept ({error}); if it breaks off it begins anew")
        finally:
            new.unlink(missing_ok=True)
        self._kept = self._clock()
        if self._every:
            self._every = max(self._every, WORTH * (self._kept - begun))

    def clear(self) -> None:
        """The training has ended, or must begin anew."""
        self.file.unlink(missing_ok=True)

    def _forget(self) -> None:
        for old in self.file.parent.glob("*"):
            half_written = old.stem == self.file.stem and old != self.file
            try:
                if half_written or time.time() - old.stat().st_mtime > FORGOTTEN_SECONDS:
                    old.unlink()
            except FileNotFoundError:  # another process was faster
                pass


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous, and none in the memory of another: safetensors takes no tied weights."""
    seen: set[int] = set()
    found = {}
    for name, value in tensors.items():
        value = value.detach().contiguous()
        found[name] = value.clone() if value.untyped_storage().data_ptr() in seen else value
        seen.add(value.untyped_storage().data_ptr())
    return found
