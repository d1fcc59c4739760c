"""The numbers of a paper's tables compared with the records: which are printed as measured, which
differ, which have no record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from bench.audit.names import is_average, is_score, plain_name, plain_task
from bench.audit.printed import PrintedNumber
from bench.audit.table import PrintedRow, Sheet
from bench.errors import InputError
from bench.record.named_rows import row_named
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import SAMPLE
from bench.report.render import github
from bench.report.score_column import ScoreColumn
from bench.report.studies import Folder, Reads, groups, study_of
from bench.report.study import Study
from bench.report.tables.for_paper import name_in_paper
from bench.stats.metrics import METRICS, label_of, named_in
from bench.stats.summary import summarise

RATIO_TITLE = re.compile(
    r"^\W*(?:shares?|percent(?:age)?|ratios?|retention|reappearance)\b(?: of\b|\W*$)", re.IGNORECASE
)
DIFFERENCE_TITLE = re.compile(r"^\W*(?:\w+ )?differences?\b", re.IGNORECASE)
WORDS_OF_METRICS = {"acc", "mcc"}
for _metric in METRICS.values():
    WORDS_OF_METRICS |= {_metric.name, _metric.label}
METRIC_NAMES = re.compile(
    rf"\b(?:{'|'.join(sorted(WORDS_OF_METRICS, key=len, reverse=True))})\b\.?", re.IGNORECASE
)
"""In a column's title, with or without brackets."""
SAME = "as measured"
DIFFERS = "differs"
ABSENT = "no record"


@dataclass(frozen=True)
class Checked:
    """One number of the paper.

    Attributes:
        where: the table.
        row, column, printed: as they stand there.
        measured: what was measured, at the printed number of decimals; "" where there is no record.
        verdict: :data:`SAME`, :data:`DIFFERS` or :data:`ABSENT`.
        records: beginnings of the keys of the records behind the measured number.
        data: the examples of these records.
    """

    where: str
    row: str
    column: str
    printed: str
    measured: str
    verdict: str
    records: tuple[str, ...] = ()
    data: str = ""


@dataclass(frozen=True)
class Measured:
    """A number that some records give for one cell of a paper.

    Attributes:
        value: in percent.
        data: the examples that the records are of.
    """

    value: float
    records: Sequence[Record]
    data: str


@dataclass(frozen=True)
class RowNames:
    """How a paper may call the rows of the records.

    Attributes:
        labels: of all rows.
        typed: name in the paper, in letters and digits alone -> label, as a user said.
        found: likewise, the names that fit one row alone.
    """

    labels: Collection[str]
    typed: Mapping[str, str]
    found: Mapping[str, str]

    def label_of(self, system: str) -> str | None:
        """The label of the row that a paper calls so; None where no row, or several, fit."""
        plain = plain_name(system)
        if plain in self.typed:
            return self.typed[plain]
        if system in self.labels:
            return system
        return self.found.get(plain)


def check_paper(sheets: Sequence[Sheet], results: Path, rows: Sequence[str] = ()) -> list[Checked]:
    """Every score and average of a paper's tables, with its verdict: ABSENT where its row or its
    column has no record.

    Parameters, FLOPs, speed-ups, columns of differences (most with a sign) and tables whose title
    is of a share are not compared.

    A row spelled exactly as one of the records is that row. Else names are compared without
    punctuation; a name that fits several rows has no record, unless ``rows`` has it.

    Args:
        rows: ``Name in the paper=row of the records``, where the two are spelled differently.

    Raises:
        InputError: no records, or a mapping to a row that is not there.
    """
    # a report's mean leaves columns of noise out
    has_averages = any(is_average(column) for sheet in sheets for column in sheet.columns)
    reads = Reads.TEACHER if has_averages else Reads.NOTHING
    store = Store(results)
    folder = Folder(store, list(store.records()))
    tables = [study_of(group, folder, reads=reads) for group in groups(folder.records)]
    if not tables:
        raise InputError(f"no records in {results}")
    # a paper's number never agrees with generated sample data by chance: real examples where there
    # are any
    real = [study for study in tables if study.facts.source != SAMPLE]
    tables = real or tables
    names = _row_names(tables, rows, results)

    differences = _columns_of_differences(sheets)
    checked: list[Checked] = []
    for sheet in sheets:
        for row in sheet.rows:
            label = None if RATIO_TITLE.search(sheet.name) else names.label_of(row.system)
            for column, cell in row.cells.items():
                if (sheet.where, column) in differences:
                    continue
                candidates: list[Measured]
                if label is None:
                    candidates = []
                elif is_average(column):
                    candidates = list(_means(tables, label, _tasks_of(row)))
                else:
                    candidates = list(_scores(tables, label, column))
                checked.append(_checked(sheet, row, column, cell, candidates))
    return checked


def _row_names(tables: Sequence[Study], rows: Sequence[str], results: Path) -> RowNames:
    """The names of all rows.

    Args:
        rows: as :func:`check_paper` has them.
    """
    labels: set[str] = set()
    as_printed: set[tuple[str, str]] = set()
    in_papers: set[tuple[str, str]] = set()
    for study in tables:
        for label in study.systems:
            labels.add(label)
            as_printed.add((study.called(label), label))
            in_papers.add((name_in_paper(study, label), label))
    as_labels = {(label, label) for label in labels}

    # a row's label before what a report calls another one, and that before its name in a paper
    found: dict[str, str] = {}
    for names in (in_papers, as_printed, as_labels):
        often = Counter(plain_name(name) for name, _ in names)
        for name, label in names:
            if often[plain_name(name)] == 1:
                found[plain_name(name)] = label
    records = [record for study in tables for record in study.records]
    typed = dict(_mapping(text, records, results) for text in rows)
    return RowNames(labels, typed, found)


def _mapping(text: str, records: Collection[Record], results: Path) -> tuple[str, str]:
    """``Name in the paper=row``, with the name as it is compared. A name and a row may have ``=``
    in them themselves."""
    halves: list[tuple[str, str]] = []
    for place, sign in enumerate(text):
        if sign == "=" and place:
            halves.append((text[:place], text[place + 1 :]))
    if not halves:
        raise InputError(
            f"--row {text}: expected Name=row, with the name in the paper and a row of the records"
        )
    known = {record.row for record in records}
    for paper, ours in halves:
        if ours in known:
            return plain_name(paper), ours
    paper, ours = halves[0]
    return plain_name(paper), row_named(ours, records, results)


def _columns_of_differences(sheets: Sequence[Sheet]) -> set[tuple[str, str]]:
    """The table and the title of each column that has differences."""
    differences: set[tuple[str, str]] = set()
    for sheet in sheets:
        for column in sheet.columns:
            if DIFFERENCE_TITLE.search(sheet.name) or _has_signs(sheet, column):
                differences.add((sheet.where, column))
    return differences


def _has_signs(sheet: Sheet, column: str) -> bool:
    """Whether most numbers of a column have a sign; of one number none is most."""
    cells = [row.cells[column] for row in sheet.rows if column in row.cells]
    texts = [cell.text for cell in cells if cell.value]
    signed = [text for text in texts if text[0] in "+-"]
    return len(texts) > 1 and 2 * len(signed) > len(texts)


def _tasks_of(row: PrintedRow) -> set[str]:
    """The tasks of a row's columns of scores: its mean is over these, and not over columns like
    layers or seeds."""
    return {plain_task(METRIC_NAMES.sub("", column)) for column in row.cells if is_score(column)}


def _is_of_task(column: ScoreColumn, tasks: Collection[str]) -> bool:
    """Whether a column is of one of these tasks, as a paper names them."""
    return plain_task(column.title) in tasks or plain_task(column.task) in tasks


def _scores(tables: Sequence[Study], label: str, title: str) -> Iterator[Measured]:
    """The numbers that may stand in a column of this title: any metric of the task that the title
    does not exclude."""
    tasks = {plain_task(title), plain_task(METRIC_NAMES.sub("", title))}
    metric_named = named_in(title)
    for study in tables:
        for column in study.columns:
            if not _is_of_task(column, tasks):
                continue
            done = study.finished(label, column)
            metrics: dict[str, None] = {}
            for record in done:
                metrics |= dict.fromkeys(record.scores[column.evaluation])
            for metric in _fitting_metrics(list(metrics), metric_named):
                scores = [100 * record.scores[column.evaluation][metric] for record in done]
                yield Measured(summarise(scores).mean, done, study.described_data())


def _fitting_metrics(metrics: Sequence[str], named: str) -> Sequence[str]:
    """The metrics that a column's title may mean.

    Args:
        named: the metric in the title; "" where it has none.
    """
    if not named:
        return metrics
    if named in metrics:
        return [named]
    # F1 of questions is that of answers
    last = label_of(named).lower()
    return [metric for metric in metrics if label_of(metric).lower().split()[-1] == last]


def _means(tables: Sequence[Study], label: str, tasks: Collection[str]) -> Iterator[Measured]:
    """The means over just these tasks, and over those of them that a report averages: a mean of
    other tasks says nothing about the printed one."""
    for study in tables:
        of_tasks = [column for column in study.columns if _is_of_task(column, tasks)]
        if len(of_tasks) != len(tasks):
            continue
        averaged = [column for column in of_tasks if column in study.averaged]
        for columns in (of_tasks, averaged):
            is_complete = all((label, column) in study.summaries for column in columns)
            if len(columns) > 1 and is_complete:
                means = [study.summaries[label, column].mean for column in columns]
                records: list[Record] = []
                for column in columns:
                    records += study.finished(label, column)
                yield Measured(summarise(means).mean, records, study.described_data())


def _checked(
    sheet: Sheet,
    row: PrintedRow,
    column: str,
    cell: PrintedNumber,
    candidates: Sequence[Measured],
) -> Checked:
    """One number of a paper beside what it may be of: the first that is printed so, or else the
    nearest."""
    if not candidates:
        return Checked(sheet.where, row.system, column, cell.text, "", ABSENT)
    nearest = min(candidates, key=lambda one: abs(Decimal(repr(one.value)) - cell.value))
    verdict = DIFFERS
    for one in candidates:
        if cell.is_rounded(Decimal(repr(round(one.value, 9)))):
            nearest = one
            verdict = SAME
            break
    return Checked(
        sheet.where,
        row.system,
        column,
        cell.text,
        f"{nearest.value:.{cell.places}f}",
        verdict,
        tuple(record.key[:12] for record in nearest.records),
        nearest.data,
    )


def describe(checked: Sequence[Checked]) -> str:
    """A text that names what differs and which rows and columns have no record, then the counts."""
    text = ""
    differing = [
        [one.where, one.row, one.column, one.printed, one.measured, one.data]
        for one in checked
        if one.verdict == DIFFERS
    ]
    if differing:
        header = ["where", "row", "column", "printed", "measured", "data"]
        text += f"{github(differing, header, 'left')}\n\n"
    text += _without_a_record("rows", [(one.row, one.verdict) for one in checked])
    text += _without_a_record("columns", [(one.column, one.verdict) for one in checked])
    counts = Counter(one.verdict for one in checked)
    return text + ", ".join(f"{counts[verdict]} {verdict}" for verdict in (SAME, DIFFERS, ABSENT))


def _without_a_record(what: str, verdicts: Sequence[tuple[str, str]]) -> str:
    """A line that names the rows or columns of which no number has a record; "" where there are
    none.

    Args:
        verdicts: the name and the verdict of each number.
    """
    met = {name for name, verdict in verdicts if verdict != ABSENT}
    absent = dict.fromkeys(name for name, _ in verdicts if name not in met)
    return f"{what} without a record: {', '.join(absent)}\n" if absent else ""
