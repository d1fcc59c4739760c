"""Where jobs are done: in this process, in several that this one starts, or on a cluster (files of their own).

All have the methods of :class:`Executor`; ``submit`` returns a future of ``concurrent.futures``. A job gives the same
records in each.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Protocol

import torch

from bench.cache import cache_root
from bench.errors import InputError
from bench.interrupts import interrupts_ignored
from bench.make.result import StepResult
from bench.make.step import Maker
from bench.make.work import Work
from bench.measure.devices import device_of
from bench.plan.executor_options import RAY, SLURM
from bench.plan.plan import Plan, Step
from bench.plan.request import Request
from bench.progress import Progress
from bench.run import local_worker
from bench.run.display import Display, TeeProgress
from bench.run.local_worker import Order
from bench.run_status import announce, new_folder
from bench.train.numerics import ComputeSettings

CANNOT_START = "processes for several jobs cannot be started here; --jobs 1 needs none"
STOP_TIMEOUT_SECONDS = 5.0
"""How long workers may take to keep the states of their trainings when the run is stopped."""


class Executor(Protocol):
    """Does jobs."""

    jobs: int
    """at a time"""
    cannot_start: str
    """what is said where no worker can begin"""

    @property
    def has_free_worker(self) -> bool:
        """Whether another job can begin."""

    def submit(self, step: Step) -> Future[StepResult]:
        """Begin a job. Its future has the answer, or a BrokenExecutor if the process that did it is gone."""

    def worker_had_started(self, future: Future[StepResult]) -> bool:
        """For a job whose worker died: whether that worker got as far as starting."""

    def release(self, future: Future[StepResult]) -> None:
        """Free the worker of a job: its answer is taken, or it has none."""

    def say(self, text: str) -> None:
        """Tell a person something, between what is shown of the jobs."""

    def show(self) -> None:
        """Tell a person what is under way."""

    def stop(self, under_way: Sequence[Future[StepResult]]) -> None:
        """Ask that what is under way keeps its state and ends; returns when it has ended, or after some seconds."""

    def __enter__(self) -> Executor: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def executor_for(plan: Plan, progress: Progress) -> Executor:
    """Where a plan's jobs are done.

    That is a cluster if one is asked for; else this process if one job is done at a time; else as many processes as jobs are
    done at a time.

    Raises:
        InputError: the cluster does not answer.
    """
    at_once = min(plan.request.jobs, len(plan.todo_steps))
    if plan.request.executor == RAY:
        from bench.run.ray_executor import RaySteps

        return RaySteps(plan, at_once, progress)
    if plan.request.executor == SLURM:
        from bench.run.slurm_executor import SlurmSteps

        return SlurmSteps(plan, at_once, progress)
    return InProcess(plan, progress) if at_once <= 1 else Processes(plan, at_once, progress)


def refuse_script_without_main_guard() -> None:
    """A new worker imports the user's script. Without ``if __name__ == "__main__"`` this import would start the run once more.

    Raises:
        InputError: this process is such a worker.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # what multiprocessing's own check reads
        raise InputError('a script that runs several jobs needs the line: if __name__ == "__main__":')


class InProcess:
    """This process does each job when it is submitted."""

    jobs = 1
    has_free_worker = True
    cannot_start = CANNOT_START

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self.say = progress.say
        torch.set_num_threads(plan.request.threads)
        numerics = ComputeSettings(device_of(plan.request.device), plan.request.precision)
        self._folder, self._progress = new_folder(), TeeProgress(progress)
        announce(self._folder, plan.request.results, keys_to_make(plan))
        self._maker = Maker(Work(numerics, self._progress, plan.request.offline, plan.request.save_students))

    def submit(self, step: Step) -> Future[StepResult]:
        future: Future[StepResult] = Future()
        file = self._folder / "job.json"
        self._progress.begin(step.title, file)
        try:
            future.set_result(self._maker.make(step))
        finally:
            self._progress.end()
            with contextlib.suppress(OSError):  # what `status` reads must not end a run
                file.unlink(missing_ok=True)
        return future

    def worker_had_started(self, future: Future[StepResult]) -> bool:
        return True

    def release(self, future: Future[StepResult]) -> None:
        """Nothing is left of it."""

    def show(self) -> None:
        """Its progress is shown while it works."""

    def stop(self, under_way: Sequence[Future[StepResult]]) -> None:
        """It has ended when this can be asked."""

    def __enter__(self) -> InProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class Processes:
    """One pool of one worker for each job at a time: a worker that is killed takes no other with it.

    Workers are started anew, not forked. They ignore Ctrl-C, and end when this process does.
    """

    cannot_start = CANNOT_START

    def __init__(self, plan: Plan, jobs: int, progress: Progress) -> None:
        self.jobs, request = jobs, plan.request
        self._orders = [Order.of(request, device) for device in devices_of(request, jobs)]
        self._context = multiprocessing.get_context("spawn")
        # without a lock: a worker that is killed while it holds one would stop all others
        self._stop = self._context.RawValue("b", 0)
        self._folder = new_folder()
        announce(self._folder, request.results, keys_to_make(plan))
        self._display = Display(self._folder, progress)
        self.say = self._display.say
        self._pools: list[ProcessPoolExecutor | None] = [None] * jobs
        self._begun: list[Future[int] | None] = [None] * jobs
        self._processes: list[list[BaseProcess]] = [[] for _ in range(jobs)]
        self._at: dict[Future[StepResult], int] = {}
        self._files: dict[Future[StepResult], Path] = {}
        self._last_task = [""] * jobs
        self._submitted = 0

    @property
    def has_free_worker(self) -> bool:
        return len(self._busy()) < self.jobs

    def _busy(self) -> set[int]:
        return set(self._at.values())

    def submit(self, step: Step) -> Future[StepResult]:
        number = self._worker_for(step)
        self._submitted += 1
        file = self._folder / f"{self._submitted:06}.json"
        try:
            future = self._pool(number).submit(local_worker.make, step, self._orders[number], str(file))
        except BrokenExecutor:  # it was killed while it had nothing to do
            self._pools[number] = None
            future = self._pool(number).submit(local_worker.make, step, self._orders[number], str(file))
        self._at[future], self._files[future], self._last_task[number] = number, file, step.task
        return future

    def _worker_for(self, step: Step) -> int:
        """The number of a free one; where there is a choice, one that has this task's examples and teacher in memory."""
        free = sorted(set(range(self.jobs)) - self._busy())
        task = step.task
        return next((number for number in free if task and self._last_task[number] == task), free[0])

    def _pool(self, number: int) -> ProcessPoolExecutor:
        pool = self._pools[number]
        if pool is None:
            others = set(multiprocessing.active_children())
            with interrupts_ignored():
                pool = ProcessPoolExecutor(
                    1, mp_context=self._context, initializer=local_worker.begin, initargs=(self._stop, cache_root())
                )
                self._begun[number] = pool.submit(os.getpid)
            self._pools[number] = pool
            self._processes[number] = [one for one in multiprocessing.active_children() if one not in others]
        return pool

    def worker_had_started(self, future: Future[StepResult]) -> bool:
        begun = self._begun[self._at[future]]
        return begun is not None and begun.done() and begun.exception() is None

    def release(self, future: Future[StepResult]) -> None:
        number, file = self._at.pop(future), self._files.pop(future)
        if isinstance(future.exception(), BrokenExecutor):
            self._pools[number] = None
        self._display.end_job(file)

    def show(self) -> None:
        self._display.refresh()

    def stop(self, under_way: Sequence[Future[StepResult]]) -> None:
        self._stop.value = 1
        wait(under_way, STOP_TIMEOUT_SECONDS)

    def __enter__(self) -> Processes:
        self._display.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for process in (process for number in self._busy() for process in self._processes[number]):
                process.kill()
        for pool in self._pools:
            if pool is not None:
                pool.shutdown(wait=True, cancel_futures=True)
        self._display.end()
        shutil.rmtree(self._folder, ignore_errors=True)


def keys_to_make(plan: Plan) -> set[str]:
    """The keys of the records that a plan has to make."""
    return {planned.key for planned in plan.todo}


def devices_of(request: Request, jobs: int) -> list[str]:
    """The device of each job at a time: the CPU for all of them, or an accelerator of its own for each."""
    device = device_of(request.device)
    return ["cpu"] * jobs if device.type == "cpu" else [f"{device.type}:{number}" for number in range(jobs)]
