"""Means and deviations of a few seeds: whether any whole numbers of right answers give both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations_with_replacement
from math import ceil, floor, sqrt

from bench.audit.findings import INFERENCE, Finding
from bench.audit.names import is_plain
from bench.audit.printed import PrintedNumber
from bench.audit.shares_of_examples import examples_of
from bench.audit.table import PrintedRow, Sheet

RUNS = re.compile(
    r"\b(\d{1,6}|one|two|three)\s+(?:\w+\s+)?(?:seeds?|runs?|splits?|trials?|repetitions?)\b", re.IGNORECASE
)
NUMBERS = {"one": 1, "two": 2, "three": 3}
MOST = 400
"""Widest range of right answers that is searched."""
HALF_A_STEP = 0.51
"""With some room for floating point."""


def spreads(sheet: Sheet) -> Iterator[Finding]:
    """Deviations that no two or three seeds give on a development set of known size, where the column's others are possible."""
    for column in sheet.columns:
        size = examples_of(column)
        if not size:
            continue
        judged = [
            (row, row.cells[column], seeds, possible(row.cells[column], seeds, size))
            for row in sheet.rows
            if column in row.cells
            and is_plain(row)
            and row.cells[column].deviation
            and (seeds := seeds_of(sheet, row, column))
        ]
        wrong = [one for one in judged if one[3] is False]
        if len(wrong) == 1 and sum(fits is True for *_, fits in judged) >= 3:
            row, cell, seeds, _ = wrong[0]
            deviation = cell.deviation.text if cell.deviation else ""
            why = f"no {seeds} counts of {size} right answers have this mean and this deviation (sample, population or standard error)"
            yield Finding(
                where=sheet.where,
                row=row.system,
                column=column,
                printed=f"{cell.text} ± {deviation}",
                recomputed="",
                basis=INFERENCE,
                check="spread",
                why=why,
                changes="a spread over seeds",
            )


def seeds_of(sheet: Sheet, row: PrintedRow, column: str) -> int:
    """How many seeds a cell is of: a column of its own, its header, or the caption; 0 where nothing says it."""
    for name in ("n", "seeds", "runs", "#seeds", "# seeds", "#runs", f"{column} n"):
        if name in row.cells and not row.cells[name].places:
            return int(row.cells[name].value)
    found = RUNS.search(column) or RUNS.search(sheet.name)
    return int(NUMBERS.get(found[1].lower(), found[1])) if found else 0


def possible(cell: PrintedNumber, seeds: int, size: int) -> bool | None:
    """Whether some counts of right answers give mean and deviation; None where there are too many to say."""
    deviation = cell.deviation
    if deviation is None or seeds > 3 or seeds < 1:
        return None
    if seeds == 1:
        return deviation.value == 0
    whole = 1.0 if cell.value <= 1 else 100.0
    middle = float(cell.value) * size / whole
    # if the deviation d is a standard error, the squared differences sum to d**2 n (n - 1): no count is further away (2 to spare)
    reach = (float(deviation.value + deviation.step) * sqrt(seeds * (seeds - 1)) + float(cell.step)) * size / whole + 2
    if 2 * reach > MOST:
        return None
    counts = range(max(0, floor(middle - reach)), min(size, ceil(middle + reach)) + 1)
    return any(_gives(chosen, cell, deviation, size, whole) for chosen in combinations_with_replacement(counts, seeds))


def _gives(counts: tuple[int, ...], cell: PrintedNumber, deviation: PrintedNumber, size: int, whole: float) -> bool:
    seeds = len(counts)
    mean = sum(counts) / seeds
    if abs(mean * whole / size - float(cell.value)) > float(cell.step) * HALF_A_STEP:
        return False
    squares = sum((count - mean) ** 2 for count in counts)
    ways = (squares / (seeds - 1), squares / seeds, squares / (seeds - 1) / seeds)
    near = float(deviation.step) * HALF_A_STEP
    return any(abs(sqrt(way) * whole / size - float(deviation.value)) <= near for way in ways)
