"""Every check of printed tables, each within one table or across them, without any knowledge but arithmetic and names."""

from __future__ import annotations

from collections.abc import Sequence

from bench.audit.across import duplicates, quotes, teachers
from bench.audit.averages import average_rows, averages
from bench.audit.derived import derived_columns, derived_rows
from bench.audit.findings import Finding
from bench.audit.mixed import mixed_metrics
from bench.audit.sheets import Sheet
from bench.audit.sizes import sizes, speed_ups

WITHIN = (averages, average_rows, derived_rows, derived_columns, mixed_metrics, sizes, speed_ups)
ACROSS = (duplicates, quotes, teachers)


def audit(sheets: Sequence[Sheet]) -> list[Finding]:
    """Every finding of every check, in the order of the tables; a cell is named once for one recomputed value."""
    found = [finding for sheet in sheets for check in WITHIN for finding in check(sheet)]
    found += [finding for check in ACROSS for finding in check(sheets)]
    order = {sheet.where: number for number, sheet in enumerate(sheets)}
    once: dict[tuple[str, ...], Finding] = {}
    for f in sorted(found, key=lambda f: order.get(f.where, len(order))):
        # without a recomputed number what tells findings apart is the reason
        once.setdefault((f.where, f.row, f.column, f.recomputed or f.why), f)
    return list(once.values())
