"""Things that a run may draw anew with each seed, besides its students."""

from __future__ import annotations

VARIED_TEACHER = "teacher"
VARIED_START = "start"
VARIABLE = (VARIED_TEACHER, VARIED_START)
"""The teacher of each task, and what students begin with where that is trained."""
