"""Steps on a Ray cluster: one worker (an actor) for each step at a time, on whatever node has room for it.

Ray finds places, moves bytes and says which workers are gone. It repeats nothing: the schedule tries a step again whose
worker is gone, because it alone knows how often that happened and can divide the step. An error of ours is never tried
again.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any

from bench.cache import Slot
from bench.errors import InputError
from bench.make.result import StepResult
from bench.measure.capacity import usable_memory_bytes
from bench.measure.ray_cluster import connected, has_room
from bench.plan.plan import Plan, Step
from bench.progress import Progress
from bench.run.display import MemoryProgress
from bench.run.local_worker import new_maker
from bench.run.remote import (
    SentFile,
    ShownSteps,
    Start,
    WorkerReply,
    enter_run_folder,
    forget,
    new_run_folder,
    pack,
    place_of,
    run_to_reply,
    unpack,
    weights_at,
)

if TYPE_CHECKING:
    from bench.make.step import Maker

STOP_SECONDS = 15.0
"""How long workers may take to keep the states of their trainings when the run is stopped."""
ASK_SECONDS = 1.0
"""How often a worker is asked how far it is."""
PATIENCE_SECONDS = 10.0
"""How long a job waits for a place before the places of workers that have nothing to do are given back."""
CONTROL_GROUP = "control"
"""What a worker answers while it does a job."""


class RayWorker:
    """A worker: an actor that makes the steps of one run on one node, one at a time.

    One thread makes them. Another answers what may be asked meanwhile: how far it is, and that it should end.
    """

    def __init__(self, start: Start) -> None:
        self._start, self._stop = start, SimpleNamespace(value=0)
        self._progress = MemoryProgress(self._stop)
        self._maker: Maker | None = None
        self._states: Sequence[Path] = ()

    def begin(self) -> bool:
        """The first thing that is asked of it; returns whether this node shares the cache of the run.

        Raises:
            InputError: it cannot work here.
        """
        return enter_run_folder(self._start)

    def lacking(self, wanted: Mapping[str, str | None]) -> list[str]:
        """Which things this node's cache does not have.

        Args:
            wanted: place of each -> the hash of its weights.
        """
        return [place for place, weights in wanted.items() if weights is None or weights_at(place) != weights]

    def forget(self, place: str) -> None:
        """Remove a thing from this node's cache."""
        forget(place)

    def take(self, place: str, files: Sequence[SentFile]) -> None:
        """Put a thing into this node's cache."""
        import ray

        unpack(place, files, ray.get)

    def give(self, place: str) -> list[SentFile]:
        """Hand a thing of this node's cache to the cluster."""
        import ray

        return pack(place, ray.put)

    def make(self, step: Step) -> WorkerReply:
        """Make one step; see :meth:`bench.make.step.Maker.make`."""
        self._progress.begin(step.title, Path("status"))
        reply = run_to_reply(lambda: self._make(step))
        self._progress.end()
        reply.status = self._progress.told()
        self._states = reply.result.states if reply.result is not None else ()
        return reply

    def _make(self, step: Step) -> StepResult:
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
        self._stop.value = 1


@dataclass(eq=False)
class Seat:
    """A place for one worker, and for one job at a time."""

    actor: Any = None
    memory: int = 0
    """bytes that the worker has asked for"""
    shares_cache: bool | None = None
    """what it said when it began; None before"""
    task: str = ""
    """of its last job"""
    future: Future[StepResult] | None = None
    since: float = 0.0
    """when its job was submitted"""
    asked: Any = None
    """a question how far it is, under way"""
    asked_at: float = 0.0
    status: dict[str, Any] = field(default_factory=dict)
    """the last words of a job that is done"""


class RaySteps:
    """Does jobs on a Ray cluster. A thread of this process waits for each of them."""

    cannot_start = "no worker could begin on the Ray cluster"

    def __init__(self, plan: Plan, jobs: int, progress: Progress) -> None:
        """
        Args:
            jobs: at a time.

        Raises:
            InputError: nobody answers at the cluster's address.
        """
        self.jobs, request = jobs, plan.request
        self._plan = plan
        self._cores, self._gpus = request.threads, int(plan.tasks[0].numeric.device == "cuda")
        self._stack, self._stopping = ExitStack(), False
        # on one machine it is the person who decides how many steps there are at a time
        most = max(usable_memory_bytes() or 0, jobs * max((cost.memory for cost in plan.costs.values()), default=0))
        resources = {"num_cpus": jobs * request.threads, "_memory": most}
        self._ray = self._stack.enter_context(connected(request.address, **({} if request.address else resources)))
        with ExitStack() as undo:
            undo.push(self._stack)
            folder = new_run_folder()
            self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
            self._shown = ShownSteps(plan, progress)
            undo.pop_all()
        self.say = self._shown.display.say
        self._start = Start.of(plan, folder)
        actor = self._ray.remote(max_restarts=0, max_task_retries=0, concurrency_groups={CONTROL_GROUP: 1})
        self._kind = actor(RayWorker)
        self._seats = [Seat() for _ in range(jobs)]
        self._at: dict[Future[StepResult], Seat] = {}
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="job")
        self._transferred: dict[str, Sequence[SentFile]] = {}
        self._transferring = threading.Lock()
        self._warned = self._is_closed = False

    @property
    def has_free_worker(self) -> bool:
        return len(self._at) < self.jobs

    def submit(self, step: Step) -> Future[StepResult]:
        memory = self._plan.memory_of(step)
        seat, future = self._seat_for(step, memory), Future[StepResult]()
        if seat.memory < memory:
            self._dismiss(seat)
        self._warn(step, memory)
        seat.memory, seat.task = max(seat.memory, memory), step.task
        seat.future, seat.since, seat.status = future, time.monotonic(), {}
        self._at[future] = seat
        self._shown.add(step, future)
        self._threads.submit(self._answer, seat, step, future)
        return future

    def _seat_for(self, step: Step, memory: int) -> Seat:
        """A free one: best with this task's examples and teacher in memory; then a large one, an empty one, any."""
        free = [seat for seat in self._seats if seat.future is None]

        def preference(seat: Seat) -> tuple[bool, bool, bool]:
            fits = seat.actor is not None and seat.memory >= memory
            return not (fits and seat.task == step.task != ""), not fits, seat.actor is not None

        return min(free, key=preference)

    def _warn(self, step: Step, memory: int) -> None:
        if not self._warned and not has_room(self._ray, self._cores, bool(self._gpus), memory):
            self._warned = True
            gpu = ", a GPU" if self._gpus else ""
            cores = "1 core" if self._cores == 1 else f"{self._cores} cores"
            self.say(
                f"note: no node of the cluster has {cores}{gpu} and {memory / 1e9:.1f} GB of memory, which "
                f"{step.title} needs; it waits until one joins"
            )

    # in the thread of a job

    def _answer(self, seat: Seat, step: Step, future: Future[StepResult]) -> None:
        """Give a future its answer, whatever happens."""
        from ray.exceptions import RayError, RayTaskError

        try:
            answer = self._done(seat, step)
            seat.status = answer.status
            answer.resolve(future, self._stopping)
        except RayTaskError as error:
            # an error of ours outside a job: a disk that is full, another version of the program
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

    def _done(self, seat: Seat, step: Step) -> WorkerReply:
        """Begin a worker where there is none, and have the job done by it."""
        if seat.shares_cache is None:
            needs = {"num_cpus": self._cores, "num_gpus": self._gpus, "memory": seat.memory}
            seat.actor = self._kind.options(**needs).remote(self._start)
            if self._is_closed:  # the run ended meanwhile; from here on whoever closes it sees the worker
                self._ray.kill(seat.actor)
            seat.shares_cache = self._ray.get(seat.actor.begin.remote())
        if seat.shares_cache:
            answer: WorkerReply = self._ray.get(seat.actor.make.remote(step))
            return answer
        return self._done_apart(seat.actor, step)

    def _done_apart(self, actor: Any, step: Step) -> WorkerReply:
        """Have a job done by a node that shares no disk: what it reads and what it makes travels."""
        self._send(actor, [slot for key in step.needs if (slot := self._plan.steps[key].slot) is not None])
        made = step.slot
        if made is not None:  # it is asked for because it is not here: what the node may have of it is of another run
            self._ray.get(actor.forget.remote(place_of(made)))
        answer: WorkerReply = self._ray.get(actor.make.remote(step))
        if answer.result is not None:
            answer.result.states = []  # on the node, which removes them itself
            if made is not None and answer.result.error is None:
                unpack(place_of(made), self._ray.get(actor.give.remote(place_of(made))), self._ray.get)
        return answer

    def _send(self, actor: Any, slots: Sequence[Slot]) -> None:
        """Bring to a node what it lacks of these things; a second worker of the node finds them there."""
        wanted = {place_of(slot): weights_at(place_of(slot)) for slot in slots if slot.is_made}
        for place in self._ray.get(actor.lacking.remote(wanted)):
            self._ray.get(actor.take.remote(place, self._parts(place)))

    def _parts(self, place: str) -> Sequence[SentFile]:
        """A thing of this machine in the cluster's shared memory, once for all nodes."""
        with self._transferring:
            if place not in self._transferred:
                self._transferred[place] = pack(place, self._ray.put)
            return self._transferred[place]

    # in the thread of the schedule

    def worker_had_started(self, future: Future[StepResult]) -> bool:
        return self._at[future].shares_cache is not None

    def release(self, future: Future[StepResult]) -> None:
        seat = self._at.pop(future)
        if isinstance(future.exception(), BrokenExecutor):
            self._dismiss(seat)
        elif seat.shares_cache is False:
            self._talk(seat.actor.forget_states)
        self._shown.tell(future, seat.status)
        self._shown.end(future)
        seat.future = seat.asked = None

    def _dismiss(self, seat: Seat) -> None:
        """End a worker; its place is free for another one."""
        if seat.actor is not None:
            self._ray.kill(seat.actor)
        seat.actor = seat.shares_cache = seat.asked = None
        seat.memory = 0

    def _talk(self, method: Any) -> Any:
        """Ask something of a worker while it does a job."""
        return method.options(concurrency_group=CONTROL_GROUP).remote()

    def show(self) -> None:
        for future, seat in self._at.items():
            if seat.shares_cache is not None and not future.done():
                self._ask(seat, future)
        self._give_back()
        self._shown.display.refresh()

    def _ask(self, seat: Seat, future: Future[StepResult]) -> None:
        """Take the answer to the last question how far a job is, and ask again."""
        from ray.exceptions import RayError

        if seat.asked is not None and self._ray.wait([seat.asked], timeout=0)[0]:
            question, seat.asked = seat.asked, None
            try:
                self._shown.tell(future, self._ray.get(question))
            except RayError:  # the job's own thread says that the worker is gone
                return
        if seat.asked is None and time.monotonic() - seat.asked_at >= ASK_SECONDS:
            seat.asked, seat.asked_at = self._talk(seat.actor.told), time.monotonic()

    def _give_back(self) -> None:
        """End workers that have nothing to do while a job waits for a place: theirs may be the one."""
        late = time.monotonic() - PATIENCE_SECONDS
        if any(seat.shares_cache is None and seat.since < late for seat in self._at.values()):
            for seat in self._seats:
                if seat.future is None:
                    self._dismiss(seat)

    def stop(self, under_way: Sequence[Future[StepResult]]) -> None:
        self._stopping = True
        begun = [future for future in under_way if future in self._at and self._at[future].shares_cache is not None]
        for future in begun:
            self._talk(self._at[future].actor.stop)
        wait(begun, STOP_SECONDS)

    def __enter__(self) -> RaySteps:
        self._shown.display.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed = True
        with self._stack:
            for seat in self._seats:
                self._dismiss(seat)
            self._threads.shutdown(wait=True)
            self._shown.close()


def _last_line(error: BaseException) -> str:
    """What an error says at its end: Ray's errors begin with where they were raised."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
