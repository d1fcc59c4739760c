"""What a run may draw anew with each seed, besides its students."""

from __future__ import annotations

from typing import Final, Literal

Source = Literal["teacher", "start"]
"""The teacher of each task, or what students begin with where that is trained."""
VARIED_TEACHER: Final = "teacher"
VARIED_START: Final = "start"
VARIABLE: tuple[Source, ...] = (VARIED_TEACHER, VARIED_START)
