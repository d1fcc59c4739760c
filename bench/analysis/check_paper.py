"""The numbers of a paper's tables compared with the records: which are printed as measured, which differ, which have no record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from bench.audit.names import is_average, is_score, plain_name, plain_task
from bench.audit.table import Sheet
from bench.errors import InputError
from bench.record.named_rows import row_named
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import SAMPLE
from bench.report.comparison import columns_of_noise
from bench.report.groups import ReportGroup, groups
from bench.report.render import github
from bench.report.tables.for_paper import name_in_paper
from bench.stats.metrics import METRICS, label_of, named_in
from bench.stats.summary import summarise

RATIO_TITLE = re.compile(
    r"^\W*(?:shares?|percent(?:age)?|ratios?|retention|reappearance)\b(?: of\b|\W*$)", re.IGNORECASE
)
DIFFERENCE_TITLE = re.compile(r"^\W*(?:\w+ )?differences?\b", re.IGNORECASE)
SAME, DIFFERS, ABSENT = "as measured", "differs", "no record"


class Checked(NamedTuple):
    """One number of the paper."""

    where: str
    row: str
    column: str
    printed: str
    measured: str
    """at the printed number of decimals; "" where there is no record"""
    verdict: str
    records: tuple[str, ...] = ()
    """keys of the records behind the measured number"""
    data: str = ""
    """the examples of these records"""


def check_paper(sheets: Sequence[Sheet], results: Path, rows: Sequence[str] = ()) -> list[Checked]:
    """Every score and average of a paper's tables, with its verdict: ABSENT where its row or its column has no record.

    Parameters, FLOPs, speed-ups, columns of differences (most with a sign) and tables whose title is of a share are not compared.

    A row spelled exactly as one of the records is that row. Else names are compared without punctuation; a name that fits
    several rows has no record, unless ``rows`` has it.

    Args:
        rows: ``Name in the paper=row of the records``, where the two are spelled differently.

    Raises:
        InputError: no records, or a mapping to a row that is not there.
    """
    store = Store(results)
    tables = groups(store.records())
    if not tables:
        raise InputError(f"no records in {results}")
    # real examples where there are any: a paper's number never agrees with generated sample data by chance
    tables = [group for group in tables if group.facts.source != SAMPLE] or tables
    known = {label for group in tables for label in group.systems}
    records = [record for group in tables for record in group.records]
    named = dict(_mapping(text, records, results) for text in rows)
    by_name: dict[str, str] = {}
    as_labels = {(label, label) for label in known}
    as_printed = {(group.called(label), label) for group in tables for label in group.systems}
    in_papers = {
        (name_in_paper(group, label), label) for group in tables for label in group.systems
    }
    # a row's label before what a report calls another one, and that before its name in a paper
    for names in (in_papers, as_printed, as_labels):
        often = Counter(plain_name(name) for name, _ in names)
        by_name |= {
            plain_name(name): label for name, label in names if often[plain_name(name)] == 1
        }
    if any(is_average(column) for sheet in sheets for column in sheet.columns):
        for group in tables:  # a report's mean leaves these out
            group.left_out_of_means = columns_of_noise(group, store)
    differences = {
        (sheet.where, column)
        for sheet in sheets
        for column in sheet.columns
        if DIFFERENCE_TITLE.search(sheet.name) or _has_signs(sheet, column)
    }
    checked = []
    for sheet, row in ((of_row, row) for of_row in sheets for row in of_row.rows):
        plain = plain_name(row.system)
        label = named.get(plain, row.system if row.system in known else by_name.get(plain))
        # a mean is over these, and not over columns like layers or seeds
        tasks = {
            plain_task(METRIC_NAMES.sub("", column)) for column in row.cells if is_score(column)
        }
        for column, cell in row.cells.items():
            if (sheet.where, column) in differences:
                continue
            candidates: list[Measured] = []
            if label is not None and not RATIO_TITLE.search(sheet.name):
                is_mean = is_average(column)
                candidates = list(
                    _means(tables, label, tasks) if is_mean else _scores(tables, label, column)
                )
            if not candidates:
                checked.append(Checked(sheet.where, row.system, column, cell.text, "", ABSENT))
                continue
            fitting = next(
                (c for c in candidates if cell.is_rounded(Decimal(repr(round(c[0], 9))))), None
            )
            nearest = fitting or min(
                candidates, key=lambda c: abs(Decimal(repr(c[0])) - cell.value)
            )
            text, keys = f"{nearest[0]:.{cell.places}f}", tuple(r.key[:12] for r in nearest[1])
            verdict = SAME if fitting else DIFFERS
            checked.append(
                Checked(
                    sheet.where,
                    row.system,
                    column,
                    cell.text,
                    text,
                    verdict,
                    keys,
                    nearest[2],
                )
            )
    return checked


def _mapping(text: str, records: Collection[Record], results: Path) -> tuple[str, str]:
    """``Name in the paper=row``, with the name as it is compared. A name and a row may have ``=`` in them themselves."""
    halves = [
        (text[:place], text[place + 1 :])
        for place, sign in enumerate(text)
        if sign == "=" and place
    ]
    if not halves:
        raise InputError(
            f"--row {text}: expected Name=row, with the name in the paper and a row of the records"
        )
    known = {record.row for record in records}
    for paper, ours in halves:
        if ours in known:
            return plain_name(paper), ours
    return plain_name(halves[0][0]), row_named(halves[0][1], records, results)


METRIC_NAMES = re.compile(
    rf"\b(?:{'|'.join(sorted({w for m in METRICS.values() for w in (m.name, m.label)} | {'acc', 'mcc'}, key=len, reverse=True))})\b\.?",
    re.IGNORECASE,
)
"""In a column's title, with or without brackets."""

Measured = tuple[float, Sequence[Record], str]
"""What some records give for one cell of a paper, the records, and the examples that they are of."""


def _scores(tables: Sequence[ReportGroup], label: str, column: str) -> Iterator[Measured]:
    """What the records may have printed in a column of this name: any metric of the task that the name does not exclude."""
    wanted, metric_named = (
        {plain_task(column), plain_task(METRIC_NAMES.sub("", column))},
        named_in(column),
    )
    for group in tables:
        for place in group.columns:
            done = group.finished(label, place)
            if wanted & {plain_task(place.title), plain_task(place.task)}:
                metrics = list(dict.fromkeys(m for r in done for m in r.scores[place.evaluation]))
                if metric_named:  # F1 of questions is that of answers
                    last = label_of(metric_named).lower()
                    alike = [
                        metric for metric in metrics if label_of(metric).lower().split()[-1] == last
                    ]
                    metrics = [metric_named] if metric_named in metrics else alike
                for metric in metrics:
                    mean = summarise([100 * r.scores[place.evaluation][metric] for r in done]).mean
                    yield mean, done, group.described_data()


def _has_signs(sheet: Sheet, column: str) -> bool:
    """Whether most numbers of a column have a sign; of one number none is most."""
    texts = [
        row.cells[column].text
        for row in sheet.rows
        if column in row.cells and row.cells[column].value
    ]
    return len(texts) > 1 and 2 * sum(text[0] in "+-" for text in texts) > len(texts)


def _means(tables: Sequence[ReportGroup], label: str, tasks: Collection[str]) -> Iterator[Measured]:
    """The means over just these tasks, and over those of them that a report averages: a mean of other tasks says nothing about the
    printed one."""
    for group in tables:
        of_these = [
            c for c in group.columns if {plain_task(c.title), plain_task(c.task)} & set(tasks)
        ]
        averaged = [column for column in of_these if column in group.averaged]
        for columns in (of_these, averaged) if len(of_these) == len(tasks) else ():
            if len(columns) > 1 and all((label, column) in group.summaries for column in columns):
                mean = summarise([group.summaries[label, column].mean for column in columns]).mean
                yield (
                    mean,
                    [r for c in columns for r in group.finished(label, c)],
                    group.described_data(),
                )


def describe(checked: Sequence[Checked]) -> str:
    """What differs, which rows and columns have no record, then the counts."""
    counts = Counter(c.verdict for c in checked)
    rows = [
        [c.where, c.row, c.column, c.printed, c.measured, c.data]
        for c in checked
        if c.verdict == DIFFERS
    ]
    text = (
        f"{github(rows, ['where', 'row', 'column', 'printed', 'measured', 'data'], 'left')}\n\n"
        if rows
        else ""
    )
    without = [c for c in checked if c.verdict == ABSENT]
    for what, name_of in (("rows", lambda c: c.row), ("columns", lambda c: c.column)):
        met = {name_of(c) for c in checked if c.verdict != ABSENT}
        none = dict.fromkeys(name for c in without if (name := name_of(c)) not in met)
        text += f"{what} without a record: {', '.join(none)}\n" if none else ""
    text += ", ".join(f"{counts[verdict]} {verdict}" for verdict in (SAME, DIFFERS, ABSENT))
    return text
