"""The commands as functions: plan, run, report, compare, choose, check_method and profile.

Each imports what it needs when it is called.

    from bench import api
    request = api.Request(methods="kd", tasks="rte", data="sample", teacher="embedded")
    print(api.run(request).reports)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from bench.record.schema import Record, Sizes
from bench.record.store import Store
from bench.request import Request

if TYPE_CHECKING:
    from pandas import DataFrame

    from bench.conformance.checks import Check
    from bench.plan.plan import Plan
    from bench.progress import Progress
    from bench.run import Outcome

__all__ = [
    "Record",
    "Request",
    "Sizes",
    "Store",
    "check_method",
    "choose",
    "compare",
    "plan",
    "profile",
    "report",
    "run",
]


def plan(request: Request) -> Plan:
    """Show what ``run`` would do. Nothing is trained.

    Raises:
        InputError: anything wrong with the request.
    """
    from bench.plan.build import build

    return build(request)


def run(
    request: Request,
    progress: Progress | None = None,
    confirm: Callable[[str], bool] | None = None,
    only_pretraining: bool = False,
) -> Outcome:
    """Do what is missing and write the report; see :func:`bench.workflows.run.run`."""
    from bench.workflows.run import run as carry_out

    return carry_out(request, progress, confirm, only_pretraining)


def report(results: Path | str, reports: Path | str, latex: bool = False) -> list[Path]:
    """Write the reports of a folder of records, for a paper too with ``latex``; returns the
    Markdown files.

    Raises:
        NothingMeasured: there is no record.
    """
    from bench.report.write import write_reports

    return write_reports(Store(Path(results)), Path(reports), latex)


def compare(
    results: Path | str,
    first: str,
    second: str,
    tasks: Sequence[str] = (),
    seeds: Sequence[int] = (),
    theirs: Path | str | None = None,
    teachers: Sequence[str] = (),
    metric: str | Sequence[str] = (),
    against: str = "",
    tuned: bool = False,
) -> DataFrame:
    """Two rows on the same examples, a line for each table, evaluation set and mean; see ``bench
    compare``. The second row may be in another folder of results, ``theirs``. Several rows
    separated by commas are averaged, and ``against`` names the row that is subtracted from both
    sides. ``teachers`` names that of each row, where a row has several. ``metric`` scores the tasks
    in the place of the first one of each: its name, or ``MODULE:NAME`` of one in a file of yours.
    ``tuned``: all names are those of rows that a search chose.

    Scores, differences and the ends of their 95 % intervals are in percent; ``adjusted`` is p after
    Holm's adjustment, from which the verdict comes.

    Raises:
        InputError: a row that is not there, one row twice, or no examples that both were scored on.
    """
    from pandas import DataFrame

    from bench.analysis.compare import compare as carry_out
    from bench.data.own_tasks import names_of_typed

    tables = carry_out(
        Path(results),
        first,
        second,
        names_of_typed(tasks),
        seeds,
        theirs=None if theirs is None else Path(theirs),
        teachers=teachers,
        metric=metric,
        against=against,
        tuned=tuned,
    )
    return DataFrame(
        [{"table": title, **line.to_dict()} for title, lines in tables.items() for line in lines]
    )


def choose(
    results: Path | str,
    budget: Mapping[str, float | None],
    tasks: Sequence[str] = (),
    backend: str = "",
    threads: int = 0,
    metric: str | Sequence[str] = (),
) -> DataFrame:
    """The rows within limits, by table, best first, and behind them those left out with the reason;
    see ``bench choose``. Tables of one name differ in their report.

    Args:
        budget: any of ``parameters`` (millions), ``megabytes``, ``flops`` (G, of one sequence of
            128 tokens), ``latency`` (ms), which are the most that a row may have, and ``retained``,
            the least retention in percent.
        backend, threads: of the latencies; by default those that a session measured first.
        metric: that scores the tasks, as :func:`compare` takes it; by default their first ones.

    Raises:
        InputError: another name in the budget, a limit that is not above 0, or an unknown task.
        NothingMeasured: no table has all of the tasks.
    """
    from pandas import DataFrame

    from bench.analysis.choose import choose as carry_out
    from bench.data.own_tasks import names_of_typed
    from bench.report.file_names import place_of

    lines = []
    names = names_of_typed(tasks)
    for choice in carry_out(Path(results), budget, names, backend, threads, metric):
        group = choice.group
        table = {"table": group.title, "report": place_of(group).as_posix()}
        table["no_verdict"] = choice.no_verdict
        for row in choice.candidates:
            known = asdict(row) | {"label": group.called(row.label)}
            lines.append(table | known)
        for label, why in choice.left_out.items():
            lines.append(table | {"label": group.called(label), "left_out": why})
    return DataFrame(lines).rename(columns={"label": "row"})


def check_method(method: type | str, checks: Sequence[str] = ()) -> list[Check]:
    """Run the conformance checks on a method's class, or on a registered method by name; see
    ``bench check-method``.

    Raises:
        KeyError: no such check.
        InputError: no such method, or the class is not written for today's contract.
    """
    from bench.conformance.checks import check_method as carry_out
    from bench.plan.spelling import method_class
    from bench.progress import quiet

    quiet()
    return carry_out(method_class(method) if isinstance(method, str) else method, checks)


def profile(
    methods: str = "all", teacher: str = "bert-base-uncased", offline: bool = False
) -> list[tuple[str, Sizes]]:
    """(name, Sizes) of the teacher and of each method's student, from configurations alone.

    Raises:
        InputError: an unknown method or teacher.
    """
    from bench.plan.untrained import profile_rows

    return profile_rows(methods, teacher, offline=offline)
