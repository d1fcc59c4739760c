"""How one process makes things: on which device, who is told how far it is, and what it keeps in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from bench.progress import Progress
from bench.train.numerics import ComputeSettings


@dataclass(frozen=True)
class MadeArtefact:
    """An artefact that is there."""

    tensors: Mapping[str, Tensor]
    body: Mapping[str, Any]
    """what its folder of the cache says of it"""
    known: Mapping[str, Any] = field(default_factory=dict)
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
    artefacts: dict[str, MadeArtefact] = field(default_factory=dict)
    """those that all tasks share, by key: they stay in memory"""


def known(body: Mapping[str, Any], *further: str) -> dict[str, Any]:
    """For the record: what a thing's key, weights and code are, and other fields where they are there."""
    return {name: body[name] for name in ("key", "weights", "code", *further) if name in body}
