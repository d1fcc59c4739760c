"""Finished records to an experiment tracker, a run for each: their losses, and their scores.
Nothing is sent unless it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.errors import InputError
from bench.record.schema import Record
from bench.record.task_facts import shown_tasks
from bench.request import TENSORBOARD, TRACKERS

PROJECT = "bert-bench"


def check_tracker(name: str) -> None:
    """Raises InputError: it is not installed."""
    if name not in TRACKERS:
        raise InputError(f"--track {name}: choose one of {', '.join(TRACKERS)}")
    if importlib.util.find_spec(name) is None:
        raise InputError(f"--track {name}: it is not installed; type: pip install {name}")


def track(name: str, records: Iterable[Record], folder: Path) -> int:
    """Write the finished ones among these records, each as a run of its own; returns how many.
    Steps are the parts of its stages, one behind the other, from 1 on: some trackers take no step
    twice.

    Args:
        folder: of tensorboard's files.
    """
    count = 0
    for record in records:
        if record.status != "ok":
            continue
        cell = record.cell
        title = f"{record.row} on {shown_tasks(cell)}, seed {cell.seed}"
        facts = {
            "row": record.row,
            "tasks": list(cell.tasks),
            "seed": cell.seed,
            "teacher": cell.teacher.name,
            "data": cell.data.name,
            "settings": cell.settings,
            "recipe": cell.recipe,
            "key": record.key,
        }
        log, finish = _run(name, title, facts, folder / record.key[:16])
        part = 0
        for stage, terms in record.terms.items():
            for values in zip(*terms.values(), strict=False):
                part += 1
                log(
                    {f"{stage}/{term}": value for term, value in zip(terms, values, strict=True)},
                    part,
                )
        final = {
            f"{where}/{metric}": value
            for where, scores in record.scores.items()
            for metric, value in scores.items()
        }
        log(final, part + 1)
        finish()
        count += 1
    return count


def _run(
    name: str, title: str, facts: dict[str, Any], folder: Path
) -> tuple[Callable[[dict[str, float], int], object], Callable[[], object]]:
    """How a run of the tracker takes numbers of a step, and how it ends."""
    if name == TENSORBOARD:
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(str(folder))
        writer.add_text("record", f"{title}\n\n    {json.dumps(facts)}")

        def log(numbers: dict[str, float], step: int) -> None:
            for label, value in numbers.items():
                writer.add_scalar(label, value, step)

        return log, writer.close
    tracker = importlib.import_module(name)  # wandb's functions, which trackio has too
    tracker.init(project=PROJECT, name=title, config=facts)
    return lambda numbers, step: tracker.log(numbers, step=step), tracker.finish
