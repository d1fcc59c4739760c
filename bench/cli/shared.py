"""What several verbs do with their options and their answers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bench.cli.options import request_from_options
from bench.errors import InputError

if TYPE_CHECKING:
    from bench.run import Outcome


def checked_request(**given: Any) -> Any:
    """A request whose options, rows, tasks and folder of data have been looked at, before a library is loaded for seconds."""
    from bench.data.own_tasks import expand
    from bench.data.sources import source_for
    from bench.plan.request import AUTO, HUB
    from bench.plan.spelling import check_names

    request = request_from_options(**given).checked()
    check_names(request.methods)
    for task, _ in expand(request.tasks):
        if request.data not in (AUTO, HUB):
            source_for(task, request.data, request.offline)
    return request


def say_planning() -> None:
    """Before libraries are loaded for seconds, and data read: somebody waits at a terminal. A script gets errors alone."""
    if sys.stderr.isatty():
        print(
            "planning: loads the libraries, reads the data and looks for results that are there",
            file=sys.stderr,
            flush=True,
        )


def report_outcome(outcome: Outcome) -> int:
    """Say how a run ended: its tables, what to type next, what failed. Returns its exit code."""
    from bench.workflows.run_summary import failure_lines

    for text in outcome.shown:
        print(f"\n{text}")
    for line in failure_lines(outcome.failures, outcome.plan.request.results):
        print(line, file=sys.stderr)
    return outcome.exit_code


def typed_options(ctx: typer.Context, given: dict[str, Any], experiment: Path | None, table: str) -> set[str]:
    """The options that somebody typed for `run` or `plan`: they override an experiment's own.

    Raises:
        InputError: no row, or options that do not go together.
    """
    if not given["methods"].strip():
        raise InputError("--methods names no row; try --methods all, or `run --only teachers` without --methods")
    typed = {name for name in given if (source := ctx.get_parameter_source(name)) and source.name == "COMMANDLINE"}
    if experiment is not None and "methods" in typed:
        raise InputError("--methods and --experiment do not go together: the file names the rows of each table")
    if experiment is None and "augment_times" in typed and not given["augment"]:
        raise InputError("--augment-times goes with --augment masked or --augment rules")
    if experiment is None and table:
        raise InputError("--table chooses from an experiment; add --experiment FILE.toml")
    return typed


def asking() -> Callable[[str], bool] | None:
    """How to ask a person yes or no; None where nobody sits at a terminal."""
    return typer.confirm if sys.stdin.isatty() else None
