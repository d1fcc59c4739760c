"""``run``: plan what was asked for, do what is missing, write the reports."""

from __future__ import annotations

from typing import Any

from bench.plan.build import build
from bench.plan.request import Request
from bench.plan.show import describe
from bench.progress import Progress, quiet
from bench.record.store import Store
from bench.report.write import Options, write_groups
from bench.run import Outcome, carry_out, refuse_script_without_main_guard
from bench.workflows.run_summary import shown


def run(request: Request, progress: Progress | None = None, confirm: Any = None) -> Outcome:
    """Do what is missing, then write the reports.

    Args:
        confirm: asked with a question when the plan is long; without it, and without ``yes``, that is an error.

    Raises:
        InputError: bad input, or a long plan that nobody agreed to; nothing was started.
    """
    progress = progress or Progress()
    refuse_script_without_main_guard()
    quiet()
    plan = build(request)
    progress.say(describe(plan))
    outcome = carry_out(plan, progress, confirm)
    _report(outcome, progress)
    return outcome


def _report(outcome: Outcome, progress: Progress) -> None:
    """Write the reports of the plan's tables, with their rows as they were typed."""
    request, cells = outcome.plan.request, [planned.cell for planned in outcome.plan.cells]
    options = Options(latex=request.latex, order=outcome.plan.labels)
    written = write_groups(Store(request.results), request.reports, cells, options)
    outcome.reports = [one.path for one in written]
    outcome.shown = [shown(one, cells, request.results) for one in written]
    for path in outcome.reports:
        progress.say(f"report: {path}")
