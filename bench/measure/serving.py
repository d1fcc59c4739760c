"""Time trained models as they are served: torch and ONNX Runtime, on one thread and several."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.errors import one_line
from bench.measure.backends import INPUTS, INT8, ONNX, opened, runner, write_onnx
from bench.measure.latency import Load, stopwatch, warm_up
from bench.measure.memory import footprint, footprint_of_file
from bench.record.speed_sessions import OWN_RUNTIME, Conditions, Footprint, Timing

TORCH = "sdpa"
FEWEST_ROUNDS = 20
"""Of fewer there is no quantile of 95 %."""
PATIENCE_SECONDS = 45.0
"""After so much time with one number of threads :data:`FEWEST_ROUNDS` rounds are enough."""
Call = Callable[[int], Any]
"""Answers the batch of this number."""


@dataclass(frozen=True, eq=False)
class Served:
    """A trained model.

    Attributes:
        row: as it is typed.
        model: what transformers opened.
        backends: of :mod:`bench.measure.backends`; those of ONNX need a graph of it.
    """

    row: str
    model: Any
    backends: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Timed:
    """A model on a backend, ready to answer."""

    timing: Timing
    call: Call


def time_served(
    models: Sequence[Served],
    others: Mapping[str, Call],
    load: Load,
    batch: int,
    threads: Sequence[int],
    rounds: int,
    folder: Path,
    on_round: Callable[[int, int], Any] = lambda done, total: None,
) -> list[Timing]:
    """Time all models on all their backends on the CPU, in turns, once for each number of threads.

    Those that fail become a Timing with the reason, and the others go on. Each ONNX file is
    written once.

    Args:
        others: row -> what answers without a backend of ours; timed with one thread.
        load: batches of token ids and masks [B, L], all of ``batch`` examples.
        rounds: how often each is timed with each number of threads; fewer on a busy machine.
        folder: for the ONNX files, by the names of :func:`onnx_file`.

    Returns:
        The timings of torch first, with the first number of threads.
    """
    # threads are a setting of the process, put back at the end
    usual = torch.get_num_threads()
    timings: list[Timing] = []
    try:
        for number, count in enumerate(threads):
            torch.set_num_threads(count)
            conditions = partial(
                Conditions, device="cpu", dtype="fp32", batch=batch, length=load.name
            )

            # all models on all backends, and with the first number what has its own runtime
            ready = _ready(models, load, folder, partial(conditions, threads=count))
            if number == 0:
                own = conditions(backend=OWN_RUNTIME, threads=1)
                ready += [_Timed(Timing(system=row, conditions=own), others[row]) for row in others]
            for done in _in_turns(ready, len(load.batches), rounds):
                on_round(number * rounds + done, len(threads) * rounds)
            timings += [each.timing for each in ready]
    finally:
        torch.set_num_threads(usual)
    places = (TORCH, ONNX, INT8, OWN_RUNTIME)
    return sorted(timings, key=lambda timing: places.index(timing.conditions.backend))


def footprints(
    models: Sequence[Served], folder: Path, on_model: Callable[[int, int], Any]
) -> list[Footprint]:
    """Peak memory of each model in torch, and in ONNX Runtime with each file that was written.

    Args:
        folder: that :func:`time_served` wrote files to.
    """
    found = []
    for number, served in enumerate(models):
        found.append(footprint(served.row, served.model, "cpu"))
        for backend in served.backends:
            file = onnx_file(folder, number, backend)
            if file.exists():
                found.append(footprint_of_file(served.row, file, backend))
        on_model(number + 1, len(models))
    return found


def onnx_file(folder: Path, number: int, backend: str) -> Path:
    """The file of the model of this number for a backend of ONNX."""
    return folder / f"{number}-{backend}.onnx"


def _ready(
    models: Sequence[Served], load: Load, folder: Path, conditions: Callable[..., Conditions]
) -> list[_Timed]:
    """Every model on each of its backends."""
    ready = []
    for number, served in enumerate(models):
        for backend in served.backends:
            timing = Timing(system=served.row, conditions=conditions(backend=backend))
            file = onnx_file(folder, number, backend)
            try:
                run = _opened(served.model, backend, file, timing.conditions.threads)
            except Exception as error:  # exporters and runtimes have errors of their own kinds
                timing.status = "failed"
                timing.error = one_line(f"{type(error).__name__}: {error}")[:300]
                run = None
            ready.append(_Timed(timing, partial(_answer, run, load)))
    return ready


def _opened(model: Any, backend: str, file: Path, threads: int) -> Any:
    """The model as a function of token ids and masks; an ONNX file that is missing is written."""
    if backend == TORCH:
        return runner(model, backend, torch.device("cpu"), torch.float32, threads)
    if not file.exists():
        write_onnx(model, file, INPUTS, in_8_bits=backend == INT8)
    return opened(file, backend, threads, INPUTS)


def _answer(run: Any, load: Load, number: int) -> Any:
    return run(*load.batches[number])


def _in_turns(ready: Sequence[_Timed], batches: int, rounds: int) -> Iterator[int]:
    """Call each until its times are steady, then time all once a round, in the same order.

    Yields the rounds that are done. On a busy machine, where a round may take seconds, fewer are.
    """
    timed = stopwatch(torch.device("cpu"))
    sound = [each for each in ready if each.timing.status == "ok"]
    for each in sound:
        # until its times are steady
        turns = itertools.cycle(range(batches))
        each.timing.warmup = warm_up(partial(_next, each.call, turns), timed)

    # then one call of each a round
    begun = time.monotonic()
    for number in range(rounds):
        for each in sound:
            each.timing.seconds.append(timed(partial(each.call, number % batches)))
        yield number + 1
        if number + 1 >= FEWEST_ROUNDS and time.monotonic() - begun > PATIENCE_SECONDS:
            return


def _next(call: Call, turns: Any) -> Any:
    return call(next(turns))
