"""A plan of steps that nobody makes: each with its kind, its planned seconds and what it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from bench.plan.plan import STUDENTS_STEP, Cost, Step


def plan_of(
    steps: Mapping[str, tuple[float, Sequence[str]]], jobs: int = 1, kind: str = STUDENTS_STEP
) -> Any:
    """Steps without cells.

    Args:
        steps: key -> planned seconds, and the keys of what it needs.
    """
    listed = [Step(kind, key, key, (), needs=tuple(needs)) for key, (_, needs) in steps.items()]
    return SimpleNamespace(
        request=SimpleNamespace(jobs=jobs),
        slowed={},
        todo_steps=listed,
        todo=[],
        costs={key: Cost(seconds) for key, (seconds, _) in steps.items()},
    )
