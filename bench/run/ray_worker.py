"""A worker of a Ray cluster: an actor that makes step after step.

One thread does the jobs. Others answer what may be asked meanwhile: how far it is, and that it should end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.make.result import StepResult
from bench.plan.plan import Step
from bench.run.display import MemoryProgress
from bench.run.local_worker import new_maker
from bench.run.remote_worker import Start, WorkerReply, enter_run_folder, run_to_reply
from bench.run.transfer import TransferredFile, content_of, forget, pack, unpack

if TYPE_CHECKING:
    from bench.make.step import Maker


@dataclass
class Flag:
    """A number that threads share; above 0 when trainings should keep their states and end."""

    value: int = 0


@dataclass(frozen=True)
class Settled:
    """What a worker says when it has begun."""

    shares_cache: bool


class RayWorker:
    """Does the jobs of one run on one node, one at a time."""

    def __init__(self, start: Start) -> None:
        self._start, self._flag = start, Flag()
        self._progress = MemoryProgress(self._flag)
        self._maker: Maker | None = None
        self._states: Sequence[Path] = ()

    def begin(self) -> Settled:
        """The first thing that is asked of it.

        Raises:
            InputError: it cannot work here.
        """
        return Settled(enter_run_folder(self._start))

    def lacking(self, wanted: Mapping[str, str | None]) -> list[str]:
        """Which things this node's cache does not have.

        Args:
            wanted: place of each -> the hash of its weights.
        """
        return [place for place, weights in wanted.items() if weights is None or content_of(place) != weights]

    def forget(self, place: str) -> None:
        """Remove a thing from this node's cache."""
        forget(place)

    def take(self, place: str, files: Sequence[TransferredFile]) -> None:
        """Put a thing into this node's cache."""
        import ray

        unpack(place, files, ray.get)

    def give(self, place: str) -> list[TransferredFile]:
        """Hand a thing of this node's cache to the cluster."""
        import ray

        return pack(place, ray.put)

    def do(self, step: Step) -> WorkerReply:
        """Make one step; see :meth:`bench.make.step.Maker.make`."""
        self._progress.begin(step.title, Path("status"))
        answer = run_to_reply(lambda: self._made(step))
        self._progress.end()
        answer.status = self._progress.told()
        self._states = answer.result.states if answer.result is not None else ()
        return answer

    def _made(self, step: Step) -> StepResult:
        if self._maker is None:
            self._maker = new_maker(self._start.order, self._progress)
        return self._maker.make(step)

    def forget_states(self) -> None:
        """The records of the last job are written: the states of its trainings are not needed any more."""
        for file in self._states:
            file.unlink(missing_ok=True)

    def told(self) -> dict[str, object]:
        """How far it is, while it does a job."""
        return self._progress.told()

    def stop(self) -> None:
        """Keep the state of what is trained now, and end the job."""
        self._flag.value = 1
