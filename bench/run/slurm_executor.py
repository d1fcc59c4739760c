"""Steps on a cluster with Slurm, through submitit: each step is one job of Slurm. The nodes share
the cache.

submitit writes the job and its answer as pickles into the run's folder in the cache, which only its
owner can read or write. They hold plain data of this package.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import shutil
import signal
import time
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path
from typing import Any

from bench.errors import InputError
from bench.interrupts import interrupts_ignored
from bench.make.work import StepResult
from bench.plan.plan import Plan, Step
from bench.progress import Progress
from bench.request.choices import CLUSTER, LOCAL, SBATCH, SETUP, SLURM, SLURM_MINUTES
from bench.run.display import FileProgress
from bench.run.executors import Executor
from bench.run.remote import Start, answered, enter_run_folder, new_run_folder, resolve
from bench.run.worker import Worker

STOP = "stop"
"""A file of a run's folder: it is there when trainings should keep their states and end."""
PULSE = "pulse"
"""A file of a run's folder: it is written again and again as long as the run lives."""
LOOK_SECONDS = 2.0
"""How often these files are looked at: they may lie on a network disk."""
LOST_SECONDS = 600.0
"""A run whose file has not changed for so long is gone: network disks show changes late, and a run
may be suspended."""
STOP_SECONDS = 20.0
"""How long jobs may take to keep the states of their trainings before Slurm cancels them."""
PULSE_SECONDS = 20.0
"""How often the run says that it is alive."""
MEMORY_MARGIN = 1.25
"""A job asks for so many times the estimated memory: Slurm kills one that takes more. Chosen by
hand."""
WARNING_SECONDS = 120
"""How long before the end of its time a job is told to keep its state."""


class StopFlag:
    """Above 0 when the training should keep its state and end: the run or Slurm asks for it, or the
    run is gone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._looked = self._changed = time.monotonic()
        self._pulse: float | None = None
        self._value = 0

    def raise_it(self, *_: object) -> None:
        """A handler of signals."""
        self._value = 1

    @property
    def value(self) -> int:
        now = time.monotonic()
        if not self._value and now - self._looked >= LOOK_SECONDS:
            self._looked = now
            pulse = None
            with contextlib.suppress(OSError):
                pulse = (self._folder / PULSE).stat().st_mtime
            # by this machine's own clock: the clocks of two machines may differ
            if pulse != self._pulse:
                self._pulse = pulse
                self._changed = now
            is_lost = now - self._changed > LOST_SECONDS
            self._value = int(is_lost or (self._folder / STOP).exists())
        return self._value


def make(start: Start, step: Step, status: Path) -> StepResult | BaseException:
    """Make one step; called by submitit in the main thread of the process that Slurm started."""
    flag = StopFlag((start.cache / start.mark).parent)
    # a job that is cancelled, and one whose time is nearly over
    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, flag.raise_it)
    # Ctrl-C is the run's, also where its jobs are on the same terminal
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def in_run_folder() -> StepResult:
        if not enter_run_folder(start):
            raise InputError(
                f"node {platform.node()} does not see the cache {start.cache}; set "
                "BERT_BENCH_CACHE to a folder on a disk that all nodes share"
            )
        return Worker(start.request, FileProgress(flag)).make(step, status)

    return answered(in_run_folder)


class SlurmSteps(Executor):
    """Makes steps as jobs of Slurm, or as processes of this machine that stand for them."""

    cannot_start = "no job of Slurm could begin; their logs are in {folder}"

    def __init__(self, plan: Plan, jobs: int, progress: Progress) -> None:
        """Raises InputError: Slurm's commands are not here."""
        import submitit

        self._options = dict(plan.request.slurm)
        self._gpus = int(plan.tasks[0].numeric.device == "cuda")
        self._is_local = self._options.get(CLUSTER, SLURM) == LOCAL
        self._run_folder = new_run_folder()
        try:
            self._submitit = submitit.AutoExecutor(
                self._run_folder, cluster=LOCAL if self._is_local else SLURM
            )
        except (RuntimeError, OSError) as error:
            shutil.rmtree(self._run_folder, ignore_errors=True)
            raise InputError(
                f"--executor slurm: {str(error).splitlines()[0]} Type this on a machine that has "
                f"Slurm's commands, or try it with --slurm {CLUSTER}={LOCAL}"
            ) from None
        super().__init__(plan, jobs, progress)
        self.cannot_start = self.cannot_start.format(folder=self._run_folder)
        self._start = Start.from_plan(plan, self._run_folder)
        self._pulsed = -math.inf
        self._stopping = False
        self._keeps_logs = False

    def submit(self, step: Step) -> Future[StepResult]:
        """Raises InputError: Slurm refuses the job."""
        self._beat()
        self._submitit.update_parameters(**self._parameters(step))
        future = Future[StepResult]()
        file = self.new_file(step)
        try:
            with interrupts_ignored():  # processes that stand for Slurm's jobs are on this terminal
                self.handles[future] = self._submitit.submit(make, self._start, step, file)
        except Exception as error:  # submitit has errors of its own for each command that fails
            last = (str(error).strip() or type(error).__name__).splitlines()[-1]
            raise InputError(f"--executor slurm: the job was refused: {last}") from None
        self.files[future] = file
        return future

    def _parameters(self, step: Step) -> dict[str, Any]:
        """The parameters of a job, as submitit names them."""
        gigabytes = math.ceil(MEMORY_MARGIN * self.plan.memory_of(step) / 1e9)
        minutes = int(self._options.get("time", SLURM_MINUTES))
        asked = {
            "name": "bert-bench",
            "timeout_min": minutes,
            "cpus_per_task": self.plan.request.threads,
        }
        asked |= {"mem_gb": gigabytes, "gpus_per_node": self._gpus, "tasks_per_node": 1, "nodes": 1}
        if self._is_local:
            return asked
        asked["slurm_signal_delay_s"] = WARNING_SECONDS
        further: dict[str, str] = {}  # options of sbatch that submitit has no name for
        for name, value in self._options.items():
            if name == SETUP:
                asked["slurm_setup"] = (
                    Path(value).expanduser().read_text(encoding="utf-8").splitlines()
                )
            elif name == "reservation" or name.startswith(SBATCH):
                further[name.removeprefix(SBATCH)] = value
            elif name not in (CLUSTER, "time"):
                asked[f"slurm_{name}"] = value
        if "gres" in self._options:  # it says which GPUs a job has
            del asked["gpus_per_node"]
        return asked | ({"slurm_additional_parameters": further} if further else {})

    def show(self) -> None:
        self._beat()
        self._look()
        super().show()

    def _beat(self) -> None:
        """Say that this run is alive: its jobs end where it is not."""
        if time.monotonic() - self._pulsed >= PULSE_SECONDS:
            self._pulsed = time.monotonic()
            with contextlib.suppress(OSError):
                (self._run_folder / PULSE).write_text(f"{time.time()}", encoding="utf-8")

    def _look(self) -> None:
        """Take the answers that are there."""
        from submitit.core.utils import FailedJobError, UncompletedJobError

        for future, job in self.handles.items():
            if future.done() or not job.done():  # submitit asks Slurm once a minute, for all jobs
                continue
            try:
                resolve(future, job.result(), self._stopping)
            except (FailedJobError, UncompletedJobError) as error:
                is_worth_reading = isinstance(error, FailedJobError) or not self.worker_had_started(
                    future
                )
                self._keeps_logs |= is_worth_reading and not self._stopping
                future.set_exception(
                    BrokenExecutor(f"job {job.job_id}: {str(error).strip().splitlines()[-1]}")
                )

    def stop(self, under_way: Sequence[Future[StepResult]]) -> None:
        self._stopping = True
        with contextlib.suppress(OSError):
            (self._run_folder / STOP).write_text("", encoding="utf-8")
        begun = [future for future in self.handles if self.worker_had_started(future)]
        for future, job in self.handles.items():
            if future not in begun:
                self._cancel(job)
        end = time.monotonic() + STOP_SECONDS
        while time.monotonic() < end and not all(future.done() for future in begun):
            time.sleep(0.2)
            self._look()

    def _cancel(self, job: Any) -> None:
        with contextlib.suppress(Exception):  # it may have ended meanwhile
            if self._is_local:
                os.kill(int(job.job_id), signal.SIGTERM)
            else:
                job.cancel(check=False)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        jobs = [job for future, job in self.handles.items() if not future.done()]
        for job in jobs:
            self._cancel(job)
        end = time.monotonic() + STOP_SECONDS
        while self._is_local and time.monotonic() < end and not all(job.done() for job in jobs):
            time.sleep(0.1)
        super().__exit__(kind, error, trace)
        end = time.monotonic() + STOP_SECONDS
        while not self._keeps_logs and self._run_folder.exists() and time.monotonic() < end:
            # again, where a job that has answered still writes its log
            shutil.rmtree(self._run_folder, ignore_errors=True)
            time.sleep(0.1)
