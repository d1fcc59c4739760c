"""Carry out a plan: what is missing is made, step by step, in this process or in several; one record a cell.

What fails becomes a failed record and the rest goes on. After an interruption the next run does what is missing.
"""

from __future__ import annotations

from typing import Any

from bench.folders import users_cache
from bench.interrupts import interrupts_noticed
from bench.measure.busy_mark import training_here
from bench.plan.plan import Plan
from bench.progress import Progress
from bench.record.cell_locks import CellLocks
from bench.record.store import Store
from bench.run.executors import executor_for, refuse_script_without_main_guard
from bench.run.outcome import Outcome
from bench.run.preflight import agree, check_disk, check_saving
from bench.run.schedule import Schedule

__all__ = ["Outcome", "agree", "carry_out", "refuse_script_without_main_guard"]


def carry_out(plan: Plan, progress: Progress, confirm: Any = None) -> Outcome:
    """Make the steps of a plan that are still to do; their records are in the store when this returns.

    Args:
        confirm: asked with a question when the plan is long; without it, and without ``yes``, that is an error.

    Raises:
        InputError: before anything is started, for a long plan that nobody agreed to or a folder that cannot be
            written; later, as :meth:`Schedule.carry_out` says: the records that are finished stay.
        KeyboardInterrupt: somebody stopped the run.
    """
    if plan.request.save_students:
        check_saving(plan.request.save_students, plan, progress)
    outcome = Outcome(plan)
    for pointer, attempt in Store(plan.request.results).write_pointers():
        progress.say(f"written: {pointer} names {attempt}")
    if plan.todo:
        agree(plan.request, plan.seconds, plan.disk_bytes, confirm)
        check_disk(plan)
        with training_here(users_cache()):  # seen by others, wherever this training keeps its things
            _make_steps(plan, progress, outcome)
    else:
        progress.say("nothing to do: every cell has its record")
    return outcome


def _make_steps(plan: Plan, progress: Progress, outcome: Outcome) -> None:
    store = Store(plan.request.results)
    # the claims are given back last: a worker that is being ended may still write its state
    with CellLocks(plan.request.results) as locks, executor_for(plan, progress) as executor:
        if plan.request.rerun_stale:
            for slot in plan.stale:
                slot.forget()
        with interrupts_noticed():
            Schedule(plan, executor, store, locks, outcome).carry_out()
