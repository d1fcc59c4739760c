"""Schedules of the learning rate: what it is multiplied with at every step of a stage. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

Schedule = Literal["linear", "constant"]


def _linear(warmup: float, step: int, steps: int) -> float:
    warm = max(1, round(warmup * steps))
    return (step + 1) / warm if step < warm else max(0.0, (steps - step) / max(1, steps - warm))


def _constant(warmup: float, step: int, steps: int) -> float:
    return 1.0


SCHEDULES: Mapping[str, Callable[[float, int, int], float]] = {"linear": _linear, "constant": _constant}
"""``linear``: it rises to 1 during the warm-up, then falls to 0; ``constant``: no warm-up, no decay."""


def multiplier(schedule: str, warmup: float, step: int, steps: int) -> float:
    """What the learning rate is multiplied with.

    Args:
        warmup: share of the steps during which the rate rises.
        step: from 0.

    Raises:
        ValueError: there is no such schedule.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"no schedule is called {schedule!r}; known: {', '.join(SCHEDULES)}")
    return SCHEDULES[schedule](warmup, step, steps)
