"""In which order the jobs of a plan are begun, and what becomes of their answers.

A job begins when all that it needs is made. Only this writes records: a worker that is lost loses nothing but its time.
A cell that another run on the same results folder works on is left to it; its record is used, or the cell is done later.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from bench import ending
from bench.measure.records import empty, failed, now
from bench.plan.build import Plan
from bench.plan.cell import record_key, train_key
from bench.plan.jobs import Job, Student
from bench.progress import Progress
from bench.record.claims import Claims
from bench.record.schema import Failure, Record
from bench.record.store import Store
from bench.run.outcome import Answer, Outcome

if TYPE_CHECKING:
    import numpy as np

    from bench.run.executors import Executor

LOOK_SECONDS = 0.5
"""How often what the workers say is looked at."""
KILLS = 2
"""How often a job may end its worker before its students are tried one by one, and a single one is given up."""


@dataclass(frozen=True)
class Under:
    """A job that is under way."""

    job: Job
    node: str
    """key of the job in the graph: of the whole, where the job is a part of it"""
    started: str


class Schedule:
    """The jobs of a plan on their way through an executor."""

    def __init__(
        self,
        plan: Plan,
        jobs: Sequence[Job],
        executor: Executor,
        store: Store,
        progress: Progress,
        outcome: Outcome,
    ) -> None:
        self.plan, self.executor, self.store, self.progress, self.outcome = plan, executor, store, progress, outcome
        self._jobs = {job.key: job for job in jobs}
        self._place = {job.key: number for number, job in enumerate(jobs)}
        self._cells = {record_key(planned.cell): planned for planned in plan.cells}
        self._graph = TopologicalSorter({job.key: job.needs for job in jobs})
        self._ready: list[tuple[Job, str]] = []
        self._open: dict[str, int] = {}
        """node -> how many of its parts are not done"""
        self._under: dict[Future[Answer], Under] = {}
        self._lost: dict[str, Failure] = {}
        """what could not be made: key -> why"""
        self._kills: dict[str, int] = {}
        self._claims = Claims(store.root)
        self._elsewhere: list[tuple[Job, str]] = []
        """jobs of one student each that another run works on, with their nodes"""
        if self._claims.warning:
            progress.say(f"note: {self._claims.warning}")
        self._named: set[str] = set()
        self._trained: set[str] = set()

    def carry_out(self) -> None:
        """Do all of them.

        Raises:
            KeyboardInterrupt: somebody stopped the run; cells under way have the record of an interrupted one.
            InputError: a worker read other data or other code than this process.
        """
        self._graph.prepare()
        try:
            while self._graph.is_active():
                for key in self._graph.get_ready():
                    self._ready.append((self._jobs[key], key))
                    self._open[key] = 1
                self._ready.sort(key=lambda one: self._place[one[1]])
                while self._ready and self.executor.free and not any(future.done() for future in self._under):
                    self._begin(*self._ready.pop(0))  # an answer that is there is written first
                if self._elsewhere and not self._ready and self.executor.free:
                    self._ask_again()
                self._look()
        except KeyboardInterrupt:
            self._interrupt()
            raise
        finally:
            self._claims.release_all()

    def _begin(self, job: Job, node: str) -> None:
        """Hand a job to the executor, without the students of whom something could not be made."""
        broken = next((self._lost[key] for key in job.made_from if key in self._lost), None)
        if broken is not None:
            self._lost[job.key] = broken
            self._end(node)
            return
        kept = []
        for student in job.students:
            broken = next((self._lost[key] for key in student.needs if key in self._lost), None)
            if broken is None:
                kept.append(student)
            else:
                self._fail([student], broken, now())
        kept = self._claimed(job, node, kept)
        if job.students and not kept:
            self._end(node)
            return
        if len(kept) < len(job.students):
            job = job.of(kept)
        self._say_task(job)
        under = Under(job, node, now())
        future: Future[Answer] = Future()
        self._under[future] = under  # before it is handed over: in this process it is done at once
        real = self.executor.submit(job)
        del self._under[future]
        self._under[real] = under

    def _claimed(self, job: Job, node: str, students: Sequence[Student]) -> list[Student]:
        """The students that are this run's to train: not those of another run, nor those that one has trained meanwhile."""
        mine = []
        for student in students:
            if not self._claims.take(self._claim_of(student)):
                self._elsewhere.append((job.of([student]), node))
                self._open[node] += 1
            elif self._was_done_meanwhile(student):
                self._claims.release(self._claim_of(student))
            else:
                mine.append(student)
        return mine

    def _claim_of(self, student: Student) -> str:
        """One for a training, also where it answers cells of several tasks."""
        return train_key(self._cells[student.cells[0]].cell)

    def _was_done_meanwhile(self, student: Student) -> bool:
        """Whether another run has written its records since this one was planned."""
        if self.plan.request.rerun:
            return False
        planned = [self._cells[key] for key in student.cells if self._cells[key].todo]
        now_there = [self.store.find(one.cell) for one in planned]
        return all(
            found is not None and found.status == "ok" and found != one.record
            for found, one in zip(now_there, planned, strict=True)
        )

    def _ask_again(self) -> None:
        """Begin what another run worked on and has left; say what is waited for where there is nothing else to do."""
        still = []
        for job, node in self._elsewhere:
            holder = self._claims.holder(self._claim_of(job.students[0]))
            if not holder:
                self._ready.append((job, node))
                continue
            still.append((job, node))
            if not self._under and job.key not in self._named:
                self._named.add(job.key)
                label = self._cells[job.students[0].cells[0]].cell.label
                self.progress.say(f"  waits for {label} ({job.title.split(':')[0]}): {holder} works on it")
        self._elsewhere = still

    def _say_task(self, job: Job) -> None:
        """Name a task before its first job."""
        names = [task.task.name for task in self.plan.tasks]
        if job.task and job.task not in self._named:
            self._named.add(job.task)
            todo = [p for p in self.plan.of_task(job.task) if p.todo and not p.cell.together]
            self.progress.say(f"{job.task} ({names.index(job.task) + 1} of {len(names)} tasks), {len(todo)} cells")

    def _look(self) -> None:
        """Wait a little for answers, show what the workers say, and take what is there."""
        done = wait(self._under, LOOK_SECONDS, FIRST_COMPLETED).done if self._under else set()
        if self._elsewhere and not self._under and not self._ready:
            time.sleep(LOOK_SECONDS)
        self.executor.show()
        for future in sorted(done, key=lambda one: self._place[self._under[one].node]):
            under = self._under.pop(future)
            error = future.exception()
            if isinstance(error, BrokenExecutor):
                self._killed(under)
            elif error is not None:
                raise error
            else:
                self._take(under, future.result())

    def _take(self, under: Under, answer: Answer) -> None:
        """Write what a job gave."""
        if answer.error is not None:
            self._lost[under.job.key] = answer.error
        shares = _shares(answer)
        for record, arrays in answer.records:
            self._write(_with_cost(record, shares, answer.cpu_seconds, self.executor.jobs), arrays)
        self.outcome.failures += answer.not_saved
        for file in answer.states:
            file.unlink(missing_ok=True)
        for student in under.job.students:
            self._claims.release(self._claim_of(student))
        self._end(under.node)

    def _killed(self, under: Under) -> None:
        """Try a job again whose worker is gone; its students one by one where that happens twice."""
        job, students = under.job, under.job.students
        self._kills[job.key] = kills = self._kills.get(job.key, 0) + 1
        self.progress.say(f"  {job.title}: the process that did this is gone" + ("" if kills < KILLS else " again"))
        if kills < KILLS:
            self._ready.insert(0, (job, under.node))
        elif len(students) > 1:
            parts = [job.of([student]) for student in students]
            self._kills |= {part.key: KILLS - 1 for part in parts}
            self._open[under.node] += len(parts) - 1
            self._ready = [*((part, under.node) for part in parts), *self._ready]
        else:
            failure = Failure(
                type="ProcessEnded",
                message=f"the process that did this was ended {kills} times; where memory is short, fewer --jobs need less",
                traceback="",
            )
            if students:
                self._fail(students, failure, under.started)
                self._claims.release(self._claim_of(students[0]))
            else:
                self._lost[job.key] = failure
            self._end(under.node)

    def _fail(self, students: Sequence[Student], why: Failure, started: str) -> None:
        for cell in (key for student in students for key in student.cells):
            self._write(failed(self._cells[cell].cell, started, why), {})

    def _write(self, record: Record, arrays: dict[str, np.ndarray]) -> None:
        self.store.write(record, arrays)
        if record.status == "ok":
            self._counted(record)
            return
        message = record.error.message if record.error else record.status
        cell = record.cell
        self.outcome.failures.append(ending.Failure(cell.tasks[0], cell.label, cell.seed, message, record.key))

    def _counted(self, record: Record) -> None:
        """Count each cell once: some have a record for each of several operating points."""
        self._trained.add(record_key(record.cell))
        self.outcome.trained = len(self._trained)

    def _end(self, node: str) -> None:
        self._open[node] -= 1
        if not self._open[node]:
            self._graph.done(node)

    def _interrupt(self) -> None:
        """Ask the workers to keep their states; write what they still finish, and which cells were under way."""
        left = self.executor.stop(list(self._under))
        for future, under in list(self._under.items()):
            if future not in left and future.done() and future.exception() is None:
                self._take(under, future.result())
                continue
            for key in under.job.cells:
                planned = self._cells[key]
                if planned.record is None or planned.record.status != "ok":  # a broken-off rerun leaves what was there
                    self.store.write(empty(planned.cell, "interrupted", under.started))


def _shares(answer: Answer) -> dict[str, float]:
    """Of the students of a job, by training, the part of the time that each took."""
    seconds = {
        record.train_key: record.train.seconds_own + record.train.teacher_seconds_shared
        for record, _ in answer.records
        if record.train is not None
    }
    whole = sum(seconds.values())
    return {key: own / whole if whole else 1 / len(seconds) for key, own in seconds.items()}


def _with_cost(record: Record, shares: dict[str, float], cpu_seconds: float, jobs: int) -> Record:
    """The record with the processor's time of its training, and how many jobs there were at a time."""
    update: dict[str, object] = {"env": record.env | {"jobs": jobs}}
    if record.train is not None and record.cell.method != "teacher":
        own = round(cpu_seconds * shares[record.train_key], 3)
        update["train"] = record.train.model_copy(update={"cpu_seconds": own})
    return record.model_copy(update=update)
