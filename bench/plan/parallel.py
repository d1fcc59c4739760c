"""How a plan's work is best divided among jobs that run at the same time, by their estimated durations.

Students that train together share the passes of their teacher, and are done by one process. Where processes would have
nothing to do, smaller groups end sooner, although the teacher answers again for each of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from bench.errors import InputError
from bench.measure.capacity import usable_cores, usable_memory_bytes
from bench.plan.estimate import job_work, own_flops, rate_of_students, shared_flops
from bench.plan.executor_options import SLURM, SLURM_JOBS, is_elsewhere
from bench.plan.jobs import ARTEFACT_JOB, MAX_GROUP_SIZE, STUDENTS_JOB, Job, jobs_of
from bench.plan.spelling import MethodRow
from bench.plan.stage_keys import shared_starts
from bench.progress import duration

if TYPE_CHECKING:
    from bench.plan.build import Plan

SIZES = (MAX_GROUP_SIZE, MAX_GROUP_SIZE // 2, MAX_GROUP_SIZE // 4, 1)
"""How many students may train together."""
SHORT_SECONDS = 60.0
"""A plan that one job does in less time is done in this process: further processes need some seconds to start."""
SPLIT_BELOW = 0.98
"""Smaller groups are taken where they end in less than this part of the time. Chosen by hand: gains of one or two percent are
below the error of the estimate, and each further group needs the teacher's passes again."""


def choose_parallelism(plan: Plan) -> None:
    """Choose how many jobs there are at a time, where that is left open, and how many students train together, so that all
    work ends as early as possible; note it in the plan.

    Raises:
        InputError: more jobs than accelerators.
    """
    request, durations, most = plan.request, JobDurations(plan), _max_parallel_jobs(plan)
    elsewhere = is_elsewhere(request)
    if plan.tasks[0].numeric.device != "cpu" and request.jobs > most and not elsewhere:
        raise InputError(
            f"--jobs {request.jobs}: one job an accelerator, and --device {request.device} has {most} here"
        )
    divided = {size: jobs_of(plan, size) for size in SIZES}
    at_once = min(request.jobs or most, len(divided[1]))
    short = not elsewhere and sum(map(durations.of, divided[MAX_GROUP_SIZE])) < SHORT_SECONDS
    plan.request = replace(request, jobs=1)
    if at_once <= 1 or (short and not request.jobs):
        return
    free = None if elsewhere else usable_memory_bytes()
    while at_once > 1:
        took = {
            size: makespan(jobs, {job.key: durations.of(job) for job in jobs}, at_once)
            for size, jobs in divided.items()
        }
        group_size = _largest_of_the_quick(took)
        needed = _memory(plan, divided[group_size], at_once)
        if request.jobs or free is None or needed <= free:
            plan.request = replace(request, jobs=at_once)
            plan.max_group_size, plan.seconds = group_size, took[group_size]
            plan.jobs_description = _said(at_once, needed, free, group_size, took)
            return
        at_once -= 1
    plan.jobs_description = (
        f"1 at a time: two would need {needed / 1e9:.1f} GB of memory, and {(free or 0) / 1e9:.1f} GB are free"
    )


def _said(at_once: int, needed: int, free: int | None, group_size: int, took: Mapping[int, float]) -> str:
    """For a reader of the plan: jobs, memory, and why students are divided."""
    said = f"{at_once} at a time, {needed / 1e9:.1f} GB of memory"
    if free is not None and needed > free:
        said += f", of which {free / 1e9:.1f} GB are free: fewer --jobs need less"
    if group_size == MAX_GROUP_SIZE:
        return said
    size = "one student a job" if group_size == 1 else f"at most {group_size} students together"
    return (
        f"{said}; {size}: about {duration(took[group_size])} in all; groups of up to {MAX_GROUP_SIZE}, which share their teacher's "
        f"passes, would take {duration(took[MAX_GROUP_SIZE])}"
    )


def _largest_of_the_quick(took: Mapping[int, float]) -> int:
    """The size of groups that ends soonest; of sizes that are about as quick the largest, whose students share most."""
    chosen = MAX_GROUP_SIZE
    for size in SIZES:
        if took[size] < SPLIT_BELOW * took[chosen]:
            chosen = size
    return chosen


def _max_parallel_jobs(plan: Plan) -> int:
    """How many jobs can be done at a time: one an accelerator, or as many as the cores have room for threads."""
    request, on_cpu = plan.request, plan.tasks[0].numeric.device == "cpu"
    if is_elsewhere(request):
        if request.jobs or request.executor == SLURM:
            return request.jobs or SLURM_JOBS
        from bench.measure.ray_cluster import places

        return places(request.address, request.threads, not on_cpu)
    if on_cpu:
        return max(1, usable_cores() // request.threads)
    import torch

    return 1 if ":" in request.device else torch.accelerator.device_count()


def _memory(plan: Plan, jobs: Sequence[Job], at_once: int) -> int:
    """Bytes of this process and of so many others that do the largest of these jobs at the same time."""
    from bench.plan.memory import BASE_BYTES

    memory = JobMemory(plan)
    return BASE_BYTES + sum(sorted(map(memory.of, jobs), reverse=True)[:at_once])


class JobMemory:
    """The estimated bytes of the process that does a job, at its peak."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._cells = {planned.key: planned for planned in plan.cells}
        self._tasks = {task.task.name: task for task in plan.tasks}

    def of(self, job: Job) -> int:
        from bench.plan.memory import artefact_bytes, group_bytes, teacher_bytes

        if job.kind == ARTEFACT_JOB:
            return artefact_bytes(self.plan, self.plan.artefacts.kept[job.key])
        trained = [self._cells[key] for key in job.cells if isinstance(self._cells[key].row, MethodRow)]
        task = self._tasks[job.task] if job.task else self.plan.tasks[0]
        return group_bytes(self.plan, task, trained) if trained else teacher_bytes(task)


class JobDurations:
    """The estimated seconds of jobs."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._tasks = {task.task.name: task for task in plan.tasks}
        self._cells = {planned.key: planned for planned in plan.cells}
        self._known: dict[str, float] = {}
        """key of a job -> its seconds: divisions into larger and smaller groups have most jobs in common"""

    def of(self, job: Job) -> float:
        if job.key not in self._known:
            self._known[job.key] = self._of_cells(job) if job.students else job_work(self.plan, job).seconds
        return self._known[job.key]

    def _of_cells(self, job: Job) -> float:
        cells = [self._cells[key] for key in job.cells]
        tasks = [self._tasks[name] for name in dict.fromkeys(name for planned in cells for name in planned.cell.tasks)]
        starts = shared_starts(cells, tasks[0]) if job.kind == STUDENTS_JOB and job.task else {}
        waits = {key: start.share for key, start in starts.items()}
        flops = sum(
            own_flops(planned, self._tasks[planned.cell.tasks[0]], waits.get(planned.key, 0.0)) for planned in cells
        )
        return (flops + sum(shared_flops(task, cells) for task in tasks)) / rate_of_students(self.plan.request)


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
