"""``run``: plan what was asked for, do what is missing, write the reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from bench.plan.build import build
from bench.plan.show import describe
from bench.plan.steps import keep_pretraining
from bench.progress import Progress, quiet
from bench.record.store import Store
from bench.report.write import write_groups
from bench.request import Request
from bench.run import Outcome, carry_out, refuse_script_without_main_guard, unfinished
from bench.workflows.run_summary import pretrained_line, shown


def run(
    request: Request,
    progress: Progress | None = None,
    confirm: Any = None,
    only_pretraining: bool = False,
    afterwards: Mapping[str, float] = MappingProxyType({}),
) -> Outcome:
    """Do what is missing, then write the reports.

    Args:
        confirm: asked with a question when the plan is long; without it, and without ``yes``, that
            is an error.
        only_pretraining: make only what the rows' students begin with, on text; a later run finds
            it in the cache.
        afterwards: what the caller does when all is trained -> its seconds, for the estimate.

    Raises:
        InputError: bad input, or a long plan that nobody agreed to; nothing was started.
    """
    progress = progress or Progress()
    refuse_script_without_main_guard()
    quiet()
    plan = replace(build(request), afterwards=dict(afterwards))
    if only_pretraining:
        plan = keep_pretraining(plan)
    progress.say(describe(plan))
    outcome = carry_out(plan, progress, confirm)
    if only_pretraining:
        slots = [entry.slot for entry in plan.artefacts if entry.slot.is_made]
        outcome.shown = ["\n".join(pretrained_line(slot.title, slot.read_made()) for slot in slots)]
        return outcome
    # a record that was written may be gone, and one that failed before is no result
    store = Store(plan.request.results)
    outcome.failures += unfinished(plan, store, outcome.failures)
    if request.held_back:  # tables of trials are no result
        return outcome
    # no record is there: the failures say it
    if not any(store.records()):
        return outcome
    # the reports of the plan's tables, with their rows as they were typed
    cells = [planned.cell for planned in outcome.plan.cells]
    written = write_groups(store, plan.request.reports, cells, plan.labels, plan.request.latex)
    outcome.reports = [path for path, _ in written]
    outcome.shown = [shown(group, cells, plan.request) for _, group in written]
    for path in outcome.reports:
        progress.say(f"report: {path}")
    return outcome


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """What several runs did together."""
    return Outcome(
        outcomes[-1].plan,
        sum(outcome.trained for outcome in outcomes),
        [failure for outcome in outcomes for failure in outcome.failures],
        list(dict.fromkeys(report for outcome in outcomes for report in outcome.reports)),
        [text for outcome in outcomes for text in outcome.shown],
        [plan for outcome in outcomes for plan in outcome.plans or [outcome.plan]],
    )
