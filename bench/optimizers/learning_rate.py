"""Schedules of the learning rate: what it is multiplied with at every step of a stage. No torch."""

from __future__ import annotations

from typing import Literal, get_args

Schedule = Literal["linear", "constant"]


def multiplier(schedule: str, warmup: float, step: int, steps: int) -> float:
    """What the learning rate is multiplied with. ``linear``: it rises to 1 during the warm-up, then falls to 0; ``constant``: no
    warm-up, no decay.

    Args:
        warmup: share of the steps during which the rate rises.
        step: from 0.

    Raises:
        ValueError: there is no such schedule.
    """
    if schedule not in get_args(Schedule):
        raise ValueError(f"no schedule is called {schedule!r}; known: {', '.join(get_args(Schedule))}")
    if schedule == "constant":
        return 1.0
    warm = max(1, round(warmup * steps))
    return (step + 1) / warm if step < warm else max(0.0, (steps - step) / max(1, steps - warm))
