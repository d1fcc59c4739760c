"""A user's exceptions to the gate: other margins for some metrics, and known regressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints

from bench.analysis.gate_result import (
    ACCEPTED,
    LOSSES,
    MISSING,
    OTHER,
    REGRESSED,
    ROW,
    UNCLEAR,
    GateResult,
)
from bench.errors import InputError, unknown
from bench.stats.metrics import METRICS
from bench.typed_files import TypedFile, checked
from bench.user_files import toml_of

LARGEST_MARGIN = 100
"""Points of a score."""
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Acceptance(TypedFile):
    """A regression that somebody has looked at: the row and what of it, as the gate prints them,
    and the reason."""

    row: Words
    what: Words
    reason: Words


class AcceptanceFile(TypedFile):
    """``[[accepted]]`` tables."""

    accepted: tuple[Acceptance, ...] = ()


def budgets_of(texts: Sequence[str]) -> dict[str, float]:
    """``["matthews=5"]`` as points by metric.

    Raises:
        InputError: an unknown metric, or no number of points.
    """
    budgets: dict[str, float] = {}
    for text in texts:
        metric, _, typed = text.partition("=")
        if metric not in METRICS:
            raise unknown("metric of --budget", metric, list(METRICS))
        try:
            points = float(typed)
        except ValueError:
            raise InputError(
                f"--budget {text}: expected points after the metric, like {metric}=2"
            ) from None
        # NaN is not between them either
        if not 0 <= points <= LARGEST_MARGIN:
            raise InputError(f"--budget {text}: should lie between 0 and 100 points")
        budgets[metric] = points
    return budgets


def read_acceptances(path: Path) -> Sequence[Acceptance]:
    """The acceptances in a TOML file.

    Raises:
        InputError: a file that is missing, is not TOML, or lacks a field.
    """
    option = f"--accept {path}"
    return checked(AcceptanceFile, toml_of(path, option), option).accepted


def accept(findings: Sequence[GateResult], acceptances: Sequence[Acceptance]) -> list[GateResult]:
    """The findings, with the regressions that were looked at as accepted ones.

    Something that is accepted, was compared and does not regress is inconclusive: the acceptance
    has to be removed.
    """
    known = {(acceptance.row, acceptance.what): acceptance for acceptance in acceptances}
    after: list[GateResult] = []
    used: set[tuple[str, str]] = set()
    for finding in findings:
        subject_and_what = (finding.subject, finding.what)
        acceptance = known.get(subject_and_what)
        if acceptance is not None and finding.verdict == REGRESSED:
            used.add(subject_and_what)
            why = f"{finding.why}; accepted: {acceptance.reason}"
            finding = replace(finding, verdict=ACCEPTED, why=why)
        after.append(finding)

    stale = _compared(findings) - used
    for subject_and_what in known:
        if subject_and_what in stale:
            why = "accepted, but it does not regress: remove it"
            after.append(GateResult(*subject_and_what, UNCLEAR, why))
    return after


def unmet(findings: Sequence[GateResult], acceptances: Sequence[Acceptance]) -> list[str]:
    """A line for each acceptance of something that was not compared: it has another name than the
    table's, or was not asked for."""
    compared = _compared(findings)
    compared |= {(finding.subject, finding.what) for finding in findings}
    return [
        f"--accept: {acceptance.row}, {acceptance.what} was not compared"
        for acceptance in acceptances
        if (acceptance.row, acceptance.what) not in compared
    ]


def _compared(findings: Sequence[GateResult]) -> set[tuple[str, str]]:
    """The pairs of a subject and what of it was compared.

    A row that was scored did not fail, and its losses were looked at, without a line of their own.
    """
    compared: set[tuple[str, str]] = set()
    for finding in findings:
        if finding.verdict not in (MISSING, OTHER):
            compared |= {(finding.subject, what) for what in (finding.what, ROW, LOSSES)}
    return compared
