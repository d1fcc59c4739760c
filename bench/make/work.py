"""How one process makes steps, and what making them gives: plain data that another process can send."""

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
    """An artefact that is there."""

    tensors: Mapping[str, Tensor]
    body: Mapping[str, Any]
    """what its folder of the cache says of it"""
    known: Mapping[str, Any]
    """the part of that which a record repeats"""


@dataclass
class Work:
    """How one process makes things."""

    numerics: ComputeSettings
    progress: Progress
    offline: bool = True
    """take only what is here of the hub: what it has by now may be something else"""
    save_to: Path | None = None
    """the folder in which students are kept; None where they are not"""
    curves: bool = False
    """score each student after every epoch"""
    artefacts: dict[str, MadeArtefact] = field(default_factory=dict)
    """those that all tasks share, by key: they stay in memory"""
    texts: dict[object, Any] = field(default_factory=dict)
    """text as examples, by its hash, their length and their tokens, as long as artefacts are made one after another"""
    task_data: Any = None
    """the examples and the teacher of one task at a time (:class:`bench.make.task_data.TaskData`)"""


def known(body: Mapping[str, Any], *further: str) -> dict[str, Any]:
    """For the record: what a thing's key, weights and code are, and other fields where they are there."""
    return {name: body[name] for name in ("key", "weights", "code", *further) if name in body}


class FailedCell(NamedTuple):
    """A cell that failed, or whose student could not be saved."""

    task: str
    row: str
    seed: int
    why: str
    """the error in one line"""
    key: str = ""
    """of its record, which has the traceback; "" where there is none"""


@dataclass
class StepResult:
    """What making a step gave."""

    records: list[tuple[Record, dict[str, np.ndarray]]] = field(default_factory=list)
    """finished or failed ones, with their raw answers"""
    not_saved: list[FailedCell] = field(default_factory=list)
    """students that are trained and recorded, and could not be kept as a folder"""
    states: list[Path] = field(default_factory=list)
    """of trainings that ended; they are removed once their records are written"""
    error: Failure | None = None
    """why a folder of the cache could not be made"""
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    """key of a training -> its part of the processor's seconds; those that went on where they broke off have none"""
