"""How one process makes steps, and the outcome: plain data that another process can send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.progress import Progress
from bench.record.schema import Failure, Record
from bench.train.numerics import ComputeSettings

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


class MadeArtefact(NamedTuple):
    """An artefact that is there.

    Attributes:
        body: what its folder of the cache says of it.
        known: the part of that which a record repeats.
    """

    tensors: Mapping[str, Tensor]
    body: Mapping[str, Any]
    known: Mapping[str, Any]


@dataclass
class Work:
    """How one process makes things.

    Attributes:
        offline: take only what is here of the hub: what it has by now may be something else.
        save_to: the folder in which students are kept; None where they are not.
        curves: score each student after every epoch.
        artefacts: those that all tasks share, by key: they stay in memory.
        texts: text as examples, by its hash, their length and their tokens, as long as artefacts
            are made one after another.
        task_data: the examples and the teacher of one task at a time
            (:class:`bench.make.task_data.TaskData`).
    """

    numerics: ComputeSettings
    progress: Progress
    offline: bool = True
    save_to: Path | None = None
    curves: bool = False
    artefacts: dict[str, MadeArtefact] = field(default_factory=dict)
    texts: dict[object, Any] = field(default_factory=dict)
    task_data: Any = None


def known(body: Mapping[str, Any], *further: str) -> dict[str, Any]:
    """For the record: a thing's key, weights and code, and other fields where they are there."""
    return {name: body[name] for name in ("key", "weights", "code", *further) if name in body}


class FailedCell(NamedTuple):
    """A cell that failed, or whose student could not be saved.

    Attributes:
        why: the error in one line.
        key: of its record, which has the traceback; "" where there is none.
    """

    task: str
    row: str
    seed: int
    why: str
    key: str = ""


@dataclass
class StepResult:
    """The outcome of making a step.

    Attributes:
        records: finished or failed ones, with their raw answers.
        not_saved: students that are trained and recorded, and could not be kept as a folder.
        states: of trainings that ended; they are removed once their records are written.
        error: why a folder of the cache could not be made.
        cpu_seconds: key of a training -> its part of the processor's seconds; those that went on
            where they broke off have none.
    """

    records: list[tuple[Record, dict[str, np.ndarray]]] = field(default_factory=list)
    not_saved: list[FailedCell] = field(default_factory=list)
    states: list[Path] = field(default_factory=list)
    error: Failure | None = None
    cpu_seconds: dict[str, float] = field(default_factory=dict)
