"""From a request to a plan: every cell with its key, what is there already, who shares what, time
and disk.

Heavy libraries are imported where they are needed, so that reading a plan's types costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bench.cache import Slot, cache_root
from bench.data.hub import CHANGED
from bench.data.own_tasks import expand
from bench.errors import InputError
from bench.folders import ANOTHER_CACHE, why_not_writable
from bench.plan.artefacts import DEFAULT_CORPUS_BUDGET, ArtefactPlanner
from bench.plan.auto import without_auto
from bench.plan.estimate import choose_jobs, too_large_for_card
from bench.plan.finished_cells import finished_cells
from bench.plan.notes import (
    OUTLINE,
    artefact_notes,
    check_labels,
    checkpoint_notes,
    data_notes,
    nameless_labels,
)
from bench.plan.outputs import plan_outputs
from bench.plan.plan import (
    TEACHER_VERSION,
    ArtefactPlan,
    Plan,
    Planned,
    Step,
    TaskPlan,
    with_parts,
)
from bench.plan.planned_tasks import TasksOfSeeds, augment, plan_tasks, with_encoder
from bench.plan.spelling import MethodRow, TypedRows, drop_unusable, parse_rows
from bench.plan.steps import steps_of
from bench.plan.stored_cells import StoredCells, rescoring_notes, set_aside_notes
from bench.plan.student_cells import check_row, student_cells
from bench.plan.training_texts import training_texts
from bench.record.cell import PLUS_INT8, TEACHER, NumericIdentity, Varied
from bench.record.code import STALE, made_by, state_of
from bench.record.store import Store
from bench.record.varied import VARIED_TEACHER
from bench.request import Request
from bench.request.choices import AUTO, FAST, SAMPLE, TF32
from bench.stats.own_metrics import load_metrics

if TYPE_CHECKING:
    from bench.record.schema import Record


def build(request: Request) -> Plan:
    """Resolve everything that identity needs. Trains nothing.

    A hub teacher or data set is downloaded to its cache.

    Raises:
        InputError: anything wrong with what was asked for, before anything starts.
    """
    # what was typed
    request = request.checked()
    own_metrics = load_metrics(request.metric)
    typed = parse_rows(request.methods)
    named_tasks = expand(request.tasks, request.offline)
    request = without_auto(request, [*typed.given, *_own_methods(typed.rows)])

    # the tasks with their examples and teachers, and the text of pre-training
    numeric = numeric_of(request)
    tasks, absent = plan_tasks(request, named_tasks, numeric)
    own_texts, why_others = training_texts(request, tasks, DEFAULT_CORPUS_BUDGET)
    if own_texts is None:
        request = replace(request, corpus=request.texts or (SAMPLE,))
    notes = list(request.notes)
    if absent:
        notes.append(f"not in {tasks[0].source.name}: {', '.join(absent)}")
    notes += data_notes(tasks, own_metrics)

    # the rows that these tasks and teachers allow, and those of them that are quantised too
    reading = TasksByEncoder(tasks, request)
    rows, left_out = drop_unusable(
        typed.rows, lambda row: check_row(row, reading.of(row), request.vary)
    )
    notes += left_out
    _check_kernels(request, tasks)
    in_8_bits, left_out = _rows_in_8_bits(typed, rows, reading)
    notes += left_out

    # each cell with its key, and with what the store has of it
    store = Store(request.results)
    stored = StoredCells(store, request, tasks, in_8_bits)
    planner = ArtefactPlanner(request, numeric, own_texts)
    seeds = TasksOfSeeds(request)
    cells: list[Planned] = []
    for number, task in enumerate(tasks):
        augment(task, planner)
        if not task.task.writes:  # what teaches to write is an artefact of its row
            cells += _teacher_cells(task, request, stored, seeds)
        for cell, finished in finished_cells(typed.given, task, request):
            cells.append(stored.planned(cell, finished))
        for row in rows:
            if not row.method.multitask:
                read = reading.of(row)[number]
                of_row = student_cells(row, [read], request, planner, seeds)
                cells += stored.planned_students(row, of_row)
    # a student of several tasks is planned once, over all of them
    for row in rows:
        if row.method.multitask:
            of_row = student_cells(row, tasks, request, planner, seeds)
            cells += stored.planned_students(row, of_row)
    _check_all_labels(tasks, rows)

    # what a reader should know
    notes += nameless_labels(tasks, cells)
    notes += checkpoint_notes(tasks, reading.by_encoder, cells)
    notes += artefact_notes(planner, why_others)
    notes += _outline_notes(reading.by_encoder, planner)
    if request.teacher_outputs:
        notes += plan_outputs(request, tasks, cells)
    notes += set_aside_notes(cells, store)
    notes += rescoring_notes(cells)
    notes += CHANGED.values()
    CHANGED.clear()  # a later run in this process says it anew

    # the steps that make all this, and what of it other code made
    plan = Plan(request, tasks, _in_use(planner.entries, tasks, cells), cells, notes)
    steps = steps_of(plan)
    stale = _stale_slots(steps.values())
    other_code = _other_code(stale, cells)
    plan = choose_jobs(replace(plan, steps=steps, stale=stale, other_code=other_code))
    if plan.todo_steps:
        _refuse_cache_that_cannot_be_written()
    return replace(plan, notes=[*notes, *too_large_for_card(plan)])


@dataclass(frozen=True)
class TasksByEncoder:
    """The tasks of a plan as each row reads them: by the teacher's checkpoint, or by an encoder
    of its own."""

    tasks: list[TaskPlan]
    request: Request
    by_encoder: dict[str, list[TaskPlan]] = field(default_factory=dict)
    """name of an encoder -> the tasks as its rows read them"""

    def of(self, row: MethodRow) -> list[TaskPlan]:
        """The tasks as a row reads them.

        Raises:
            InputError: its encoder cannot be read, or not for these tasks.
        """
        name = row.method.own_encoder
        if not name:
            return self.tasks
        if name not in self.by_encoder:
            self.by_encoder[name] = [with_encoder(task, name, self.request) for task in self.tasks]
        return self.by_encoder[name]


def _check_kernels(request: Request, tasks: Sequence[TaskPlan]) -> None:
    """Raises InputError where fast kernels are asked for and this machine or this torch has
    none."""
    if request.kernels != FAST:
        return
    from methods.core.fast_kernels import problem_here

    problem = "they are for the CPU; add --device cpu"
    if tasks[0].numeric.device == "cpu":
        problem = problem_here()
    if problem:
        raise InputError(f"--kernels fast: {problem}")


def _rows_in_8_bits(
    typed: TypedRows, rows: Sequence[MethodRow], reading: TasksByEncoder
) -> tuple[frozenset[str], list[str]]:
    """The spellings of the rows that are scored in 8 bits too, and why others of ``all`` are not.

    Args:
        rows: those of ``typed`` that are trained.

    Raises:
        InputError: ONNX Runtime is not installed, a task asks for texts, or a row that was named
            has no graph.
    """
    from bench.plan.untrained import graph_problem

    if not typed.in_8_bits:
        return typed.in_8_bits, []
    from bench.measure.backends import INT8, check_backends

    check_backends([INT8])
    for task in reading.tasks:
        if task.task.writes:
            raise InputError(f"+int8 on {task.shown}: models that write texts are not quantised")

    def check_graph(row: MethodRow) -> None:
        if why := graph_problem(row, reading.of(row)[0].checkpoint):
            raise InputError(
                f"{row.spelling}{PLUS_INT8}: ONNX has no graph of this student, because {why}"
            )

    asked = [
        replace(row, from_all=row.spelling in typed.by_all)
        for row in rows
        if row.spelling in typed.in_8_bits
    ]
    # a row of all+int8 may be left out, one that was named may not
    with_graph, left_out = drop_unusable(asked, check_graph, PLUS_INT8)
    without = {row.spelling for row in asked} - {row.spelling for row in with_graph}
    return typed.in_8_bits - without, left_out


def _teacher_cells(
    task: TaskPlan, request: Request, stored: StoredCells, seeds: TasksOfSeeds
) -> list[Planned]:
    """The cell of a task's teacher; one for each seed where each has its own."""
    varied = None
    of_seeds = [task]
    if VARIED_TEACHER in request.vary:
        varied = Varied(sources=(VARIED_TEACHER,), teacher=task.teacher.key)
        of_seeds = [seeds.of(task, seed) for seed in request.seeds]
    cells = []
    for own in of_seeds:
        cell = own.cell(
            label=TEACHER,
            method=TEACHER,
            version=TEACHER_VERSION,
            settings={"origin": task.teacher.origin},
            recipe=task.teacher_recipe.as_dict(),
            seed=own.teacher_seed,
            varied=varied,
        )
        cells.append(stored.planned(cell, None, own_task=None if own is task else own))
    return cells


def _in_use(
    entries: Sequence[ArtefactPlan], tasks: Sequence[TaskPlan], cells: Sequence[Planned]
) -> list[ArtefactPlan]:
    """The artefacts that some cell, or the augmentation of a task, is made from: not those that
    only say what seeds have in common."""
    heads = [task.masked_head for task in tasks if task.masked_head is not None]
    asked = [*heads, *(entry for planned in cells for entry in planned.artefacts)]
    used = {id(entry) for entry in with_parts(asked)}
    return [entry for entry in entries if id(entry) in used]


def _check_all_labels(tasks: Sequence[TaskPlan], rows: Sequence[MethodRow]) -> None:
    """Raises InputError where a student or a teacher is trained on examples of one label."""
    for task in tasks:
        if rows or task.teacher.origin == "fine-tuned":
            check_labels(task)


def _outline_notes(
    by_encoder: Mapping[str, Sequence[TaskPlan]], planner: ArtefactPlanner
) -> list[str]:
    """A note for each encoder and given start of which there is the configuration alone."""
    encoders = [name for name, read in by_encoder.items() if read[0].checkpoint.outline]
    return [OUTLINE.format(name) for name in (*encoders, *sorted(planner.outlined))]


def _stale_slots(steps: Iterable[Step]) -> list[Slot]:
    """The folders of the cache that these steps would take, although other code made them."""
    stale = []
    for step in steps:
        slot = step.slot
        if slot is not None and slot.is_made and state_of(slot.read_made().get("code")) == STALE:
            stale.append(slot)
    return stale


def _other_code(stale: Sequence[Slot], cells: Sequence[Planned]) -> str:
    """Which parts of the cache and which records today's code did not make; "" for none."""
    kept: list[Record] = []
    for planned in cells:
        if planned.record is not None and not planned.is_todo:
            kept.append(planned.record)
    titles = ", ".join(slot.title for slot in stale)
    in_cache = f"{titles}, in the cache: made by other code than this" if stale else ""
    return "; ".join(filter(None, (in_cache, made_by(kept))))


def _refuse_cache_that_cannot_be_written() -> None:
    """Raises InputError where what the steps of a plan make could not be kept."""
    folder = cache_root()
    if why := why_not_writable(folder):
        raise InputError(f"the cache cannot be written to {folder}: {why}; {ANOTHER_CACHE}")


def numeric_of(request: Request) -> NumericIdentity:
    """The part of a request that changes the arithmetic.

    Raises:
        InputError: there is no such device here.
    """
    # the device need not be on this machine
    if request.is_elsewhere and request.device != AUTO:
        device = request.device
    else:
        from bench.measure.devices import device_of

        device = device_of(request.device, request.deterministic).type
    if request.precision == TF32 and device != "cuda":
        raise InputError(
            f"--precision {TF32}: only CUDA has it, and the device is {device}; choose fp32 or bf16"
        )
    # on a CPU the bits are the same without it
    deterministic = request.deterministic and device != "cpu"
    return NumericIdentity(
        precision=request.precision,
        threads=request.threads,
        device=device,
        deterministic=deterministic,
    )


def _own_methods(rows: Sequence[MethodRow]) -> list[str]:
    """The spellings of rows whose methods do not come with this program."""
    return [row.spelling for row in rows if type(row.method).__module__.split(".")[0] != "methods"]
