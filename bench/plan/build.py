"""From a request to a plan: every cell with its key, what is there already, who shares what, time and disk.

Heavy libraries are imported where they are needed, so that reading a plan's types costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bench.cache import Slot
from bench.data.checkpoints import hash_of_tokenizer
from bench.data.tasks import expand
from bench.errors import InputError
from bench.plan.artefacts import ArtefactPlans
from bench.plan.executor_options import is_elsewhere
from bench.plan.jobs import MAX_GROUP_SIZE
from bench.plan.other_threads import thread_notes
from bench.plan.outputs_plan import outputs_of
from bench.plan.request import AUTO, FAST, HUB, HUB_TEACHER, SAMPLE, Request, brings_all_data, resolve_auto
from bench.plan.rows import CheckpointRow, Row, TeacherRow
from bench.plan.spelling import GivenCheckpoint, MethodRow, drop_incompatible, parse_rows, typed_order
from bench.plan.stage_keys import next_to_each_other
from bench.plan.stale import stale_slots, warnings
from bench.plan.student_cells import asks_ensemble, drop_untrainable, multitask, student_cells
from bench.plan.tasks import TEACHER_VERSION, TaskPlan, augment, mean_tokens, plan_tasks
from bench.record.cell import CHECKPOINT, TEACHER, Cell, NumericIdentity, record_key, train_key
from bench.record.code import STALE, state_of_record
from bench.record.keys import digest
from bench.record.schema import Record
from bench.record.store import Store

if TYPE_CHECKING:
    from bench.plan.estimate import PlannedWork


@dataclass
class Planned:
    """One cell and what the store knows of it."""

    cell: Cell
    row: Row
    record: Record | None
    is_todo: bool
    code_state: str = ""
    """whether today's code made the record: current, stale or unknown; "" without a finished record"""
    _keyed: tuple[Cell, str] | None = None
    """a cell and its key: hashing a cell takes milliseconds, and a plan asks for each a dozen times"""

    @property
    def key(self) -> str:
        """Of the cell's record."""
        if self._keyed is None or self._keyed[0] is not self.cell:
            self._keyed = (self.cell, record_key(self.cell))
        return self._keyed[1]

    @property
    def spelling(self) -> str:
        """Of the row; "" for the teacher's own cell."""
        return self.row.spelling


@dataclass
class Plan:
    """All cells of a request: which have a record, which are to do, from what, and how long that takes. Trains nothing."""

    request: Request
    tasks: list[TaskPlan]
    artefacts: ArtefactPlans
    cells: list[Planned]
    notes: list[str] = field(default_factory=list)
    work_items: list[PlannedWork] = field(default_factory=list)
    """what is still to make, with its estimated time and disk"""
    seconds: float = 0.0
    disk_bytes: int = 0
    stale: list[Slot] = field(default_factory=list)
    """what the cells to do would take from the cache although other code made it"""
    code_warnings: list[str] = field(default_factory=list)
    """for a reader: what of the plan other code made"""
    max_group_size: int = MAX_GROUP_SIZE
    """students that train in lockstep, on one pass of their teacher"""
    jobs_description: str = ""
    """for a reader: how the work is divided among several jobs"""

    def is_there(self, slot: Slot) -> bool:
        """Whether something is in the cache and will be used."""
        return slot.is_made and not (self.request.rerun_stale and slot in self.stale)

    @property
    def todo(self) -> list[Planned]:
        return [planned for planned in self.cells if planned.is_todo]

    @property
    def labels(self) -> list[str]:
        """Of the rows, in the order in which they were typed; without the teacher's."""
        labels = {planned.spelling: planned.cell.label for planned in self.cells}
        return [labels[spelling] for spelling in typed_order(self.request.methods) if spelling in labels]

    def cells_of(self, task: str) -> list[Planned]:
        return [planned for planned in self.cells if planned.cell.tasks == (task,)]

    def groups(self, task: str, group_size: int | None = None) -> list[list[Planned]]:
        """The students of one task that are to do, as they train together.

        Each group has one seed and at most ``group_size`` students, by default the plan's ``max_group_size``.
        """
        group_size = group_size or self.max_group_size
        by_seed: dict[int, list[Planned]] = {}
        for planned in self.cells_of(task):
            if planned.is_todo and isinstance(planned.row, MethodRow) and not planned.cell.together:
                by_seed.setdefault(planned.cell.seed, []).append(planned)
        groups = []
        for of_seed in by_seed.values():
            ordered = of_seed
            if len(of_seed) > group_size > 1:
                # those that share their first stage next to each other, so that few of them are separated
                ordered = next_to_each_other(of_seed, next(one for one in self.tasks if one.task.name == task))
            groups += [ordered[first : first + group_size] for first in range(0, len(ordered), group_size)]
        return groups

    def multitask_trainings(self) -> list[list[Planned]]:
        """Trainings of students of several tasks of which something is to do: their cells, one for each task."""
        trainings: dict[str, list[Planned]] = {}
        for planned in self.cells:
            if planned.cell.together:
                trainings.setdefault(train_key(planned.cell), []).append(planned)
        return [cells for cells in trainings.values() if any(planned.is_todo for planned in cells)]


def build(request: Request, estimated: bool = True) -> Plan:
    """Resolve everything that identity needs. Trains nothing; a hub teacher or data set is downloaded to its cache.

    Args:
        estimated: whether to say how long it takes; a worker that does a part of it need not know.

    Raises:
        InputError: anything wrong with what was asked for, before anything starts.
    """
    request = request.checked()
    rows, given = parse_rows(request.methods) if request.methods else ([], [])  # none: teachers only
    wanted = expand(request.tasks)
    request = without_auto(request)
    request = replace(request, corpus=request.texts or (SAMPLE,))
    notes = list(request.notes)
    numeric = numeric_of(request)
    tasks, absent = plan_tasks(request, wanted, numeric)
    if absent:
        notes.append(f"not in {tasks[0].source.name}: {', '.join(absent)}")
    notes += _data_notes(tasks)
    store = Store(request.results)
    artefacts = ArtefactPlans(request)
    cells: list[Planned] = []
    rows, left_out = drop_incompatible(rows, tasks[0].checkpoint.config)
    notes += left_out
    if any(task.teacher.origin == "given" for task in tasks):
        ensembles = [row.spelling for row in rows if row.from_all and asks_ensemble(row, tasks[0])]
        rows = [row for row in rows if row.spelling not in ensembles]
        notes += [
            f"{name} is left out of `--methods all`: teachers that come tuned are no ensemble" for name in ensembles
        ]
    rows, left_out = drop_untrainable(rows, tasks)
    notes += left_out
    for task in tasks:
        augment(task, artefacts)
        cells.append(_teacher_cell(task, request, store))
        cells += [_checkpoint_cell(row, task, request, store) for row in given]
        for row in rows:
            if not multitask(row):
                made = student_cells(row, [task], request, artefacts)
                cells += [_planned(cell, row, request, store) for cell in made]
    for row in filter(multitask, rows):
        cells += [_planned(cell, row, request, store) for cell in student_cells(row, tasks, request, artefacts)]
    plan = Plan(request, tasks, artefacts, cells, notes)
    if request.teacher_outputs:
        _keep_outputs(plan)
    if request.kernels == FAST:
        _check_kernels(numeric)
    plan.notes += [*_made_anew(plan, store), *thread_notes(plan, store)]
    plan.stale = stale_slots(plan)
    plan.code_warnings = warnings(plan)
    if estimated:
        _add_estimate(plan)
    return plan


def _add_estimate(plan: Plan) -> None:
    """Say what is to make, how long that takes, with how many jobs, and on how much disk."""
    from bench.plan.estimate import estimate
    from bench.plan.parallel import choose_parallelism

    if plan.request.jobs != 1:
        choose_parallelism(plan)
    plan.work_items = estimate(plan)
    plan.seconds = plan.seconds or sum(part.seconds for part in plan.work_items)
    plan.disk_bytes = sum(part.disk_bytes for part in plan.work_items)


def _data_notes(tasks: Sequence[TaskPlan]) -> list[str]:
    """Examples that are scored and were seen: by students in training, or by the embedded teacher before it."""
    shared = [
        f"{task.task.name}: {shared:,} of {len(split):,} examples of {name} are also in train"
        for task in tasks
        for name, split in task.evaluation.items()
        if (shared := split.shared_with(task.train))
    ]
    # the embedded teacher saw texts of these two tasks
    real = [t for t in tasks if t.task.name in ("mnli", "qqp") and not t.source.slug.startswith(SAMPLE)]
    return [*shared, *sorted({t.checkpoint.note for t in real if t.checkpoint.note})]


def _keep_outputs(plan: Plan) -> None:
    """Note for each task which outputs of its teacher are kept.

    Raises:
        InputError: they need more room than the limit.
    """
    for task in plan.tasks:
        task.outputs = outputs_of(plan, task, plan.request.teacher_outputs_limit * 1e9)
    if not any(task.outputs for task in plan.tasks):
        plan.notes.append(
            "--teacher-outputs changes nothing here: no row reads a teacher that sees the examples as they are"
        )


def _check_kernels(numeric: NumericIdentity) -> None:
    """Whether the fast kernels work here.

    Raises:
        InputError: this machine or this torch has none.
    """
    from methods.fast_kernels import problem_here

    problem = "they are for the CPU; add --device cpu" if numeric.device != "cpu" else problem_here()
    if problem:
        raise InputError(f"--kernels fast: {problem}")


def numeric_of(request: Request) -> NumericIdentity:
    """What of a request changes the arithmetic.

    Raises:
        InputError: there is no such device here.
    """
    return NumericIdentity(precision=request.precision, threads=request.threads, device=_kind_of_device(request))


def _kind_of_device(request: Request) -> str:
    """A device that somebody names for other machines need not be on this one."""
    if is_elsewhere(request) and request.device != AUTO:
        return request.device
    from bench.measure.devices import device_of

    return device_of(request.device).type


def without_auto(request: Request) -> Request:
    """The request with what ``auto`` chooses here in its place, and a note that says why."""
    if AUTO not in (request.data, request.teacher):
        return request
    import torch

    accelerator = request.device != "cpu" and torch.accelerator.is_available()
    resolved = resolve_auto(request, accelerator, accelerator and not request.offline and _hub_answers())
    # how long the real thing takes is known of BERT-base on all of GLUE alone
    of_glue = request.data in (AUTO, HUB) and request.teacher in (AUTO, HUB_TEACHER) and not brings_all_data(request)
    if resolved.notes == request.notes or not of_glue:
        return resolved
    from bench.plan.estimate import real_glue_seconds
    from bench.progress import duration

    rows = len(parse_rows(request.methods)[0]) if request.methods else 0
    took = duration(real_glue_seconds(request, rows))
    return replace(
        resolved, notes=(*resolved.notes[:-1], f"{resolved.notes[-1]} (about {took} on this machine, all of GLUE)")
    )


def _hub_answers() -> bool:
    """One small question to the hub, three seconds at most."""
    import http.client
    import urllib.request

    from huggingface_hub import constants

    question = urllib.request.Request(constants.ENDPOINT, method="HEAD")
    try:
        with urllib.request.urlopen(question, timeout=3.0):
            return True
    except (http.client.HTTPException, OSError, ValueError):  # an answer that says no is an OSError too
        return False


def _teacher_cell(task: TaskPlan, request: Request, store: Store) -> Planned:
    settings: dict[str, Any] = {"origin": task.teacher.origin}
    cell = Cell(
        label=TEACHER,
        method=TEACHER,
        version=TEACHER_VERSION,
        settings=settings,
        tasks=(task.task.name,),
        data=task.data,
        teacher=task.teacher,
        tokenizer=task.tokenizer,
        recipe=task.teacher_recipe.as_dict(),
        seed=0,
        numeric=task.numeric,
    )
    return _planned(cell, TeacherRow(), request, store)


def _checkpoint_cell(row: GivenCheckpoint, task: TaskPlan, request: Request, store: Store) -> Planned:
    """The cell of a finished classifier: identified by weights and configuration, read with its own tokenizer."""
    from bench.data.checkpoints import find

    found = find(row.path, task.task, request.offline, ours=True, asked=row.spelling)
    if not found.finetuned:
        raise InputError(
            f"{row.spelling}: no classification head in it, so it has no answers to {task.task.name}; "
            f"a finished checkpoint is a ...ForSequenceClassification that was tuned on the task"
        )
    mean_tokens(found, task.task, task.train, task.recipe.max_length)  # its tokenizer has to read the task's text
    cell = Cell(
        label=f"{CHECKPOINT}:{found.name}",
        method=CHECKPOINT,
        version=2,  # 1 took other configurations of the same weights (speeds of an early exit) for one
        settings={"weights": found.sha256, "config": digest(_telling(found.config))},
        tasks=(task.task.name,),
        data=task.data,
        teacher=task.teacher,
        tokenizer=hash_of_tokenizer(found),
        recipe=task.recipe.as_dict(),
        seed=0,
        numeric=task.numeric,
    )
    return _planned(cell, CheckpointRow(row.spelling, found), request, store)


def _telling(config: Any) -> dict[str, Any]:
    """What of a configuration can move an answer."""
    from bench.data.checkpoints import OURS

    return {k: v for k, v in config.to_dict().items() if k not in (OURS, "transformers_version", "_name_or_path")}


def _made_anew(plan: Plan, store: Store) -> list[str]:
    """Why cells are trained again although something lies in their folders."""
    return [
        f"{planned.cell.label} on {'+'.join(planned.cell.tasks)}, seed {planned.cell.seed}, is trained again, because its record "
        f"was set aside: {why}"
        for planned in plan.todo
        if planned.record is None and (why := store.set_aside_reason(planned.cell))
    ]


def _planned(cell: Cell, row: Row, request: Request, store: Store) -> Planned:
    record = store.find(cell)
    done = record is not None and (record.status == "ok" or (record.status == "failed" and not request.retry_failed))
    code_state = state_of_record(record) if record is not None and record.status == "ok" else ""
    again = request.rerun or (request.rerun_stale and code_state == STALE)
    return Planned(cell, row, record, again or not done, code_state)
