"""In which order the steps of a plan are begun, and what becomes of their results.

A step begins when all that it needs is made. Only this writes records: a worker that is lost loses
nothing but its time. A cell that another run on the same results folder works on is left to it; its
record is used, or the cell is made later.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.data.tasks import KNOWN
from bench.errors import CELLS_FAILED, OK, InputError
from bench.interrupts import end_if_interrupted, interrupts_deferred
from bench.make.failure import failure_of
from bench.make.record import empty, failed, now
from bench.make.work import FailedCell, StepResult
from bench.plan.plan import Plan, Planned, Step, Student
from bench.record.cell import IN_8_BITS, TEACHER, record_key
from bench.record.cell_locks import CellLocks
from bench.record.schema import Failure, Record
from bench.record.store import Store
from bench.record.task_facts import shown_tasks
from bench.run.executors import Executor
from bench.stats.metrics import label_of

if TYPE_CHECKING:
    import numpy as np

POLL_SECONDS = 0.5
"""How often what the workers say is looked at."""
MAX_WORKER_DEATHS = 2
"""After so many deaths of its worker a step of several students is divided, and each student is
tried once more; another step is given up."""
MAX_FAILED_STARTS = 2
"""After so many workers that ended before they began a step, the run ends with a message: none can
start here."""


@dataclass(repr=False)
class Outcome:
    """The work of a run. ``exit_code`` is 0, or 6 if some cells failed or some students could not
    be saved."""

    plan: Plan
    """of several runs the last"""
    trained: int = 0
    failures: list[FailedCell] = field(default_factory=list)
    reports: list[Path] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    """for a terminal: the main table of each report, and what to type next"""
    plans: list[Plan] = field(default_factory=list)
    """of several runs those of all"""

    def __repr__(self) -> str:
        failed = "".join(
            f"; failed: {cell.row} on {cell.task}, seed {cell.seed}: {cell.why}"
            for cell in self.failures
        )
        reports = ", ".join(map(str, self.reports)) or "none"
        return f"<Outcome: {self.trained} cells trained{failed}; reports: {reports}>"

    @property
    def cells(self) -> list[Planned]:
        """The cells of all plans."""
        return [cell for plan in self.plans or [self.plan] for cell in plan.cells]

    @property
    def exit_code(self) -> int:
        return CELLS_FAILED if self.failures else OK


class Schedule:
    """Passes the steps of a plan to an executor, and takes their results."""

    def __init__(
        self, plan: Plan, executor: Executor, store: Store, locks: CellLocks, outcome: Outcome
    ) -> None:
        """
        Args:
            locks: of this run on the cells of ``store``; whoever made them gives them back, after
                the workers have ended.
        """
        self.plan = plan
        self.executor = executor
        self.store = store
        self.locks = locks
        self.outcome = outcome
        self._tasks = {task.name: task.task for task in plan.tasks}
        self._waiting = list(plan.todo_steps)
        """in the order in which they are begun"""
        self._unmade = {step.key for step in plan.todo_steps if step.slot is not None}
        """keys of folders that others may wait for"""
        self._running: dict[Future[StepResult], tuple[Step, str]] = {}
        """each with the time at which it was begun"""
        self._lost: dict[str, Failure] = {}
        """what could not be made: key -> why"""
        self._failed_starts = 0
        self._held: set[str] = set()
        """keys of steps of one student each that another run works on"""
        self._named: set[str] = set()
        """tasks that were named, and steps that were waited for"""
        self._trained: set[str] = set()

    def carry_out(self) -> None:
        """Have all of them made.

        Raises:
            KeyboardInterrupt: somebody stopped the run; cells under way have the record of an
                interrupted one.
            InputError: a worker read other data than this process, or none can start here, or the
                cluster refuses a step.
        """
        try:
            while self._waiting or self._running:
                end_if_interrupted()
                # an answer that is there is written before another step begins
                is_answered = any(future.done() for future in self._running)
                if self.executor.has_free_worker and not is_answered:
                    step = self._next()
                    if step is not None:
                        self._waiting = [other for other in self._waiting if other is not step]
                        self._begin(step)
                        continue
                done: set[Future[StepResult]] = set()
                if self._running:
                    done = wait(self._running, POLL_SECONDS, FIRST_COMPLETED).done
                else:
                    # another run works on all that is left
                    time.sleep(POLL_SECONDS)
                self.executor.show()
                self._take_all(done)
        except BaseException:
            self._stop()
            raise

    def _next(self) -> Step | None:
        """The first of which all is made that it needs; one that another run works on only when it
        has left it."""
        ready = [step for step in self._waiting if not self._unmade.intersection(step.needs)]
        for step in ready:
            if step.key not in self._held or self.locks.take(step.students[0][0].train_key):
                self._held.discard(step.key)
                return step
        for step in ready:
            if not self._running and step.key not in self._named:
                self._named.add(step.key)
                label = step.cells[0].cell.label
                self.executor.say(
                    f"  waits for {label} ({step.title.split(':')[0]}): another run works on it"
                )
        return None

    def _begin(self, step: Step) -> None:
        """Hand a step to the executor: the students that are this run's, and of whom all could be
        made that they need."""
        self.executor.leave(step)
        if step.students:
            kept = self._students_of_this_run(step)
            if not kept:
                return
            if len(kept) < len(step.students):
                step = step.for_students(kept)
            self._name_task(step)
        else:
            why = self._why_lost(step)
            if why is not None:
                self._lose(step, why)
                return

        # a step whose worker died goes on from the state that it kept
        is_from_scratch = self.plan.request.rerun and not step.deaths
        step = replace(step, from_scratch=is_from_scratch, code=step.code_here)
        begun = (step, now())
        # it is known as running before it is handed over: in this process it is made at once
        placeholder = Future[StepResult]()
        self._running[placeholder] = begun
        future = self.executor.submit(step)
        del self._running[placeholder]
        self._running[future] = begun

    def _students_of_this_run(self, step: Step) -> list[Student]:
        """The students of a step that are trained now, each with its lock.

        Those that another run works on wait, those that it has made are done, and those whose
        teacher or artefacts could not be made have failed.
        """
        kept: list[Student] = []
        for student in step.students:
            part = step.for_students([student])
            if not self.locks.take(student[0].train_key):
                self._waiting.append(part)
                self._held.add(part.key)
                continue
            if self._was_made_meanwhile(student):
                self.locks.release(student[0].train_key)
                continue
            why = self._why_lost(part)
            if why is not None:
                self._fail(student, why, now())
            else:
                kept.append(student)
        return kept

    def _name_task(self, step: Step) -> None:
        """Say once which task is begun, and how much there is to do on it."""
        if len(step.tasks) != 1 or step.task in self._named:
            return
        self._named.add(step.task)
        cells = self.plan.cells_of(step.task)
        todo = [planned for planned in cells if planned.is_todo and not planned.cell.together]
        names = [task.name for task in self.plan.tasks]
        place = f"{names.index(step.task) + 1} of {len(names)} tasks"
        self.executor.say(f"{step.tasks[0].shown} ({place}), {len(todo)} cells")

    def _why_lost(self, step: Step) -> Failure | None:
        """Why something that a step needs could not be made."""
        return next((self._lost[key] for key in step.needs if key in self._lost), None)

    def _lose(self, step: Step, why: Failure) -> None:
        """A folder cannot be made."""
        self._lost[step.key] = why
        self._unmade.discard(step.key)
        if not self.plan.cells:  # else the cells that need it say so
            self.outcome.failures.append(FailedCell("pre-training", step.title, 0, why.message))

    def _fail(self, student: Student, why: Failure, started: str) -> None:
        for planned in student:
            self._write(failed(planned.cell, started, why, self._tasks[planned.cell.tasks[0]]), {})
        self.locks.release(student[0].train_key)

    def _was_made_meanwhile(self, student: Student) -> bool:
        """Whether another run has written its records since this one was planned."""
        request = self.plan.request
        todo = [planned for planned in student if planned.is_todo]
        records = [self.store.find(planned.cell) for planned in todo]
        ended = {"ok"} if request.retry_failed else {"ok", "failed"}
        for planned, record in zip(todo, records, strict=True):
            if (
                request.rerun
                or record is None
                or record.status not in ended
                or record == planned.record
            ):
                return False
            if planned.in_8_bits and self.store.find(planned.cell, IN_8_BITS) is None:
                return False
        for record in records:
            if record is not None and record.status == "failed":
                self._note_failure(record)
        return True

    def _take_all(self, done: Iterable[Future[StepResult]]) -> None:
        """Take the answers that are there; an error that ends the run is raised once all answers
        are written."""
        wrong = None
        for future in [future for future in self._running if future in done]:
            step, started = self._running[future]
            error = future.exception()
            if error is None:
                self._take(step, future.result())
                del self._running[future]
            elif isinstance(error, BrokenExecutor):
                del self._running[future]
                self._worker_died(step, started, self.executor.worker_had_started(future))
            else:
                wrong = error
            self.executor.release(future)
        if wrong is not None:
            raise wrong

    def _take(self, step: Step, result: StepResult) -> None:
        """Write what a step gave. What is written is taken out of the answer: if this is broken off
        it can be called again."""
        while result.records:
            # between the two, Ctrl-C would write the record a second time
            with interrupts_deferred():
                record, arrays = result.records[0]
                # how many steps there were at a time, and the processor's time of this training
                record = record.model_copy(
                    update={"env": record.env | {"jobs": self.executor.jobs}}
                )
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
        for student in step.students:
            self.locks.release(student[0].train_key)
        self._unmade.discard(step.key)
        if result.error is not None:
            self._lose(step, result.error)

    def _worker_died(self, step: Step, started: str, had_started: bool) -> None:
        """Try a step again whose worker is gone; its students one by one where that happens again.

        Raises:
            InputError: workers end before they begin.
        """
        if not had_started:
            self._failed_starts += 1
            if self._failed_starts >= MAX_FAILED_STARTS:
                raise InputError(self.executor.cannot_start)
            self._waiting.insert(0, step)
            return
        step = replace(step, deaths=step.deaths + 1)
        again = "" if step.deaths < MAX_WORKER_DEATHS else " again"
        self.executor.say(f"  {step.title}: the process that did this is gone{again}")
        if step.deaths < MAX_WORKER_DEATHS:
            self._waiting.insert(0, step)
        elif len(step.students) > 1:
            alone = replace(step, deaths=MAX_WORKER_DEATHS - 1)
            self._waiting = [
                *(alone.for_students([student]) for student in step.students),
                *self._waiting,
            ]
        else:
            message = (
                "the process that did this was ended several times; where memory is short, fewer "
                "--jobs need less"
            )
            why = Failure(type="ProcessEnded", message=message, traceback="")
            for student in step.students:
                self._fail(student, why, started)
            if not step.students:
                self._lose(step, why)

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
            is_known = record.cell.tasks[0] in KNOWN
            metric = label_of(metric, () if is_known else record.task.labels or ())
            row = f"{shown_tasks(record.cell)}: {record.called}, seed {record.cell.seed}"
            self.executor.say(f"  {row}: {metric} {scores}")
        # once, also where it has a record for each of several points
        self._trained.add(record_key(record.cell))
        self.outcome.trained = len(self._trained)

    def _note_failure(self, record: Record) -> None:
        message = record.error.message if record.error else record.status
        cell = record.cell
        self.outcome.failures.append(
            FailedCell(shown_tasks(cell), record.row, cell.seed, message, record.key)
        )

    def _stop(self) -> None:
        """Ask the workers to keep their states; write what they have finished, and which cells were
        under way."""
        self.executor.stop(list(self._running))
        for future, (step, started) in list(self._running.items()):
            if future.done() and future.exception() is None:
                self._take(step, future.result())
                continue
            for planned in step.cells:
                # a broken-off rerun leaves what was there
                if planned.record is None or planned.record.status != "ok":
                    task = self._tasks[planned.cell.tasks[0]]
                    self.store.write(empty(planned.cell, "interrupted", started, task))
