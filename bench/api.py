"""Five functions for use from Python: plan, run, report, check_method and profile.

Each imports what it needs when it is called.

from bench import api
outcome = api.run(api.Request(methods="kd,microbert", tasks="rte", data="sample", teacher="embedded"))
print(outcome.reports)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.plan.request import Request
from bench.record.schema import Record, Sizes
from bench.record.store import Store

if TYPE_CHECKING:
    from bench.conformance.checks import Check
    from bench.plan.plan import Plan
    from bench.progress import Progress
    from bench.run import Outcome

__all__ = ["Record", "Request", "Sizes", "Store", "check_method", "plan", "profile", "report", "run"]


def plan(request: Request) -> Plan:
    """What ``run`` would do. Trains nothing.

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
    """Write the reports of a folder of records, for a paper too with ``latex``; returns the Markdown files.

    Raises:
        NothingMeasured: there is no record.
    """
    from bench.report.write import write_reports

    return write_reports(Store(Path(results)), Path(reports), latex)


def check_method(method: type | str, checks: Sequence[str] = ()) -> list[Check]:
    """Run the conformance checks on a method's class, or on a registered method by name; see ``bench check-method``.

    Raises:
        KeyError: no such check.
        InputError: no such method, or the class is not written for today's contract.
    """
    from bench.conformance.checks import check_method as carry_out
    from bench.plan.spelling import method_class
    from bench.progress import quiet

    quiet()
    return carry_out(method_class(method) if isinstance(method, str) else method, checks)


def profile(methods: str = "all", teacher: str = "bert-base-uncased", offline: bool = False) -> list[tuple[str, Sizes]]:
    """(name, Sizes) of the teacher and of each method's student, from configurations alone.

    Raises:
        InputError: an unknown method or teacher.
    """
    from bench.plan.untrained import profile_rows

    return profile_rows(methods, teacher, offline=offline)
