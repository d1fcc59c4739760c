"""A worker makes step after step, each as it is told. It plans nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bench.errors import BenchError
from bench.make import step as steps
from bench.make.work import StepResult, Work
from bench.measure.devices import device_of
from bench.plan.plan import Step
from bench.progress import quiet
from bench.request import Request
from bench.run.display import FileProgress
from bench.stats.own_metrics import load_metrics
from bench.train.numerics import ComputeSettings


def request_of_worker(request: Request, device: str, offline: bool = True) -> Request:
    """The run's request with this device. Offline a worker takes what the first process has
    fetched: what the hub has by now may be something else."""
    saved = None if request.save_students is None else request.save_students.absolute()
    return replace(request, device=device, offline=offline, save_students=saved)


class Worker:
    """Makes steps in this process, one after the other; the first of them says which libraries are
    loaded."""

    def __init__(self, request: Request, progress: FileProgress) -> None:
        self.request = request
        self.progress = progress
        self._work: Work | None = None

    def make(self, step: Step, status: Path | None = None) -> StepResult:
        """Make one step; see :func:`bench.make.step.make`.

        Args:
            status: the file that says how far it is.
        """
        self.progress.begin(step.title, status)
        try:
            if self._work is None:
                quiet()
                asked = self.request
                load_metrics(asked.metric)
                torch.set_num_threads(asked.threads)
                numerics = ComputeSettings(
                    device_of(asked.device, asked.deterministic), asked.precision
                )
                self._work = Work(
                    numerics, self.progress, asked.offline, asked.save_students, asked.curves
                )
            return steps.make(step, self._work)
        finally:
            self.progress.end()


# a process that another one on this machine has started

_stop: Any = None
_worker: Worker | None = None


def begin(stop: Any, cache: Path) -> None:
    """Called once in each process.

    Args:
        stop: a shared number; above 0 when trainings should keep their states and end.
        cache: where the process that started this one looks for things and keeps them.
    """
    global _stop
    _stop = stop
    os.environ["BERT_BENCH_CACHE"] = str(cache)
    # Ctrl-C goes to every process of a terminal; the first one decides
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def make(step: Step, request: Request, status: Path) -> StepResult:
    """Make one step in this process."""
    global _worker
    _worker = _worker or Worker(request, FileProgress(_stop))
    try:
        return _worker.make(step, status)
    except BenchError:
        raise
    except Exception as error:  # some errors of libraries cannot be sent to another process
        raise RuntimeError(f"{type(error).__name__}: {error}") from None
