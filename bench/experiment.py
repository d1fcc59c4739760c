"""Run an experiment file: each table's rows on its tasks, then the report of its tables."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.plan.experiment import read_experiment
from bench.plan.request import Request
from bench.progress import Progress
from bench.record.store import Store
from bench.report.experiment import Section, write_experiment
from bench.run import Outcome, run


def run_experiment(
    path: Path,
    request: Request,
    typed: Set[str] = frozenset(),
    tables: str = "",
    tasks: str = "",
    confirm: Any = None,
    progress: Progress | None = None,
) -> Outcome:
    """Do what is missing of the tables named, and write the experiment's report beside the usual one.

    Args:
        request: options; those in ``typed`` go before what the file says.
        tables, tasks: names separated by commas; "" for all.

    Raises:
        InputError: bad input, before anything starts.
    """
    progress = progress or Progress()
    experiment = read_experiment(path)
    chosen = experiment.chosen(tables, tasks)
    options: dict[str, Any] = {name: value for name, value in experiment.options().items() if name not in typed}
    request = replace(request, **options)
    sections, outcomes = [], []
    for number, table in enumerate(chosen, start=1):
        progress.say(f"{experiment.title}: {table.name} ({number} of {len(chosen)} tables)")
        outcome = run(replace(request, methods=",".join(table.methods), tasks=",".join(table.tasks)), progress, confirm)
        outcomes.append(outcome)
        sections.append(Section(table.name, table.show, [planned.cell for planned in outcome.plan.cells]))
    written = write_experiment(experiment.title, sections, Store(request.results), request.reports, request.latex)
    for report in written:
        progress.say(f"report: {report}")
    last = outcomes[-1]
    return Outcome(
        last.plan,
        sum(outcome.trained for outcome in outcomes),
        [one for outcome in outcomes for one in outcome.failures],
        [*dict.fromkeys(report for outcome in outcomes for report in outcome.reports), *written],
        [text for outcome in outcomes for text in outcome.shown],
    )
