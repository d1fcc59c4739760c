"""Run an experiment file: each table's rows on its tasks, then the report of its tables."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from bench.data.own_tasks import expand
from bench.data.sources import source_for
from bench.plan.build import build
from bench.plan.experiment_file import Experiment, TableRequest, TableSpec, read_experiment
from bench.plan.plan import Plan, Planned
from bench.plan.request import AUTO, HUB, Request
from bench.plan.show import as_json, describe
from bench.plan.spelling import MethodRow
from bench.progress import Progress, duration
from bench.record.cell import TEACHER, record_key
from bench.record.store import Store
from bench.report.experiment import PaperTable, write_experiment
from bench.report.published import PrintedRow, numbers_in, printed_cells, published
from bench.run import Outcome, agree
from bench.workflows.run import joined, run

SAID = {"teacher", "recipe", "epochs", "optimizer", "corpus_tokens", "numbers", "augment", "augment_times"}
"""Options that an experiment's file says, or leaves as its paper has them."""


class ChosenTable(NamedTuple):
    """A table that was asked for, the requests that make it, and what a row is called -> the printed row that it is."""

    spec: TableSpec
    parts: list[tuple[TableRequest, Request]]
    printed: dict[str, PrintedRow]


def choose(
    path: Path, request: Request, typed: Set[str] = frozenset(), tables: str = ""
) -> tuple[Experiment, list[ChosenTable], list[str]]:
    """Read an experiment and choose of it. Returns what was read, the chosen tables, and the tasks that these data lack.

    Args:
        request: the options. Those in ``typed`` override the file. If tasks were typed, only these are chosen.
        tables: names separated by commas; "" for all.

    Raises:
        InputError: the file is wrong, has no such table or task, or names a printed row that is not there.
    """
    experiment, there, absent = read_experiment(path), request.tasks if "tasks" in typed else "", list[str]()
    said: dict[str, Any] = dict(experiment.options())
    request = replace(request, **{name: value for name, value in said.items() if name not in typed})
    # an option that is typed makes another system of every row
    unlike = [
        "--set" if name == "numbers" else f"--{name.replace('_', '-')}"
        for name in sorted(typed & SAID)
        if getattr(request, name) != said.get(name)
    ]
    other = [f"ours with other {', '.join(unlike)}"] if unlike else []
    # what a folder or the sample suite has not is left out, unless it was typed
    if not there and request.data not in (AUTO, HUB):
        names = dict.fromkeys(name for table in experiment.chosen(tables) for name in table.typed_tasks.values())
        has = {
            name: all(source_for(task, request.data, True).has(task, "train") for task, _ in expand(name))
            for name in names
        }
        absent = [name for name in names if not has[name]] if any(has.values()) else []
        there = ",".join(name for name in names if has[name]) if absent else ""
    chosen = []
    further = numbers_in(path.parent / experiment.numbers) if experiment.numbers else ()
    for table in experiment.chosen(tables, there):
        parts = []
        for part in experiment.requests_of(table):
            own = {name: value for name, value in part.request_options().items() if name not in typed}
            if "numbers" in typed:  # each number by itself: a typed micro_batch leaves the file's batch_size
                of_file = dict(part.request_options().get("numbers", ()))
                own["numbers"] = tuple(sorted((of_file | dict(request.numbers)).items()))
            parts.append((part, replace(request, methods=part.methods, tasks=part.tasks, **own)))
        columns = {cell.task for cell in (*published(), *further) if cell.source == table.paper}
        for name in table.absent:
            if name not in columns:
                printed_cells(table.paper, name, further)
        printed = {}
        for label, (rows, why) in experiment.printed_of(table).items():
            cells = [cell for row in rows for cell in printed_cells(table.paper, row, further)]
            printed[label] = PrintedRow(cells, [*other, *why], table.summed)
        chosen.append(ChosenTable(table, parts, printed))
    return experiment, chosen, absent


def _settings_lines(experiment: Experiment, chosen: Sequence[ChosenTable], absent: Sequence[str]) -> list[str]:
    """What is said first: what is left out, and the settings of these tables."""
    lacking = [f"left out, because these data lack them: {', '.join(absent)}"] if absent else []
    return [*lacking, *(f"settings: {line}" for line in experiment.settings_lines([table.spec for table in chosen]))]


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
    experiment, chosen, absent = choose(path, request, typed, tables)
    for line in _settings_lines(experiment, chosen, absent):
        progress.say(line)
    requests = [request for table in chosen for _, request in table.parts]
    if len(requests) > 1:  # bad input is found before anything starts; one question for all
        plans = [build(request) for request in requests]
        if any(plan.todo for plan in plans):
            agree(plans[0].request, *together(plans), confirm)
    sections, outcomes = [], []
    for number, (table, parts, printed) in enumerate(chosen, start=1):
        progress.say(f"{experiment.title}: {table.name} ({number} of {len(chosen)} tables)")
        names: dict[str, dict[str, str | None]] = {}
        students: list[str] = []
        for part, own in parts:
            outcome = run(replace(own, yes=True) if len(requests) > 1 else own, progress, confirm)
            outcomes.append(outcome)
            for planned in outcome.plan.cells:
                name = names[record_key(planned.cell)] = _called(planned, part)
                students += [str(name["label"])] if planned.cell.method != TEACHER else []
        # what the table calls its rows, in its order; else as they are typed
        order = [label for part, _ in parts for label, _ in part.labels.values()]
        sections.append(PaperTable(table.name, table.show, names, list(dict.fromkeys(order or students)), printed))
    written = write_experiment(
        experiment.title,
        sections,
        Store(request.results),
        request.reports,
        request.latex,
        (path, tables, request.tasks if "tasks" in typed else ""),
        experiment.settings_lines([table.spec for table in chosen]),
        experiment.expected,
    )
    for report in written:
        progress.say(f"report: {report}")
    outcome = joined(outcomes)
    outcome.reports += written
    return outcome


def together(plans: list[Plan]) -> tuple[float, int]:
    """Seconds and bytes of disk of all plans: what several of them make is counted once."""
    seconds, disk, seen = 0.0, 0.0, set[str]()
    for plan in plans:
        share = plan.seconds / (plan.work_seconds or 1.0)  # of its steps' time, with jobs beside each other
        for step in plan.todo_steps:
            keys, cost = {planned.key for planned in step.cells} or {step.key}, plan.costs[step.key]
            new = len(keys - seen) / len(keys)
            seconds, disk = seconds + new * cost.seconds * share, disk + new * cost.disk
            seen |= keys
    return seconds, round(disk)


def _called(planned: Planned, part: TableRequest) -> dict[str, str | None]:
    """What a table calls the row of a cell, and its full row."""
    cell, row = planned.cell, planned.row
    if not isinstance(row, MethodRow) or row.spelling not in part.labels:
        return {"label": cell.label, "ablation_of": cell.ablation_of}
    label, full = part.labels[row.spelling]
    # what the options add to its label: best epoch, teacher outputs, kernels, micro-batches
    suffix = cell.label.removeprefix(row.label)
    return {"label": label + suffix, "ablation_of": None if full is None else full + suffix}


def describe_experiment(
    path: Path, request: Request, typed: Set[str] = frozenset(), tables: str = ""
) -> tuple[str, dict[str, Any]]:
    """The plan of an experiment, in words and for programs. Starts nothing.

    Raises:
        InputError: as :func:`run_experiment`.
    """
    experiment, chosen, absent = choose(path, request, typed, tables)
    lines = [experiment.title, *_settings_lines(experiment, chosen, absent)]
    body: dict[str, Any] = {"title": experiment.title, "tables": []}
    body["settings"] = experiment.settings_lines([table.spec for table in chosen])
    every: list[Plan] = []
    for table, parts, _ in chosen:
        listed = []
        for number, (part, request_of_part) in enumerate(parts, start=1):
            plan = build(request_of_part)
            which = f", {number} of {len(parts)} requests" if len(parts) > 1 else ""
            options = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in part.options.items())
            typed_so = f"{part.methods} on {part.tasks}" + (f" ({options})" if options else "")
            lines += ["", f"{table.name}{which}: {typed_so}", describe(plan)]
            listed.append({"methods": part.methods, "tasks": part.tasks, "options": dict(part.options)})
            listed[-1]["plan"] = as_json(plan)
            every.append(plan)
        body["tables"].append({"name": table.name, "requests": listed})
    seconds = together(every)[0]
    if len(every) > 1:
        lines += ["", f"all {len(every)} requests: {duration(seconds)}; what several of them train is counted once"]
    return "\n".join(lines), body | {"seconds": round(seconds)}
