"""In which order the steps of a plan are begun, and what becomes of their results.

A step begins when all that it needs is made. Only this writes records: a worker that is lost loses nothing but its time.
A cell that another run on the same results folder works on is left to it; its record is used, or the cell is made later.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.errors import CELLS_FAILED, OK, InputError
from bench.interrupts import end_if_interrupted, interrupts_deferred
from bench.make.failure import failure_of
from bench.make.record import empty, failed, now
from bench.make.work import FailedCell, StepResult
from bench.plan.plan import Plan, Step, StudentSpec
from bench.record.cell import TEACHER, record_key, train_key
from bench.record.cell_locks import CellLocks
from bench.record.schema import Failure, Record
from bench.record.store import Store
from bench.run.executors import Executor
from bench.stats.metrics import label_of

if TYPE_CHECKING:
    import numpy as np

POLL_SECONDS = 0.5
"""How often what the workers say is looked at."""
MAX_WORKER_DEATHS = 2
"""After so many deaths of its worker a step of several students is divided, and each student is tried once more; another step is
given up."""
MAX_FAILED_STARTS = 2
"""After so many workers that ended before they began a step, the run ends with a message: none can start here."""


@dataclass
class Outcome:
    """What a run did. ``exit_code`` is 0, or 6 if some cells failed or some students could not be saved."""

    plan: Plan
    trained: int = 0
    failures: list[FailedCell] = field(default_factory=list)
    reports: list[Path] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    """for a terminal: the main table of each report, and what to type next"""

    @property
    def exit_code(self) -> int:
        return CELLS_FAILED if self.failures else OK


class Running(NamedTuple):
    """A step that is under way."""

    step: Step
    graph_key: str
    """the step's own key; of a part of a step the key of the whole"""
    started: str


class Schedule:
    """Passes the steps of a plan to an executor, and takes their results."""

    def __init__(self, plan: Plan, executor: Executor, store: Store, locks: CellLocks, outcome: Outcome) -> None:
        """
        Args:
            locks: of this run on the cells of ``store``; whoever made them gives them back, after the workers have ended.
        """
        self.plan, self.executor, self.store, self.locks, self.outcome = plan, executor, store, locks, outcome
        self._steps = {step.key: step for step in plan.todo_steps}
        self._order = {key: number for number, key in enumerate(self._steps)}
        self._tasks = {task.name: task.task for task in plan.tasks}
        needs = {key: [need for need in step.needs if need in self._steps] for key, step in self._steps.items()}
        self._graph = TopologicalSorter(needs)
        self._ready: list[tuple[Step, str]] = []
        """steps that can begin, each with its key in the graph"""
        self._parts_left: dict[str, int] = {}
        """key in the graph -> how many of its parts are not done"""
        self._running: dict[Future[StepResult], Running] = {}
        self._lost: dict[str, Failure] = {}
        """what could not be made: key -> why"""
        self._deaths: dict[str, int] = {}
        self._failed_starts = 0
        self._held_by_other_runs: list[tuple[Step, str]] = []
        """steps of one student each that another run works on"""
        self._named: set[str] = set()
        """tasks that were named, and steps that were waited for"""
        self._trained: set[str] = set()
        if locks.warning:
            executor.say(f"note: {locks.warning}")

    def carry_out(self) -> None:
        """Have all of them made.

        Raises:
            KeyboardInterrupt: somebody stopped the run; cells under way have the record of an interrupted one.
            InputError: a worker read other data than this process, or none can start here, or the cluster refuses a step.
        """
        self._graph.prepare()
        try:
            while self._graph.is_active():
                end_if_interrupted()
                for key in self._graph.get_ready():
                    self._ready.append((self._steps[key], key))
                    self._parts_left[key] = 1
                self._ready.sort(key=lambda one: self._order[one[1]])
                # an answer that is there is written before another step begins
                while self._ready and self.executor.has_free_worker and not any(f.done() for f in self._running):
                    self._begin(*self._ready.pop(0))
                if self._held_by_other_runs and not self._ready and self.executor.has_free_worker:
                    self._ask_again()
                done = wait(self._running, POLL_SECONDS, FIRST_COMPLETED).done if self._running else set()
                if self._held_by_other_runs and not self._running and not self._ready:
                    time.sleep(POLL_SECONDS)
                self.executor.show()
                self._take_all(done)
        except BaseException:
            self._stop()
            raise

    def _begin(self, step: Step, graph_key: str) -> None:
        """Hand a step to the executor: the students that are this run's, and of whom all could be made that they need."""
        if not step.students:
            if (why := self._why_lost(step.needs)) is not None:
                self._lost[step.key] = why
                self._end(graph_key)
                return
        else:
            kept = []
            for student in self._claimed(step, graph_key):
                if (why := self._why_lost(student.needs)) is None:
                    kept.append(student)
                else:
                    self._fail([student], why, now())
                    self.locks.release(_lock_key(student))
            if not kept:
                self._end(graph_key)
                return
            if len(kept) < len(step.students):
                part = step.of(kept)
                self._deaths[part.key] = self._deaths.get(step.key, 0)
                step = part
            task = step.tasks[0]
            if len(step.tasks) == 1 and task.name not in self._named:
                self._named.add(task.name)
                todo = [p for p in self.plan.cells_of(task.name) if p.is_todo and not p.cell.together]
                place = [one.name for one in self.plan.tasks].index(task.name) + 1
                self.executor.say(f"{task.name} ({place} of {len(self.plan.tasks)} tasks), {len(todo)} cells")
        from_scratch = self.plan.request.rerun and not self._deaths.get(step.key)
        step = replace(step, from_scratch=from_scratch, code=step.code_here)
        running, placeholder = Running(step, graph_key, now()), Future[StepResult]()
        self._running[placeholder] = running  # before it is handed over: in this process it is made at once
        future = self.executor.submit(step)
        del self._running[placeholder]
        self._running[future] = running

    def _why_lost(self, needs: Sequence[str]) -> Failure | None:
        """Why something that is needed could not be made."""
        return next((self._lost[key] for key in needs if key in self._lost), None)

    def _claimed(self, step: Step, graph_key: str) -> list[StudentSpec]:
        """The students that are this run's to train: not those of another run, nor those that one has trained meanwhile."""
        mine = []
        for student in step.students:
            if not self.locks.take(_lock_key(student)):
                self._held_by_other_runs.append((step.of([student]), graph_key))
                self._parts_left[graph_key] += 1
            elif self._was_made_meanwhile(student):
                self.locks.release(_lock_key(student))
            else:
                mine.append(student)
        return mine

    def _was_made_meanwhile(self, student: StudentSpec) -> bool:
        """Whether another run has written its records since this one was planned."""
        request = self.plan.request
        ended = {"ok"} if request.retry_failed else {"ok", "failed"}
        todo = [planned for planned in student.cells if planned.is_todo]
        records = [self.store.find(planned.cell) for planned in todo]
        pairs = zip(records, todo, strict=True)
        if request.rerun or not all(
            r is not None and r.status in ended and r != planned.record for r, planned in pairs
        ):
            return False
        for record in records:
            if record is not None and record.status == "failed":
                self._note_failure(record)
        return True

    def _ask_again(self) -> None:
        """Begin what another run worked on and has left; say what is waited for where there is nothing else to do."""
        still = []
        for step, graph_key in self._held_by_other_runs:
            holder = self.locks.holder(_lock_key(step.students[0]))
            if not holder:
                self._ready.append((step, graph_key))
                continue
            still.append((step, graph_key))
            if not self._running and step.key not in self._named:
                self._named.add(step.key)
                label = step.cells[0].cell.label
                self.executor.say(f"  waits for {label} ({step.title.split(':')[0]}): {holder} works on it")
        self._held_by_other_runs = still

    def _take_all(self, done: Iterable[Future[StepResult]]) -> None:
        """Take the answers that are there; an error that ends the run is raised once all answers are written."""
        wrong = None
        for future in sorted(done, key=lambda one: self._order[self._running[one].graph_key]):
            running, error = self._running[future], future.exception()
            if error is None:
                self._take(running, future.result())
                del self._running[future]
            elif isinstance(error, BrokenExecutor):
                del self._running[future]
                self._worker_died(running, self.executor.worker_had_started(future))
            else:
                wrong = error
            self.executor.release(future)
        if wrong is not None:
            raise wrong

    def _take(self, running: Running, result: StepResult) -> None:
        """Write what a step gave. What is written is taken out of the answer: if this is broken off it can be called again."""
        if result.error is not None:
            self._lost[running.step.key] = result.error
        while result.records:
            with interrupts_deferred():  # between the two, Ctrl-C would write the record a second time
                record, arrays = result.records[0]
                # how many steps there were at a time, and the processor's time of this training
                record = record.model_copy(update={"env": record.env | {"jobs": self.executor.jobs}})
                own = result.cpu_seconds.get(record.train_key)
                if record.train is not None and record.cell.method != TEACHER and own is not None:
                    cost = record.train.model_copy(update={"cpu_seconds": round(own, 3)})
                    record = record.model_copy(update={"train": cost})
                self._write(record, arrays)
                del result.records[0]
        self.outcome.failures += result.not_saved
        result.not_saved = []
        for file in result.states:
            with contextlib.suppress(OSError):  # a cache that cannot be written must not end a run
                file.unlink(missing_ok=True)
        for student in running.step.students:
            self.locks.release(_lock_key(student))
        self._end(running.graph_key)

    def _worker_died(self, running: Running, had_started: bool) -> None:
        """Try a step again whose worker is gone; its students one by one where that happens again.

        Raises:
            InputError: workers end before they begin.
        """
        step, students = running.step, running.step.students
        if not had_started:
            self._failed_starts += 1
            if self._failed_starts >= MAX_FAILED_STARTS:
                raise InputError(self.executor.cannot_start)
            self._ready.insert(0, (step, running.graph_key))
            return
        self._deaths[step.key] = deaths = self._deaths.get(step.key, 0) + 1
        again = "" if deaths < MAX_WORKER_DEATHS else " again"
        self.executor.say(f"  {step.title}: the process that did this is gone{again}")
        if deaths < MAX_WORKER_DEATHS:
            self._ready.insert(0, (step, running.graph_key))
        elif len(students) > 1:
            parts = [step.of([student]) for student in students]
            self._deaths |= {part.key: MAX_WORKER_DEATHS - 1 for part in parts}
            self._parts_left[running.graph_key] += len(parts) - 1
            self._ready = [*((part, running.graph_key) for part in parts), *self._ready]
        else:
            why = "the process that did this was ended several times; where memory is short, fewer --jobs need less"
            failure = Failure(type="ProcessEnded", message=why, traceback="")
            if students:
                self._fail(students, failure, running.started)
                self.locks.release(_lock_key(students[0]))
            else:
                self._lost[step.key] = failure
            self._end(running.graph_key)

    def _fail(self, students: Sequence[StudentSpec], why: Failure, started: str) -> None:
        for cell in (planned.cell for student in students for planned in student.cells):
            self._write(failed(cell, started, why, self._tasks[cell.tasks[0]]), {})

    def _write(self, record: Record, arrays: dict[str, np.ndarray]) -> None:
        try:
            self.store.write(record, arrays)
        except ValueError as error:  # a number in it is none: no reader would take it
            why = failure_of(error, record.cell.method)
            record = failed(record.cell, record.started, why, self._tasks[record.cell.tasks[0]])
            self.store.write(record)
        if record.status != "ok":
            self._note_failure(record)
            return
        if record.scores:
            metric = record.task.metrics[0]
            scores = ", ".join(f"{100 * scored[metric]:.1f}" for scored in record.scores.values())
            self.executor.say(
                f"  {record.cell.tasks[0]}: {record.called}, seed {record.cell.seed}: {label_of(metric)} {scores}"
            )
        self._trained.add(record_key(record.cell))  # once, also where it has a record for each of several points
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
            for planned in running.step.cells:
                if planned.record is None or planned.record.status != "ok":  # a broken-off rerun leaves what was there
                    task = self._tasks[planned.cell.tasks[0]]
                    self.store.write(empty(planned.cell, "interrupted", running.started, task))


def _lock_key(student: StudentSpec) -> str:
    """One for a training, also where it makes the records of several tasks."""
    return train_key(student.cells[0].cell)
