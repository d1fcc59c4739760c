"""Every check of printed tables, within one table or across them."""

from __future__ import annotations

from collections.abc import Sequence

from bench.audit.averages import average_rows, averages, sums
from bench.audit.derived_cells import derived_columns, derived_rows
from bench.audit.findings import ARITHMETIC, INFERENCE, Finding
from bench.audit.impossible import (
    equal_rows,
    impossible_scores,
    impossible_sizes,
    mixed_metrics,
)
from bench.audit.intervals import outside_intervals
from bench.audit.relative_columns import relative_columns
from bench.audit.rows_across_tables import changed_elsewhere, quotes_and_teachers
from bench.audit.table import Sheet
from bench.errors import InputError

WITHIN = (
    averages,
    average_rows,
    sums,
    derived_rows,
    derived_columns,
    relative_columns,
    outside_intervals,
    impossible_scores,
    impossible_sizes,
    mixed_metrics,
    equal_rows,
)
ACROSS = (quotes_and_teachers, changed_elsewhere)


def audit(sheets: Sequence[Sheet], basis: str = "") -> list[Finding]:
    """Every finding of every check: arithmetic first, then guesses, each in the order of the
    tables.

    A cell is named once for one recomputed value, and not as a guess where arithmetic names it.

    Args:
        basis: only findings of this one; "" for all.

    Raises:
        InputError: a basis that there is not.
    """
    if basis not in ("", ARITHMETIC, INFERENCE):
        raise InputError(f"--only {basis}: expected {ARITHMETIC} or {INFERENCE}")
    findings: list[Finding] = []
    for sheet in sheets:
        for check in WITHIN:
            findings += check(sheet)
    for check_across in ACROSS:
        findings += check_across(sheets)

    # arithmetic first, each in the order of the tables
    order = {sheet.where: number for number, sheet in enumerate(sheets)}
    findings.sort(key=lambda finding: (finding.basis != ARITHMETIC, order[finding.where]))

    # two rows may have one name; without a recomputed number the reason distinguishes findings
    first: dict[tuple[str, ...], Finding] = {}
    certain: set[tuple[str, str, str]] = set()
    for finding in findings:
        cell = (finding.where, finding.row, finding.column)
        if finding.basis == ARITHMETIC:
            certain.add(cell)
        elif cell in certain:
            continue
        right = finding.recomputed or finding.why
        first.setdefault((*cell, finding.printed, right), finding)
    return [finding for finding in first.values() if basis in ("", finding.basis)]
