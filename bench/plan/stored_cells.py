"""Cells with what the store has of them: which are done, which are to do, and which are only
scored again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from bench.plan.plan import ArtefactPlan, Planned, TaskPlan, spelling_of_row
from bench.plan.spelling import MethodRow
from bench.plan.student_cells import StudentCell
from bench.record.cell import IN_8_BITS, TEACHER, Cell
from bench.record.code import STALE, state_of_record
from bench.record.rescored import metrics_of
from bench.record.store import Store
from bench.record.task_facts import shown_tasks
from bench.request import Request

if TYPE_CHECKING:
    from bench.data.checkpoints import Checkpoint
    from bench.data.predictions import Predictions
    from bench.data.tasks import Task
    from bench.record.schema import Record


@dataclass(frozen=True)
class StoredCells:
    """The store of a request, as its cells are looked up in it."""

    store: Store
    request: Request
    tasks: Sequence[TaskPlan]
    in_8_bits: frozenset[str]
    """spellings of the rows that are scored in 8 bits too"""

    def planned(
        self,
        cell: Cell,
        row: MethodRow | Checkpoint | Predictions | None,
        artefacts: tuple[ArtefactPlan, ...] = (),
        own_task: TaskPlan | None = None,
    ) -> Planned:
        """A cell, and whether it is to do.

        Args:
            row: what is trained or scored; None for the teacher.
            artefacts: what its method asks for.
            own_task: its task as the row and the seed have it, where that is not the plan's.
        """
        # what is there, and by which code
        record = self.store.find(cell)
        is_ok = False
        code_state = ""
        if record is not None and record.status == "ok":
            is_ok = True
            code_state = state_of_record(record)

        # what is made again although there is a record
        again = self.request.rerun or (self.request.rerun_stale and code_state == STALE)
        # metrics are not in the key: stored answers are scored again, or the row is trained again
        rescored_by: tuple[str, ...] = ()
        if not again:
            task = self._task_of(cell)
            if _needs_other_scores(record, task):
                rescored_by = _metrics_from_answers(record, task, self.store)
                again = not rescored_by

        # a model that is scored in 8 bits too has two records
        in_8_bits = (spelling_of_row(row) or TEACHER) in self.in_8_bits
        records = [record]
        if in_8_bits:
            records.append(self.store.find(cell, IN_8_BITS))
        ended = ("ok",) if self.request.retry_failed else ("ok", "failed")
        is_done = all(each is not None and each.status in ended for each in records)
        return Planned(
            cell,
            row,
            record,
            is_todo=again or not is_done,
            code_state=code_state,
            artefacts=artefacts,
            in_8_bits=in_8_bits,
            own_task=own_task,
            has_full_record=not again and is_ok,
            rescored_by=rescored_by,
        )

    def _task_of(self, cell: Cell) -> Task:
        """The task of a cell, the first one of several."""
        return next(each.task for each in self.tasks if each.name == cell.tasks[0])

    def planned_students(
        self,
        row: MethodRow,
        cells: Iterable[StudentCell],
    ) -> list[Planned]:
        """The cells of a row, each with the artefacts that its method asks for."""
        planned = []
        for each in cells:
            own = None if any(each.task is task for task in self.tasks) else each.task
            planned.append(self.planned(each.cell, row, each.artefacts, own))
        return planned


def _needs_other_scores(record: Record | None, task: Task) -> TypeGuard[Record]:
    """Whether a record lacks a metric of its task, or of a user's own task has another order."""
    if record is None or record.status != "ok" or not record.scores:
        return False
    there = metrics_of(record)
    # of a user's task the order says which metric comes first
    if task.files:
        return there != task.metrics
    return not set(task.metrics) <= set(there)


def _metrics_from_answers(record: Record, task: Task, store: Store) -> tuple[str, ...]:
    """The metrics that a record gets without training; none where they need answers that are gone.

    A known task's record keeps those that it has besides.
    """
    there = metrics_of(record)
    has_all = set(task.metrics) <= set(there)
    if not has_all and not store.has_predictions(record):
        return ()
    if task.files:
        return task.metrics
    return tuple(dict.fromkeys((*task.metrics, *there)))


def rescoring_notes(cells: Sequence[Planned]) -> list[str]:
    """A line for each task whose stored answers are scored by other metrics."""
    from bench.stats.metrics import label_of

    # task and metrics -> records
    counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for planned in cells:
        if planned.rescored_by:
            counts[shown_tasks(planned.cell), planned.rescored_by] += 1
    notes = []
    for (name, metrics), count in counts.items():
        records = "record" if count == 1 else "records"
        labels = ", ".join(map(label_of, metrics))
        notes.append(
            f"{name}: {count} {records} scored again from stored answers, by {labels}; nothing is "
            "trained for it"
        )
    return notes


def set_aside_notes(cells: Sequence[Planned], store: Store) -> list[str]:
    """A line for each cell that is trained again because its record cannot be used."""
    notes = []
    for planned in cells:
        if not planned.is_todo or planned.record is not None:
            continue
        # a cell may be to do because it was never trained
        why = store.set_aside_reason(planned.cell)
        if why:
            where = f"{shown_tasks(planned.cell)}, seed {planned.cell.seed}"
            notes.append(
                f"{planned.cell.label} on {where}, is trained again, because its record was set "
                f"aside: {why}"
            )
    return notes
