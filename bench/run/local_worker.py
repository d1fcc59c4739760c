"""What a worker process does: step after step, each as it is told. It plans nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import BenchError
from bench.make.result import StepResult
from bench.plan.plan import Step
from bench.plan.request import Request
from bench.progress import Progress, quiet
from bench.run.display import FileProgress

if TYPE_CHECKING:
    from bench.make.step import Maker

_stop: Any = None
_maker: Maker | None = None
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


@dataclass(frozen=True)
class Order:
    """What of a request a worker has to know besides its steps."""

    device: str
    precision: str
    threads: int
    offline: bool = True
    """take what the first process has fetched: what the hub has by now may be something else"""
    save_students: Path | None = None

    @classmethod
    def of(cls, request: Request, device: str) -> Order:
        saved = None if request.save_students is None else request.save_students.absolute()
        return cls(device, request.precision, request.threads, save_students=saved)


def make(step: Step, order: Order, status: str) -> StepResult:
    """Make one step; see :meth:`bench.make.step.Maker.make`."""
    global _maker, _progress
    if _progress is None:
        _progress = FileProgress(_stop)
    _progress.begin(step.title, Path(status))
    try:
        if _maker is None:
            _maker = new_maker(order, _progress)
        return _maker.make(step)
    except BenchError:
        raise
    except Exception as error:  # some errors of libraries cannot be sent to another process
        raise RuntimeError(f"{type(error).__name__}: {error}") from None
    finally:
        _progress.end()


def new_maker(order: Order, progress: Progress) -> Maker:
    """What makes steps in this process."""
    import torch

    from bench.make.step import Maker
    from bench.make.work import Work
    from bench.measure.devices import device_of
    from bench.train.numerics import ComputeSettings

    quiet()
    torch.set_num_threads(order.threads)
    numerics = ComputeSettings(device_of(order.device), order.precision)
    return Maker(Work(numerics, progress, order.offline, order.save_students))
