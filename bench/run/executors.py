"""Where jobs are done: in this process, or in several that this one starts.

Both have the two methods of ``concurrent.futures`` that the schedule needs. A job gives the same records in either.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Protocol

import torch

from bench.errors import InputError
from bench.measure.busy import is_alive
from bench.plan.build import Plan
from bench.plan.jobs import Job
from bench.plan.request import Request
from bench.progress import Progress
from bench.run import worker
from bench.run.display import Display
from bench.run.outcome import Answer
from bench.run.work import Workplace
from bench.train.cache import users_cache
from bench.train.numerics import Numerics, device_of

PATIENCE_SECONDS = 5.0
"""How long workers may take to keep the states of their trainings when the run is stopped."""


class Executor(Protocol):
    """Does jobs."""

    jobs: int
    """at a time"""

    @property
    def free(self) -> bool:
        """Whether another job can begin."""

    def submit(self, job: Job) -> Future[Answer]:
        """Begin a job. Its future has the answer, or a BrokenExecutor if the process that did it is gone."""

    def show(self) -> None:
        """Tell a person what is under way."""

    def stop(self, under_way: Sequence[Future[Answer]]) -> list[Future[Answer]]:
        """End what is under way, with its state kept; returns what did not end by itself."""

    def __enter__(self) -> Executor: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def executor_for(plan: Plan, jobs: int, progress: Progress) -> Executor:
    """This process for one job at a time; else so many others, one for each job at a time."""
    at_once = min(plan.request.jobs, jobs)
    return InProcess(plan, progress) if at_once <= 1 else Processes(plan.request, at_once, progress)


class InProcess:
    """This process does each job when it is submitted."""

    jobs = 1
    free = True

    def __init__(self, plan: Plan, progress: Progress) -> None:
        torch.set_num_threads(plan.request.threads)
        numerics = Numerics(device_of(plan.request.device), plan.request.precision)
        self._place = Workplace(plan, numerics, progress)

    def submit(self, job: Job) -> Future[Answer]:
        future: Future[Answer] = Future()
        future.set_result(self._place.do(job))
        return future

    def show(self) -> None:
        """Its progress is shown while it works."""

    def stop(self, under_way: Sequence[Future[Answer]]) -> list[Future[Answer]]:
        return [future for future in under_way if not future.done()]

    def __enter__(self) -> InProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Processes:
    """One pool of one worker for each job at a time: a worker that is killed takes no other with it.

    Workers are started anew, not forked, and plan the request themselves. They ignore Ctrl-C, and end when this process does.
    """

    def __init__(self, request: Request, jobs: int, progress: Progress) -> None:
        self.jobs = jobs
        self._requests = [replace(request, device=device) for device in devices_of(request, jobs)]
        self._context = multiprocessing.get_context("spawn")
        self._stop = self._context.Event()
        running = users_cache() / "progress"
        running.mkdir(parents=True, exist_ok=True)
        for left in running.glob("*-*"):  # by a run that was killed
            if not is_alive(left.name.split("-")[0]):
                shutil.rmtree(left, ignore_errors=True)
        self._folder = Path(tempfile.mkdtemp(dir=running, prefix=f"{os.getpid()}-"))
        self._display = Display(self._folder, progress)
        self._pools: list[ProcessPoolExecutor | None] = [None] * jobs
        self._pids: list[Future[int] | None] = [None] * jobs
        self._at: dict[Future[Answer], int] = {}
        self._last_task = [""] * jobs

    @property
    def free(self) -> bool:
        return len(self._busy()) < self.jobs

    def _busy(self) -> set[int]:
        return {slot for future, slot in self._at.items() if not future.done()}

    def submit(self, job: Job) -> Future[Answer]:
        slot = self._slot_for(job)
        for future in [f for f, at in self._at.items() if at == slot]:
            del self._at[future]
            if isinstance(future.exception(), BrokenExecutor):
                self._pools[slot] = None
        status = self._folder / f"{job.key[:16]}.json"
        try:
            future = self._pool(slot).submit(worker.do, job, self._requests[slot], str(status))
        except BrokenExecutor:  # it was killed while it had nothing to do
            self._pools[slot] = None
            future = self._pool(slot).submit(worker.do, job, self._requests[slot], str(status))
        self._at[future], self._last_task[slot] = slot, job.task
        return future

    def _slot_for(self, job: Job) -> int:
        """A free one; where there is a choice, one that has this task's examples and teacher in memory."""
        free = sorted(set(range(self.jobs)) - self._busy())
        return next((slot for slot in free if job.task and self._last_task[slot] == job.task), free[0])

    def _pool(self, slot: int) -> ProcessPoolExecutor:
        pool = self._pools[slot]
        if pool is None:
            pool = ProcessPoolExecutor(
                1, mp_context=self._context, initializer=worker.begin, initargs=(self._stop, users_cache())
            )
            self._pools[slot] = pool
            self._pids[slot] = pool.submit(os.getpid)
        return pool

    def show(self) -> None:
        self._display.refresh()

    def stop(self, under_way: Sequence[Future[Answer]]) -> list[Future[Answer]]:
        self._stop.set()
        return list(wait(under_way, PATIENCE_SECONDS).not_done)

    def __enter__(self) -> Processes:
        self._display.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._kill()
        for pool in self._pools:
            if pool is not None:
                pool.shutdown(wait=True, cancel_futures=True)
        self._display.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _kill(self) -> None:
        """End the workers that are still at work."""
        busy = {slot: self._pids[slot] for slot in self._busy()}
        own = {pid.result() for pid in busy.values() if pid is not None and pid.done() and pid.exception() is None}
        starting = len(own) < len(busy)
        for child in multiprocessing.active_children():
            if child.pid in own or (starting and child.name.startswith("SpawnProcess")):
                child.kill()


def devices_of(request: Request, jobs: int) -> list[str]:
    """The device of each job at a time: the CPU for all of them, or an accelerator of its own for each.

    Raises:
        InputError: fewer accelerators than jobs.
    """
    device = device_of(request.device)
    if device.type == "cpu":
        return ["cpu"] * jobs
    there = torch.accelerator.device_count()
    if jobs > there or device.index is not None:
        raise InputError(f"--jobs {jobs}: one job an accelerator, and --device {request.device} has {there} here")
    return [f"{device.type}:{number}" for number in range(jobs)]
