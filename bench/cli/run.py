"""Verbs that train or time something, or say what would be: plan, run, status, tune, speed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bench.cli.options import (
    DEVICE,
    EXPERIMENT,
    METHODS,
    OF_RUN,
    OFFLINE,
    REPORTS,
    RESULTS,
    TABLE,
    THREADS,
    argument,
    option,
    request_from_options,
    with_request_options,
)
from bench.cli.program import Answer, verb
from bench.errors import CHECK_FAILED, OK, InputError
from bench.request.choices import SOURCES, TEACHERS
from bench.terminal import say, say_error

if TYPE_CHECKING:
    from bench.run import Outcome

TUNING = "teachers"
PRETRAINING = "pretraining"
"""What ``run --only`` takes."""


def checked_request(**given: Any) -> Any:
    """A request whose options, rows, tasks and folder of data have been looked at, before a library
    is loaded for seconds."""
    from bench.data.own_tasks import expand
    from bench.data.sources import source_for
    from bench.plan.spelling import check_names
    from bench.request.choices import AUTO, HUB

    request = request_from_options(**given).checked()
    check_names(request.methods)
    for task, _ in expand(request.tasks):
        if request.data not in (AUTO, HUB):
            source_for(task, request.data, request.offline)
    return request


def say_planning() -> None:
    """Before libraries are loaded for seconds, and data read: somebody waits at a terminal. A
    script gets errors alone."""
    if sys.stderr.isatty():
        say_error(
            "planning: loads the libraries, reads the data and looks for results that are there"
        )


def report_outcome(outcome: Outcome) -> int:
    """Say how a run ended: its tables, what to type next, what failed. Returns its exit code."""
    from bench.workflows.run_summary import failure_lines

    for text in outcome.shown:
        say(f"\n{text}")
    for line in failure_lines(outcome.failures, outcome.plan.request.results):
        say_error(line)
    return outcome.exit_code


def typed_options(
    ctx: typer.Context, given: dict[str, Any], experiment: Path | None, table: str
) -> set[str]:
    """The options that somebody typed for `run` or `plan`: they override an experiment's own.

    Raises:
        InputError: no row, or options that do not go together.
    """
    if not given["methods"].strip():
        raise InputError(
            "--methods names no row; try --methods all, or `run --only teachers` without --methods"
        )
    typed = {
        name
        for name in given
        if (source := ctx.get_parameter_source(name)) and source.name == "COMMANDLINE"
    }
    if experiment is not None and "methods" in typed:
        raise InputError(
            "--methods and --experiment do not go together: the file names the rows of each table"
        )
    if experiment is None and "augment_times" in typed and not given["augment"]:
        raise InputError("--augment-times goes with --augment masked or --augment rules")
    if experiment is None and table:
        raise InputError("--table chooses from an experiment; add --experiment FILE.toml")
    return typed


def asking() -> Callable[[str], bool] | None:
    """How to ask a person yes or no; None where nobody sits at a terminal."""
    return typer.confirm if sys.stdin.isatty() else None


@verb("plan --methods microbert:ablate --tasks rte --data sample --teacher embedded")
@with_request_options(without=f"reports yes {OF_RUN}", seldom="table")
def plan(
    given: dict[str, Any],
    ctx: typer.Context,
    experiment: Path | None = EXPERIMENT,
    table: str = TABLE,
) -> Answer:
    """Show what `run` would do: its cells, what they share, time and disk; memory, where several
    jobs run at the same time. It starts nothing.

    For an experiment it also shows the settings of each task.
    """
    typed = typed_options(ctx, given, experiment, table)
    given["outline"] = True
    request = checked_request(**given) if experiment is None else request_from_options(**given)
    say_planning()
    from bench.plan.build import build
    from bench.plan.show import as_json, describe
    from bench.progress import quiet

    quiet()
    if experiment is not None:
        from bench.workflows.experiment import describe_experiment

        text, body = describe_experiment(experiment, request, typed, table)
    else:
        planned = build(request)
        text = describe(planned)
        body = as_json(planned)
    return text, body, OK


@verb("run --methods finetune,microbert:ablate --tasks rte,mrpc --seeds 0,1,2", has_json=False)
@with_request_options(seldom="table only")
def run(
    given: dict[str, Any],
    ctx: typer.Context,
    experiment: Path | None = EXPERIMENT,
    table: str = TABLE,
    only: str = option(
        "",
        f"{TUNING}: fine-tune the teachers of the tasks and score them; one that has a classifier "
        f"for the task already is only scored. {PRETRAINING}: run the rows' pre-training on text "
        "that tasks share. Later runs find the results in the cache.",
        metavar="PART",
        show_default=False,
    ),
) -> int:
    """Train what is missing, score it, and write the report. After an interruption the same command
    resumes."""
    typed = typed_options(ctx, given, experiment, table)
    if only:
        _check_part(only, given, typed, experiment)
    if experiment is not None:
        request = request_from_options(**given)
        say_planning()
        from bench.workflows.experiment import run_experiment

        return report_outcome(run_experiment(experiment, request, typed, table, asking()))
    request = checked_request(**(given | {"methods": ""} if only == TUNING else given))
    say_planning()
    from bench.workflows import run as workflow

    return report_outcome(
        workflow.run(request, confirm=asking(), only_pretraining=only == PRETRAINING)
    )


def _check_part(
    part: str, given: dict[str, Any], typed: Collection[str], experiment: Path | None
) -> None:
    """Refuse what does not go with ``run --only``."""
    if part not in (TUNING, PRETRAINING):
        raise InputError(f"--only {part}: choose {TUNING} or {PRETRAINING}")
    if experiment is not None:
        raise InputError("--only and --experiment do not go together: type the rows and tasks")
    if part == TUNING and "methods" in typed:
        raise InputError(f"--only {TUNING} trains no rows: leave out --methods")
    idle = [name for name in ("save_students", "curves", "track", "latex") if name in typed]
    if part == PRETRAINING and idle:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in idle)
        raise InputError(f"--only {part} trains no rows: leave out {options}")


@verb("status")
def status() -> Answer:
    """Show the runs that are under way on this machine: cells done, what each job does, and the
    time left."""
    import time

    from bench.run_status import described, under_way

    runs = under_way()
    text = (
        "\n".join(described(run, time.time()) for run in runs)
        or "no run is under way on this machine"
    )
    return text, runs, OK


@verb("tune --methods kd,tinybert --tasks mrpc --trials 6 --data sample --teacher embedded")
@with_request_options(
    without=f"recipe numbers augment augment_times word_vectors checkpoint {OF_RUN}",
    methods=...,
    tasks=...,
)
def tune(
    given: dict[str, Any],
    trials: int = option(
        6,
        "How many combinations of settings are tried for each method: the row as it is typed is "
        "one of them. The same number for all.",
    ),
    search: str = option(
        "",
        "Settings that may vary, separated by commas: names as in a row, pace for the learning "
        "rate. Default: all that the methods offer.",
    ),
    searches: int = option(
        1,
        "How many searches: one for all seeds, or as many as there are seeds. Then each seed has "
        "a search of its own, with other held-out examples, so that intervals have the chance of "
        "the search.",
    ),
) -> Answer:
    """Search the settings of each method with the same number of trials, then train the best ones.

    The trials are scored on training examples that are held out, never on the development set. They
    have the smallest of --seeds; the best row of each is trained with all seeds.
    """
    from dataclasses import asdict

    request = checked_request(**given)
    from bench.record.task_facts import shown_tasks
    from bench.workflows import tune as workflow

    chosen, outcome = workflow.tune(request, trials, search, confirm=asking(), searches=searches)
    cells = [planned.cell for planned in outcome.cells]
    shown = {cell.tasks[0]: shown_tasks(cell) for cell in cells}
    for choice in chosen:
        place = shown[choice.task]
        if searches > 1:
            place += f", seed {choice.search.seed}"
        say(f"{place}: {choice.search.of} -> {choice.row}; {choice.search.describe()}")
    body = [{**asdict(choice), "search": choice.search.model_dump()} for choice in chosen]
    return "", body, report_outcome(outcome)


@verb("speed --methods tinybert,distilbert --teacher embedded --backends sdpa,onnx")
def speed(
    methods: str = METHODS,
    teacher: str = option("bert-base-uncased", TEACHERS),
    lengths: str = option(
        "32,128",
        "Lengths in tokens, separated by commas. Or `task`: the lengths of the task named by "
        "--task.",
    ),
    batches: str = option("1,32", "Batch sizes, separated by commas."),
    backends: str = option(
        "sdpa", "Backends, separated by commas: eager, sdpa, compile, onnx, onnx-int8."
    ),
    dtype: str = option("fp32", "Number format: fp32, bf16 or fp16."),
    device: str = DEVICE,
    threads: int = THREADS,
    rounds: int = option(30, "How many times each system is timed. The systems take turns."),
    task: str | None = option(None, "The task for `--lengths task`."),
    data: str = option("sample", f"Only for `--lengths task`. {SOURCES}"),
    offline: bool = OFFLINE,
    memory: bool = option(
        True, "Measure peak memory, each system in its own process.", "--memory/--no-memory"
    ),
    busy: bool = option(
        False,
        "Measure although other processes use the processor. The report says how busy it was.",
        "--busy",
    ),
    results: Path = RESULTS,
    reports: Path | None = REPORTS,
) -> Answer:
    """Measure latency, throughput, memory and speed-up of the students compared with their
    teacher."""
    from bench.report.speed_page import write_speed_report
    from bench.request import reports_of
    from bench.user_files import comma_separated
    from bench.workflows.speed import SpeedRequest, measure

    parts = comma_separated(batches)
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise InputError(f"--batches {batches}: give whole numbers, like 1,32")
    request = SpeedRequest(
        methods=methods,
        teacher=teacher,
        lengths=tuple(comma_separated(lengths)),
        batches=tuple(map(int, parts)),
        backends=tuple(comma_separated(backends)),
        dtype=dtype,
        device=device,
        threads=threads,
        rounds=rounds,
        task=task,
        data=data,
        offline=offline,
        memory=memory,
        busy=busy,
        results=results,
    )
    record, path = measure(request)
    report = write_speed_report(record, reports or reports_of(results))
    text = f"{report.read_text(encoding='utf-8')}\nrecord: {path}\nreport: {report}"
    return text, record.model_dump(mode="json"), OK


@verb(
    "speed --models students/rte/* --tasks rte --data sample --backends onnx,onnx-int8",
    form="--models",
    reads_scores=True,
)
def backends(
    places: list[str] = argument(
        ...,
        "Models of the task that transformers opens; names on the hub, too.",
        metavar="FOLDER...",
    ),
    tasks: str = option(..., "The task that they were trained for."),
    data: str = option("sample", SOURCES),
    backends: str = option(
        "sdpa,onnx,onnx-int8",
        "Backends, separated by commas: sdpa, compile, onnx, onnx-int8, openvino. eager is always "
        "measured.",
    ),
    threads: int = THREADS,
    rounds: int = option(
        30, "How many times each model is timed on each backend, in turns: 6 or more.", min=6
    ),
    offline: bool = OFFLINE,
    busy: bool = option(
        False,
        "Take times although other processes use the processor. The table says how busy it was.",
        "--busy",
    ),
) -> Answer:
    """Compare the same trained weights on several backends: score, changed predictions, latency,
    megabytes and load time.

    A backend that computes in fp32 and gives other logits is named as wrong (exit code 1); of
    onnx-int8 the changed predictions are counted.
    """
    from bench.user_files import comma_separated
    from bench.workflows import backends as workflow

    answer = workflow.compare_backends(
        places, tasks, data, comma_separated(backends), threads, rounds, offline, busy=busy
    )
    is_wrong = any("error" in row for row in answer["models"])
    return workflow.describe(answer), answer, CHECK_FAILED if is_wrong else OK
