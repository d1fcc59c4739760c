"""Latency and throughput of a teacher and its students, timed in turns so that a ratio is of one moment."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bench.errors import InputError
from bench.measure.backends import INT8, Runner, runner
from bench.measure.energy import Counter, joules_in_turns
from bench.record.cell import CHECKPOINT
from bench.record.speed_sessions import Conditions, Timing

WINDOW, AGREE, MOST_WARMUP = 5, 0.05, 60
"""Calls of a window, how closely two windows' medians have to agree, and where waiting for it ends."""
TOLERATED = {"fp32": 1e-3, "bf16": 0.3, "fp16": 0.05}
"""How far logits may be from those of eager fp32 before a backend counts as wrong."""
TOLERATED_INT8 = 0.3
"""The same for weights in 8 bits; random weights, whose logits are small, differ by 0.002 to 0.02."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Load:
    """What is fed, in turns: padded batches of token ids and masks, [B, L] int64."""

    name: str
    batches: Sequence[tuple[Tensor, Tensor]]
    has_examples: bool = False
    """whether these are examples of a task, and no random tokens"""


def full_length(batch: int, length: int, vocabulary: int) -> Load:
    """One batch of random tokens without padding."""
    ids = torch.randint(5, vocabulary, (batch, length), generator=torch.Generator().manual_seed(0))
    return Load(str(length), [(ids, torch.ones_like(ids))])


def load_of_task(name: str, tokens: Sequence[Any], batch: int, most: int = 64) -> Load:
    """Examples of a task in their order, padded to each batch's longest.

    Raises:
        InputError: there are fewer examples than a batch has.
    """
    batches = []
    for start in range(0, len(tokens) - batch + 1, batch):
        rows = [torch.as_tensor(row) for row in tokens[start : start + batch]]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        batches.append((ids, mask))
        if len(batches) == most:
            break
    if not batches:
        raise InputError(f"--batches {batch}: {name} has only {len(tokens)} examples; choose a smaller batch")
    return Load(f"task {name}", batches, has_examples=True)


def stopwatch(device: torch.device) -> Callable[[Callable[[], Any]], float]:
    """Seconds of one call: events of the device on a GPU, the wall clock elsewhere."""
    if device.type == "cuda":

        def timed(call: Callable[[], Any]) -> float:
            begin, end = (torch.Event(device, enable_timing=True) for _ in range(2))
            torch.cuda.synchronize(device)
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize(device)
            return float(begin.elapsed_time(end)) / 1000

        return timed

    def counted(call: Callable[[], Any]) -> float:
        begun = time.perf_counter()
        call()
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        return time.perf_counter() - begun

    return counted


def warm_up(call: Callable[[], Any], timed: Callable[[Callable[[], Any]], float]) -> int:
    """Call until the medians of two successive windows agree; returns how many calls that took."""
    before: float | None = None
    for done in range(WINDOW, MOST_WARMUP + 1, WINDOW):
        now = statistics.median(timed(call) for _ in range(WINDOW))
        if before is not None and abs(now - before) <= AGREE * before:
            return done
        before = now
    return MOST_WARMUP


@dataclass(frozen=True)
class LogitDifference:
    """Between the logits of a backend and those of eager attention in fp32 on the CPU."""

    largest: float
    changed: int
    """predictions that are another class"""
    compared: int


@torch.inference_mode()
def difference(
    model: Any, run: Runner, batches: Sequence[tuple[Tensor, Tensor]], device: torch.device
) -> LogitDifference:
    """Over some batches of a load."""
    usual = runner(model, "eager", torch.device("cpu"), torch.float32, torch.get_num_threads())
    largest, changed, compared = torch.tensor(0.0), 0, 0
    for ids, mask in batches:
        expected, found = usual(ids, mask), run(ids.to(device), mask.to(device)).float().cpu()
        largest = torch.maximum(largest, (found - expected).abs().max())  # a NaN stays one, unlike with max()
        changed += int((found.argmax(-1) != expected.argmax(-1)).sum())
        compared += len(expected)
    return LogitDifference(float(largest), changed, compared)


@dataclass(frozen=True)
class Instruments:
    """What measures a call."""

    seconds: Callable[[Callable[[], Any]], float]
    energy: Counter | None = None
    """None: the machine does not tell its energy"""


@dataclass
class _Ready:
    """Systems that a backend runs, warmed up and checked, and the timings of all that were asked for."""

    timings: dict[str, Timing] = field(default_factory=dict)
    runners: dict[str, Runner] = field(default_factory=dict)


def time_in_turns(
    systems: Mapping[str, Any],
    load: Load,
    conditions: Conditions,
    rounds: int,
    on_round: Callable[[int, int], Any] = lambda done, total: None,
    instruments: Instruments | None = None,
) -> list[Timing]:
    """Every system once a round, in the same order, ``rounds`` times; one Timing each.

    A system that a backend cannot run becomes a Timing with status ``failed`` and the reason; the others go on. The
    logits of a finished checkpoint are compared on the whole load, those of random weights on one batch. Predicted
    classes are compared where a finished checkpoint reads examples of a task. Energy is measured after the rounds, on the
    batches that they timed.

    Args:
        conditions: batch and length are those of ``load``.
        instruments: a stopwatch alone where they are not given.
    """
    device = torch.device(conditions.device)
    torch.set_num_threads(conditions.threads)
    instruments = instruments or Instruments(stopwatch(device))
    feeds = [(ids.to(device), mask.to(device)) for ids, mask in load.batches]
    ready = _warmed_up(systems, load, conditions, feeds, instruments.seconds)
    for number in range(rounds):
        ids, mask = feeds[number % len(feeds)]
        for name, run in ready.runners.items():
            ready.timings[name].seconds.append(instruments.seconds(lambda run=run: run(ids, mask)))  # type: ignore[misc]  # noqa: B023
        on_round(number + 1, rounds)
    if instruments.energy is not None:
        _measure_energy(ready, feeds[:rounds], instruments)
    return list(ready.timings.values())


def _warmed_up(
    systems: Mapping[str, Any],
    load: Load,
    conditions: Conditions,
    feeds: Sequence[tuple[Tensor, Tensor]],
    timed: Callable[[Callable[[], Any]], float],
) -> _Ready:
    """Every system on its backend, called until its times are steady, its logits compared."""
    device, ready = torch.device(conditions.device), _Ready()
    tolerated = TOLERATED_INT8 if conditions.backend == INT8 else TOLERATED[conditions.dtype]
    for name, model in systems.items():
        is_trained = name.startswith(f"{CHECKPOINT}:")
        try:
            run = runner(model, conditions.backend, device, DTYPES[conditions.dtype], conditions.threads)
            turns = itertools.cycle(feeds)
            warm = warm_up(lambda run=run, turns=turns: run(*next(turns)), timed)  # type: ignore[misc]
            gap = difference(model, run, load.batches if is_trained else load.batches[:1], device)
            if not gap.largest <= tolerated:
                raise ValueError(f"its logits differ from eager fp32 by up to {gap.largest:.3g}")
        except Exception as error:  # exporters and runtimes have errors of their own kinds
            lines = str(error).strip().splitlines() or [""]
            ready.timings[name] = Timing(
                system=name, conditions=conditions, status="failed", error=f"{type(error).__name__}: {lines[0]}"
            )
            continue
        ready.runners[name] = run
        ready.timings[name] = Timing(system=name, conditions=conditions, warmup=warm, largest_difference=gap.largest)
        if is_trained and load.has_examples and model.config.num_labels > 1:
            ready.timings[name].changed, ready.timings[name].compared = gap.changed, gap.compared
    return ready


def _measure_energy(ready: _Ready, feeds: Sequence[tuple[Tensor, Tensor]], instruments: Instruments) -> None:
    """Joules of a batch of each system; the stopwatch waits until a GPU has done its work."""
    assert instruments.energy is not None

    def over_all(run: Runner) -> Callable[[], float]:
        return lambda: instruments.seconds(lambda: [run(ids, mask) for ids, mask in feeds])

    passes = {name: over_all(run) for name, run in ready.runners.items()}
    for name, joules in joules_in_turns(passes, instruments.energy).items():
        ready.timings[name].joules = [one / len(feeds) for one in joules]
