"""Numbers that papers print: beside the rows of an experiment file that says which printed row each of its own is; and sizes, under
every convention: which rule gives the printed digit.

They are typed from the papers into bench/report/printed/<paper>.csv, which is installed with the package, and are never
averaged with ours.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from bench.errors import InputError, one_line, unknown
from bench.record.task_facts import SAMPLE
from bench.report.score_column import ScoreColumn
from bench.report.study import Study as ReportGroup
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
    """One printed cell: the paper, its table and the table's row, as they are called there; metric and split are ``unknown`` where
    they are not stated; the value is in percent.
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
    """The cells of a printed row, why ours is another system (a sentence each), and how its paper sums up seeds."""

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


def numbers_in(path: Path) -> tuple[Published, ...]:
    """The printed numbers of a user's own file, in the same columns; of what is not in it, metric and split are not stated.

    Raises:
        InputError: no such file, a column that is missing or not known, or a value that is no number.
    """
    lines = list(csv.DictReader(text_of(path, str(path)).splitlines()))
    if not lines:
        raise InputError(f"{path} has no printed number")
    cells = []
    for place, line in enumerate(lines, start=2):
        if None in line:
            raise InputError(f"{path}, line {place}: it has more fields than the first line")
        given = {name.strip(): value.strip() for name, value in line.items() if name and value}
        if lacking := [
            name for name in ("source", "table", "system", "task", "value") if name not in given
        ]:
            needs = "a line needs source, table, system, task and value, and may have evaluation, metric, split and note"
            raise InputError(f"{path}, line {place}: {lacking[0]} is missing; {needs}")
        if further := given.keys() - set(Published._fields):
            raise unknown(f"column of {path}", min(further), Published._fields)
        try:
            value = float(given["value"])
            if not math.isfinite(value):
                raise ValueError
        except ValueError:
            raise InputError(
                f"{path}, line {place}: value should be a number, found {one_line(given['value'])[:80]}"
            ) from None
        if (metric := given.get("metric", UNKNOWN)) not in (*METRICS, UNKNOWN):
            raise unknown(f"metric in {path}, line {place}", metric, [*METRICS, UNKNOWN])
        usual = {"evaluation": "validation", "metric": UNKNOWN, "split": UNKNOWN, "note": ""}
        cells.append(Published(**{**usual, **given, "value": value}))  # type: ignore[arg-type]
    return tuple(cells)


def printed_cells(
    papers: Sequence[str], row: str, further: Sequence[Published] = ()
) -> list[Published]:
    """The cells of a row of one of these papers, by ``TABLE: ROW``, or ``PAPER, TABLE: ROW`` where two papers have such a row.

    Args:
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
    own = [cell for cell in cells if row in (cell.row, f"{cell.source}, {cell.row}")]
    found_in = list(dict.fromkeys(cell.source for cell in own))
    if not own:
        there = list(dict.fromkeys(cell.row for cell in cells))
        raise unknown(f"printed row of {' or '.join(papers)}", row, there)
    if len(found_in) > 1:
        ways = " or ".join(repr(f"{paper}, {row}") for paper in found_in)
        raise InputError(f"{len(found_in)} papers have the printed row {row!r}; write {ways}")
    return own


def beside_ours(group: ReportGroup, printed: Mapping[str, PrintedRow]) -> Table | None:
    """Ours and the paper's, cell by cell, of the rows that a file names; None where it names none that was measured."""
    lines = []
    # nothing generated compares with a paper
    for main in group.columns if group.facts.source != SAMPLE else ():
        for label, row in ((label, printed[label]) for label in group.systems if label in printed):
            for cell in row.cells:
                # ours by the paper's metric, where that was measured
                column = replace(main, metric=cell.metric)
                column = column if group.values(label, column) else main
                scores = list(group.values(label, column).values())
                if not scores or (cell.task, cell.evaluation) != (column.task, column.evaluation):
                    continue
                why = [*_reasons(group, label, column, cell), *row.differs]
                ours = SUMMED[row.summed](scores)
                seeds = f" ({row.summed} of {len(scores)})" if len(scores) > 1 else ""
                place = f"{cell.system}; {cell.source}, {cell.table}" + (
                    f" ({cell.note})" if cell.note else ""
                )
                keys = tuple(record.key for record in group.finished(label, column))
                cells = (
                    TableCell(group.called(label), plain=label),
                    TableCell(f"{ours:.1f}{seeds}", ours, n=len(scores), keys=keys),
                    TableCell(
                        f"{cell.value:.1f} ({label_of(cell.metric)}, {cell.split})",
                        cell.value,
                        plain=f"{cell.value:g}",
                    ),
                    TableCell(place),
                    TableCell("no: " + "; ".join(why) if why else YES),
                )
                lines.append(Line(column.title, cells, row=label))
    if not lines:
        return None
    columns = [
        Column("Column"),
        Column("System", words=True),
        Column("ours"),
        Column("printed", csv=TEXT),
    ]
    columns += [Column("where", words=True), Column("comparable", words=True)]
    comparable = sum(line.cells[-1].text == YES for line in lines)
    note = (
        f"{comparable} of {len(lines)} pairs are comparable. The experiment's file names the printed row that each of its rows is, "
        "and how its own is another system."
    )
    return Table("Printed numbers and ours", columns, lines, (note,))


def _reasons(group: ReportGroup, label: str, column: ScoreColumn, printed: Published) -> list[str]:
    """Why a printed number and ours are not of the same examples, metric and pre-training."""
    whys = []
    if printed.split != "dev":
        whys.append(
            "split not stated" if printed.split == UNKNOWN else f"{printed.split} set, ours is dev"
        )
    if printed.metric == UNKNOWN:
        whys.append("metric not stated")
    elif printed.metric != column.metric:
        whys.append(f"{label_of(printed.metric)}, ours is {label_of(column.metric)}")
    data = [r.cell.data for r in group.records if column.task in r.cell.tasks]
    rows = {own.rows.get(column.evaluation) for own in data}
    # a folder with another number of examples holds something else
    if rows != {DEVELOPMENT_EXAMPLES.get((column.task, column.evaluation))}:
        whys.append(
            f"not {'SQuAD' if column.task.startswith('squad') else 'GLUE'}'s development set"
        )
    if any(own.max_train_rows for own in data):
        whys.append("fewer training examples")
    trained = [
        each
        for r in group.finished(label, column)
        for each in r.artefacts.values()
        if {"train", "text"} <= each.keys()
    ]
    # text without files is that of the sample suite
    texts = {
        (", ".join(each["text"]["files"]) or GENERATED, each["text"]["tokens"]) for each in trained
    }
    whys += [f"pre-trained on {tokens:,} tokens of {what}" for what, tokens in sorted(texts)]
    return whys


def printed_sizes() -> list[dict[str, str]]:
    """Every printed line, in the order of the file: ``parameters`` in millions, ``flops`` in billions, empty if not given."""
    return rows_of(FOLDER / "sizes" / "printed.csv")


def rule_of(printed: str, counted: Mapping[str, int], unit: float) -> tuple[str, int, bool]:
    """The first convention that rounds to the printed digits, else the nearest one; its count; whether it fits."""
    decimals = len(printed.partition(".")[2])
    for rule, value in counted.items():
        if f"{value / unit:.{decimals}f}" == printed:
            return rule, value, True
    rule, value = min(counted.items(), key=lambda item: abs(item[1] / unit - float(printed)))
    return rule, value, False


def printed_and_ours(
    named: Sequence[tuple[Mapping[str, str], Mapping[str, Mapping[str, int]]]],
) -> Table:
    """Every printed figure with ours, the difference, and the convention that explains it, if one does.

    Args:
        named: with the ``parameters`` and ``flops`` of the model: convention -> count, the harness's own first.
    """
    lines, fitting = [], 0
    for size, counted in named:
        for quantity, printed, conventions, unit, sign in (
            ("parameters", size["parameters"], counted["parameters"], 1e6, "M"),
            ("FLOPs", size["flops"], counted["flops"], 1e9, "G"),
        ):
            if not printed:
                continue
            own, (rule, value, fits) = (
                next(iter(conventions.values())),
                rule_of(printed, conventions, unit),
            )
            off, nearest_off = (100 * (count / unit / float(printed) - 1) for count in (own, value))
            nearest = (
                f"none found; nearest: {rule}, {value / unit:.2f} {sign}, {nearest_off:+.1f} %"
            )
            cells = (
                TableCell(size["row"]),
                TableCell(quantity),
                TableCell(f"{printed} {sign}", value=float(printed), plain=printed),
                number(own / unit, ".2f", f" {sign}"),
                number(off, "+.1f", " %"),
                TableCell(rule if fits else nearest),
            )
            lines.append(Line("{source}, {table}: {system}".format_map(size), cells))
            fitting += fits
    columns = [Column("Printed in"), Column("Row here", words=True), Column("Quantity", words=True)]
    columns += [
        Column("printed", csv=TEXT),
        Column("ours"),
        Column("difference"),
        Column("rule", words=True),
    ]
    note = (
        "Papers count sizes by different rules. The column `rule` names the rule that gives the printed number to its last digit. "
        "`ours` counts the whole classifier (two labels) and 2 x MACs at length 128. "
        f"{fitting} of {len(lines)} numbers fit a rule. No paper states its rule, so this is a guess."
    )
    return Table("Printed sizes and ours", columns, lines, (note,))
