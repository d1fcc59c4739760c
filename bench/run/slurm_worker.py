"""What a job of Slurm does: it makes one step of ours, and answers. Slurm's nodes share the cache."""

from __future__ import annotations

import platform
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from bench.errors import InputError
from bench.make.result import StepResult
from bench.plan.plan import Step
from bench.run.display import FileProgress
from bench.run.local_worker import new_maker
from bench.run.remote_worker import Start, WorkerReply, enter_run_folder, run_to_reply

STOP, PULSE = "stop", "pulse"
"""Files of a run's folder. The first is there when trainings should keep their states and end; the second is written again
and again as long as the run lives."""
LOOK_SECONDS = 2.0
"""How often these files are looked at: they may lie on a network disk."""
LOST_SECONDS = 600.0
"""A run whose file has not changed for so long is gone: network disks show changes late, and a run may be suspended."""
SIGNALS = (signal.SIGTERM, signal.SIGUSR2)
"""What Slurm sends to a job that is cancelled, and to one whose time is nearly over."""


@dataclass(frozen=True)
class Errand:
    """One job, and where to report: plain data, written by the run and read by the job."""

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


def do(errand: Errand) -> WorkerReply:
    """Do one job; called by submitit in the main thread of the process that Slurm started."""
    flag = StopFlag(errand.status.parent)
    for number in SIGNALS:
        signal.signal(number, flag.raise_it)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's, also where its jobs are on the same terminal
    progress = FileProgress(flag)
    progress.begin(errand.step.title, errand.status)
    answer = run_to_reply(lambda: _done(errand, progress))
    progress.end()
    return answer


def _done(errand: Errand, progress: FileProgress) -> StepResult:
    if not enter_run_folder(errand.start):
        raise InputError(
            f"node {platform.node()} does not see the cache {errand.start.cache}; set BERT_BENCH_CACHE to a folder on "
            "a disk that all nodes share"
        )
    return new_maker(errand.start.order, progress).make(errand.step)
