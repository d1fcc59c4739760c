"""What a worker on another machine does first and says last. Used by every executor that leaves this machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.errors import BenchError, InputError
from bench.folders import users_cache
from bench.make.result import StepResult
from bench.plan.request import Request
from bench.run.local_worker import Order

SAME_PATHS = "what a command names by a path has to be readable at the same path on every node"


@dataclass(frozen=True)
class Start:
    """What a worker is told once."""

    order: Order
    folder: Path
    """in which the run was started"""
    cache: Path
    """of the machine that started the run"""
    mark: str
    """a file below that cache, which a machine sees that shares its disk"""


def start_of(request: Request, device: str, cache: Path, mark: str) -> Start:
    """What the workers of a run are told.

    Args:
        device: what torch calls the device of each worker.
    """
    # what a node lacks of the hub is fetched unless the run is offline
    return Start(replace(Order.of(request, device), offline=request.offline), Path.cwd(), cache.absolute(), mark)


def enter_run_folder(start: Start) -> bool:
    """Change to the folder of the run and use its cache, as far as this machine sees them.

    A cache that this machine's own ``BERT_BENCH_CACHE`` names is used in the place of the run's.

    Returns:
        Whether this machine sees the cache of the one that started the run.

    Raises:
        InputError: students are to be saved in a folder that is not there.
    """
    if start.folder.is_dir():
        os.chdir(start.folder)
    if not os.environ.get("BERT_BENCH_CACHE") and (start.cache / start.mark).is_file():
        os.environ["BERT_BENCH_CACHE"] = str(start.cache)
    shares = (users_cache() / start.mark).is_file()
    saved = start.order.save_students
    if not shares and saved is not None and not saved.is_dir():
        raise InputError(f"--save-students {saved}: node {platform.node()} has no such folder; {SAME_PATHS}")
    return shares


@dataclass
class WorkerReply:
    """What a worker says of a job: plain data, also where it went wrong."""

    result: StepResult | None = None
    refusal: str = ""
    """why it will not do this job: bad input"""
    error: str = ""
    """a defect of the harness, or a machine that is broken"""
    was_stopped: bool = False
    """it was asked to end, and kept the state of what it trained"""
    status: dict[str, Any] = field(default_factory=dict)
    """its last words"""

    def resolve(self, future: Future[StepResult], is_stopping: bool) -> None:
        """Give a future the reply, as a process of this machine does.

        Args:
            is_stopping: whether the run has asked for its end; else whoever stopped it has taken its machine away.
        """
        if self.result is not None:
            future.set_result(self.result)
        elif self.refusal:
            future.set_exception(InputError(self.refusal))
        elif self.was_stopped:
            future.set_exception(KeyboardInterrupt() if is_stopping else BrokenExecutor("it was stopped from outside"))
        else:
            future.set_exception(RuntimeError(self.error))


def run_to_reply(do: Callable[[], StepResult]) -> WorkerReply:
    """Do a job; what goes wrong is part of the reply, named with this machine."""
    node = platform.node()
    try:
        return WorkerReply(do())
    except KeyboardInterrupt:
        return WorkerReply(was_stopped=True)
    except BenchError as error:
        return WorkerReply(refusal=f"node {node}: {error}; {SAME_PATHS}")
    except Exception as error:
        return WorkerReply(error=f"node {node}: {type(error).__name__}: {error}")
