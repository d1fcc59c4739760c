"""Where the time of our step goes: forward, backward, optimiser, and the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from our_loop import Ours
from turns import Turns
from work import Work

import bench.train.loop
import bench.train.student_trainer
from bench.train.student_trainer import StudentTrainer

TEACHER, STUDENT, BACKWARD, OPTIMISER = "teacher", "student and losses", "backward", "optimiser"
SHARES, CLIPPING = "gradient shares", "clipping"
USEFUL = (TEACHER, STUDENT, BACKWARD, OPTIMISER)
PLACES: tuple[tuple[Any, str, str], ...] = (
    (bench.train.loop, "forward", TEACHER),
    (bench.train.student_trainer, "forward", STUDENT),
    (StudentTrainer, "_weighted_terms", STUDENT),
    (torch.Tensor, "backward", BACKWARD),
    (torch.optim.AdamW, "step", OPTIMISER),
    (StudentTrainer, "_check_gradients", SHARES),
    (torch.nn.utils, "clip_grad_norm_", CLIPPING),
)
"""Where a function is found, its name, and the part that its time belongs to. A name that is gone stops everything."""


@contextmanager
def watched(seconds: dict[str, float]) -> Iterator[None]:
    """Add the seconds of each part to ``seconds`` while this is open."""
    with ExitStack() as stack:
        for owner, name, part in PLACES:
            stack.enter_context(patch.object(owner, name, _timed(getattr(owner, name), part, seconds)))
        yield


def _timed(function: Callable[..., Any], part: str, seconds: dict[str, float]) -> Callable[..., Any]:
    def timed(*given: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        try:
            return function(*given, **named)
        finally:
            seconds[part] = seconds.get(part, 0.0) + time.perf_counter() - begun

    return timed


def steps_by_part(
    work: Work, steps: int, done: Callable[[int, int], None] = lambda number, total: None
) -> list[dict[str, float]]:
    """Seconds of each part of some of our steps, and of the whole of each."""
    found: list[dict[str, float]] = []
    seconds: dict[str, float] = {}
    turns = Turns("inside", lambda pause: Ours().train(work, pause))
    try:
        with watched(seconds):
            turns.step()  # the first one also sets up
            for number in range(steps):
                seconds.clear()
                whole = turns.step()
                found.append({**seconds, "whole": whole})
                done(number + 1, steps)
    finally:
        turns.close()
    return found


def outside(step: dict[str, float]) -> float:
    """The part of a step that is no forward pass, backward pass or optimiser."""
    return 1 - sum(step.get(part, 0.0) for part in USEFUL) / step["whole"]
