"""Carry out a plan: what is missing is made, job by job, in this process or in several; one record a cell.

What fails becomes a failed record and the rest goes on; an interrupted run goes on with the next one.
"""

from __future__ import annotations

from typing import Any

from bench.measure.busy import training_here
from bench.plan.build import Plan, build
from bench.plan.jobs import jobs_of
from bench.plan.request import Request
from bench.progress import Progress, quiet
from bench.record.claims import Claims
from bench.record.store import Store
from bench.run.before import agree, check_disk, check_saving
from bench.run.executors import executor_for, refuse_in_a_starting_worker
from bench.run.outcome import Outcome
from bench.run.schedule import Schedule
from bench.train.cache import users_cache

__all__ = ["Outcome", "agree", "run"]


def run(request: Request, progress: Progress | None = None, confirm: Any = None) -> Outcome:
    """Do what is missing, then write the report.

    Args:
        confirm: asked with a question when the plan is long; without it, and without ``yes``, that is an error.

    Raises:
        InputError: bad input, or a long plan that nobody agreed to; nothing was started.
    """
    progress = progress or Progress()
    refuse_in_a_starting_worker()
    quiet()
    plan = build(request)
    request = plan.request
    from bench.plan.show import describe

    progress.say(describe(plan))
    if request.save_students:
        check_saving(request.save_students, plan, progress)
    outcome = Outcome(plan)
    if plan.todo:
        agree(plan, confirm)
        check_disk(plan)
        with training_here(users_cache()):  # seen by others, wherever this training keeps its things
            _carry_out(plan, progress, outcome)
    else:
        progress.say("nothing to do: every cell has its record")
    _report(outcome, progress)
    return outcome


def _carry_out(plan: Plan, progress: Progress, outcome: Outcome) -> None:
    jobs, store = jobs_of(plan), Store(plan.request.results)
    # the claims are given back last: a worker that is being ended may still write its state
    with Claims(plan.request.results) as claims, executor_for(plan, len(jobs), progress) as executor:
        if plan.request.rerun_stale:
            for slot in plan.stale:
                slot.forget()
        Schedule(plan, jobs, executor, store, claims, outcome).carry_out()


def _report(outcome: Outcome, progress: Progress) -> None:
    """Write the reports of the plan's tables, with their rows as they were typed."""
    from bench.ending import shown
    from bench.report.write import write_groups

    request, cells = outcome.plan.request, [planned.cell for planned in outcome.plan.cells]
    written = write_groups(
        Store(request.results), request.reports, cells, latex=request.latex, order=outcome.plan.labels
    )
    outcome.reports = [one.path for one in written]
    outcome.shown = [shown(one, cells, request.results) for one in written]
    for path in outcome.reports:
        progress.say(f"report: {path}")
