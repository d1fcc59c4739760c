"""Run an experiment file: each table's rows on its tasks, then the report of its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from bench.data.own_tasks import expand
from bench.data.sources import source_for
from bench.plan.build import build
from bench.plan.experiment_file import Experiment, TableRequest, TableSpec, read_experiment
from bench.plan.plan import Plan, Planned
from bench.plan.show import as_json, describe
from bench.plan.spelling import MethodRow
from bench.progress import Progress, duration
from bench.record.cell import FINISHED, TEACHER, record_key
from bench.record.store import Store
from bench.record.task_facts import data_facts
from bench.report.experiment_page import PaperTable, write_experiment
from bench.report.published import (
    PrintedRow,
    Published,
    numbers_in,
    printed_cells,
    published,
)
from bench.report.tables.quoted import Quotation
from bench.request import Request
from bench.request.choices import AUTO, HUB
from bench.run import Outcome, agree
from bench.user_files import comma_separated
from bench.workflows.run import joined, run
from bench.workflows.tune import request_of_trials, tune, what_to_try

OF_A_SYSTEM = (
    "augment",
    "augment_times",
    "corpus_tokens",
    "epochs",
    "numbers",
    "optimizer",
    "recipe",
    "teacher",
)
"""Options that an experiment's file says, or leaves as its paper has them: with other values a row
is another system."""


class ChosenTable(NamedTuple):
    """A table that was asked for."""

    spec: TableSpec
    parts: list[tuple[TableRequest, Request]]
    """the requests that make it"""
    printed: dict[str, PrintedRow]
    """what a row is called -> the printed row that it is"""
    quoted: list[Quotation]
    """the printed cells that none of its rows makes, with the reason"""


class Choice(NamedTuple):
    """What was asked for of an experiment's file."""

    experiment: Experiment
    tables: list[ChosenTable]
    lacking: list[str]
    """tasks that are left out, because the data lack them"""


def choose(path: Path, request: Request, typed: Set[str] = frozenset(), tables: str = "") -> Choice:
    """Read an experiment's file, and choose some of its tables.

    Args:
        request: the options. Those in ``typed`` override the file. If tasks were typed, only these
            are chosen.
        tables: names separated by commas; "" for all.

    Raises:
        InputError: the file is wrong, has no such table or task, or names a printed row that is not
            there.
    """
    # the options of the file, where nobody typed another value
    experiment = read_experiment(path)
    of_file: dict[str, Any] = dict(experiment.options())
    request = replace(request, **_without(of_file, typed))
    another = _other_options(request, of_file, typed)

    # what a folder or the sample suite has not is left out, unless it was typed
    tasks = request.tasks if "tasks" in typed else ""
    lacking: list[str] = []
    if not tasks and request.data not in (AUTO, HUB):
        there, lacking = _tasks_of_data(experiment.chosen(tables), request.data)
        if there:
            tasks = ",".join(there) if lacking else ""
        else:
            lacking = []

    # each table: its requests, and what its papers print
    further: Sequence[Published] = ()
    if experiment.printed_numbers:
        further = numbers_in(path.parent / experiment.printed_numbers)
    chosen = []
    for table in experiment.chosen(tables, tasks):
        parts = []
        for part in experiment.requests_of(table):
            parts.append((part, _request_of(part, request, typed)))
        quoted = _quoted(table, further)
        printed = {}
        for label, (rows, reasons) in experiment.printed_of(table).items():
            cells = []
            for row in rows:
                cells += printed_cells(table.papers, row, further)
            printed[label] = PrintedRow(cells, [*another, *reasons], table.summed)
        chosen.append(ChosenTable(table, parts, printed, quoted))
    return Choice(experiment, chosen, lacking)


def _without(options: Mapping[str, Any], names: Set[str]) -> dict[str, Any]:
    """The options that have none of these names."""
    return {name: value for name, value in options.items() if name not in names}


def _other_options(request: Request, of_file: Mapping[str, Any], typed: Set[str]) -> list[str]:
    """The sentence that says which typed options make every row another system; none where none
    does."""
    others = []
    for name in sorted(typed & set(OF_A_SYSTEM)):
        if getattr(request, name) != of_file.get(name):
            others.append("--set" if name == "numbers" else f"--{name.replace('_', '-')}")
    return [f"ours with other {', '.join(others)}"] if others else []


def _tasks_of_data(tables: Sequence[TableSpec], data: str) -> tuple[list[str], list[str]]:
    """The tasks of some tables, as they are typed, that a folder or the sample suite has, and those
    that it lacks."""
    there = []
    lacking = []
    typed = [name for table in tables for name in table.typed_tasks.values()]
    for name in dict.fromkeys(typed):
        tasks = [task for task, _ in expand(name)]
        if all(source_for(task, data, True).has(task, "train") for task in tasks):
            there.append(name)
        else:
            lacking.append(name)
    return there, lacking


def _request_of(part: TableRequest, request: Request, typed: Set[str]) -> Request:
    """The request of a part of a table, with the options that the file has for it and nobody
    typed."""
    options = _without(part.request_options(), typed)
    # each number by itself: a typed micro_batch leaves the file's batch_size
    if "numbers" in typed:
        numbers = dict(part.request_options().get("numbers", ())) | dict(request.numbers)
        options["numbers"] = tuple(sorted(numbers.items()))
    return replace(request, methods=part.methods, tasks=part.tasks, **options)


def _quoted(table: TableSpec, further: Sequence[Published]) -> list[Quotation]:
    """The printed cells that no row of a table makes, with the reason.

    Args:
        further: printed numbers beside those that come with the package.

    Raises:
        InputError: a row that is not printed.
    """
    of_papers = [cell for cell in (*published(), *further) if cell.source in table.papers]
    columns = {cell.task for cell in of_papers}
    printed: set[str] = set()
    for rows in table.printed.values():
        printed |= {rows} if isinstance(rows, str) else set(rows)
    quoted = []
    for name, why in table.absent.items():
        # a row that is not here, or a column of the rows that are
        if name not in columns:
            cells = printed_cells(table.papers, name, further)
        else:
            of_column = [cell for cell in of_papers if cell.task == name]
            cells = [cell for cell in of_column if f"{cell.table}: {cell.system}" in printed]
        quoted += [Quotation(cell, why) for cell in cells]
    return quoted


def _settings_lines(choice: Choice) -> list[str]:
    """What is said first: what is left out, and the settings of these tables."""
    lines = []
    if choice.lacking:
        lines.append(f"left out, because these data lack them: {', '.join(choice.lacking)}")
    specs = [table.spec for table in choice.tables]
    lines += [f"settings: {line}" for line in choice.experiment.settings_lines(specs)]
    return lines


def run_experiment(
    path: Path,
    request: Request,
    typed: Set[str] = frozenset(),
    tables: str = "",
    confirm: Any = None,
    progress: Progress | None = None,
) -> Outcome:
    """Do what is missing of the tables named, and write the experiment's report beside the usual
    one.

    Args:
        path, request, typed, tables: as for :func:`choose`.

    Raises:
        InputError: bad input, before anything starts.
    """
    progress = progress or Progress()
    choice = choose(path, request, typed, tables)
    experiment = choice.experiment
    for line in _settings_lines(choice):
        progress.say(line)

    # of several requests bad input is found before anything starts, and one question is of all
    requests = []
    for table in choice.tables:
        for _, request_of_part in table.parts:
            requests += _steps(table.spec, request_of_part)
    is_agreed = len(requests) > 1
    if is_agreed:
        plans = [build(each) for each in requests]
        if any(plan.todo for plan in plans):
            agree(plans[0].request, *together(plans), confirm)

    # each table, then the report of all
    sections = []
    outcomes = []
    for number, table in enumerate(choice.tables, start=1):
        count = f"{number} of {len(choice.tables)} tables"
        progress.say(f"{experiment.title}: {table.spec.name} ({count})")
        section, its_outcomes = _run_table(table, is_agreed, progress, confirm)
        sections.append(section)
        outcomes += its_outcomes
    written = write_experiment(
        experiment.title,
        sections,
        Store(request.results),
        request.reports,
        request.latex,
        (path, tables, request.tasks if "tasks" in typed else ""),
        experiment.settings_lines([table.spec for table in choice.tables]),
        experiment.expected,
    )
    for report in written:
        progress.say(f"report: {report}")
    outcome = joined(outcomes)
    outcome.reports += written
    return outcome


def _run_table(
    table: ChosenTable, is_agreed: bool, progress: Progress, confirm: Any
) -> tuple[PaperTable, list[Outcome]]:
    """Run the requests of a table. Returns what its report shows, and what each request did.

    Args:
        is_agreed: whether a person has been asked already.
    """
    # what its rows are called, in its order
    labels: dict[str, None] = {}
    for part, _ in table.parts:
        labels |= dict.fromkeys(label for label, _ in part.labels.values())
    order = list(labels)

    outcomes = []
    names: dict[str, dict[str, str | None]] = {}
    places: dict[str, int] = {}  # what a student is called -> its place among the rows
    for part, request in table.parts:
        agreed = replace(request, yes=True) if is_agreed else request
        outcome = _run_request(table.spec, agreed, progress, confirm)
        outcomes.append(outcome)
        for planned in outcome.cells:
            if data_facts(planned.cell.data.slug).held_back:  # a trial
                continue
            row = _called(planned, part)
            names[record_key(planned.cell)] = {"label": row.label, "ablation_of": row.ablation_of}
            if planned.cell.method != TEACHER:
                place = order.index(row.plain) if row.plain in order else len(order)
                places.setdefault(row.label, place)

    # rows of one place stay as they are typed
    rows = sorted(places, key=places.__getitem__)
    section = PaperTable(table.spec.name, table.spec.show, names, rows, table.printed, table.quoted)
    return section, outcomes


def together(plans: list[Plan]) -> tuple[float, int]:
    """Seconds and bytes of disk of all plans: what several of them make is counted once."""
    seconds = 0.0
    disk = 0.0
    seen: set[str] = set()
    for plan in plans:
        # of its steps' time, with jobs beside each other
        share = plan.seconds / (plan.work_seconds or 1.0)
        for step in plan.todo_steps:
            cost = plan.costs[step.key]
            keys = {planned.key for planned in step.cells} or {step.key}
            new = len(keys - seen) / len(keys)
            seconds += new * cost.seconds * share
            disk += new * cost.disk
            seen |= keys
    return seconds, round(disk)


def _steps(table: TableSpec, request: Request) -> list[Request]:
    """What is planned for a request of a table: the trials of its rows, where they are searched
    for, and the rows as they are typed."""
    _, trained = _parted(request)
    if table.trials is None or not trained.methods:
        return [request]
    space = what_to_try(trained, table.trials, ",".join(table.search), Progress())
    return [request_of_trials(trained, space), request]


def _run_request(table: TableSpec, request: Request, progress: Progress, confirm: Any) -> Outcome:
    """Run a request of a table, with a search for each row that is trained, where the table has
    trials."""
    if table.trials is None:
        return run(request, progress, confirm)
    finished, trained = _parted(request)
    outcomes = []
    if finished.methods:
        outcomes.append(run(finished, progress, confirm))
    if trained.methods:
        settings = ",".join(table.search)
        _, outcome = tune(trained, table.trials, settings, progress, confirm)
        outcomes.append(outcome)
    return joined(outcomes)


def _parted(request: Request) -> tuple[Request, Request]:
    """A request of its finished rows, and one of those that are trained."""
    finished = []
    trained = []
    for row in comma_separated(request.methods):
        kind, _, _ = row.partition(":")
        if kind in FINISHED:
            finished.append(row)
        else:
            trained.append(row)
    return (
        replace(request, methods=",".join(finished)),
        replace(request, methods=",".join(trained)),
    )


@dataclass(frozen=True)
class CalledRow:
    """What a table calls a row."""

    label: str
    ablation_of: str | None
    """the label of its full row, where it is an ablation"""
    plain: str
    """the label without what the options add"""


def _called(planned: Planned, part: TableRequest) -> CalledRow:
    """What a table calls the row of a cell."""
    cell = planned.cell
    row = planned.row
    # how the row was typed, and its usual label
    if cell.search is not None:
        spelling = cell.search.of
        usual = cell.search.of
    elif isinstance(row, MethodRow):
        spelling = row.spelling
        usual = row.label
    else:
        spelling = planned.spelling
        usual = cell.label
    if spelling not in part.labels:
        return CalledRow(cell.label, cell.ablation_of, cell.label)

    # what the options add to its label: best of so many, best epoch, teacher outputs, kernels,
    # micro-batches
    suffix = cell.label.removeprefix(usual)
    label, full = part.labels[spelling]
    full_row = None if full is None else full + suffix
    return CalledRow(label + suffix, full_row, label)


def describe_experiment(
    path: Path, request: Request, typed: Set[str] = frozenset(), tables: str = ""
) -> tuple[str, dict[str, Any]]:
    """The plan of an experiment, in words and for programs. Starts nothing.

    Raises:
        InputError: as :func:`run_experiment`.
    """
    choice = choose(path, request, typed, tables)
    lines = [choice.experiment.title, *_settings_lines(choice)]
    plans: list[Plan] = []
    bodies = []
    for table in choice.tables:
        requests = []
        for number, (part, request_of_part) in enumerate(table.parts, start=1):
            *searches, plan = map(build, _steps(table.spec, request_of_part))
            plans += [*searches, plan]
            title = table.spec.name
            if len(table.parts) > 1:
                title += f", {number} of {len(table.parts)} requests"

            # the searches come first
            trials = f"{table.spec.trials} trials of each row, before its best one is trained"
            for search in searches:
                lines += ["", f"{title}: {trials}", describe(search)]
            lines += ["", f"{title}: {_in_words(part)}", describe(plan)]
            requests.append(
                {
                    "methods": part.methods,
                    "tasks": part.tasks,
                    "options": dict(part.options),
                    "plan": as_json(plan),
                }
            )
        bodies.append({"name": table.spec.name, "requests": requests})

    # all of them together
    seconds, _ = together(plans)
    if len(plans) > 1:
        count = f"all {len(plans)} requests: {duration(seconds)}"
        lines += ["", f"{count}; what several of them train is counted once"]
    body = {
        "title": choice.experiment.title,
        "tables": bodies,
        "settings": choice.experiment.settings_lines([table.spec for table in choice.tables]),
        "seconds": round(seconds),
    }
    return "\n".join(lines), body


def _in_words(part: TableRequest) -> str:
    """The rows, tasks and options of a part of a table."""
    words = f"{part.methods} on {part.tasks}"
    options = [f"{name.replace('_', ' ')} {value}" for name, value in part.options.items()]
    return f"{words} ({', '.join(options)})" if options else words
