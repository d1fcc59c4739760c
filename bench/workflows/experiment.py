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
from bench.plan.show import as_json, describe
from bench.plan.spelling import MethodRow
from bench.progress import Progress, duration
from bench.record.cell import FINISHED, TEACHER, record_key
from bench.record.store import Store
from bench.record.task_facts import data_facts
from bench.report.experiment import PaperTable, write_experiment
from bench.report.published import PrintedRow, numbers_in, printed_cells, published
from bench.report.tables.quoted import Quotation
from bench.request import Request
from bench.request.choices import AUTO, HUB
from bench.run import Outcome, agree
from bench.user_files import comma_separated
from bench.workflows.run import joined, run
from bench.workflows.tune import request_of_trials, tune, what_to_try

SAID = {
    "teacher",
    "recipe",
    "epochs",
    "optimizer",
    "corpus_tokens",
    "numbers",
    "augment",
    "augment_times",
}
"""Options that an experiment's file says, or leaves as its paper has them."""


class ChosenTable(NamedTuple):
    """A table that was asked for.

    Attributes:
        parts: the requests that make it.
        printed: what a row is called -> the printed row that it is.
        quoted: the printed cells that none of its rows makes, with the reason.
    """

    spec: TableSpec
    parts: list[tuple[TableRequest, Request]]
    printed: dict[str, PrintedRow]
    quoted: list[Quotation]


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
    experiment, there, absent = (
        read_experiment(path),
        request.tasks if "tasks" in typed else "",
        list[str](),
    )
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
        names = dict.fromkeys(
            name for table in experiment.chosen(tables) for name in table.typed_tasks.values()
        )
        has = {
            name: all(
                source_for(task, request.data, True).has(task, "train") for task, _ in expand(name)
            )
            for name in names
        }
        absent = [name for name in names if not has[name]] if any(has.values()) else []
        there = ",".join(name for name in names if has[name]) if absent else ""
    chosen = []
    further = (
        numbers_in(path.parent / experiment.printed_numbers) if experiment.printed_numbers else ()
    )
    for table in experiment.chosen(tables, there):
        parts = []
        for part in experiment.requests_of(table):
            own = {
                name: value for name, value in part.request_options().items() if name not in typed
            }
            # each number by itself: a typed micro_batch leaves the file's batch_size
            if "numbers" in typed:
                of_file = dict(part.request_options().get("numbers", ()))
                own["numbers"] = tuple(sorted((of_file | dict(request.numbers)).items()))
            parts.append((part, replace(request, methods=part.methods, tasks=part.tasks, **own)))
        of_paper = [cell for cell in (*published(), *further) if cell.source in table.papers]
        columns = {cell.task for cell in of_paper}
        named = set()
        for typed_rows in table.printed.values():
            named |= {typed_rows} if isinstance(typed_rows, str) else set(typed_rows)
        quoted = []
        for name, why in table.absent.items():
            # a row that is not here, or a column of the rows that are
            if name not in columns:
                cells = printed_cells(table.papers, name, further)
            else:
                of_column = [cell for cell in of_paper if cell.task == name]
                cells = [cell for cell in of_column if f"{cell.table}: {cell.system}" in named]
            quoted += [Quotation(cell, why) for cell in cells]
        printed = {}
        for label, (rows, reasons) in experiment.printed_of(table).items():
            cells = [cell for row in rows for cell in printed_cells(table.papers, row, further)]
            printed[label] = PrintedRow(cells, [*other, *reasons], table.summed)
        chosen.append(ChosenTable(table, parts, printed, quoted))
    return experiment, chosen, absent


def _settings_lines(
    experiment: Experiment, chosen: Sequence[ChosenTable], absent: Sequence[str]
) -> list[str]:
    """What is said first: what is left out, and the settings of these tables."""
    lacking = [f"left out, because these data lack them: {', '.join(absent)}"] if absent else []
    return [
        *lacking,
        *(
            f"settings: {line}"
            for line in experiment.settings_lines([table.spec for table in chosen])
        ),
    ]


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
    requests = [
        each
        for table in chosen
        for _, request in table.parts
        for each in _steps(table.spec, request)
    ]
    if len(requests) > 1:  # bad input is found before anything starts; one question for all
        plans = [build(request) for request in requests]
        if any(plan.todo for plan in plans):
            agree(plans[0].request, *together(plans), confirm)
    sections, outcomes = [], []
    for number, (table, parts, printed, quoted) in enumerate(chosen, start=1):
        progress.say(f"{experiment.title}: {table.name} ({number} of {len(chosen)} tables)")
        names: dict[str, dict[str, str | None]] = {}
        students: dict[str, int] = {}  # what the table calls a row -> its place
        labels = list(
            dict.fromkeys(label for part, _ in parts for label, _ in part.labels.values())
        )
        for part, own in parts:
            outcome = _run_request(
                table, replace(own, yes=True) if len(requests) > 1 else own, progress, confirm
            )
            outcomes.append(outcome)
            for planned in outcome.cells:
                if data_facts(planned.cell.data.slug).held_back:  # a trial
                    continue
                name, plain = _called(planned, part)
                names[record_key(planned.cell)] = name
                if planned.cell.method != TEACHER:
                    students.setdefault(
                        str(name["label"]), labels.index(plain) if plain in labels else len(labels)
                    )
        order = sorted(students, key=lambda label: students[label])  # else as they are typed
        sections.append(PaperTable(table.name, table.show, names, order, printed, quoted))
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
        # of its steps' time, with jobs beside each other
        share = plan.seconds / (plan.work_seconds or 1.0)
        for step in plan.todo_steps:
            keys, cost = {planned.key for planned in step.cells} or {step.key}, plan.costs[step.key]
            new = len(keys - seen) / len(keys)
            seconds, disk = seconds + new * cost.seconds * share, disk + new * cost.disk
            seen |= keys
    return seconds, round(disk)


def _steps(table: TableSpec, request: Request) -> list[Request]:
    """What is planned for a request of a table: the trials of its rows, where they are searched for, and the rows as they are typed."""
    trained = _parted(request)[1]
    if table.trials is None or not trained.methods:
        return [request]
    *_, tried = what_to_try(trained, table.trials, ",".join(table.search), Progress())
    return [request_of_trials(trained, tried), request]


def _run_request(table: TableSpec, request: Request, progress: Progress, confirm: Any) -> Outcome:
    """Run a request of a table, with a search for each row that is trained, where the table has trials."""
    if table.trials is None:
        return run(request, progress, confirm)
    given, trained = _parted(request)
    outcomes = [run(given, progress, confirm)] if given.methods else []
    if trained.methods:
        outcomes.append(tune(trained, table.trials, ",".join(table.search), progress, confirm)[1])
    return joined(outcomes)


def _parted(request: Request) -> tuple[Request, Request]:
    """A request of its finished rows, and one of those that are trained."""
    rows = comma_separated(request.methods)
    finished = [row for row in rows if row.partition(":")[0] in FINISHED]
    parts = finished, [row for row in rows if row not in finished]
    return tuple(replace(request, methods=",".join(part)) for part in parts)  # type: ignore[return-value]


def _called(planned: Planned, part: TableRequest) -> tuple[dict[str, str | None], str]:
    """What a table calls the row of a cell, and its full row; and the first without what the options add."""
    cell, row = planned.cell, planned.row
    typed = (
        (row.spelling, row.label) if isinstance(row, MethodRow) else (planned.spelling, cell.label)
    )
    spelling, plain = (cell.search.of, cell.search.of) if cell.search is not None else typed
    if spelling not in part.labels:
        return {"label": cell.label, "ablation_of": cell.ablation_of}, cell.label
    label, full = part.labels[spelling]
    # what the options add to its label: best of so many, best epoch, teacher outputs, kernels, micro-batches
    suffix = cell.label.removeprefix(plain)
    return {"label": label + suffix, "ablation_of": None if full is None else full + suffix}, label


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
    for table, parts, *_ in chosen:
        listed = []
        for number, (part, request_of_part) in enumerate(parts, start=1):
            *trials, plan = map(build, _steps(table, request_of_part))
            every += trials
            which = f", {number} of {len(parts)} requests" if len(parts) > 1 else ""
            for search in trials:
                lines += [
                    "",
                    f"{table.name}{which}: {table.trials} trials of each row, before its best one is trained",
                    describe(search),
                ]
            options = ", ".join(
                f"{name.replace('_', ' ')} {value}" for name, value in part.options.items()
            )
            typed_so = f"{part.methods} on {part.tasks}" + (f" ({options})" if options else "")
            lines += ["", f"{table.name}{which}: {typed_so}", describe(plan)]
            listed.append(
                {"methods": part.methods, "tasks": part.tasks, "options": dict(part.options)}
            )
            listed[-1]["plan"] = as_json(plan)
            every.append(plan)
        body["tables"].append({"name": table.name, "requests": listed})
    seconds = together(every)[0]
    if len(every) > 1:
        lines += [
            "",
            f"all {len(every)} requests: {duration(seconds)}; what several of them train is counted once",
        ]
    return "\n".join(lines), body | {"seconds": round(seconds)}
