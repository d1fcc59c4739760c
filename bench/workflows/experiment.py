"""Run an experiment file: each table's rows on its tasks, then the report of its tables."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.data.own_tasks import expand
from bench.data.sources import source_for
from bench.plan.build import build
from bench.plan.experiment_file import Experiment, TableRequest, TableSpec, read_experiment
from bench.plan.plan import Plan, Planned
from bench.plan.request import AUTO, HUB, Request
from bench.plan.show import as_json, describe
from bench.plan.spelling import MethodRow
from bench.progress import Progress, duration
from bench.record.store import Store
from bench.report.experiment import AskedExperiment, PaperTable, TableEntry, write_experiment
from bench.report.published import PrintedRow, printed_cells
from bench.run import Outcome, agree
from bench.workflows.run import joined, run

SAID = {"teacher", "recipe", "epochs", "optimizer", "corpus_tokens", "numbers", "augment", "augment_times"}
"""Options that an experiment's file says, or leaves as its paper has them."""


@dataclass(frozen=True)
class ChosenTables:
    """An experiment, the tables of it that were asked for, and the requests that make each."""

    experiment: Experiment
    tables: list[tuple[TableSpec, list[tuple[TableRequest, Request]]]]
    printed: list[dict[str, PrintedRow]]
    """of each table: what a row is called -> the printed row that it is"""
    tasks: str = ""
    """those that were typed; "" for all"""
    absent: Sequence[str] = ()
    """tasks that the data lack"""

    @property
    def settings_lines(self) -> list[str]:
        """The settings of these tables, a line each."""
        return self.experiment.settings_lines([table for table, _ in self.tables])

    @property
    def begins(self) -> list[str]:
        """What is said first: its settings, and what is left out."""
        lacking = [f"left out, because these data lack them: {', '.join(self.absent)}"] if self.absent else []
        return [*lacking, *(f"settings: {line}" for line in self.settings_lines)]

    @property
    def requests(self) -> list[Request]:
        return [request for _, parts in self.tables for _, request in parts]


def choose(path: Path, request: Request, typed: Set[str] = frozenset(), tables: str = "") -> ChosenTables:
    """Read an experiment and choose of it.

    Args:
        request: the options. Those in ``typed`` override the file. If tasks were typed, only these are chosen.
        tables: names separated by commas; "" for all.

    Raises:
        InputError: the file is wrong, has no such table or task, or names a printed row that is not there.
    """
    experiment, tasks = read_experiment(path), request.tasks if "tasks" in typed else ""
    said: dict[str, Any] = dict(experiment.options())
    request = replace(request, **{name: value for name, value in said.items() if name not in typed})
    # an option that is typed makes another system of every row
    unlike = [
        f"--{name.replace('_', '-')}" for name in sorted(typed & SAID) if getattr(request, name) != said.get(name)
    ]
    other = [f"ours with other {', '.join(unlike)}"] if unlike else []
    there, absent = tasks, list[str]()
    if not tasks and request.data not in (
        AUTO,
        HUB,
    ):  # what a folder or the sample suite has not is left out, unless it was typed
        names = dict.fromkeys(name for table in experiment.chosen(tables) for name in table.typed_tasks.values())
        has = {
            name: all(source_for(task, request.data, True).has(task, "train") for task, _ in expand(name))
            for name in names
        }
        absent = [name for name in names if not has[name]] if any(has.values()) else []
        there = ",".join(name for name in names if has[name]) if absent else tasks
    found, printed = [], []
    for table in experiment.chosen(tables, there):
        made = []
        for part in experiment.requests_of(table):
            own = {name: value for name, value in part.request_options().items() if name not in typed}
            made.append((part, replace(request, methods=part.methods, tasks=part.tasks, **own)))
        found.append((table, made))
        for row in table.absent:
            printed_cells(table.paper, row)
        printed.append(
            {
                label: PrintedRow(
                    [c for row in rows for c in printed_cells(table.paper, row)], [*other, *why], table.summed
                )
                for label, (rows, why) in experiment.printed_of(table).items()
            }
        )
    return ChosenTables(experiment, found, printed, tasks, absent)


def run_experiment(
    path: Path,
    request: Request,
    typed: Set[str] = frozenset(),
    tables: str = "",
    confirm: Any = None,
    progress: Progress | None = None,
) -> Outcome:
    """Do what is missing of the tables named, and write the experiment's report beside the usual one.

    Args:
        path, request, typed, tables: as for :func:`choose`.

    Raises:
        InputError: bad input, before anything starts.
    """
    progress = progress or Progress()
    chosen = choose(path, request, typed, tables)
    experiment = chosen.experiment
    for line in chosen.begins:
        progress.say(line)
    if len(chosen.requests) > 1:  # bad input is found before anything starts; one question for all
        plans = [build(request) for request in chosen.requests]
        if any(plan.todo for plan in plans):
            agree(plans[0].request, *_together(plans), confirm)
    sections, outcomes = [], []
    for number, (table, parts) in enumerate(chosen.tables, start=1):
        progress.say(f"{experiment.title}: {table.name} ({number} of {len(chosen.tables)} tables)")
        cells: list[TableEntry] = []
        for part, own in parts:
            asked = replace(own, yes=True) if len(chosen.requests) > 1 else own
            outcome = run(asked, progress, confirm)
            outcomes.append(outcome)
            cells += [_shown(planned, part) for planned in outcome.plan.cells]
        # what the table calls its rows, in its order; none where they are called as they are typed
        order = list(dict.fromkeys(label for part, _ in parts for label, _ in part.labels.values()))
        sections.append(PaperTable(table.name, table.show, cells, order, chosen.printed[number - 1]))
    written = write_experiment(
        experiment.title,
        sections,
        Store(request.results),
        request.reports,
        request.latex,
        AskedExperiment(path, tables, chosen.tasks, chosen.settings_lines),
    )
    for report in written:
        progress.say(f"report: {report}")
    outcome = joined(outcomes)
    outcome.reports += written
    return outcome


def _together(plans: list[Plan]) -> tuple[float, int]:
    """Seconds and bytes of disk of all plans: what several of them make is counted once."""
    seconds, disk, seen = 0.0, 0.0, set[str]()
    for plan in plans:
        for step in plan.todo_steps:
            keys, cost = {planned.key for planned in step.cells} or {step.key}, plan.costs[step.key]
            new = len(keys - seen) / len(keys)
            seconds, disk = seconds + new * cost.seconds / plan.request.jobs, disk + new * cost.disk
            seen |= keys
    return seconds, round(disk)


def _shown(planned: Planned, part: TableRequest) -> TableEntry:
    """A cell and what its table calls it."""
    cell, row = planned.cell, planned.row
    if not isinstance(row, MethodRow) or row.spelling not in part.labels:
        return TableEntry(cell, cell.label, cell.ablation_of)
    label, full = part.labels[row.spelling]
    # what the options add to its label: best epoch, teacher outputs, kernels, micro-batches
    suffix = cell.label.removeprefix(row.label)
    return TableEntry(cell, label + suffix, None if full is None else full + suffix)


def describe_experiment(
    path: Path, request: Request, typed: Set[str] = frozenset(), tables: str = ""
) -> tuple[str, dict[str, Any]]:
    """The plan of an experiment, in words and for programs. Starts nothing.

    Raises:
        InputError: as :func:`run_experiment`.
    """
    chosen = choose(path, request, typed, tables)
    lines = [chosen.experiment.title, *chosen.begins]
    listed: list[dict[str, Any]] = []
    every: list[Plan] = []
    for table, parts in chosen.tables:
        plans: list[Plan] = [build(own) for _, own in parts]
        for number, ((part, _), plan) in enumerate(zip(parts, plans, strict=True), start=1):
            which = f", {number} of {len(parts)} requests" if len(parts) > 1 else ""
            options = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in part.options.items())
            typed_so = f"{part.methods} on {part.tasks}" + (f" ({options})" if options else "")
            lines += ["", f"{table.name}{which}: {typed_so}", describe(plan)]
        every += plans
        listed.append(
            {
                "name": table.name,
                "requests": [
                    {"methods": part.methods, "tasks": part.tasks, "options": dict(part.options), "plan": as_json(plan)}
                    for (part, _), plan in zip(parts, plans, strict=True)
                ],
            }
        )
    if len(chosen.requests) > 1:
        lines += [
            "",
            f"all {len(every)} requests: {duration(_together(every)[0])}; what several of them train is counted once",
        ]
    body = {
        "title": chosen.experiment.title,
        "settings": chosen.settings_lines,
        "tables": listed,
        "seconds": round(_together(every)[0]),
    }
    return "\n".join(lines), body
