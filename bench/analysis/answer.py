"""What an engineer is told of his data: the row to take, a sentence that says why, and the sheet
of everything that was tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.analysis.candidates import Candidate
from bench.analysis.choose import EXACT, Choice, cheapness
from bench.analysis.limits import RETAINED
from bench.record.cell import ONNX_INT8, PLUS_INT8, TEACHER
from bench.record.schema import Record
from bench.record.speed_sessions import BUSY_CORES, OWN_RUNTIME, Conditions, SpeedRecord
from bench.record.task_facts import row_as_typed
from bench.report import score_column
from bench.report.means import mean_of_rows
from bench.report.speed_page import conditions_of
from bench.report.study import KEPT, Study
from bench.report.table import (
    DASH,
    INTERVAL,
    VALUE,
    Column,
    Fields,
    Line,
    Table,
    TableCell,
    number,
)
from bench.report.tables.absolute_errors import absolute_error, in_units
from bench.report.tables.by_class import f1_by_class
from bench.report.tables.parts import counted, if_busy
from bench.stats.form import SCORE
from bench.stats.metrics import label_of, metric_of

ONE_SEED = "One seed: no verdict about methods."
R2 = "r2"
R2_TITLE = "R2"
ERROR_TITLE = "mean absolute error"
SHARE = 0.95
"""The quantile of milliseconds beside the median."""
BORDERLINE = 0.5
"""Points of retention: a row whose interval ends nearer to the bound is called borderline, because
other examples or another seed could decide otherwise."""
MILLISECONDS: Fields = {" p50": "value", " p95": "high"}
F1_TITLE = "F1 of "
"""What the title of a class's F1 begins with."""
BUSY_TITLE = "busy cores"
"""Title of the column of cores that other processes used while models were timed."""
RUNTIMES = {"sdpa": "torch", "onnx": "ONNX Runtime", OWN_RUNTIME: OWN_RUNTIME}
"""Backend -> what the sheet calls it; a row in 8 bits is in the columns of ONNX Runtime."""


@dataclass(frozen=True)
class Tried:
    """What a row is, in words.

    Attributes:
        done: like ``pruned after training``.
        called: what a sentence about it begins with.
        distils: whether it learns from the tuned teacher's outputs or layers.
    """

    done: str
    called: str
    distils: bool = False


@dataclass(frozen=True)
class Answer:
    """The row to take.

    Attributes:
        row: the cheapest one that keeps enough of the teacher's score, or the best one.
        keeps: whether it is shown to keep enough.
        least: the share of the teacher's score, in percent, that counts as kept.
        sentence: the answer in words.
    """

    row: Candidate
    keeps: bool
    least: float
    sentence: str


def answer(choice: Choice, tried: Mapping[str, Tried], examples: int) -> Answer | None:
    """The row to take; None where no row fits.

    It is the cheapest row whose share of the teacher's score is at 97 % or above, or at
    ``--min-retain``, with its whole 95 % interval. Where none is, it is the row with the highest
    mean. Cheap is fewer FLOPs, then fewer parameters, then fewer megabytes.

    Args:
        choice: its group has its tables, for the differences of any two rows.
        tried: label of a row -> what it is.
        examples: that were scored.
    """
    if choice.chosen is None:
        return None
    # the cheapest row that keeps enough, or the one of the highest mean
    least = choice.limits.get(RETAINED, 100 * KEPT)
    kept = [row for row in choice.candidates if (row.retained_low or 0.0) >= least]
    row = min(kept, key=cheapness) if kept else choice.chosen

    # the sentence: its name, what it keeps, what it costs, and what distilling would change
    called = choice.group.called(row.label)
    if row.label in tried:
        called = tried[row.label].called
    keeps = _keeps(choice, row, bool(kept), least)
    distilling = _of_distilling(choice, row, tried, examples)
    sentences = [f"{called} {keeps}{_costs(choice, row)}; {distilling}."]

    # what speaks against it, and how little one seed says
    sentences += [f"Suspect: {what}." for what in row.suspect]
    if choice.no_verdict == score_column.ONE_SEED:
        sentences.append(ONE_SEED)
    elif choice.no_verdict:
        sentences.append(choice.no_verdict)
    return Answer(row, bool(kept), least, " ".join(sentences))


def _keeps(choice: Choice, row: Candidate, keeps: bool, least: float) -> str:
    """What is known of its score."""
    column = choice.columns[0]
    score = f"{label_of(column.metric)} {row.score:.1f}"
    if row.retained is None or row.retained_low is None or row.retained_high is None:
        return f"has the highest score ({score}), beside a teacher without a sound one,"
    if row.label == TEACHER:
        return f"scores {score}"
    ends = f"{row.retained_low:.1f} to {row.retained_high:.1f}"
    said = f"keeps {row.retained:.1f} % of the teacher's score ({score}; 95 % interval {ends})"
    if not keeps:
        said += f", the most of what fits, which is not shown to be {least:g} %,"
    if is_borderline(row, least):
        end = _on_its_side(row.retained_low, least)
        said = said.removesuffix(",")
        said += f", borderline because the interval begins at {end} and the bound is {least:g} %,"
    return said


def is_borderline(row: Candidate, least: float) -> bool:
    """Whether other examples could decide otherwise: the lower end of the interval of what a row
    keeps is within :data:`BORDERLINE` points of the bound. The teacher keeps 100 % by itself."""
    if row.retained_low is None or row.label == TEACHER:
        return False
    return abs(row.retained_low - least) <= BORDERLINE


def _on_its_side(end: float, bound: float) -> str:
    """An end of an interval with two decimals, rounded so that it stays on its side of a bound."""
    # 100 * 1.1 is above 110
    hundredths = round(100 * end, 8)
    rounded = np.floor(hundredths) if end < bound else np.ceil(hundredths)
    return f"{rounded / 100:.2f} %"


def _costs(choice: Choice, row: Candidate) -> str:
    """Its megabytes and milliseconds."""
    parts = []
    if row.megabytes is not None:
        parts.append(f" in {in_megabytes(row.megabytes)}")
    if row.latency is not None:
        busy = " (busy machine)" if choice.busy_cores >= BUSY_CORES else ""
        parts.append(f" at {_ms(row.latency)}{busy}")
    return "".join(parts)


def in_megabytes(megabytes: float) -> str:
    """One decimal; two digits of what is smaller than a tenth."""
    return f"{megabytes:.1f} MB" if megabytes >= 0.1 else f"{megabytes:.2g} MB"


def _ms(latency: float) -> str:
    """Milliseconds with two digits or more."""
    return f"{latency:.0f} ms" if latency >= 10 else f"{latency:.2g} ms"


def _of_distilling(
    choice: Choice, row: Candidate, tried: Mapping[str, Tried], examples: int
) -> str:
    """What the best distilled row would change."""
    distilled = []
    for each in choice.candidates:
        if each.label in tried and tried[each.label].distils:
            distilled.append(each)
    if row in distilled:
        return _of_quantising(choice, row)
    if not distilled:
        return "no distilled row is within the limits and sound"

    # the best of them, and its difference to the row
    best = distilled[0]
    name = choice.group.called(best.label)
    gap = best.score - row.score
    drawn = mean_of_rows(choice.group, choice.group.answers, choice.columns, best.label, row.label)
    if drawn is None:
        return f"the best distilled row, {name}, scores {best.score:.1f}"
    low, high = drawn.interval()
    interval = f"{low:+.1f} to {high:+.1f}"
    # a class that it never predicts may be all of the difference
    fault = "".join(f"; {what}" for what in best.suspect)
    figures = f"{name} {gap:+.1f} points, {interval}{fault}"

    # what the interval shows
    if choice.no_verdict and (low > 0 or high < 0):
        seen = f"({name}, {interval}{fault})"
        return f"the best distilled row differs by {gap:+.1f} points {seen}"
    if low > 0:
        return f"distilling gains ({figures}) and costs {_size(best)}"
    if high < 0:
        return f"distilling loses ({figures})"
    return f"distilling adds nothing that {examples:,} examples can show ({figures})"


def _of_quantising(choice: Choice, row: Candidate) -> str:
    """The teacher in 8 bits, beside a distilled row that is taken."""
    for each in choice.candidates:
        if each.label == f"{TEACHER}{PLUS_INT8}":
            return f"int8 of the teacher scores {each.score:.1f} and costs {_size(each)}"
    return "int8 of the teacher does not fit"


def _size(row: Candidate) -> str:
    megabytes = "an unknown size" if row.megabytes is None else in_megabytes(row.megabytes)
    return megabytes if row.latency is None else f"{megabytes} and {_ms(row.latency)}"


def sheet(choice: Choice, session: SpeedRecord | None, tried: Mapping[str, Tried]) -> Table:
    """All rows that were tried, the best first: scores, disagreement, megabytes, milliseconds and
    the peak of memory.

    Titles are the same on every machine; :func:`busy_titles` marks those of a busy one.
    """
    group = choice.group
    column = choice.columns[0]
    metrics = _metrics(group, column)
    runtimes = _runtimes(session)
    is_of_numbers = metric_of(column.metric).form is SCORE

    # the titles
    columns = [Column("System"), Column("what is done", words=True)]
    for metric in metrics:
        fields = INTERVAL if metric == metrics[0] else VALUE
        columns.append(Column(label_of(metric), csv=fields))
    # records of before it was scored have no R2, and their answers have
    computes_r2 = is_of_numbers and R2 not in metrics
    if computes_r2:
        columns.append(Column(R2_TITLE))
    if is_of_numbers:
        columns.append(Column(ERROR_TITLE))
    columns += [Column("retention (%)", csv=INTERVAL), Column("changed (%)"), Column("MB")]
    columns += [Column(title, csv=MILLISECONDS, digits=6) for title in runtimes]
    memory = _memory_columns(session)
    columns += [Column(title) for title in memory]

    # a line for each row
    known = {row.label: row for row in choice.all_rows}
    lines = []
    for label in _best_first(choice):
        records = group.finished(label, column)
        cells = [TableCell(tried[label].done if label in tried else DASH)]
        for metric in metrics:
            cells.append(_score(choice, label, records, metric, is_first=metric == metrics[0]))
        if is_of_numbers:
            cells += _errors(choice, records, computes_r2)
        cells += _figures(known.get(label))
        for conditions in runtimes.values():
            cells.append(_milliseconds(session, records[0], conditions))
        for backend in memory.values():
            cells.append(_peak_memory(session, records[0], backend))
        lines.append(Line(name_of(group, label), cells, group.called(label), row=label))
    return Table("Sheet", columns, lines, file="sheet")


def name_of(group: Study, label: str) -> str:
    """The name of a row in what a program reads: as it is typed, or the one that it was given."""
    return group.names.get(label, label)


def busy_titles(table: Table, group: Study) -> Table:
    """The sheet for a person: titles of times say it where the machine was busy."""
    columns = []
    for column in table.columns:
        if column.csv is MILLISECONDS:
            column = column._replace(title=if_busy(column.title, group))
        columns.append(column)
    return replace(table, columns=columns)


def for_programs(table: Table, group: Study, session: SpeedRecord) -> Table:
    """The sheet with what a page says elsewhere: F1 of each class, and the cores that other
    processes used meanwhile, which are 0 on an idle machine and empty where nobody could count
    them."""
    # F1 of classes, of rows whose answers are stored
    columns = list(table.columns)
    cells = {line.row: list(line.cells) for line in table.lines}
    for by_class in f1_by_class(group):
        columns += [Column(f"{F1_TITLE}{column.title}") for column in by_class.columns[1:]]
        known = {line.label: line.cells for line in by_class.lines}
        absent = [TableCell(DASH)] * (len(by_class.columns) - 1)
        for row, own in cells.items():
            own += known.get(row or "", absent)

    # the work of others, which is one number for all rows
    cores = session.env.get("busy_cores")
    busy = number(float(cores)) if isinstance(cores, int | float) else TableCell(DASH)
    columns.append(Column(BUSY_TITLE))
    lines = [replace(line, cells=[*cells[line.row], busy]) for line in table.lines]
    return replace(table, columns=columns, lines=lines)


def _best_first(choice: Choice) -> list[str]:
    """The rows with a score, the highest first; of equal ones as they were typed."""
    group = choice.group
    column = choice.columns[0]
    means = {
        label: group.summaries[label, column].mean
        for label in group.systems
        if (label, column) in group.summaries
    }
    return sorted(means, key=lambda label: -round(means[label], EXACT))


def _metrics(group: Study, column: score_column.ScoreColumn) -> list[str]:
    """The metrics of the task, the one that decides first."""
    scored = next(record for record in group.records if record.scores)
    names = next(iter(scored.scores.values()))
    return [column.metric, *(name for name in names if name != column.metric)]


def _errors(choice: Choice, records: Sequence[Record], computes_r2: bool) -> list[TableCell]:
    """R2 in percent, where it is asked for, and the mean absolute error in the labels' units.

    They are means over seeds, and dashes where answers are not stored.
    """
    data = choice.group.answers.get(choice.columns[0])
    if data is None or not data.has(records):
        return [TableCell(DASH)] * (1 + computes_r2)
    answers = [data.predicted[record.key] for record in records]
    cells = []
    if computes_r2:
        explained = [metric_of(R2).score(predicted, data.labels) for predicted in answers]
        cells.append(number(100 * float(np.mean(explained))))
    mean = float(np.mean([absolute_error(predicted, data.labels) for predicted in answers]))
    return [*cells, TableCell(in_units(mean), value=mean)]


def _score(
    choice: Choice, label: str, records: Sequence[Record], metric: str, is_first: bool
) -> TableCell:
    """A row's mean over its seeds, of the first metric with its interval."""
    column = choice.columns[0]
    mean = 100 * float(np.mean([record.scores[column.evaluation][metric] for record in records]))
    if is_first:
        drawn = mean_of_rows(choice.group, choice.group.answers, choice.columns, label)
        if drawn is not None:
            low, high = drawn.interval()
            return number(mean, low=low, high=high, n=len(records))
    return number(mean, n=len(records))


def _figures(row: Candidate | None) -> list[TableCell]:
    """What it keeps, the share of its answers that are not the teacher's, and its megabytes."""
    if row is None:
        return [TableCell(DASH)] * 3
    kept = number(row.retained, low=row.retained_low, high=row.retained_high)
    # as sentences have it: two digits of what is smaller than a tenth
    megabytes = row.megabytes
    form = ".2g" if megabytes is not None and megabytes < 0.1 else ".1f"
    return [kept, number(row.changed), number(megabytes, form)]


def _runtimes(session: SpeedRecord | None) -> dict[str, Conditions]:
    """A title for each runtime and number of threads -> its conditions of fp32 rows."""
    titles = {}
    for conditions in conditions_of(session) if session is not None else ():
        called = RUNTIMES.get(conditions.backend)
        if called is not None:
            threads = counted(conditions.threads, "thread")
            titles[f"{called}, {threads}: p50 / p95 (ms)"] = conditions
    return titles


def _milliseconds(session: SpeedRecord | None, record: Record, conditions: Conditions) -> TableCell:
    """The median and the 95 % quantile of one batch; a dash where it was not timed."""
    backend = _opened_by(record, conditions.backend)
    conditions = conditions.model_copy(update={"backend": backend})
    timing = session.timing_of(row_as_typed(record.cell), conditions) if session else None
    # a model with a runtime of its own has its time there alone
    if timing is None or not timing.seconds or timing.conditions != conditions:
        return TableCell(DASH)
    p50 = 1000 * float(np.quantile(timing.seconds, 0.5))
    p95 = 1000 * float(np.quantile(timing.seconds, SHARE))
    return TableCell(f"{p50:.2f} / {p95:.2f}", value=p50, high=p95)


def _opened_by(record: Record, backend: str) -> str:
    """The backend that opens a row where the sheet has a column of another one; "" for none."""
    if not record.row.endswith(PLUS_INT8):
        return backend
    return ONNX_INT8 if backend == "onnx" else ""


def _memory_columns(session: SpeedRecord | None) -> dict[str, str]:
    """A title for each runtime whose memory was measured -> its backend of fp32 rows."""
    known = {each.backend for each in session.footprints} if session is not None else set()
    titles = {}
    for backend, called in RUNTIMES.items():
        if backend in known:
            titles[f"peak memory, {called} (MB)"] = backend
    return titles


def _peak_memory(session: SpeedRecord | None, record: Record, backend: str) -> TableCell:
    """Megabytes of a process above what it had before; a dash where they were not measured."""
    opened_by = _opened_by(record, backend)
    for each in session.footprints if session is not None else ():
        is_it = (each.system, each.backend) == (row_as_typed(record.cell), opened_by)
        if is_it and each.peak_bytes is not None:
            return number(each.peak_bytes / 1e6, ".0f")
    return TableCell(DASH)
