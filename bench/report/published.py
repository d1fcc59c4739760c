"""Numbers that papers print, and ours beside them.

Scores stand beside the rows of an experiment file that says which printed row each of its own is.
Sizes are counted under every convention, which tells the rule that gives the printed digit.

The printed numbers are typed from the papers into bench/report/printed/<paper>.csv, which is
installed with the package. They are never averaged with ours.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from bench.errors import InputError, one_line, unknown
from bench.record.task_facts import SAMPLE
from bench.report.score_column import ScoreColumn
from bench.report.study import Study
from bench.report.table import TEXT, Column, Line, Table, TableCell, number
from bench.stats.metrics import METRICS, label_of
from bench.stats.power import DEVELOPMENT_EXAMPLES
from bench.user_files import text_of

FOLDER = Path(__file__).resolve().parent / "printed"
UNKNOWN = "unknown"
GENERATED = "generated sentences"
"""What a pre-training reads that names no file."""
YES = "yes"
SUMMED: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "best": max,
}
"""How a paper makes one number of several seeds."""


class Published(NamedTuple):
    """One printed cell: the paper, its table and the table's row, as they are called there.

    Metric and split are ``unknown`` where they are not stated; the value is in percent.
    """

    source: str
    table: str
    system: str
    task: str
    evaluation: str
    metric: str
    split: str
    value: float
    note: str

    @property
    def row(self) -> str:
        """As an experiment's file names it."""
        return f"{self.table}: {self.system}"


class PrintedRow(NamedTuple):
    """The cells of a printed row.

    Attributes:
        differs: why ours is another system, a sentence each.
        summed: how its paper sums up seeds, a key of :data:`SUMMED`.
    """

    cells: Sequence[Published]
    differs: Sequence[str] = ()
    summed: str = "mean"


@lru_cache
def published() -> tuple[Published, ...]:
    """Every printed number, in the order of the files."""
    lines: list[dict[str, Any]] = [
        line for path in sorted(FOLDER.glob("*.csv")) for line in rows_of(path)
    ]
    return tuple(Published(**line | {"value": float(line["value"])}) for line in lines)


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a file that comes with the package."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


NEEDED = ("source", "table", "system", "task", "value")
"""The columns that a line of a file of printed numbers has to have."""
OPTIONAL = {"evaluation": "validation", "metric": UNKNOWN, "split": UNKNOWN, "note": ""}
"""The others, and what they are where a line has none."""


def numbers_in(path: Path) -> tuple[Published, ...]:
    """The printed numbers of a user's own file, in the same columns.

    Metric and split are not stated where the file does not have them.

    Raises:
        InputError: no such file, a column that is missing or not known, or a value that is no
            number.
    """
    lines = list(csv.DictReader(text_of(path, str(path)).splitlines()))
    if not lines:
        raise InputError(f"{path} has no printed number")
    cells = []
    for number_of_line, line in enumerate(lines, start=2):
        where = f"{path}, line {number_of_line}"
        if None in line:
            raise InputError(f"{where}: it has more fields than the first line")
        fields = {name.strip(): value.strip() for name, value in line.items() if name and value}
        lacking = [name for name in NEEDED if name not in fields]
        if lacking:
            raise InputError(
                f"{where}: {lacking[0]} is missing; a line needs source, table, system, task and "
                "value, and may have evaluation, metric, split and note"
            )
        further = fields.keys() - set(Published._fields)
        if further:
            raise unknown(f"column of {path}", min(further), Published._fields)
        metric = fields.get("metric", UNKNOWN)
        value = _finite(fields["value"], where)
        if metric not in (*METRICS, UNKNOWN):
            raise unknown(f"metric in {where}", metric, [*METRICS, UNKNOWN])
        cells.append(Published(**{**OPTIONAL, **fields, "value": value}))  # type: ignore[arg-type]
    return tuple(cells)


def _finite(text: str, where: str) -> float:
    """The number that a text is. Raises InputError: it is none, or not a finite one."""
    try:
        value = float(text)
        if math.isfinite(value):
            return value
    except ValueError:
        pass
    raise InputError(f"{where}: value should be a number, found {one_line(text)[:80]}")


def printed_cells(
    papers: Sequence[str], row: str, further: Sequence[Published] = ()
) -> list[Published]:
    """The cells of a row of one of these papers.

    Args:
        row: ``TABLE: ROW``, or ``PAPER, TABLE: ROW`` where two papers have such a row.
        further: printed numbers of a user's own file.

    Raises:
        InputError: no such paper, no such row in any of them, or one in two of them.
    """
    known = [*published(), *further]
    sources = list(dict.fromkeys(cell.source for cell in known))
    for paper in papers:
        if paper not in sources:
            raise unknown("paper with printed numbers", paper, sources)
    cells = [cell for cell in known if cell.source in papers]
    found = [cell for cell in cells if row in (cell.row, f"{cell.source}, {cell.row}")]
    found_in = list(dict.fromkeys(cell.source for cell in found))
    if not found:
        there = list(dict.fromkeys(cell.row for cell in cells))
        raise unknown(f"printed row of {' or '.join(papers)}", row, there)
    if len(found_in) > 1:
        ways = " or ".join(repr(f"{paper}, {row}") for paper in found_in)
        raise InputError(f"{len(found_in)} papers have the printed row {row!r}; write {ways}")
    return found


def beside_ours(study: Study, printed: Mapping[str, PrintedRow]) -> Table | None:
    """Ours and the paper's, cell by cell, of the rows that a file names.

    It is None where the file names no row that was measured.

    Args:
        printed: row -> the printed row that it is.
    """
    # nothing generated compares with a paper
    if study.facts.source == SAMPLE:
        return None
    lines: list[Line] = []
    comparable = 0
    for column in study.columns:
        for label in study.systems:
            if label in printed:
                for line, is_comparable in _pairs(study, label, column, printed[label]):
                    lines.append(line)
                    comparable += is_comparable
    if not lines:
        return None
    columns = [
        Column("Column"),
        Column("System", words=True),
        Column("ours"),
        Column("printed", csv=TEXT),
        Column("where", words=True),
        Column("comparable", words=True),
    ]
    note = (
        f"{comparable} of {len(lines)} pairs are comparable. The experiment's file names the "
        "printed row that each of its rows is, and how its own is another system."
    )
    return Table("Printed numbers and ours", columns, lines, (note,))


def _pairs(
    study: Study, label: str, main: ScoreColumn, printed: PrintedRow
) -> Iterator[tuple[Line, bool]]:
    """A line for each printed cell of a row that is of this column's examples, and whether the two
    numbers are comparable."""
    for cell in printed.cells:
        # ours by the paper's metric, where that was measured
        by_theirs = replace(main, metric=cell.metric)
        column = by_theirs if study.values(label, by_theirs) else main
        scores = list(study.values(label, column).values())
        if not scores or (cell.task, cell.evaluation) != (column.task, column.evaluation):
            continue
        ours = SUMMED[printed.summed](scores)
        seeds = f" ({printed.summed} of {len(scores)})" if len(scores) > 1 else ""
        theirs = f"{cell.value:.1f} ({label_of(cell.metric)}, {cell.split})"
        where = f"{cell.system}; {cell.source}, {cell.table}"
        if cell.note:
            where += f" ({cell.note})"
        reasons = [*_reasons(study, label, column, cell), *printed.differs]
        keys = tuple(record.key for record in study.finished(label, column))
        cells = (
            TableCell(study.called(label), plain=label),
            TableCell(f"{ours:.1f}{seeds}", ours, n=len(scores), keys=keys),
            TableCell(theirs, cell.value, plain=f"{cell.value:g}"),
            TableCell(where),
            TableCell("no: " + "; ".join(reasons) if reasons else YES),
        )
        yield Line(column.title, cells, row=label), not reasons


def _reasons(study: Study, label: str, column: ScoreColumn, printed: Published) -> list[str]:
    """Why a printed number and ours are not of the same examples, metric and pre-training."""
    reasons = []
    # the split and the metric
    if printed.split == UNKNOWN:
        reasons.append("split not stated")
    elif printed.split != "dev":
        reasons.append(f"{printed.split} set, ours is dev")
    if printed.metric == UNKNOWN:
        reasons.append("metric not stated")
    elif printed.metric != column.metric:
        reasons.append(f"{label_of(printed.metric)}, ours is {label_of(column.metric)}")

    # the examples: a folder with another number of them holds something else
    data = [record.cell.data for record in study.records if column.task in record.cell.tasks]
    counts = {each.rows.get(column.evaluation) for each in data}
    if counts != {DEVELOPMENT_EXAMPLES.get((column.task, column.evaluation))}:
        suite = "SQuAD" if column.task.startswith("squad") else "GLUE"
        reasons.append(f"not {suite}'s development set")
    if any(each.max_train_rows for each in data):
        reasons.append("fewer training examples")
    return [*reasons, *_pretrainings(study, label, column)]


def _pretrainings(study: Study, label: str, column: ScoreColumn) -> list[str]:
    """The pre-trainings of a row that were ours, and on which text."""
    texts = set()
    for record in study.finished(label, column):
        for artefact in record.artefacts.values():
            if {"train", "text"} <= artefact.keys():
                text = artefact["text"]
                # text without files is that of the sample suite
                files = ", ".join(text["files"]) or GENERATED
                texts.add((files, text["tokens"]))
    return [f"pre-trained on {tokens:,} tokens of {files}" for files, tokens in sorted(texts)]


def printed_sizes() -> list[dict[str, str]]:
    """Every printed line, in the order of the file.

    ``parameters`` are in millions, ``flops`` in billions; they are empty if not given.
    """
    return rows_of(FOLDER / "sizes" / "printed.csv")


def rule_of(printed: str, counted: Mapping[str, int], unit: float) -> tuple[str, int, bool]:
    """The first convention that rounds to the printed digits, else the nearest one.

    Returns:
        The convention, its count, and whether it fits.
    """
    decimals = len(printed.partition(".")[2])
    for rule, value in counted.items():
        if f"{value / unit:.{decimals}f}" == printed:
            return rule, value, True
    rule, value = min(counted.items(), key=lambda item: abs(item[1] / unit - float(printed)))
    return rule, value, False


def printed_and_ours(
    named: Sequence[tuple[Mapping[str, str], Mapping[str, Mapping[str, int]]]],
) -> Table:
    """Every printed size with ours, the difference, and the convention that explains it.

    Args:
        named: a printed line, with the ``parameters`` and ``flops`` of the model: convention ->
            count, the harness's own first.
    """
    lines = []
    fitting = 0
    for size, counted in named:
        row = f"{size['source']}, {size['table']}: {size['system']}"
        for field, quantity, unit, sign in (
            ("parameters", "parameters", 1e6, "M"),
            ("flops", "FLOPs", 1e9, "G"),
        ):
            printed = size[field]
            if not printed:
                continue
            conventions = counted[field]
            ours = next(iter(conventions.values()))
            rule, value, fits = rule_of(printed, conventions, unit)
            nearest = (
                f"{rule}, {value / unit:.2f} {sign}, {_percent_off(value, unit, printed):+.1f} %"
            )
            cells = (
                TableCell(size["row"]),
                TableCell(quantity),
                TableCell(f"{printed} {sign}", value=float(printed), plain=printed),
                number(ours / unit, ".2f", f" {sign}"),
                number(_percent_off(ours, unit, printed), "+.1f", " %"),
                TableCell(rule if fits else f"none found; nearest: {nearest}"),
            )
            lines.append(Line(row, cells))
            fitting += fits
    columns = [
        Column("Printed in"),
        Column("Row here", words=True),
        Column("Quantity", words=True),
        Column("printed", csv=TEXT),
        Column("ours"),
        Column("difference"),
        Column("rule", words=True),
    ]
    note = (
        "Papers count sizes by different rules. The column `rule` names the rule that gives the "
        "printed number to its last digit. `ours` counts the whole classifier (two labels) and "
        f"2 x MACs at length 128. {fitting} of {len(lines)} numbers fit a rule. No paper states "
        "its rule, so this is a guess."
    )
    return Table("Printed sizes and ours", columns, lines, (note,))


def _percent_off(count: float, unit: float, printed: str) -> float:
    """How far a count is from a printed number, in percent of it."""
    return 100 * (count / unit / float(printed) - 1)
