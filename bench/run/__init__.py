"""Carry out a plan: what is missing is made, job by job, in this process or in several; one record a cell.

What fails becomes a failed record and the rest goes on. After an interruption the next run does what is missing.
"""

from __future__ import annotations

from typing import Any

from bench.folders import users_cache
from bench.measure.busy_mark import training_here
from bench.plan.build import Plan
from bench.plan.jobs import jobs_of
from bench.progress import Progress
from bench.record.cell_locks import CellLocks
from bench.record.store import Store
from bench.run.executors import executor_for, refuse_script_without_main_guard
from bench.run.interrupts import interrupts_noticed
from bench.run.job_schedule import JobSchedule
from bench.run.outcome import Outcome
from bench.run.preflight import agree, check_disk, check_saving

__all__ = ["Outcome", "agree", "carry_out", "refuse_script_without_main_guard"]


def carry_out(plan: Plan, progress: Progress, confirm: Any = None) -> Outcome:
    """Do the jobs of a plan that are still to do; their records are in the store when this returns.

    Args:
        confirm: asked with a question when the plan is long; without it, and without ``yes``, that is an error.

    Raises:
        InputError: before anything is started, for a long plan that nobody agreed to or a folder that cannot be
            written; later, as :meth:`JobSchedule.carry_out` says: the records that are finished stay.
        KeyboardInterrupt: somebody stopped the run.
    """
    if plan.request.save_students:
        check_saving(plan.request.save_students, plan, progress)
    outcome = Outcome(plan)
    if plan.todo:
        agree(plan, confirm)
        check_disk(plan)
        with training_here(users_cache()):  # seen by others, wherever this training keeps its things
            _do_jobs(plan, progress, outcome)
    else:
        progress.say("nothing to do: every cell has its record")
    return outcome


def _do_jobs(plan: Plan, progress: Progress, outcome: Outcome) -> None:
    jobs, store = jobs_of(plan), Store(plan.request.results)
    # the claims are given back last: a worker that is being ended may still write its state
    with CellLocks(plan.request.results) as locks, executor_for(plan, len(jobs), progress) as executor:
        if plan.request.rerun_stale:
            for slot in plan.stale:
                slot.forget()
        with interrupts_noticed():
            JobSchedule(plan, jobs, executor, store, locks, outcome).carry_out()
