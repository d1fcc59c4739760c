"""Where steps are made: in this process, or in several that this one starts; on a cluster in files
of their own.

``submit`` returns a future of ``concurrent.futures``. A step gives the same records in each.
"""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, Self

import torch

from bench.cache import cache_root
from bench.errors import InputError
from bench.interrupts import interrupts_ignored
from bench.make.work import StepResult
from bench.measure.devices import device_of
from bench.plan.plan import Plan, Step
from bench.progress import Progress
from bench.request import Request
from bench.run import worker
from bench.run.display import Display, FileProgress
from bench.run.time_left import TimeLeft
from bench.run.worker import Worker, request_of_worker
from bench.run_status import announce, new_folder, read_status, write_status

STOP_TIMEOUT_SECONDS = 5.0
"""How long workers may take to keep the states of their trainings when the run is stopped."""


class Executor:
    """Makes steps, so many at a time. Each has a file that says how far it is, for this run and for
    ``bench status``."""

    cannot_start = "processes for several jobs cannot be started here; --jobs 1 needs none"
    """what is said where no worker can begin"""

    def __init__(self, plan: Plan, jobs: int, progress: Progress) -> None:
        self.plan = plan
        self.jobs = jobs
        self.folder = new_folder()
        announce(self.folder, plan.request.results, {planned.key for planned in plan.todo})
        self.time_left = TimeLeft(plan)
        self.display = Display(self.folder, progress, self.time_left)
        self.say = self.display.say
        self.files: dict[Future[StepResult], Path] = {}
        """of the steps under way"""
        self.handles: dict[Future[StepResult], Any] = {}
        """of the same steps: as whoever makes them knows them"""
        self._submitted = 0

    @property
    def has_free_worker(self) -> bool:
        """Whether another step can begin."""
        return len(self.files) < self.jobs

    def leave(self, step: Step) -> None:
        """A step waits no longer, whether it is begun or not: the time that is left is without
        it."""
        self.time_left.leave(step)

    def submit(self, step: Step) -> Future[StepResult]:
        """Begin a step. Its future has the answer, or a BrokenExecutor if the process that made it
        is gone."""
        raise NotImplementedError

    def new_file(self, step: Step) -> Path:
        """The file of a step that no worker has begun yet."""
        self._submitted += 1
        file = self.folder / f"{self._submitted:06}.json"
        waiting = {
            "job": step.title,
            "process": 0,
            "title": f"{step.title}: waits for its worker",
            "done": 0,
        }
        write_status(file, {**waiting, "total": None, "left": None, "said": []})
        self.time_left.begin(file.stem, step)
        return file

    def worker_had_started(self, future: Future[StepResult]) -> bool:
        """For a step whose worker died: whether that worker got as far as starting."""
        return bool(read_status(self.files[future]).get("process"))

    def release(self, future: Future[StepResult]) -> None:
        """Free the worker of a step: its answer is taken, or it has none."""
        del self.handles[future]
        file = self.files.pop(future)
        self.display.end_job(file)
        self.time_left.end(file.stem)

    def show(self) -> None:
        """Tell a person what is under way."""
        self.display.refresh()

    def stop(self, under_way: Sequence[Future[StepResult]]) -> None:
        """Ask that what is under way keeps its state and ends; returns when it has ended, or after
        some seconds."""

    def __enter__(self) -> Self:
        self.display.begin()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.display.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def refuse_script_without_main_guard() -> None:
    """A new worker imports the user's script. Without ``if __name__ == "__main__"`` this import
    would start the run once more.

    Raises:
        InputError: this process is such a worker.
    """
    # what multiprocessing's own check reads
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise InputError(
            'a script that runs several jobs needs the line: if __name__ == "__main__":'
        )


class InProcess(Executor):
    """This process makes each step when it is submitted, and shows how far it is meanwhile."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        super().__init__(plan, 1, progress)
        own = FileProgress(write=self._hear)
        own.clock = progress.clock
        own.is_stopping = progress.is_stopping  # type: ignore[method-assign]
        own.counted = progress.counted  # type: ignore[method-assign]
        self._worker = Worker(plan.request, own)

    def _hear(self, file: Path, body: dict[str, Any]) -> None:
        """A progress for what the step says: to this run, and in its file to `status`."""
        write_status(file, body)
        self.display.hear(file.stem, body)
        self.display.show()

    def submit(self, step: Step) -> Future[StepResult]:
        future = Future[StepResult]()
        file = self.new_file(step)
        try:
            future.set_result(self._worker.make(step, file))
        finally:
            self.display.end_job(file)
            self.time_left.end(file.stem)
        return future

    def release(self, future: Future[StepResult]) -> None:
        """Nothing is left of it."""


class Processes(Executor):
    """One pool of one worker for each step at a time: a worker that is killed takes no other with
    it.

    Workers are started anew, not forked. They ignore Ctrl-C, and end when this process does.
    """

    def __init__(self, plan: Plan, jobs: int, progress: Progress) -> None:
        super().__init__(plan, jobs, progress)
        self._requests = [
            request_of_worker(plan.request, device) for device in devices_of(plan.request, jobs)
        ]
        self._context = multiprocessing.get_context("spawn")
        # without a lock: a worker that is killed while it holds one would stop all others
        self._stop = self._context.RawValue("b", 0)
        self._pools: dict[int, ProcessPoolExecutor] = {}
        self._last_task = [""] * jobs

    def submit(self, step: Step) -> Future[StepResult]:
        free = sorted(set(range(self.jobs)) - set(self.handles.values()))
        # where there is a choice, one that has this task's examples and teacher in memory
        number = next((n for n in free if step.task and self._last_task[n] == step.task), free[0])
        file = self.new_file(step)
        try:
            future = self._submit_to(number, step, file)
        except BrokenExecutor:  # it was killed while it had nothing to do
            del self._pools[number]
            future = self._submit_to(number, step, file)
        self.handles[future] = number
        self.files[future] = file
        self._last_task[number] = step.task
        return future

    def _submit_to(self, number: int, step: Step, file: Path) -> Future[StepResult]:
        if number not in self._pools:
            given = (self._stop, cache_root())
            self._pools[number] = ProcessPoolExecutor(1, self._context, worker.begin, given)
        with interrupts_ignored():  # the first step starts the process
            return self._pools[number].submit(worker.make, step, self._requests[number], file)

    def release(self, future: Future[StepResult]) -> None:
        if isinstance(future.exception(), BrokenExecutor):
            del self._pools[self.handles[future]]
        super().release(future)

    def stop(self, under_way: Sequence[Future[StepResult]]) -> None:
        self._stop.value = 1
        wait(under_way, STOP_TIMEOUT_SECONDS)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            for number in self.handles.values():
                for process in (self._pools[number]._processes or {}).values():
                    process.kill()
        for pool in self._pools.values():
            pool.shutdown(wait=True, cancel_futures=True)
        super().__exit__(kind, error, trace)


def devices_of(request: Request, jobs: int) -> list[str]:
    """The device of each job at a time: the CPU for all of them; else the accelerators in turn, or
    the one that was named."""
    device = device_of(request.device, request.deterministic)
    if device.type == "cpu" or ":" in request.device:
        return [str(device)] * jobs
    return [f"{device.type}:{number % torch.accelerator.device_count()}" for number in range(jobs)]
