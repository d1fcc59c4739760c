"""In which order the jobs of a plan are begun, and what becomes of their results.

A job begins when all that it needs is made. Only this writes records: a worker that is lost loses nothing but its time.
A cell that another run on the same results folder works on is left to it; its record is used, or the cell is done later.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from bench.errors import InputError
from bench.plan.build import Plan
from bench.plan.jobs import Job, StudentJob
from bench.record.cell import TEACHER, record_key, train_key
from bench.record.cell_locks import CellLocks
from bench.record.schema import Failure, Record
from bench.record.store import Store
from bench.run.failure_records import failure_of
from bench.run.interrupts import end_if_interrupted, interrupts_deferred
from bench.run.outcome import FailedCell, JobResult, Outcome
from bench.run.recording import empty, failed, now

if TYPE_CHECKING:
    import numpy as np

    from bench.run.executors import Executor

POLL_SECONDS = 0.5
"""How often what the workers say is looked at."""
MAX_WORKER_DEATHS = 2
"""After so many deaths of its worker a job of several students is divided, and each student is tried once more; another job is
given up."""
MAX_FAILED_STARTS = 2
"""After so many workers that ended before they began a job, the run ends with a message: none can start here."""


@dataclass(frozen=True)
class JobInFlight:
    """A job that is under way."""

    job: Job
    graph_key: str
    """the job's own key; of a part of a job the key of the whole"""
    started: str


class JobSchedule:
    """Passes the jobs of a plan to an executor, and takes their results."""

    def __init__(
        self, plan: Plan, jobs: Sequence[Job], executor: Executor, store: Store, locks: CellLocks, outcome: Outcome
    ) -> None:
        """
        Args:
            locks: of this run on the cells of ``store``; whoever made them gives them back, after the workers have ended.
        """
        self.plan, self.executor, self.store, self.locks, self.outcome = plan, executor, store, locks, outcome
        self._jobs = {job.key: job for job in jobs}
        self._order = {job.key: number for number, job in enumerate(jobs)}
        self._cells = {planned.key: planned for planned in plan.cells}
        self._tasks = {of_task.task.name: of_task.task for of_task in plan.tasks}
        self._graph = TopologicalSorter({job.key: job.needs for job in jobs})
        self._ready: list[tuple[Job, str]] = []
        self._parts_left: dict[str, int] = {}
        """key in the graph -> how many of its parts are not done"""
        self._running: dict[Future[JobResult], JobInFlight] = {}
        self._lost: dict[str, Failure] = {}
        """what could not be made: key -> why"""
        self._kills: dict[str, int] = {}
        self._ended_at_start = 0
        self._held_by_other_runs: list[tuple[Job, str]] = []
        """jobs of one student each that another run works on, with their keys in the graph"""
        self._tasks_named: set[str] = set()
        self._waits_named: set[str] = set()
        self._trained: set[str] = set()
        if locks.warning:
            executor.say(f"note: {locks.warning}")

    def carry_out(self) -> None:
        """Do all of them.

        Raises:
            KeyboardInterrupt: somebody stopped the run; cells under way have the record of an interrupted one.
            InputError: a worker read other data or other code than this process, or none can start here, or the cluster
                refuses a job.
        """
        self._graph.prepare()
        try:
            while self._graph.is_active():
                end_if_interrupted()
                for key in self._graph.get_ready():
                    self._ready.append((self._jobs[key], key))
                    self._parts_left[key] = 1
                self._ready.sort(key=lambda one: self._order[one[1]])
                while (
                    self._ready and self.executor.has_free_worker and not any(future.done() for future in self._running)
                ):
                    self._begin(*self._ready.pop(0))  # an answer that is there is written first
                if self._held_by_other_runs and not self._ready and self.executor.has_free_worker:
                    self._ask_again()
                self._poll()
        except BaseException:
            self._stop()
            raise

    def _begin(self, job: Job, graph_key: str) -> None:
        """Hand a job to the executor: the students that are this run's, and of whom all could be made that they need."""
        broken = next((self._lost[key] for key in job.made_from if key in self._lost), None)
        if broken is not None:
            self._lost[job.key] = broken
            self._end(graph_key)
            return
        kept = []
        for student in self._claimed(job, graph_key):
            broken = next((self._lost[key] for key in student.needs if key in self._lost), None)
            if broken is None:
                kept.append(student)
            else:
                self._fail([student], broken, now())
                self.locks.release(self._lock_key(student))
        if job.students and not kept:
            self._end(graph_key)
            return
        if len(kept) < len(job.students):
            self._kills[job.of(kept).key] = self._kills.get(job.key, 0)
            job = job.of(kept)
        self._say_task(job)
        self._submit(replace(job, from_scratch=self.plan.request.rerun and not self._kills.get(job.key)), graph_key)

    def _submit(self, job: Job, graph_key: str) -> None:
        running, placeholder = JobInFlight(job, graph_key, now()), Future[JobResult]()
        self._running[placeholder] = running  # before it is handed over: in this process it is done at once
        future = self.executor.submit(job)
        del self._running[placeholder]
        self._running[future] = running

    def _claimed(self, job: Job, graph_key: str) -> list[StudentJob]:
        """The students that are this run's to train: not those of another run, nor those that one has trained meanwhile."""
        mine = []
        for student in job.students:
            if not self.locks.take(self._lock_key(student)):
                self._held_by_other_runs.append((job.of([student]), graph_key))
                self._parts_left[graph_key] += 1
            elif self._was_done_meanwhile(student):
                self.locks.release(self._lock_key(student))
            else:
                mine.append(student)
        return mine

    def _lock_key(self, student: StudentJob) -> str:
        """One for a training, also where it makes the records of several tasks."""
        return train_key(self._cells[student.cells[0]].cell)

    def _was_done_meanwhile(self, student: StudentJob) -> bool:
        """Whether another run has written its records since this one was planned."""
        request = self.plan.request
        ended = {"ok"} if request.retry_failed else {"ok", "failed"}
        planned = [self._cells[key] for key in student.cells if self._cells[key].is_todo]
        found = [self.store.find(one.cell) for one in planned]
        is_done = not request.rerun and all(
            record is not None and record.status in ended and record != one.record
            for record, one in zip(found, planned, strict=True)
        )
        for record in found if is_done else ():
            if record is not None and record.status == "failed":
                self._note_failure(record)
        return is_done

    def _ask_again(self) -> None:
        """Begin what another run worked on and has left; say what is waited for where there is nothing else to do."""
        still = []
        for job, graph_key in self._held_by_other_runs:
            holder = self.locks.holder(self._lock_key(job.students[0]))
            if not holder:
                self._ready.append((job, graph_key))
                continue
            still.append((job, graph_key))
            if not self._running and job.key not in self._waits_named:
                self._waits_named.add(job.key)
                label = self._cells[job.students[0].cells[0]].cell.label
                self.executor.say(f"  waits for {label} ({job.title.split(':')[0]}): {holder} works on it")
        self._held_by_other_runs = still

    def _say_task(self, job: Job) -> None:
        """Name a task before its first job."""
        names = [task.task.name for task in self.plan.tasks]
        if job.task and job.task not in self._tasks_named:
            self._tasks_named.add(job.task)
            todo = [p for p in self.plan.cells_of(job.task) if p.is_todo and not p.cell.together]
            self.executor.say(f"{job.task} ({names.index(job.task) + 1} of {len(names)} tasks), {len(todo)} cells")

    def _poll(self) -> None:
        """Wait a little for answers, show what the workers say, and take what is there."""
        done = wait(self._running, POLL_SECONDS, FIRST_COMPLETED).done if self._running else set()
        if self._held_by_other_runs and not self._running and not self._ready:
            time.sleep(POLL_SECONDS)
        self.executor.show()
        wrong = self._take_all(done)
        if wrong is not None:
            raise wrong

    def _take_all(self, done: Iterable[Future[JobResult]]) -> BaseException | None:
        """Take the answers that are there; returns an error that ends the run, once all answers are written."""
        wrong = None
        for future in sorted(done, key=lambda one: self._order[self._running[one].graph_key]):
            running, error = self._running[future], future.exception()
            if error is None:
                self._take(running, future.result())
                del self._running[future]
            elif isinstance(error, BrokenExecutor):
                del self._running[future]
                self._killed(running, self.executor.worker_had_started(future))
            else:
                wrong = error
            self.executor.release(future)
        return wrong

    def _take(self, running: JobInFlight, result: JobResult) -> None:
        """Write what a job gave. What is written is taken out of the answer: if this is broken off it can be called again."""
        if result.error is not None:
            self._lost[running.job.key] = result.error
        while result.records:
            with interrupts_deferred():  # between the two, Ctrl-C would write the record a second time
                record, arrays = result.records[0]
                self._write(_with_cost(record, result, self.executor.jobs), arrays)
                del result.records[0]
        self.outcome.failures += result.not_saved
        result.not_saved = []
        for file in result.states:
            with contextlib.suppress(
                OSError
            ):  # a cache that cannot be written must not end a run; the file is forgotten later
                file.unlink(missing_ok=True)
        for student in running.job.students:
            self.locks.release(self._lock_key(student))
        self._end(running.graph_key)

    def _killed(self, running: JobInFlight, worker_had_started: bool) -> None:
        """Try a job again whose worker is gone; its students one by one where that happens again.

        Raises:
            InputError: workers end before they begin.
        """
        job, students = running.job, running.job.students
        if not worker_had_started:
            self._ended_at_start += 1
            if self._ended_at_start >= MAX_FAILED_STARTS:
                raise InputError(self.executor.cannot_start)
            self._ready.insert(0, (job, running.graph_key))
            return
        self._kills[job.key] = kills = self._kills.get(job.key, 0) + 1
        self.executor.say(
            f"  {job.title}: the process that did this is gone" + ("" if kills < MAX_WORKER_DEATHS else " again")
        )
        if kills < MAX_WORKER_DEATHS:
            self._ready.insert(0, (job, running.graph_key))
        elif len(students) > 1:
            parts = [job.of([student]) for student in students]
            self._kills |= {part.key: MAX_WORKER_DEATHS - 1 for part in parts}
            self._parts_left[running.graph_key] += len(parts) - 1
            self._ready = [*((part, running.graph_key) for part in parts), *self._ready]
        else:
            self._give_up(running)

    def _give_up(self, running: JobInFlight) -> None:
        failure = Failure(
            type="ProcessEnded",
            message="the process that did this was ended several times; where memory is short, fewer --jobs need less",
            traceback="",
        )
        if running.job.students:
            self._fail(running.job.students, failure, running.started)
            self.locks.release(self._lock_key(running.job.students[0]))
        else:
            self._lost[running.job.key] = failure
        self._end(running.graph_key)

    def _fail(self, students: Sequence[StudentJob], why: Failure, started: str) -> None:
        for cell in (self._cells[key].cell for student in students for key in student.cells):
            self._write(failed(cell, started, why, self._tasks[cell.tasks[0]]), {})

    def _write(self, record: Record, arrays: dict[str, np.ndarray]) -> None:
        try:
            self.store.write(record, arrays)
        except ValueError as error:  # a number in it is none: no reader would take it
            task = self._tasks[record.cell.tasks[0]]
            record = failed(record.cell, record.started, failure_of(error, record.cell.method), task)
            self.store.write(record)
        if record.status != "ok":
            self._note_failure(record)
            return
        self._trained.add(
            record_key(record.cell)
        )  # once a cell: some have a record for each of several operating points
        self.outcome.trained = len(self._trained)

    def _note_failure(self, record: Record) -> None:
        message = record.error.message if record.error else record.status
        cell = record.cell
        self.outcome.failures.append(FailedCell(cell.tasks[0], cell.label, cell.seed, message, record.key))

    def _end(self, graph_key: str) -> None:
        self._parts_left[graph_key] -= 1
        if not self._parts_left[graph_key]:
            self._graph.done(graph_key)

    def _stop(self) -> None:
        """Ask the workers to keep their states; write what they have finished, and which cells were under way."""
        self.executor.stop(list(self._running))
        for future, running in list(self._running.items()):
            if future.done() and future.exception() is None:
                self._take(running, future.result())
                continue
            for key in running.job.cells:
                planned = self._cells[key]
                if planned.record is None or planned.record.status != "ok":  # a broken-off rerun leaves what was there
                    task = self._tasks[planned.cell.tasks[0]]
                    self.store.write(empty(planned.cell, "interrupted", running.started, task))


def _with_cost(record: Record, result: JobResult, jobs: int) -> Record:
    """The record with the processor's time of its training, and how many jobs there were at a time."""
    record = record.model_copy(update={"env": record.env | {"jobs": jobs}})
    if record.train is None or record.cell.method == TEACHER or record.train_key not in result.cpu_seconds:
        return record
    own = round(result.cpu_seconds[record.train_key], 3)
    return record.model_copy(update={"train": record.train.model_copy(update={"cpu_seconds": own})})
