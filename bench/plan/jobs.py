"""The work of a plan as a graph of jobs: what each makes, from what, and in which order they are best begun. No torch.

A job is plain data. It names cells and entries of the cache by their keys, and the code that computes them; whoever does it
plans the same request, finds them there, and refuses where a key or the code differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.cache import Slot
from bench.plan.artefacts import ArtefactPlan, asked_by
from bench.plan.rows import CheckpointRow, TeacherRow
from bench.plan.spelling import MethodRow
from bench.record.code import digest_of, student_modules
from bench.record.keys import digest

if TYPE_CHECKING:
    from bench.plan.build import Plan, Planned
    from bench.plan.tasks import TaskPlan

TEACHER_JOB, AUGMENTATION_JOB, ARTEFACT_JOB, OUTPUTS_JOB = "teacher", "augmentation", "artefact", "teacher outputs"
"""Kinds of jobs that make one entry of the cache."""
SCORES_JOB, STUDENTS_JOB = "scores", "students"
"""Kinds of jobs that make the records of cells: a model that is there is scored, or students are trained and scored."""
MAX_GROUP_SIZE = 8
"""Students that train at once on one teacher pass: more would need more memory and share little more."""


@dataclass(frozen=True)
class StudentJob:
    """One student of a job: its cells, and what it is made from."""

    cells: tuple[str, ...]
    """keys of its records, one for each task"""
    needs: tuple[str, ...]
    """keys of jobs"""
    code: str
    """hash of the code that trains and scores it; "" where some of it cannot be read"""


@dataclass(frozen=True)
class Job:
    """One piece of work, done in one process."""

    key: str
    title: str
    """for people"""
    kind: str
    task: str = ""
    """"" for what serves several tasks"""
    seed: int = 0
    """of a teacher"""
    students: tuple[StudentJob, ...] = ()
    """of a job that makes records"""
    made_from: tuple[str, ...] = ()
    """keys of jobs that an entry of the cache needs"""
    method: str = ""
    """of the first row that wants an entry of the cache"""
    code: str = ""
    """hash of the code that makes an entry of the cache; "" where some of it cannot be read"""
    from_scratch: bool = False
    """whether what an earlier run left of these trainings is thrown away"""

    @property
    def cells(self) -> list[str]:
        return [cell for student in self.students for cell in student.cells]

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.made_from, *(key for student in self.students for key in student.needs)]))

    def of(self, students: Sequence[StudentJob]) -> Job:
        """The same job for some of its students."""
        return Job(records_job_key(students), self.title, self.kind, self.task, self.seed, tuple(students))


def records_job_key(students: Sequence[StudentJob]) -> str:
    """The key of a job that makes these students' records."""
    return digest([student.cells for student in students])


def jobs_of(plan: Plan, group_size: int | None = None, nothing_is_made: bool = False) -> list[Job]:
    """Every job of a plan, in the order in which one process does them.

    Args:
        group_size: how many students train together at most; as the plan says by default.
        nothing_is_made: enter jobs also for what the cache has already.
    """
    found = _Jobs(plan, nothing_is_made)
    found.add_all(group_size)
    return list(found.jobs.values())


class JobInputs:
    """What the jobs of a plan read from the cache: entries that other jobs make, and entries that are there already."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._jobs = {job.key: job for job in jobs_of(plan, 1, nothing_is_made=True)}
        self._students = {one.cells: one.needs for job in self._jobs.values() for one in job.students}

    def of(self, job: Job) -> list[Slot]:
        """The entries that a job reads, each once."""
        needs = [key for student in job.students for key in self._students.get(student.cells, student.needs)]
        if not job.students:
            needs += self._jobs[job.key].made_from
        for key in list(needs):
            # the record of a student also says on which text the masked-language head behind augmented rows was trained
            if self._jobs[key].kind == AUGMENTATION_JOB:
                needs += self._jobs[key].made_from
        slots = [slot_of(self.plan, self._jobs[key]) for key in dict.fromkeys(needs)]
        return [slot for slot in slots if slot is not None]


class _Jobs:
    """The jobs so far, by their keys; what a job needs is entered before it."""

    def __init__(self, plan: Plan, nothing_is_made: bool) -> None:
        self.plan, self.nothing_is_made = plan, nothing_is_made
        self.jobs: dict[str, Job] = {}
        self._teachers: dict[tuple[str, int], list[str]] = {}
        """task and seed -> the job that fine-tunes this teacher: every row asks for it"""
        self._in_cache: dict[str, bool] = {}
        """key of an entry -> whether it is there: every row of a task asks for the same files"""

    def add_all(self, group_size: int | None) -> None:
        """Enter every job of the plan, in the order in which one process does them."""
        plan = self.plan
        for task in plan.tasks:
            todo = [
                planned for planned in plan.cells_of(task.task.name) if planned.is_todo and not planned.cell.together
            ]
            for planned in todo:
                if not isinstance(planned.row, MethodRow):
                    self.add_records_job(SCORES_JOB, [[planned]], [task])
            for group in plan.groups(task.task.name, group_size):
                self.add_records_job(STUDENTS_JOB, [[planned] for planned in group], [task])
        for training in plan.multitask_trainings():
            self.add_records_job(STUDENTS_JOB, [training], plan.tasks)

    def _is_there(self, slot: Slot) -> bool:
        if slot.key not in self._in_cache:
            self._in_cache[slot.key] = not self.nothing_is_made and self.plan.is_there(slot)
        return self._in_cache[slot.key]

    def add_records_job(self, kind: str, group: Sequence[Sequence[Planned]], tasks: Sequence[TaskPlan]) -> None:
        """Enter the job that makes the records of these students, each with one cell for each task."""
        students = [
            StudentJob(tuple(one.key for one in cells), self._needs(cells, tasks), code_of_student(cells))
            for cells in group
        ]
        names = "+".join(task.task.name for task in tasks)
        seeds = sorted({cells[0].cell.seed for cells in group})
        title = f"{names}: {', '.join(cells[0].cell.label for cells in group)}" + (
            f", seed {seeds[0]}" if kind == STUDENTS_JOB else ""
        )
        key, task = records_job_key(students), "" if group[0][0].cell.together else tasks[0].task.name
        self.jobs[key] = Job(key, title, kind, task, students=tuple(students))

    def _needs(self, cells: Sequence[Planned], tasks: Sequence[TaskPlan]) -> tuple[str, ...]:
        """What has to be made before a student is trained, or a teacher scored; what is in the cache is left out."""
        row, found = cells[0].row, list[str]()
        for task, planned in zip(tasks, cells, strict=True):
            if isinstance(row, CheckpointRow):
                continue
            method = planned.cell.method
            if isinstance(row, TeacherRow) or row.method.needs_teacher:
                found += self._teacher(task, 0, method)
            if isinstance(row, TeacherRow):
                continue
            found += self._augmentation(task, method)
            if planned.cell.teacher_outputs:
                found += self._outputs(task, method)
            for entry in asked_by(row.method, task, self.plan.artefacts):
                found += self._artefact(entry, task, method)
        return tuple(dict.fromkeys(found))

    def _make(self, slot: Slot, job: Job) -> list[str]:
        if self._is_there(slot):
            return []
        self.jobs.setdefault(job.key, job)
        return [job.key]

    def _teacher(self, task: TaskPlan, seed: int, method: str) -> list[str]:
        if task.teacher.origin != "fine-tuned":
            return []
        name = task.task.name
        if (name, seed) not in self._teachers:
            slot = task.teacher_slot(seed)
            self._teachers[name, seed] = self._make(slot, _job(slot, TEACHER_JOB, name, seed=seed, method=method))
        return self._teachers[name, seed]

    def _outputs(self, task: TaskPlan, method: str) -> list[str]:
        """The teacher's outputs that are kept in a file."""
        assert task.outputs is not None, "its cells say that they read some"
        slot = task.outputs.slot
        needs = [*self._teacher(task, 0, method), *self._augmentation(task, method)]
        return self._make(slot, _job(slot, OUTPUTS_JOB, task.task.name, needs=needs, method=method))

    def _artefact(self, entry: ArtefactPlan, task: TaskPlan, method: str) -> list[str]:
        """An artefact; of one that is a view of its input, what makes that input."""
        if entry.is_kept and self._is_there(entry.slot):
            return []
        needs = [key for seed in entry.teacher_seeds for key in self._teacher(task, seed, method)]
        needs += self._augmentation(task, method) if entry.reads_training_rows else []
        for part in self.plan.artefacts.parts_of(entry):
            needs += self._artefact(part, task, method)
        if not entry.is_kept:
            return needs
        of_task = "" if entry.task is None else task.task.name
        return self._make(entry.slot, _job(entry.slot, ARTEFACT_JOB, of_task, needs=needs, method=method))

    def _augmentation(self, task: TaskPlan, method: str) -> list[str]:
        """The augmented rows; those made by rules are labelled by the teacher whenever they are read."""
        if task.augmentation is None:
            return []
        if task.augmentation.kind == "masked":
            head = self.plan.artefacts.kept[task.masked_head]
            needs, read = self._artefact(head, task, method), []
        else:
            needs = read = self._teacher(task, 0, method)
        slot = task.augmentation_slot
        return [*read, *self._make(slot, _job(slot, AUGMENTATION_JOB, task.task.name, needs=needs, method=method))]


def _job(slot: Slot, kind: str, task: str = "", seed: int = 0, needs: Sequence[str] = (), method: str = "") -> Job:
    """The job that makes one entry of the cache."""
    return Job(slot.key, slot.title, kind, task, seed, made_from=tuple(needs), method=method, code=digest_of(slot.code))


def slot_of(plan: Plan, job: Job) -> Slot | None:
    """The entry of the cache that a job makes; None where it makes records, or where this plan has no such entry."""
    found: Slot | None = None
    task = next((task for task in plan.tasks if task.task.name == job.task), None)
    if job.kind == ARTEFACT_JOB:
        entry = plan.artefacts.kept.get(job.key)
        found = None if entry is None else entry.slot
    elif task is None:
        return None
    elif job.kind == TEACHER_JOB:
        found = task.teacher_slot(job.seed)
    elif job.kind == AUGMENTATION_JOB and task.augmentation is not None:
        found = task.augmentation_slot
    elif job.kind == OUTPUTS_JOB and task.outputs is not None:
        found = task.outputs.slot
    return found if found is not None and found.key == job.key else None


def code_of_student(cells: Sequence[Planned]) -> str:
    """A hash of the code that answers the cells of one student, or of a model that is only scored."""
    return digest_of(student_modules(cells[0].cell.method) if isinstance(cells[0].row, MethodRow) else ())
