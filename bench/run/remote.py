"""Parts that the executors for clusters share: what a worker is told and answers, and how folders
of the cache travel.

A folder of the cache has the same place on every machine: ``kind/key``. Nodes that share no disk
with the run are sent what a step reads, file by file, and send back what it made; each folder is
checked where it arrives.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cache import MADE, Slot, cache_root, damage_reason
from bench.errors import BenchError, InputError
from bench.files import folder_in_place_of, lock_of
from bench.folders import CLUSTER_RUNS, users_cache
from bench.make.work import StepResult
from bench.plan.plan import Plan
from bench.request import Request
from bench.run.worker import request_of_worker

FORGOTTEN_SECONDS = 30 * 86_400.0
"""The folder of a run that was killed is removed by a later one after so long."""
PART_BYTES = 64 * 2**20
"""Bytes that travel in one piece: what a machine holds in memory of a file on its way."""
SAME_PATHS = "what a command names by a path has to be readable at the same path on every node"


def new_run_folder() -> Path:
    """A folder in the cache of the machine that starts a run, with the file that tells a node
    whether it shares this cache."""
    root = cache_root() / CLUSTER_RUNS
    root.mkdir(parents=True, exist_ok=True)
    for old in root.glob("run-*"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > FORGOTTEN_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(dir=root, prefix="run-")).absolute()
    (folder / "mark").write_text("", encoding="utf-8")
    return folder


# what a worker is told, and what it answers


@dataclass(frozen=True)
class Start:
    """The things that a worker is told once."""

    request: Request
    """with the device that each worker has"""
    folder: Path
    """in which the run was started"""
    cache: Path
    """of the machine that started the run"""
    mark: str
    """a file below that cache, which a machine sees that shares its disk"""

    @classmethod
    def from_plan(cls, plan: Plan, run_folder: Path) -> Start:
        """The start of the workers of a run; ``run_folder`` is that of :func:`new_run_folder`."""
        # what a node lacks of the hub is fetched unless the run is offline
        request = request_of_worker(
            plan.request, plan.tasks[0].numeric.device, plan.request.offline
        )
        return cls(
            request, Path.cwd(), cache_root().absolute(), f"{CLUSTER_RUNS}/{run_folder.name}/mark"
        )


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
    saved = start.request.save_students
    if not shares and saved is not None and not saved.is_dir():
        raise InputError(
            f"--save-students {saved}: node {platform.node()} has no such folder; {SAME_PATHS}"
        )
    return shares


def answered(make: Callable[[], StepResult]) -> StepResult | BaseException:
    """The result of making a step, or what went wrong: named with this machine, and of a kind that
    every machine can read."""
    try:
        return make()
    except KeyboardInterrupt:  # it was asked to end, and kept the state of what it trained
        return KeyboardInterrupt()
    except (BenchError, OSError) as error:  # other data, a disk that is full
        return InputError(f"node {platform.node()}: {error}; {SAME_PATHS}")
    except Exception as error:  # a defect of the harness, or a machine that is broken
        return RuntimeError(f"node {platform.node()}: {type(error).__name__}: {error}")


def resolve(
    future: Future[StepResult], answer: StepResult | BaseException, is_stopping: bool
) -> None:
    """Give a future an answer, as a process of this machine does.

    Args:
        is_stopping: whether the run has asked for its end; else whoever stopped it has taken its
            machine away.
    """
    if isinstance(answer, StepResult):
        future.set_result(answer)
    elif isinstance(answer, KeyboardInterrupt) and not is_stopping:
        future.set_exception(BrokenExecutor("it was stopped from outside"))
    else:
        future.set_exception(answer)


# folders of the cache on their way


def weights_of(slot: Slot) -> str | None:
    """The hash of the weights of a folder of this machine's cache; None where it has none."""
    try:
        return str(slot.read_made()["weights"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def pack(slot: Slot, ship: Callable[[bytes], Any]) -> dict[str, list[Any]]:
    """Hand every part of a folder of this machine's cache to the cluster; gives what each file's
    parts are known by, in their order.

    Args:
        ship: takes the bytes of a part; returns what the cluster knows it by.

    Raises:
        OSError: it cannot be read.
    """
    sent = {}
    for file in sorted(slot.folder.iterdir()):
        with file.open("rb") as stream:
            sent[file.name] = [ship(part) for part in iter(lambda: stream.read(PART_BYTES), b"")]
    return sent


def unpack(slot: Slot, files: Mapping[str, Sequence[Any]], receive: Callable[[Any], bytes]) -> None:
    """Put a folder that comes from another machine into this machine's cache, whole or not at all.

    Args:
        receive: gives the bytes of a part.

    Raises:
        InputError: it is not what was sent.
        OSError: it cannot be written.
    """
    final = slot.folder
    final.parent.mkdir(parents=True, exist_ok=True)
    with lock_of(final.with_suffix(".lock")), folder_in_place_of(final) as folder:
        for name, parts in files.items():
            if Path(name).name != name:
                raise InputError(f"a file that arrived is called {name}: that is no plain name")
            with (folder / name).open("wb") as stream:
                stream.writelines(receive(part) for part in parts)
        reason = (
            damage_reason(folder, slot.key) if (folder / MADE).is_file() else f"it has no {MADE}"
        )
        if reason:
            raise InputError(f"the {slot.title} was damaged on its way: {reason}")
