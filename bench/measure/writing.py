"""Measure how long a model takes to write, how much it writes, and what its parts cost."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import torch

from bench.data.encoding import Encoded
from bench.measure.latency import stopwatch
from bench.stats.metrics.text import signature
from methods.api import Batch
from methods.core.models import WritingModel

BATCHES = (1, 32)
CALLS = {1: 9, 32: 3}
"""Calls of each batch size; the first is not counted."""


@torch.no_grad()
def writing(model: WritingModel, data: Encoded, device: torch.device) -> dict[str, Any]:
    """For a record: how sacrebleu describes BLEU; MACs of reading a token and of writing a word
    with one beam, without attention; and for each size of a batch the median milliseconds of a text
    and the mean tokens of it. The first examples are written.
    """
    reads, writes = model.parts_cost()
    usage: dict[str, Any] = {
        "bleu": signature(),
        "macs_of_read_token": reads.per_token,
        "macs_of_written_token": writes.per_token,
        "threads": torch.get_num_threads(),
    }
    timed = stopwatch(device)
    for size in BATCHES:
        seconds: list[float] = []
        lengths: list[int] = []
        for number in range(CALLS[size]):
            # other texts each time
            first = number * size % max(1, len(data) - size)
            batch = data.batch(range(first, min(first + size, len(data))), device)
            written: list[list[int]] = []
            seconds.append(timed(partial(_write, model, batch, written)))
            lengths += [len(ids) for ids in written]

        # the median but the first
        took = statistics.median(seconds[1:]) / min(size, len(data))
        usage[f"batch_{size}"] = {
            "ms_a_text": round(1000 * took, 2),
            "tokens": round(statistics.mean(lengths), 2),
        }
    return usage


def _write(model: WritingModel, batch: Batch, written: list[list[int]]) -> None:
    """Write the texts of a batch into a list."""
    written.extend(model.written(batch))
