"""How a plan's work is best divided among jobs that run at the same time, by their estimated lengths. No torch.

Students that train together share the passes of their teacher, and are done by one process. Where processes would have
nothing to do, smaller groups end sooner, although the teacher answers again for each of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from bench.plan.cell import record_key
from bench.plan.jobs import AUGMENTATION, COMPUTED, START, TEACHER, TOGETHER, Job, jobs_of
from bench.progress import duration

if TYPE_CHECKING:
    from bench.plan.build import Plan

WORTH = 0.98
"""Smaller groups are taken where they end in less than this part of the time."""


def arrange(plan: Plan) -> None:
    """Choose how many students train together, so that so many jobs at a time end soonest; note how long they take."""
    lengths = Lengths(plan)
    chosen, whole = TOGETHER, 0.0
    seconds = 0.0
    for most in (TOGETHER, TOGETHER // 2, TOGETHER // 4, 1):
        jobs = jobs_of(plan, most)
        took = makespan(jobs, {job.key: lengths.of(job) for job in jobs}, plan.request.jobs)
        if most == TOGETHER:
            whole = seconds = took
        elif took < WORTH * seconds:
            chosen, seconds = most, took
    plan.most, plan.seconds = chosen, seconds
    plan.said_of_jobs = f"{plan.request.jobs} at a time"
    if chosen < TOGETHER:
        together = "each student alone" if chosen == 1 else f"at most {chosen} students together"
        plan.said_of_jobs += (
            f"; {together}: about {duration(seconds)}, where groups of up to {TOGETHER}, which share their teacher's passes, "
            f"would take {duration(whole)}"
        )


class Lengths:
    """The estimated seconds of jobs."""

    def __init__(self, plan: Plan) -> None:
        from bench.plan.estimate import Students, rate_of

        self.plan = plan
        self._rate, self._students = rate_of(plan.request), Students()
        self._tasks = {task.task.name: task for task in plan.tasks}
        self._cells = {record_key(planned.cell): planned for planned in plan.cells}

    def of(self, job: Job) -> float:
        from bench.plan.estimate import augmentation_flops, computed_flops, of_start, teacher_flops

        if job.kind == START:
            return sum(part.seconds for part in of_start(self.plan, self.plan.starts[job.key], self._rate))
        made = {TEACHER: teacher_flops, AUGMENTATION: augmentation_flops, COMPUTED: computed_flops}
        if job.kind in made:
            return made[job.kind](self._tasks[job.task]) / self._rate
        return self._of_cells(job)

    def _of_cells(self, job: Job) -> float:
        from bench.plan.estimate import own_flops, shared_flops

        cells = [self._cells[key] for key in job.cells]
        tasks = [self._tasks[name] for name in dict.fromkeys(name for planned in cells for name in planned.cell.tasks)]
        flops = sum(own_flops(planned, self._tasks[planned.cell.tasks[0]], self._students) for planned in cells)
        if any(planned.row and planned.row.method.needs_teacher for planned in cells):
            flops += sum(shared_flops(task) for task in tasks)
        return flops / self._rate


def makespan(jobs: Sequence[Job], seconds: Mapping[str, float], at_once: int) -> float:
    """When the last of the jobs ends, if each begins as soon as what it needs is there and one of ``at_once`` is free."""
    place = {job.key: number for number, job in enumerate(jobs)}
    graph = TopologicalSorter({job.key: job.needs for job in jobs})
    graph.prepare()
    ready: list[int] = []
    under: list[tuple[float, int]] = []
    now = 0.0
    while graph.is_active():
        for key in graph.get_ready():
            heapq.heappush(ready, place[key])
        while ready and len(under) < at_once:
            number = heapq.heappop(ready)
            heapq.heappush(under, (now + seconds[jobs[number].key], number))
        now, number = heapq.heappop(under)
        graph.done(jobs[number].key)
    return now
