"""Steps on a Ray cluster: one worker (an actor) for each step at a time, on whatever node has room for it.

Ray finds places, moves bytes and says which workers are gone. It repeats nothing: the schedule tries a step again whose
worker is gone, because it alone knows how often that happened and can divide the step.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

from bench.cache import Slot
from bench.errors import InputError
from bench.make.work import StepResult
from bench.measure.capacity import usable_memory_bytes
from bench.measure.ray_cluster import connected, has_room
from bench.plan.plan import Plan, Step
from bench.progress import Progress
from bench.run.display import FileProgress
from bench.run.executors import Executor
from bench.run.remote import (
    Start,
    answered,
    enter_run_folder,
    new_run_folder,
    pack,
    resolve,
    unpack,
    weights_of,
)
from bench.run.worker import Worker
from bench.run_status import write_status

STOP_SECONDS = 15.0
"""How long workers may take to keep the states of their trainings when the run is stopped."""
ASK_SECONDS = 1.0
"""How often a worker is asked how far it is."""
PATIENCE_SECONDS = 10.0
"""How long a step waits for a place before the places of workers that have nothing to do are given back."""
CONTROL_GROUP = "control"
"""What a worker answers while it makes a step."""


class RayWorker:
    """An actor that makes the steps of one run on one node, one at a time.

    One thread makes them. Another answers what may be asked meanwhile: how far it is, and that it should end.
    """

    def __init__(self, start: Start) -> None:
        self._start, self._stop = start, SimpleNamespace(value=0)
        self._worker = Worker(start.request, FileProgress(self._stop))
        self._states: Sequence[Path] = ()
        self._shares_cache = True

    def begin(self) -> bool:
        """The first thing that is asked of it: whether this node shares the cache of the run. An InputError: it cannot work here."""
        self._shares_cache = enter_run_folder(self._start)
        return self._shares_cache

    def lacking(self, wanted: Mapping[Slot, str | None]) -> list[Slot]:
        """Folders of this node's cache that do not have the weights with these hashes."""
        return [slot for slot, weights in wanted.items() if weights is None or weights_of(slot) != weights]

    def take(self, slot: Slot, files: Mapping[str, Sequence[Any]]) -> None:
        """Put a folder into this node's cache."""
        import ray

        unpack(slot, files, ray.get)

    def give(self, slot: Slot) -> dict[str, list[Any]]:
        """Hand a folder of this node's cache to the cluster."""
        import ray

        return pack(slot, ray.put)

    def make(self, step: Step) -> tuple[StepResult | BaseException, dict[str, Any]]:
        """The answer to a step, and the last words on it."""
        if (
            step.slot is not None and not self._shares_cache
        ):  # the run lacks it: what this node has of it is another run's
            step.slot.folder.parent.mkdir(parents=True, exist_ok=True)
            step.slot.forget()
        answer = answered(lambda: self._worker.make(step))
        self._states = answer.states if isinstance(answer, StepResult) else ()
        return answer, self.told()

    def forget_states(self) -> None:
        """The records of the last step are written: the states of its trainings are not needed any more."""
        for file in self._states:
            file.unlink(missing_ok=True)

    def told(self) -> dict[str, Any]:
        """How far it is."""
        return self._worker.progress.told()

    def stop(self) -> None:
        """Keep the state of what is trained now, and end the step."""
        self._stop.value = 1


@dataclass(eq=False)
class Seat:
    """A place for one worker, and for one step at a time."""

    actor: Any = None
    memory: int = 0
    """bytes that the worker has asked for"""
    shares_cache: bool | None = None
    """what it said when it began; None before"""
    task: str = ""
    """of its last step"""
    future: Future[StepResult] | None = None
    since: float = 0.0
    """when its step was submitted"""


class RaySteps(Executor):
    """Makes steps on a Ray cluster. A thread of this process waits for each of them."""

    cannot_start = "no worker could begin on the Ray cluster"

    def __init__(self, plan: Plan, jobs: int, progress: Progress) -> None:
        """Raises InputError: nobody answers at the cluster's address."""
        request = plan.request
        self._cores, self._gpus = request.threads, int(plan.tasks[0].numeric.device == "cuda")
        # on one machine it is the person who decides how many steps there are at a time
        most = max(usable_memory_bytes() or 0, jobs * max((cost.memory for cost in plan.costs.values()), default=0))
        own = {} if request.address else {"num_cpus": jobs * request.threads, "_memory": most}
        with ExitStack() as stack:
            self._ray = stack.enter_context(connected(request.address, **own))
            folder = new_run_folder()
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            super().__init__(plan, jobs, progress)
            self._stack = stack.pop_all()
        self._start, self._stopping = Start.of(plan, folder), False
        actor = self._ray.remote(max_restarts=0, max_task_retries=0, concurrency_groups={CONTROL_GROUP: 1})
        self._kind = actor(RayWorker)
        self._seats = [Seat() for _ in range(jobs)]
        self._at: dict[Future[StepResult], Seat] = {}
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="job")
        self._sent: dict[Slot, Mapping[str, Sequence[Any]]] = {}
        self._sending = threading.Lock()
        self._warned = self._is_closed = False

    def submit(self, step: Step) -> Future[StepResult]:
        memory = self.plan.memory_of(step)

        def preference(seat: Seat) -> tuple[bool, bool, bool]:
            fits = seat.actor is not None and seat.memory >= memory
            return not (fits and seat.task == step.task != ""), not fits, seat.actor is not None

        # best with this task's examples and teacher in memory; then a large one, an empty one, any
        seat = min((seat for seat in self._seats if seat.future is None), key=preference)
        if seat.memory < memory:
            self._dismiss(seat)
        if not self._warned and not has_room(self._ray, self._cores, bool(self._gpus), memory):
            self._warned = True
            cores = "1 core" if self._cores == 1 else f"{self._cores} cores"
            self.say(
                f"note: no node of the cluster has {cores}{', a GPU' if self._gpus else ''} and {memory / 1e9:.1f} GB of "
                f"memory, which {step.title} needs; it waits until one joins"
            )
        future = Future[StepResult]()
        seat.memory, seat.task = max(seat.memory, memory), step.task
        seat.future, seat.since = future, time.monotonic()
        self._at[future], self.files[future] = seat, self.new_file(step)
        self._threads.submit(self._answer, seat, step, future)
        return future

    # in the thread of a step

    def _answer(self, seat: Seat, step: Step, future: Future[StepResult]) -> None:
        """Give a future its answer, whatever happens."""
        from ray.exceptions import RayError, RayTaskError

        try:
            resolve(future, self._done(seat, step, self.files[future]), self._stopping)
        except RayTaskError as error:
            # an error of ours outside a step: a disk that is full, another version of the program
            cause = error.cause if error.cause is not None else error
            future.set_exception(InputError(f"{step.title}: a node cannot do this: {_last_line(cause)}"))
        except RayError as error:
            if seat.shares_cache is None:
                self.cannot_start = (
                    f"no worker could begin on the Ray cluster: {_last_line(error)}; every node needs the same version "
                    "of this program, and `ray status` shows the nodes"
                )
            future.set_exception(BrokenExecutor(f"{type(error).__name__}: {error}"))
        except BaseException as error:  # a future without an answer would be waited for without end
            future.set_exception(error)

    def _done(self, seat: Seat, step: Step, status: Path) -> StepResult | BaseException:
        """Begin a worker where there is none, and have the step made by it; what a node without this disk needs travels."""
        get = self._ray.get
        if seat.shares_cache is None:
            needs = {"num_cpus": self._cores, "num_gpus": self._gpus, "memory": seat.memory}
            seat.actor = self._kind.options(**needs).remote(self._start)
            if self._is_closed:  # the run ended meanwhile; from here on whoever closes it sees the worker
                self._ray.kill(seat.actor)
            seat.shares_cache = get(seat.actor.begin.remote())
        actor, is_apart = seat.actor, not seat.shares_cache
        if is_apart:
            slots = [slot for key in step.needs if (slot := self.plan.steps[key].slot) is not None and slot.is_made]
            for slot in get(actor.lacking.remote({slot: weights_of(slot) for slot in slots})):
                get(actor.take.remote(slot, self._parts(slot)))
        making = actor.make.remote(step)
        while not self._ray.wait([making], timeout=ASK_SECONDS)[0]:
            if told := get(self._talk(actor.told)):
                write_status(status, told)
        answer: StepResult | BaseException
        answer, told = get(making)
        write_status(status, told)
        if is_apart and isinstance(answer, StepResult):
            answer.states = []  # on the node, which removes them itself
            if step.slot is not None and answer.error is None:
                unpack(step.slot, get(actor.give.remote(step.slot)), get)
        return answer

    def _parts(self, slot: Slot) -> Mapping[str, Sequence[Any]]:
        """A folder of this machine's cache in the cluster's shared memory, once for all nodes."""
        with self._sending:
            if slot not in self._sent:
                self._sent[slot] = pack(slot, self._ray.put)
            return self._sent[slot]

    def _talk(self, method: Any) -> Any:
        """Ask something of a worker while it makes a step."""
        return method.options(concurrency_group=CONTROL_GROUP).remote()

    # in the thread of the schedule

    def worker_had_started(self, future: Future[StepResult]) -> bool:
        return self._at[future].shares_cache is not None

    def release(self, future: Future[StepResult]) -> None:
        seat = self._at.pop(future)
        if isinstance(future.exception(), BrokenExecutor):
            self._dismiss(seat)
        elif seat.shares_cache is False:
            self._talk(seat.actor.forget_states)
        seat.future = None
        super().release(future)

    def _dismiss(self, seat: Seat) -> None:
        """End a worker; its place is free for another one."""
        if seat.actor is not None:
            self._ray.kill(seat.actor)
        seat.actor, seat.shares_cache, seat.memory = None, None, 0

    def show(self) -> None:
        # workers that have nothing to do end while a step waits for a place: theirs may be the one
        late = time.monotonic() - PATIENCE_SECONDS
        if any(seat.shares_cache is None and seat.since < late for seat in self._at.values()):
            for seat in self._seats:
                if seat.future is None:
                    self._dismiss(seat)
        super().show()

    def stop(self, under_way: Sequence[Future[StepResult]]) -> None:
        self._stopping = True
        begun = [future for future in under_way if future in self._at and self._at[future].shares_cache is not None]
        for future in begun:
            self._talk(self._at[future].actor.stop)
        wait(begun, STOP_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed = True
        with self._stack:
            for seat in self._seats:
                self._dismiss(seat)
            self._threads.shutdown(wait=True)
            super().__exit__(kind, error, trace)


def _last_line(error: BaseException) -> str:
    """What an error says at its end: Ray's errors begin with where they were raised."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
