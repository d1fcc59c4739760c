"""Carry out a plan: what is missing is made, step by step, in this process or in several; one
record a cell.

What fails becomes a failed record and the rest goes on. After an interruption the next run does
what is missing.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.cache import cache_root
from bench.errors import InputError
from bench.folders import ANOTHER_CACHE, CACHE_VARIABLE, users_cache
from bench.interrupts import interrupts_noticed
from bench.make.saved_student import folder_for
from bench.make.work import FailedCell
from bench.measure.busy import training_here
from bench.plan.plan import Plan, Planned
from bench.plan.spelling import MethodRow
from bench.progress import Progress, duration
from bench.record.cell import IN_8_BITS
from bench.record.cell_locks import CellLocks
from bench.record.rescored import rescored
from bench.record.store import Store
from bench.record.task_facts import shown_tasks
from bench.request import Request
from bench.request.choices import RAY, SAMPLE, SLURM
from bench.run.executors import Executor, InProcess, Processes, refuse_script_without_main_guard
from bench.run.schedule import Outcome, Schedule
from bench.run.track import check_tracker, track

__all__ = ["Outcome", "agree", "carry_out", "refuse_script_without_main_guard", "unfinished"]

ASK_ABOVE_SECONDS = 30 * 60
ASK_ABOVE_BYTES = 5 * 10**9
SPARE_BYTES = 10**8
"""Disk that has to stay free in addition to what the plan needs, for files that it does not count;
chosen by hand."""
SAMPLE_PATIENCE = 4
"""How many times as long a plan of the sample suite may be: it is minutes of work, and longer only
where a machine is slow or busy; the first command that somebody types should not stop there."""


def carry_out(plan: Plan, progress: Progress, confirm: Any = None) -> Outcome:
    """Make the steps of a plan that are still to do; their records are in the store when this
    returns.

    Args:
        confirm: asked with a question when the plan is long; without it, and without ``yes``, that
            is an error.

    Raises:
        InputError: before anything is started, for a long plan that nobody agreed to or a folder
            that cannot be written; later, as :meth:`Schedule.carry_out` says: the records that are
            finished stay.
        KeyboardInterrupt: somebody stopped the run.
    """
    request = plan.request
    outcome = Outcome(plan)
    if request.track:
        check_tracker(request.track)
    if request.save_students:
        check_saving(request.save_students, plan, progress)
    store = Store(request.results)
    for pointer, attempt in store.write_pointers():
        progress.say(f"written: {pointer} names {attempt}")
    if not plan.todo_steps:
        rescore(plan, store)
        progress.say(f"nothing to do: {_why_nothing_is_to_do(plan)}")
        return outcome
    agree(request, plan.seconds, plan.disk_bytes, confirm)
    check_disk(plan)
    rescore(plan, store)
    with (
        training_here(users_cache()),  # seen by others, wherever this training keeps its things
        # given back last: a worker that is being ended may still write its state
        CellLocks(request.results) as locks,
        executor_for(plan, progress) as executor,
    ):
        if request.rerun_stale:
            for slot in plan.stale:
                slot.forget()
        with interrupts_noticed():
            Schedule(plan, executor, store, locks, outcome).carry_out()
    if request.track:
        trained = {planned.train_key for planned in plan.todo}
        records = [record for record in store.records() if record.train_key in trained]
        count = track(request.track, records, request.reports / request.track)
        progress.say(f"{request.track}: {count} record{'s' if count != 1 else ''}, a run for each")
    return outcome


def rescore(plan: Plan, store: Store) -> None:
    """Write the records anew whose stored answers are scored by other metrics.

    Of each training these are the records of all operating points.
    """
    # which trainings are scored by other metrics than their records have
    metrics_of = {}
    for planned in plan.cells:
        if planned.rescored_by:
            metrics_of[planned.train_key] = planned.rescored_by
    if not metrics_of:
        return
    for record in list(store.records()):
        if record.status != "ok" or record.train_key not in metrics_of:
            continue
        scored = rescored(record, metrics_of[record.train_key], store)
        # where answers are gone, the record keeps the scores that it has
        if scored is None or scored is record:
            continue
        arrays = None
        if store.has_predictions(record):
            arrays = store.predictions(record)
        # a new attempt: the weights and times of the training stay
        at = datetime.now(UTC).isoformat(timespec="seconds")
        scored = scored.model_copy(update={"rescored": at})
        store.write(scored, arrays)


def _why_nothing_is_to_do(plan: Plan) -> str:
    """For a person whose command starts nothing: what of the plan is there, and what failed."""
    if not plan.cells:
        return "no cell to do needs more of it"
    failed = [p for p in plan.cells if p.record is not None and p.record.status == "failed"]
    if not failed:
        return "every cell has its record"
    count = f"{len(failed)} of {len(plan.cells)} cells"
    return (
        f"{count} failed before, and the others have their records; --retry-failed runs them again"
    )


def unfinished(plan: Plan, store: Store, known: Collection[FailedCell]) -> list[FailedCell]:
    """The asked cells that have no finished record, each with the reason.

    Args:
        store: it has read none of these records yet, or reads again those that changed.
        known: failures of this run; a cell of these is not named again.
    """
    failures = []
    named = {failure.key for failure in known}
    for planned in plan.cells:
        failure = _unfinished(planned, "", store)
        # without its model no score in 8 bits is to be expected
        if failure is None and planned.in_8_bits:
            failure = _unfinished(planned, IN_8_BITS, store)
        if failure is not None and (not failure.key or failure.key not in named):
            failures.append(failure)
    return failures


def _unfinished(planned: Planned, point: str, store: Store) -> FailedCell | None:
    """Why a cell has no finished record; None where it has one."""
    cell = planned.cell
    # looked for in the store, whatever this run believes to have written
    record = store.find(cell, point)
    if record is not None and record.status == "ok":
        return None
    row = f"{cell.label}+{point}" if point else cell.label
    if record is not None:
        why = record.error.message if record.error else record.status
        return FailedCell(shown_tasks(cell), row, cell.seed, why, record.key)
    # there is none: it was set aside, or somebody took it away
    aside = store.set_aside_reason(cell)
    if aside:
        why = f"its record was set aside: {aside}; the same command makes it again"
    else:
        why = (
            f"its record is not in {store.root}, which somebody may have moved or removed; "
            "the same command makes what is missing"
        )
    return FailedCell(shown_tasks(cell), row, cell.seed, why)


def executor_for(plan: Plan, progress: Progress) -> Executor:
    """A cluster if one is asked for; else this process if one step is made at a time; else as many
    processes as steps.

    Raises:
        InputError: the cluster does not answer.
    """
    at_once = min(plan.request.jobs, len(plan.todo_steps))
    if plan.request.executor == RAY:
        from bench.run.ray_executor import RaySteps

        return RaySteps(plan, at_once, progress)
    if plan.request.executor == SLURM:
        from bench.run.slurm_executor import SlurmSteps

        return SlurmSteps(plan, at_once, progress)
    return InProcess(plan, progress) if at_once <= 1 else Processes(plan, at_once, progress)


def agree(request: Request, seconds: float, disk_bytes: int, confirm: Any) -> None:
    """Ask whether long work should start.

    Raises:
        InputError: nobody is there to ask, or the answer is no.
    """
    patience = SAMPLE_PATIENCE if request.data == SAMPLE else 1
    if request.yes or (seconds <= patience * ASK_ABOVE_SECONDS and disk_bytes <= ASK_ABOVE_BYTES):
        return
    what = f"about {duration(seconds)} and {disk_bytes / 1e9:.1f} GB of disk"
    if confirm is None:
        raise InputError(
            f"this plan needs {what}; add --yes to start it, or fewer --tasks, --methods or "
            "--max-train-rows"
        )
    if not confirm(f"This plan needs {what}. Start?"):
        raise InputError("not started")


def check_saving(root: Path, plan: Plan, progress: Progress) -> None:
    """Make the folder for students, and say which of them are neither in it nor trained again.

    Raises:
        InputError: it cannot be made.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--save-students {root}: {error.strerror}; choose another folder"
        ) from None
    trained = [p for p in plan.cells if isinstance(p.row, MethodRow)]
    done = [p.record for p in trained if not p.is_todo and p.record and p.record.status == "ok"]
    gone = [record for record in done if not folder_for(root, record).is_dir()]
    if gone:
        names = ", ".join(dict.fromkeys(f"{r.cell.label} on {shown_tasks(r.cell)}" for r in gone))
        progress.say(f"not saved, because trained before: {names}; --rerun trains them again")


def check_disk(plan: Plan) -> None:
    """Raises InputError where a folder cannot be written, or has less free than the plan needs."""
    needed = plan.disk_bytes + SPARE_BYTES
    request = plan.request
    # what is written, where, and how another folder is chosen for it
    written = [
        ("results", request.results, "choose another folder with --results"),
        ("reports", request.reports, "choose another folder with --reports"),
        ("the cache", cache_root(), ANOTHER_CACHE),
    ]
    if request.save_students:
        other = "choose another folder with --save-students"
        written.append(("students", request.save_students, other))
    for what, folder, other in written:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):  # a folder that is there may be read-only
                pass
            free = shutil.disk_usage(folder).free
        except OSError as error:
            raise InputError(
                f"{what} cannot be written to {folder}: {error.strerror}; {other}"
            ) from None
        if free < needed:
            raise InputError(
                f"{what} in {folder} has {free / 1e6:,.0f} MB free, this plan needs about "
                f"{needed / 1e6:,.0f} MB; free some, or set --results, --reports and "
                f"{CACHE_VARIABLE} to another disk"
            )
