"""The row of a planned cell: the teacher, a method's row that is trained, or a finished checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.plan.spelling import MethodRow

if TYPE_CHECKING:
    from bench.data.checkpoints import Checkpoint


@dataclass(frozen=True)
class TeacherRow:
    """The teacher of a task, which is scored too. Nobody types it."""

    spelling: str = ""


@dataclass(frozen=True)
class CheckpointRow:
    """A finished classifier, as it was found for one task: it is scored and not trained."""

    spelling: str
    checkpoint: Checkpoint


Row = TeacherRow | MethodRow | CheckpointRow
