"""Time the saved models of a run as they are served, on the task's own texts, and measure the
memory that they take."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.data.checkpoints import opener, tokenizer_of
from bench.data.encoding import encode
from bench.errors import InputError
from bench.make.record import now
from bench.make.saved_student import folder_for
from bench.measure.backends import INT8, ONNX
from bench.measure.busy import OtherWork, busy_facts
from bench.measure.capacity import usable_cores
from bench.measure.latency import load_of_task
from bench.measure.machine import environment, revision
from bench.measure.serving import TORCH, Call, Served, footprints, time_served
from bench.plan.plan import Plan, TaskPlan
from bench.progress import Progress
from bench.record.cell import PREDICTIONS, TEACHER
from bench.record.schema import Record
from bench.record.speed_sessions import BUSY_CORES, SpeedRecord, write_speed
from bench.record.store import Store
from bench.record.task_facts import row_as_typed

ROUNDS = 60
"""How often each model is timed: so many for a quantile of 95 %."""


def timed_threads() -> tuple[int, ...]:
    """The numbers of threads that models are timed with: one, and all cores."""
    return tuple(dict.fromkeys((1, usable_cores())))


def refuse_untimed(backend: str, threads: int) -> None:
    """Raises InputError: latencies of a backend or a number of threads that nothing is timed with.

    Args:
        backend: "" for any.
        threads: 0 for any.
    """
    backends = (TORCH, ONNX, INT8)
    if backend and backend not in backends:
        raise InputError(f"--backend {backend}: with a file, {', '.join(backends)} are timed")
    if threads and threads not in timed_threads():
        numbers = " and ".join(map(str, timed_threads()))
        raise InputError(f"--threads {threads}: with a file, {numbers} are timed")


def time_trained(
    plan: Plan,
    students: Path,
    batch: int,
    others: Mapping[str, Call],
    progress: Progress,
) -> SpeedRecord:
    """Time the saved models of a plan's first seed; returns the session, which is written.

    Args:
        plan: of one task; its records and models are there.
        students: folder of the saved models.
        batch: examples of one call.
        others: row -> what answers the batch of a number without a backend of ours.
    """
    started = now()
    task = plan.tasks[0]
    models = _saved_models(plan, students)

    # the task's own texts, in batches
    split = next(iter(task.evaluation.values()))
    tokenizer = tokenizer_of(task.checkpoint)
    tokens = encode(tokenizer, split, task.recipe.max_length, task.recipe.truncation).tokens
    load = load_of_task(f"{task.name} of {task.source.slug}", tokens, batch)

    # times, in turns, and meanwhile the work of other processes
    threads = timed_threads()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        other_work = OtherWork()
        with progress.task("choose: milliseconds") as update:
            timings = time_served(models, others, load, batch, threads, ROUNDS, folder, update)
        other_cores = other_work.cores()
        with progress.task("choose: memory") as update:
            sizes = footprints(models, folder, update)
    if other_cores is not None and other_cores >= BUSY_CORES:
        progress.say(
            f"choose: other processes used {other_cores:.1f} cores meanwhile, so milliseconds mean "
            "little; the page says so"
        )
    session = SpeedRecord(
        teacher=task.teacher.name,
        timings=timings,
        footprints=sizes,
        energy="not measured: by this command",
        code=revision(),
        env=environment("cpu") | busy_facts(other_cores),
        started=started,
        finished=now(),
    )
    return write_speed(plan.request.results, session)[0]


def _saved_models(plan: Plan, students: Path) -> list[Served]:
    """The models whose folders are there, each with its backends."""
    task = plan.tasks[0]
    in_8_bits = {each.cell.label for each in plan.cells if each.in_8_bits}
    models = []
    for record in _first_of_each(Store(plan.request.results), plan):
        folder = _folder_of(students, task, record)
        if folder is None:
            continue
        model = opener(spans=False).from_pretrained(folder).eval()
        backends = (TORCH, ONNX, INT8) if record.cell.label in in_8_bits else (TORCH,)
        models.append(Served(row_as_typed(record.cell), model, backends))
    return models


def _first_of_each(store: Store, plan: Plan) -> list[Record]:
    """The finished fp32 record of each row's first seed, as the plan has them."""
    records: dict[str, Record] = {}
    for planned in plan.cells:
        record = store.find(planned.cell)
        is_model = planned.cell.method != PREDICTIONS
        if is_model and record is not None and record.status == "ok":
            records.setdefault(planned.cell.label, record)
    return list(records.values())


def _folder_of(students: Path, task: TaskPlan, record: Record) -> Path | None:
    """The folder of a record's model; None where it could not be saved."""
    if record.cell.method == TEACHER and task.teacher.origin == "given":
        return task.checkpoint.folder
    folder = folder_for(students, record)
    return folder if (folder / "config.json").is_file() else None
