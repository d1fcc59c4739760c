"""How long a run will still take: the plan's seconds, scaled by what its own steps took so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bench.plan.plan import ARTEFACT_STEP, Plan, Step, wall_seconds
from bench.progress import duration

BELIEVED = 0.02
"""Part of its planned time that a step runs before its own pace says more than the plan."""
STEPS_OF_A_TRAINING = 20
"""A training on text begins with a stretch of fewer steps, which reads: its pace says little."""


@dataclass(frozen=True)
class Taken:
    """The seconds that a step, or the part of it that is done, was planned to take and took."""

    kind: str
    planned: float
    seconds: float


@dataclass(frozen=True)
class UnderWay:
    """A step that is being made.

    Attributes:
        planned: seconds that it was planned to take.
        begun: when its worker began it; None while it waits for one.
    """

    step: Step
    planned: float
    begun: float | None = None


class TimeLeft:
    """Counts the steps of a plan as they are made, and says how long the others will take."""

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.monotonic) -> None:
        self._jobs = plan.request.jobs
        self._slowed = plan.slowed
        self._clock = clock
        self._waiting = {step.key: step for step in plan.todo_steps}
        self._planned = {key: cost.seconds for key, cost in plan.costs.items()}
        self._groups = [step for step in plan.todo_steps if step.students]
        """steps whose students may be made in several parts"""
        self._under_way: dict[str, UnderWay] = {}
        self._done: list[Taken] = []
        self._cells = len(plan.todo)
        self._cells_done = 0

    def leave(self, step: Step) -> None:
        """A step waits no longer: it is begun, or nobody has to make it."""
        self._waiting.pop(step.key, None)

    def begin(self, job: str, step: Step) -> None:
        """A step is handed over.

        Args:
            job: its name in what :meth:`left` reads.
        """
        self._under_way[job] = UnderWay(step, self._planned_of(step))

    def start(self, job: str) -> None:
        """A worker makes the step of a job."""
        waiting = self._under_way.get(job)
        if waiting is not None and waiting.begun is None:
            self._under_way[job] = replace(waiting, begun=self._clock())

    def end(self, job: str) -> None:
        """A step is made, or failed."""
        ended = self._under_way.pop(job, None)
        if ended is None:
            return
        self._done.append(Taken(ended.step.kind, ended.planned, self._taken(ended)))
        self._cells_done += sum(planned.is_todo for planned in ended.step.cells)

    def left(self, jobs: Mapping[str, Mapping[str, Any]]) -> tuple[float, bool]:
        """Seconds until all is made, and whether they are measured; else they are the plan's.

        Args:
            jobs: what each step under way says of itself: ``total`` steps of what it does now, and
                ``left``, seconds until that is done, or None.
        """
        known = list(self._done)
        remaining: dict[str, float] = {}

        # the steps under way whose own pace says how long they will take
        for job, each in self._under_way.items():
            left = _believed(each, self._taken(each), jobs.get(job, {}))
            if left is not None:
                taken = self._taken(each)
                done = taken / max(taken + left, 1e-9)
                remaining[each.step.key] = left
                known.append(Taken(each.step.kind, done * each.planned, taken))

        # the others, and what waits: by the plan, times what the known ones took longer
        for each in self._under_way.values():
            expected = each.planned * _factor(known, each.step.kind)
            remaining.setdefault(each.step.key, max(0.0, expected - self._taken(each)))
        for key, step in self._waiting.items():
            remaining[key] = self._planned.get(key, 0.0) * _factor(known, step.kind)

        steps = [each.step for each in self._under_way.values()]
        steps += self._waiting.values()
        # what was measured has the jobs beside it in it
        slowed = {} if known else self._slowed
        return wall_seconds(steps, remaining, self._jobs, slowed), bool(known)

    def _taken(self, each: UnderWay) -> float:
        """Seconds since a worker began a step."""
        return 0.0 if each.begun is None else self._clock() - each.begun

    def share(self, left: float) -> float:
        """The part of the run's time that is over."""
        taken = sum(each.seconds for each in self._done)
        taken += sum(map(self._taken, self._under_way.values()))
        taken /= max(1, self._jobs)
        return taken / (taken + left) if taken > 0 else 0.0

    def in_words(self, jobs: Mapping[str, Mapping[str, Any]]) -> str:
        """``2 of 9 cells, about 4 min 10 s left``."""
        seconds, is_measured = self.left(jobs)
        end = "left" if is_measured else "by the plan"
        return f"{self._cells_done} of {self._cells} cells, about {duration(seconds)} {end}"

    def _planned_of(self, step: Step) -> float:
        """Seconds that the plan has for a step, or for some students of one."""
        if step.key in self._planned:
            return self._planned[step.key]
        for whole in self._groups:
            if step.students and step.cells[0] in whole.cells:
                share = len(step.students) / len(whole.students)
                return self._planned.get(whole.key, 0.0) * share
        return 0.0


def _believed(each: UnderWay, taken: float, said: Mapping[str, Any]) -> float | None:
    """Seconds until a step is done by its own pace; None where the plan says more."""
    if taken < BELIEVED * each.planned:
        return None
    is_reading = (said.get("total") or 0) < STEPS_OF_A_TRAINING
    if each.step.kind == ARTEFACT_STEP and is_reading:
        return None
    left: float | None = said.get("left")
    return left


def _factor(known: list[Taken], kind: str) -> float:
    """How many times longer steps take than planned: those of this kind, or all if there is
    none."""
    alike = [each for each in known if each.kind == kind] or known
    planned = sum(each.planned for each in alike)
    return sum(each.seconds for each in alike) / planned if planned > 0 else 1.0
