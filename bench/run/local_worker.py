"""What a worker process does: it plans the request once, and then job after job."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import BenchError
from bench.plan.jobs import Job
from bench.plan.request import Request
from bench.run.display import FileProgress
from bench.run.outcome import JobResult

if TYPE_CHECKING:
    from bench.run.job_runner import JobRunner

_stop: Any = None
_runner: JobRunner | None = None
_progress: FileProgress | None = None


def begin(stop: Any, cache: Path) -> None:
    """Called once in each worker.

    Args:
        stop: a shared number; above 0 when trainings should keep their states and end.
        cache: where the process that started this one looks for things and keeps them.
    """
    global _stop
    _stop = stop
    os.environ["BERT_BENCH_CACHE"] = str(cache)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to every process of a terminal; the first one decides
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def do(job: Job, request: Request, status: str) -> JobResult:
    """Do one job; see :meth:`bench.run.job_runner.JobRunner.do`."""
    global _runner, _progress
    if _progress is None:
        _progress = FileProgress(_stop)
    _progress.begin(job.title, Path(status))
    try:
        if _runner is None:
            _runner = make_runner(request, _progress)
        return _runner.do(job)
    except BenchError:
        raise
    except Exception as error:  # some errors of libraries cannot be sent to another process
        raise RuntimeError(f"{type(error).__name__}: {error}") from None
    finally:
        _progress.end()


def make_runner(request: Request, progress: FileProgress, offline: bool = True) -> JobRunner:
    """The plan of a request, ready to do its jobs in this process.

    Args:
        offline: take what the first process has fetched: what the hub has by now may be something else.
    """
    import torch

    from bench.measure.devices import device_of
    from bench.plan.build import build
    from bench.progress import quiet
    from bench.run.job_runner import JobRunner
    from bench.train.numerics import ComputeSettings

    quiet()
    torch.set_num_threads(request.threads)
    plan = build(replace(request, offline=offline), estimated=False)
    return JobRunner(plan, ComputeSettings(device_of(request.device), request.precision), progress)
