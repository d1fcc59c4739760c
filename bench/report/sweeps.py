"""Rows of one method that differ in one number alone.

They show how its score moves with a setting or with the learning rate.
"""

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
        """The row that is typed with the fewest settings: the method as it is, if that is there."""
        return min(self.rows.values(), key=lambda row: (row.count(":"), len(row), row))


def sweeps(study: Study) -> list[Sweep]:
    """The complete rows with stored answers that are equal but for one number.

    There are three values of it, or more.
    """
    # name of a setting, and all else that a row is -> value -> row
    alike: dict[tuple[str, str], dict[float, str]] = {}
    for label in sorted(study.mean_intervals):
        records = study.records_of(label)
        cell = records[0].cell
        recipe = {name: value for name, value in cell.recipe.items() if name != "learning_rate"}
        # settings that differ by task are no value of a row
        made_in = {canonical([r.cell.settings, r.cell.recipe]) for r in records}
        is_plain = not records[0].point and cell.search is None
        if label not in study.students or not is_plain or len(made_in) > 1:
            continue
        settings: dict[str, Any] = {**cell.settings, RATE: float(peak_rate(cell))}
        for name, value in settings.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                others = {key: setting for key, setting in settings.items() if key != name}
                rest = canonical(
                    [cell.method, cell.dropped, cell.kernels, cell.teacher_outputs, recipe, others]
                )
                alike.setdefault((name, rest), {})[float(value)] = label
    return [
        Sweep(name, dict(sorted(rows.items())))
        for (name, _), rows in alike.items()
        if len(rows) >= FEWEST
    ]
