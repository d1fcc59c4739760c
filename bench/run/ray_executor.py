"""Steps on a Ray cluster: each is one task of Ray, on whatever node has room for it.

Ray finds places, moves bytes and says which workers are gone. It repeats nothing: the schedule
tries a step again whose worker is gone, because it alone knows how often that happened and can
divide the step.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, wait
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.cache import Slot
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
TALKS = 64
"""Calls that the board answers at a time."""


class Board:
    """An actor on the machine of the run, for its workers: it writes what they say into the run's
    files, tells them when to end, and has the cache of the run."""

    def __init__(self, cache: Path) -> None:
        os.environ["BERT_BENCH_CACHE"] = str(cache)
        self._is_stopping = False
        self._sent: dict[Slot, Mapping[str, Sequence[Any]]] = {}

    def say(self, status: Path, body: dict[str, Any]) -> bool:
        """Write how far a step is; whether its training should keep its state now and end."""
        write_status(status, body)
        return self._is_stopping

    def stop(self) -> None:
        self._is_stopping = True

    def weights(self, slots: Sequence[Slot]) -> dict[Slot, str | None]:
        """The hashes of the weights that the run's cache has."""
        return {slot: weights_of(slot) for slot in slots}

    def give(self, slot: Slot) -> Mapping[str, Sequence[Any]]:
        """A folder of the run's cache in the cluster's shared memory, once for all nodes."""
        import ray

        if slot not in self._sent:
            self._sent[slot] = pack(slot, ray.put)
        return self._sent[slot]

    def take(self, slot: Slot, files: Mapping[str, Sequence[Any]]) -> None:
        """Put a folder that a node has made into the run's cache."""
        import ray

        unpack(slot, files, ray.get)


_last: Any = SimpleNamespace(start=None, worker=None)
"""The worker of this process, to which Ray gives one task after the other, and the run that it is
of."""


def make(
    start: Start, board: Any, step: Step, needed: Sequence[Slot], status: Path
) -> StepResult | BaseException:
    """Make one step; called by Ray in a process of its own on some node. What a node without the
    run's disk needs travels.

    Args:
        needed: folders of the cache that it reads.
        status: the file on the machine of the run that says how far it is.
    """
    import ray

    def on_this_node() -> StepResult:
        is_apart = not enter_run_folder(start)
        if is_apart:
            for slot, weights in ray.get(board.weights.remote(needed)).items():
                if weights_of(slot) != weights:
                    unpack(slot, ray.get(board.give.remote(slot)), ray.get)
            if step.slot is not None:  # the run lacks it: what this node has of it is another run's
                step.slot.folder.parent.mkdir(parents=True, exist_ok=True)
                step.slot.forget()
        if _last.start != start:
            # above 0 when the training should keep its state and end
            flag = SimpleNamespace(value=0)

            def say(file: Path, body: dict[str, Any]) -> None:
                flag.value = int(ray.get(board.say.remote(file, body)))

            _last.start = start
            _last.worker = Worker(start.request, FileProgress(flag, say))
        result: StepResult = _last.worker.make(step, status)
        if is_apart:
            for file in result.states:
                file.unlink(missing_ok=True)
            result.states = []
            if step.slot is not None and result.error is None:
                ray.get(board.take.remote(step.slot, pack(step.slot, ray.put)))
        return result

    return answered(on_this_node)


class RaySteps(Executor):
    """Makes steps on a Ray cluster."""

    cannot_start = "no worker could begin on the Ray cluster"

    def __init__(self, plan: Plan, jobs: int, progress: Progress) -> None:
        """Raises InputError: nobody answers at the cluster's address."""
        request = plan.request
        self._cores = request.threads
        self._gpus = int(plan.tasks[0].numeric.device == "cuda")
        # on one machine it is the person who decides how many steps there are at a time
        most = max(
            usable_memory_bytes() or 0,
            jobs * max((cost.memory for cost in plan.costs.values()), default=0),
        )
        own = {} if request.address else {"num_cpus": jobs * request.threads, "_memory": most}
        with ExitStack() as stack:
            self._ray = ray = stack.enter_context(connected(request.address, **own))
            folder = new_run_folder()
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            super().__init__(plan, jobs, progress)
            self._stack = stack.pop_all()
        self._start = Start.from_plan(plan, folder)
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        board = ray.remote(num_cpus=0, max_concurrency=TALKS, scheduling_strategy=here)(Board)
        self._board = board.remote(self._start.cache)
        self._make = ray.remote(num_cpus=self._cores, num_gpus=self._gpus, max_retries=0)(make)
        self._warned = self._stopping = False

    def submit(self, step: Step) -> Future[StepResult]:
        memory = self.plan.memory_of(step)
        if not self._warned and not has_room(self._ray, self._cores, bool(self._gpus), memory):
            self._warned = True
            cores = "1 core" if self._cores == 1 else f"{self._cores} cores"
            gpu = ", a GPU" if self._gpus else ""
            self.say(
                f"note: no node of the cluster has {cores}{gpu} and {memory / 1e9:.1f} GB of "
                f"memory, which {step.title} needs; it waits until one joins"
            )
        needed = [self.plan.steps[key].slot for key in step.needs]
        slots = [slot for slot in needed if slot is not None and slot.is_made]
        future = Future[StepResult]()
        file = self.new_file(step)
        task = self._make.options(memory=memory).remote(self._start, self._board, step, slots, file)
        self.files[future] = file
        self.handles[future] = task
        task.future().add_done_callback(partial(self._answer, future))
        return future

    def _answer(self, future: Future[StepResult], done: Future[Any]) -> None:
        """Give a future its answer, whatever happens; called in a thread of Ray."""
        from ray.exceptions import RayError, RayTaskError

        try:
            resolve(future, done.result(), self._stopping)
        except RayError as error:
            # our code could not be read there: what it raises itself is an answer
            if isinstance(error, RayTaskError):
                last = (str(error).strip() or type(error).__name__).splitlines()[-1]
                self.cannot_start = (
                    f"no worker could begin on the Ray cluster: {last}; every node needs the same "
                    "version of this program, and `ray status` shows the nodes"
                )
            future.set_exception(BrokenExecutor(f"{type(error).__name__}: {error}"))
        except BaseException as error:  # a future without an answer would be waited for without end
            future.set_exception(error)

    def stop(self, under_way: Sequence[Future[StepResult]]) -> None:
        self._stopping = True
        self._board.stop.remote()
        wait(
            [
                future
                for future in under_way
                if future in self.files and self.worker_had_started(future)
            ],
            STOP_SECONDS,
        )

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with self._stack:
            for task in self.handles.values():
                self._ray.cancel(task, force=True)
            super().__exit__(kind, error, trace)
