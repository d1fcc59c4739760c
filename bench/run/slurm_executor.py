"""Jobs on a cluster with Slurm, through submitit: each job of ours is one job of Slurm. The nodes share the cache.

submitit writes the job and its answer as pickles into the run's folder in the cache, which only its owner can read or
write. They hold plain data of this package.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.errors import InputError
from bench.interrupts import interrupts_ignored
from bench.make.result import StepResult
from bench.plan.executor_options import CLUSTER, LOCAL, SLURM, SLURM_MINUTES
from bench.plan.plan import Plan, Step
from bench.progress import Progress
from bench.run.display import FileProgress, read_status
from bench.run.local_worker import new_maker
from bench.run.remote import ShownSteps, Start, WorkerReply, enter_run_folder, new_run_folder, run_to_reply

STOP, PULSE = "stop", "pulse"
"""Files of a run's folder. The first is there when trainings should keep their states and end; the second is written again
and again as long as the run lives."""
LOOK_SECONDS = 2.0
"""How often these files are looked at: they may lie on a network disk."""
LOST_SECONDS = 600.0
"""A run whose file has not changed for so long is gone: network disks show changes late, and a run may be suspended."""
SIGNALS = (signal.SIGTERM, signal.SIGUSR2)
"""What Slurm sends to a job that is cancelled, and to one whose time is nearly over."""
STOP_SECONDS = 20.0
"""How long jobs may take to keep the states of their trainings before Slurm cancels them."""
PULSE_SECONDS = 20.0
"""How often the run says that it is alive."""
SACCT_SECONDS = 60.0
"""How often Slurm is asked which jobs have ended without an answer."""
LATE_SECONDS = 30.0
"""How long after the end of a job its answer may appear on a network disk."""
MEMORY_MARGIN = 1.25
"""A job asks for so many times the estimated memory: Slurm kills one that takes more. Chosen by hand."""
WARNING_SECONDS = 120
"""How long before the end of its time a job is told to keep its state."""


@dataclass(frozen=True)
class Errand:
    """One step, and where to report: plain data, written by the run and read by the job."""

    start: Start
    step: Step
    status: Path
    """the file that says how far it is"""


class StopFlag:
    """Above 0 when the training should keep its state and end: the run or Slurm asks for it, or the run is gone."""

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
            self._value = int((self._folder / STOP).exists() or self._run_is_gone(now))
        return self._value

    def _run_is_gone(self, now: float) -> bool:
        """By this machine's own clock: the clocks of two machines may differ."""
        try:
            pulse = (self._folder / PULSE).stat().st_mtime
        except OSError:
            pulse = None
        if pulse != self._pulse:
            self._pulse, self._changed = pulse, now
        return now - self._changed > LOST_SECONDS


def make(errand: Errand) -> WorkerReply:
    """Make one step; called by submitit in the main thread of the process that Slurm started."""
    flag = StopFlag(errand.status.parent)
    for number in SIGNALS:
        signal.signal(number, flag.raise_it)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's, also where its jobs are on the same terminal
    progress = FileProgress(flag)
    progress.begin(errand.step.title, errand.status)
    reply = run_to_reply(lambda: _make(errand, progress))
    progress.end()
    return reply


def _make(errand: Errand, progress: FileProgress) -> StepResult:
    if not enter_run_folder(errand.start):
        raise InputError(
            f"node {platform.node()} does not see the cache {errand.start.cache}; set BERT_BENCH_CACHE to a folder on "
            "a disk that all nodes share"
        )
    return new_maker(errand.start.order, progress).make(errand.step)


@dataclass
class SubmittedJob:
    """A job of ours under way."""

    job: Any
    """as submitit knows it"""
    status: Path
    ended: float | None = None
    """when Slurm said that it has ended, without an answer that could be seen"""


class SlurmSteps:
    """Does jobs as jobs of Slurm, or as processes of this machine that stand for them."""

    cannot_start = "no job of Slurm could begin; their logs are in {folder}"

    def __init__(self, plan: Plan, jobs: int, progress: Progress) -> None:
        """
        Args:
            jobs: at a time.

        Raises:
            InputError: Slurm's commands are not here.
        """
        self.jobs, self._options = jobs, dict(plan.request.slurm)
        self._plan, self._request = plan, plan.request
        self._gpus = int(plan.tasks[0].numeric.device == "cuda")
        self._is_local = self._options.get(CLUSTER, SLURM) == LOCAL
        self._stack, self._stopping, self._keeps_logs = ExitStack(), False, False
        with ExitStack() as undo:
            undo.push(self._stack)
            self._folder = new_run_folder()
            self._stack.callback(self._remove_folder)
            self._submitit = self._submitting()
            self._shown = ShownSteps(plan, progress)
            undo.pop_all()
        self.say = self._shown.display.say
        self.cannot_start = self.cannot_start.format(folder=self._folder)
        self._start = Start.of(plan, self._folder)
        self._under_way: dict[Future[StepResult], SubmittedJob] = {}
        self._processes: list[Any] = []
        """jobs of this machine that have answered, and whose processes are about to end"""
        self._submitted, self._asked, self._pulsed = 0, time.monotonic(), -math.inf

    def _submitting(self) -> Any:
        """submitit's executor for this run's folder."""
        import submitit

        try:
            return submitit.AutoExecutor(self._folder, cluster=LOCAL if self._is_local else SLURM)
        except (RuntimeError, OSError) as error:
            raise InputError(
                f"--executor slurm: {str(error).splitlines()[0]} Type this on a machine that has Slurm's commands, or try "
                f"it with --slurm {CLUSTER}={LOCAL}"
            ) from None

    @property
    def has_free_worker(self) -> bool:
        return len(self._under_way) < self.jobs

    def submit(self, step: Step) -> Future[StepResult]:
        """
        Raises:
            InputError: Slurm refuses the job.
        """
        self._beat()
        self._submitted += 1
        status = self._folder / f"{self._submitted:06}.json"
        self._submitit.update_parameters(**self._parameters(step))
        errand, future = Errand(self._start, step, status), Future[StepResult]()
        try:
            with interrupts_ignored():  # processes that stand for Slurm's jobs are on this terminal
                submitted = self._submitit.submit(make, errand)
        except Exception as error:  # submitit has errors of its own for each command that fails
            last = (str(error).strip() or type(error).__name__).splitlines()[-1]
            raise InputError(f"--executor slurm: the job was refused: {last}") from None
        self._under_way[future] = SubmittedJob(submitted, status)
        self._shown.add(step, future)
        return future

    def _parameters(self, step: Step) -> dict[str, Any]:
        """Of a job, as submitit has them."""
        gigabytes = math.ceil(MEMORY_MARGIN * self._plan.memory_of(step) / 1e9)
        minutes = int(self._options.get("time", SLURM_MINUTES))
        asked = {"name": "bert-bench", "timeout_min": minutes, "cpus_per_task": self._request.threads}
        asked |= {"mem_gb": gigabytes, "gpus_per_node": self._gpus, "tasks_per_node": 1, "nodes": 1}
        if self._is_local:
            return asked
        named = {name: value for name, value in self._options.items() if name not in (CLUSTER, "time", "reservation")}
        asked |= {f"slurm_{name}": value for name, value in named.items()} | {"slurm_signal_delay_s": WARNING_SECONDS}
        if "reservation" in self._options:
            asked["slurm_additional_parameters"] = {"reservation": self._options["reservation"]}
        return asked

    def worker_had_started(self, future: Future[StepResult]) -> bool:
        begun = self._under_way[future].status.exists()
        self._keeps_logs = self._keeps_logs or not begun
        return begun

    def release(self, future: Future[StepResult]) -> None:
        submitted = self._under_way.pop(future)
        self._processes += [submitted.job] if self._is_local else []
        self._shown.tell(future, read_status(submitted.status))
        self._shown.end(future)
        with contextlib.suppress(OSError):
            submitted.status.unlink(missing_ok=True)

    def show(self) -> None:
        self._beat()
        self._look()
        for future, submitted in self._under_way.items():
            self._shown.tell(future, read_status(submitted.status))
        self._shown.display.refresh()

    def _beat(self) -> None:
        """Say that this run is alive: its jobs end where it is not."""
        if time.monotonic() - self._pulsed >= PULSE_SECONDS:
            self._pulsed = time.monotonic()
            with contextlib.suppress(OSError):
                (self._folder / PULSE).write_text(f"{time.time()}", encoding="utf-8")

    def _look(self) -> None:
        """Take the answers that are there."""
        for future, submitted in self._waiting():
            if submitted.job.paths.result_pickle.exists():
                self._take(future, submitted)
            elif submitted.ended is not None and time.monotonic() - submitted.ended > LATE_SECONDS:
                future.set_exception(BrokenExecutor(f"job {submitted.job.job_id} has ended without an answer"))
            elif submitted.ended is None and submitted.job.done(force_check=self._take_turn_to_ask()):
                submitted.ended = time.monotonic() - (LATE_SECONDS if self._is_local else 0)

    def _waiting(self) -> Iterator[tuple[Future[StepResult], SubmittedJob]]:
        return ((future, submitted) for future, submitted in self._under_way.items() if not future.done())

    def _take_turn_to_ask(self) -> bool:
        """True for the first job that asks after a while: Slurm is asked once, and answers for all jobs."""
        late = time.monotonic() - self._asked >= SACCT_SECONDS
        self._asked = time.monotonic() if late else self._asked
        return late

    def _take(self, future: Future[StepResult], submitted: SubmittedJob) -> None:
        import submitit

        try:
            answer = submitted.job.result()
        except (submitit.core.utils.FailedJobError, submitit.core.utils.UncompletedJobError) as error:
            self._keeps_logs = True
            last = str(error).strip().splitlines()[-1]
            future.set_exception(BrokenExecutor(f"job {submitted.job.job_id}: {last}"))
            return
        answer.resolve(future, self._stopping)

    def stop(self, under_way: Sequence[Future[StepResult]]) -> None:
        self._stopping = True
        with contextlib.suppress(OSError):
            (self._folder / STOP).write_text("", encoding="utf-8")
        for _, submitted in self._waiting():
            if not submitted.status.exists():
                self._cancel(submitted)
        end = time.monotonic() + STOP_SECONDS
        while time.monotonic() < end and any(submitted.status.exists() for _, submitted in self._waiting()):
            time.sleep(0.2)
            self._look()

    def _cancel(self, submitted: SubmittedJob) -> None:
        with contextlib.suppress(Exception):  # it may have ended meanwhile
            if self._is_local:
                os.kill(int(submitted.job.job_id), signal.SIGTERM)
            else:
                submitted.job.cancel(check=False)

    def _remove_folder(self) -> None:
        if not self._keeps_logs:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> SlurmSteps:
        self._shown.display.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            for _, submitted in self._waiting():
                self._cancel(submitted)
                self._processes += [submitted.job] if self._is_local else []
            end = time.monotonic() + STOP_SECONDS
            while time.monotonic() < end and not all(job.done() for job in self._processes):
                time.sleep(0.1)
            self._shown.close()
