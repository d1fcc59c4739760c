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
    """Every finding of every check: arithmetic first, then guesses, each in the order of the tables; of one basis where it is named.

    A cell is named once for one recomputed value, and not as a guess where arithmetic names it already.

    Raises:
        InputError: a basis that there is not.
    """
    if basis not in ("", ARITHMETIC, INFERENCE):
        raise InputError(f"--only {basis}: expected {ARITHMETIC} or {INFERENCE}")
    findings = [finding for sheet in sheets for check in WITHIN for finding in check(sheet)]
    findings += [finding for check in ACROSS for finding in check(sheets)]
    order = {sheet.where: number for number, sheet in enumerate(sheets)}
    first: dict[tuple[str, ...], Finding] = {}
    certain: set[tuple[str, str, str]] = set()
    for f in sorted(findings, key=lambda f: (f.basis != ARITHMETIC, order[f.where])):
        cell = (f.where, f.row, f.column)
        if f.basis == ARITHMETIC:
            certain.add(cell)
        if f.basis == ARITHMETIC or cell not in certain:
            # two rows may have one name; without a recomputed number what distinguishes findings is the reason
            first.setdefault((*cell, f.printed, f.recomputed or f.why), f)
    return [f for f in first.values() if basis in ("", f.basis)]
