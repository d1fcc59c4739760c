"""Rows of one method that differ in one number alone: how its score moves with a setting or with the learning rate."""

from __future__ import annotations

from typing import Any, NamedTuple

from bench.record.keys import canonical
from bench.report.study import Study
from bench.report.tables.provenance import peak_rate

RATE = "learning rate"
FEWEST = 3
"""Values of a setting that make a curve."""


class Sweep(NamedTuple):
    """The rows of one method with several values of one setting."""

    setting: str
    rows: dict[float, str]
    """value -> row, the smallest value first"""

    @property
    def reference(self) -> str:
        """The row that is typed with the fewest settings: the method as it is, where that is among them."""
        return min(self.rows.values(), key=lambda row: (row.count(":"), len(row), row))


def sweeps(study: Study) -> list[Sweep]:
    """Of the complete rows with stored answers, those with three values or more of one number, and equal in everything else."""
    alike: dict[tuple[str, str], dict[float, str]] = {}
    for label in sorted(study.mean_intervals):
        record = study.records_of(label)[0]
        cell = record.cell
        recipe = {name: value for name, value in cell.recipe.items() if name != "learning_rate"}
        # by task
        is_mixed = (
            len({canonical([r.cell.settings, r.cell.recipe]) for r in study.records_of(label)}) > 1
        )
        if label not in study.students or record.point or cell.search is not None or is_mixed:
            continue
        settings: dict[str, Any] = {**cell.settings, RATE: float(peak_rate(cell))}
        for name, value in settings.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                rest = {other: own for other, own in settings.items() if other != name}
                place = canonical(
                    [cell.method, cell.dropped, cell.kernels, cell.teacher_outputs, recipe, rest]
                )
                alike.setdefault((name, place), {})[float(value)] = label
    return [
        Sweep(name, dict(sorted(rows.items())))
        for (name, _), rows in alike.items()
        if len(rows) >= FEWEST
    ]
