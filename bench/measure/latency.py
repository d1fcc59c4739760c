"""Time a teacher and its students in turns, so that a ratio is of one moment."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench.errors import InputError
from bench.measure.backends import DTYPES, INT8, Runner, runner
from bench.measure.capacity import usable_cores
from bench.measure.energy import TURNS, Counter, joules_in_turns
from bench.record.cell import CHECKPOINT
from bench.record.speed_sessions import Conditions, Timing
from methods.core.models import rounds_values

WINDOW = 5
"""Calls of a window."""
AGREE = 0.05
"""How closely the medians of two windows have to agree."""
MOST_WARMUP = 60
"""Calls after which waiting for it ends."""
TOLERATED = {"fp32": 1e-3, "bf16": 0.3, "fp16": 0.05}
"""How far logits may be from those of eager fp32 before a backend counts as wrong."""
TOLERATED_ROUNDED = 0.3
"""The same for weights in 8 bits, and of models that round as they compute; random weights, whose
logits are small, differ by 0.002 to 0.02."""


@dataclass(frozen=True)
class Load:
    """The batches that are fed, in turns: padded batches of token ids and masks, [B, L] int64."""

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
        mask = torch.nn.utils.rnn.pad_sequence(
            [torch.ones_like(row) for row in rows], batch_first=True
        )
        batches.append((ids, mask))
        if len(batches) == most:
            break
    if not batches:
        raise InputError(
            f"--batches {batch}: {name} has only {len(tokens)} examples; choose a smaller batch"
        )
    return Load(f"task {name}", batches, has_examples=True)


def stopwatch(device: torch.device) -> Callable[[Callable[[], Any]], float]:
    """Seconds of one call: events of the device on a GPU, the wall clock elsewhere."""
    if device.type == "cuda":

        def timed(call: Callable[[], Any]) -> float:
            begin = torch.Event(device, enable_timing=True)
            end = torch.Event(device, enable_timing=True)
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


@torch.inference_mode()
def difference(
    model: Any, run: Runner, batches: Sequence[tuple[Tensor, Tensor]], device: torch.device
) -> tuple[float, int, int]:
    """Between the logits of a backend and those of eager attention in fp32 on the CPU: the largest
    one, how many predictions are another class, and how many were compared.
    """
    usual = runner(model, "eager", torch.device("cpu"), torch.float32, torch.get_num_threads())
    largest = torch.tensor(0.0)
    changed = 0
    compared = 0
    for ids, mask in batches:
        expected = usual(ids, mask)
        logits = run(ids.to(device), mask.to(device)).float().cpu()
        # a NaN stays one, unlike with max()
        largest = torch.maximum(largest, (logits - expected).abs().max())
        changed += int((logits.argmax(-1) != expected.argmax(-1)).sum())
        compared += len(expected)
    return float(largest), changed, compared


def time_in_turns(
    systems: Mapping[str, Any],
    load: Load,
    conditions: Conditions,
    rounds: int,
    on_round: Callable[[int, int], Any] = lambda done, total: None,
    energy: Counter | None = None,
    timed: Callable[[Callable[[], Any]], float] | None = None,
) -> list[Timing]:
    """Every system once a round, in the same order, ``rounds`` times; one Timing each.

    A system that a backend cannot run becomes a Timing with status ``failed`` and the reason; the
    others go on. The logits of a finished checkpoint are compared on the whole load, those of
    random weights on one batch. Predicted classes are compared where a finished checkpoint reads
    examples of a task. Energy is measured after the rounds, on the batches that they timed.

    Args:
        conditions: batch and length are those of ``load``.
        energy: None where the machine does not tell its energy.
        timed: seconds of one call; None for :func:`stopwatch`.
    """
    device = torch.device(conditions.device)
    # where a GPU is timed, the CPU only answers for comparison
    torch.set_num_threads(conditions.threads if device.type == "cpu" else usable_cores())
    timed = timed or stopwatch(device)
    feeds = [(ids.to(device), mask.to(device)) for ids, mask in load.batches]

    # every system on its backend, called until its times are steady, its logits compared
    timings: dict[str, Timing] = {}
    runners: dict[str, Runner] = {}
    for name, model in systems.items():
        timing = Timing(system=name, conditions=conditions)
        timings[name] = timing
        try:
            runners[name] = _prepared(timing, model, load, feeds, device, timed)
        except Exception as error:  # exporters and runtimes have errors of their own kinds
            first_line = (str(error).strip().splitlines() or [""])[0]
            timing.status = "failed"
            timing.error = f"{type(error).__name__}: {first_line}"

    # one call of each system a round
    total = rounds + (TURNS if energy is not None else 0)
    for number in range(rounds):
        ids, mask = feeds[number % len(feeds)]
        for name, run in runners.items():
            timings[name].seconds.append(timed(partial(run, ids, mask)))
        on_round(number + 1, total)

    if energy is not None:
        # the stopwatch waits until a GPU has done its work
        batches = feeds[:rounds]
        passes = {
            name: partial(timed, partial(_answers, run, batches)) for name, run in runners.items()
        }
        joules_of = joules_in_turns(
            passes, energy, on_turn=lambda done: on_round(rounds + done, total)
        )
        for name, joules in joules_of.items():
            timings[name].joules = [of_all / len(batches) for of_all in joules]
    return list(timings.values())


def _prepared(
    timing: Timing,
    model: Any,
    load: Load,
    feeds: Sequence[tuple[Tensor, Tensor]],
    device: torch.device,
    timed: Callable[[Callable[[], Any]], float],
) -> Runner:
    """A system on its backend, warm, and its logits compared; ``timing`` gets what was found.

    Args:
        feeds: the batches of ``load`` on the device.

    Raises:
        ValueError: its logits are not those of eager fp32.
        Exception: the backend cannot run it.
    """
    conditions = timing.conditions
    dtype = DTYPES[conditions.dtype]
    run = runner(model, conditions.backend, device, dtype, conditions.threads)
    turns = itertools.cycle(feeds)
    warmup = warm_up(lambda: run(*next(turns)), timed)

    # a finished checkpoint on the whole load, random weights on one batch
    is_trained = timing.system.startswith(f"{CHECKPOINT}:")
    compared_on = load.batches if is_trained else load.batches[:1]
    gap, changed, compared = difference(model, run, compared_on, device)
    tolerated = TOLERATED[conditions.dtype]
    if conditions.backend == INT8 or rounds_values(model):
        tolerated = TOLERATED_ROUNDED
    if not gap <= tolerated:
        raise ValueError(f"its logits differ from eager fp32 by up to {gap:.3g}")
    timing.warmup = warmup
    timing.largest_difference = gap
    if is_trained and load.has_examples and model.config.num_labels > 1:
        timing.changed = changed
        timing.compared = compared
    return run


def _answers(run: Runner, batches: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """The logits of every batch."""
    return [run(ids, mask) for ids, mask in batches]
