"""Which cells of a plan that are to do have a record with another number of threads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.plan.artefacts import ArtefactPlans
from bench.plan.spelling import MethodRow
from bench.plan.student_cells import student_cells
from bench.plan.tasks import TaskPlan, augment
from bench.record.cell import Cell
from bench.record.store import Store

if TYPE_CHECKING:
    from bench.plan.build import Plan, Planned


def thread_notes(plan: Plan, store: Store) -> list[str]:
    """For a reader of the plan: how many cells to do have a record with other threads, one line for each number of threads.

    The number of threads is part of the keys of teachers and of what is prepared, too. So each cell's key is planned
    again with the other number: what a line says, the option does.
    """
    near: dict[int, list[Planned]] = defaultdict(list)
    for threads, planned in _candidates(plan, store):
        near[threads].append(planned)
    lines = []
    for threads, those in sorted(near.items()):
        cells = WithThreads(plan, threads)
        records = (store.find(cells.of(planned)) for planned in those)
        found = sum(record is not None and record.status == "ok" for record in records)
        if found:
            lines.append(
                f"{found} of these cells {'exist' if found > 1 else 'exists'} with {threads} "
                f"thread{'s' if threads > 1 else ''} (--threads {threads} finds {'them' if found > 1 else 'it'})"
            )
    return lines


def _candidates(plan: Plan, store: Store) -> Iterator[tuple[int, Planned]]:
    """Cells to do without a record, with each other number of threads that a record of the same row and seed has."""
    known: dict[object, Mapping[str, set[int]]] = {}
    for planned in plan.cells:
        if planned.record is None:
            folder = store.folder(planned.cell).parent
            if folder not in known:
                known[folder] = _threads_in(store, planned.cell)
            for threads in known[folder].get(_row(planned.cell), ()):
                if threads != planned.cell.numeric.threads:
                    yield threads, planned


def _threads_in(store: Store, like: Cell) -> dict[str, set[int]]:
    """Row and seed -> numbers of threads of the finished records of these data, tasks and method."""
    found: dict[str, set[int]] = defaultdict(set)
    for record in store.like(like):
        if record.status == "ok":
            found[_row(record.cell)].add(record.cell.numeric.threads)
    return found


def _row(cell: Cell) -> str:
    return str((cell.method, cell.version, sorted(cell.settings.items()), sorted(cell.dropped), cell.seed))


class WithThreads:
    """The cells of a plan as they would be with another number of threads. Reads no data again."""

    def __init__(self, plan: Plan, threads: int) -> None:
        self._request = replace(plan.request, threads=threads)
        self._artefacts = ArtefactPlans(self._request)
        self._tasks = [self._task(task) for task in plan.tasks]
        self._students: dict[str, list[Cell]] = {}

    def of(self, planned: Planned) -> Cell:
        """The cell in the place of this one."""
        cell = planned.cell
        tasks = [task for task in self._tasks if cell.together or (task.task.name,) == cell.tasks]
        if not isinstance(planned.row, MethodRow):  # nothing is prepared for it
            task = tasks[0]
            return cell.model_copy(update={"data": task.data, "teacher": task.teacher, "numeric": task.numeric})
        place = f"{planned.spelling} {[task.task.name for task in tasks]}"
        if place not in self._students:
            self._students[place] = student_cells(planned.row, tasks, self._request, self._artefacts)
        return next(c for c in self._students[place] if (c.seed, c.tasks) == (cell.seed, cell.tasks))

    def _task(self, task: TaskPlan) -> TaskPlan:
        other = replace(
            task, numeric=task.numeric.model_copy(update={"threads": self._request.threads}), data=task.unaugmented_data
        )
        if task.teacher.origin == "fine-tuned":
            key = other.teacher_slot(0).key
            other = replace(other, teacher=task.teacher.model_copy(update={"key": key}))
        augment(other, self._artefacts)
        return other
