"""Where a printed number comes from: the numbers of reports that round to it, and their records.

Searched are the tables of reports, the scores of single seeds, and the differences of any two rows
of a table. Tables with intervals take long to draw anew: they are searched where nothing else fits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from bench.audit.printed import PrintedNumber, printed
from bench.errors import InputError
from bench.record.cell import FINISHED
from bench.record.schema import Record
from bench.record.speed_sessions import SpeedRecord, speed_records
from bench.record.store import Store
from bench.record.task_facts import shown_tasks
from bench.report.reproduce import verifying
from bench.report.score_column import ScoreColumn
from bench.report.speed_page import latency_tables
from bench.report.studies import Folder, Reads, groups, study_of
from bench.report.study import Study
from bench.report.table import Table
from bench.report.tables.parts import counted
from bench.report.tables.registry import tables_of

PLAIN = ""
DIFFERENCE = "difference"
SPEED_UP = "speed-up"
SHOWN = 20
"""Origins that are printed; of a short number there may be hundreds."""
SHOWN_RECORDS = 6
"""Records of an origin that are printed."""
ROUNDING = 1e-6
"""More than the sum of a few means loses to rounding."""


@dataclass(frozen=True)
class Origin:
    """A number of the reports.

    Attributes:
        what: what it is, for people.
        exact: its value before rounding.
        records: the beginnings of its records' keys.
        kind: :data:`PLAIN`, :data:`DIFFERENCE` or :data:`SPEED_UP`.
        session: the key of the session that timed it; "" of other numbers.
        verify: the command that trains its first record again; "" where there is none.
    """

    what: str
    exact: float
    records: tuple[str, ...]
    kind: str = PLAIN
    session: str = ""
    verify: str = ""


@dataclass(frozen=True)
class Difference:
    """The difference of two rows of a table on some of its columns.

    The order of the fields is that in which differences are listed.

    Attributes:
        first, second: numbers of the rows.
        columns: number of the set of columns.
        exact: first less second.
    """

    first: int
    second: int
    columns: int
    exact: float


def trace(text: str, results: Path) -> list[Origin]:
    """The numbers of a folder of records that are printed as ``text`` with its number of decimals.

    A number with a plus, ``+4.5``, is a difference; one with an x, ``2.03x``, is a speed-up; others
    may be any.

    Raises:
        InputError: not a number, or no records.
    """
    number = printed(text)
    if number is None:
        raise InputError(f"{text!r} is not a number, like 86.6, +4.5 or 2.03x")
    kind = _kind(text)
    store = Store(results)
    records = list(store.records())
    sessions = list(speed_records(results, store.note))
    if not records and not sessions:
        raise InputError(f"no records in {results}")

    # numbers that need no intervals
    folder = Folder(store, records, sessions)
    found_groups = groups(records)
    undrawn = [study_of(group, folder, reads=Reads.ALL) for group in found_groups]
    origins: list[Origin] = []
    for study in undrawn:
        origins += origins_of(study)
    for session in sessions:
        origins += _origins_of_session(session)
    if kind in (PLAIN, DIFFERENCE):
        for study in undrawn:
            origins += _differences(study, number)
    found = _fitting(origins, kind, number)

    # numbers with intervals
    if not found:
        for group in found_groups:
            study = study_of(group, folder)
            for table in tables_of(study):
                origins += _cells(table, _where(study), study)
        found = _fitting(origins, kind, number)

    # the command that trains the first record of each again
    if not found:
        return []
    commands = _commands(undrawn)
    answer: list[Origin] = []
    for origin in found:
        first = next(iter(origin.records), "")
        verify = commands.get(first, "").replace("KEY", first)
        answer.append(replace(origin, verify=verify))
    return answer


def origins_of(study: Study) -> Iterator[Origin]:
    """Every number of a group's tables that need no intervals, and the scores of its single
    seeds."""
    # single seeds
    where = _where(study)
    for record, _ in study.left_out:
        yield from _scores(record, "left out: a newer training has that name")
    for record in study.records:
        yield from _scores(record, where)

    # means of all columns: reports leave some out
    if study.left_out_of_means:
        for row, means in _means_of_complete_rows(study, study.columns).items():
            columns = f"mean of all {len(means)} columns, as an experiment's table has it"
            yield Origin(
                f"{row}, {columns} ({where})",
                sum(means) / len(means),
                _beginnings(record.key for record in study.records_of(row)),
            )

    for table in tables_of(study):
        yield from _cells(table, where, study)


def _scores(record: Record, why: str) -> Iterator[Origin]:
    """The scores of one training.

    Args:
        why: the table that it stands in, or why in none.
    """
    for evaluation, metrics in record.scores.items():
        for metric, value in metrics.items():
            score = f"{shown_tasks(record.cell)} {evaluation} {metric}, seed {record.cell.seed}"
            what = f"{record.row}, {score} ({why})"
            yield Origin(what, 100 * value, _beginnings([record.key]))


def _origins_of_session(session: SpeedRecord) -> Iterator[Origin]:
    """The numbers of the tables of a session of timing."""
    where = f"session {session.key[:12]}, teacher {session.teacher}"
    if session.others:
        where += ", busy"
    for table in latency_tables(session):
        for origin in _cells(table, where):
            yield replace(origin, session=session.key)


def _cells(table: Table, where: str, study: Study | None = None) -> Iterator[Origin]:
    """The numbers of a table and the bounds of their intervals.

    Args:
        study: where a cell names no records, those of its row in its column are of this study.
    """
    tasks = {} if study is None else {column.title: column.task for column in study.columns}
    for line in table.lines:
        row = line.label if line.row is None else line.row
        for column, cell in zip(table.columns[1:], line.cells, strict=True):
            keys: Iterable[str] = cell.keys
            if study is not None and not cell.keys:
                of_row = study.records_of(row, tasks.get(column.title))
                keys = [record.key for record in of_row]
            records = _beginnings(keys)
            kind = _kind(cell.text.partition(" ")[0])
            values = {"": cell.value, ", lower bound": cell.low, ", upper bound": cell.high}
            for name, value in values.items():
                if value is not None:
                    what = f"{line.label}, {column.title}{name} ({where}; {table.title})"
                    yield Origin(what, value, records, kind)


def _differences(study: Study, number: PrintedNumber) -> Iterator[Origin]:
    """The differences that are printed so, of any two rows, either way round.

    They are looked for column by column, on the mean of all columns, and of those that a report
    averages.
    """
    # the sets of columns, by their titles
    sets = [(column.title, [column]) for column in study.columns]
    means = [study.columns]
    if study.left_out_of_means:
        means.append(study.averaged)
    for columns in means:
        if len(columns) > 1:
            sets.append((f"mean of {len(columns)} columns", columns))

    # the pairs of rows that are so far apart
    order = {row: place for place, row in enumerate(study.systems)}
    found: list[Difference] = []
    for place, (_, columns) in enumerate(sets):
        means_of = _means_of_complete_rows(study, columns)
        for first, second in _pairs_near(means_of, number):
            pairs = zip(means_of[first], means_of[second], strict=True)
            exact = sum(one - other for one, other in pairs) / len(columns)
            if _rounds_to(number, exact):
                found.append(Difference(order[first], order[second], place, exact))

    # in the order of the rows
    where = _where(study)
    for difference in sorted(found, key=lambda one: (one.first, one.second, one.columns)):
        title, columns = sets[difference.columns]
        rows = (study.systems[difference.first], study.systems[difference.second])
        keys: list[str] = []
        for row in rows:
            for column in columns:
                keys += [record.key for record in study.records_of(row, column.task)]
        what = f"{rows[0]} minus {rows[1]}, {title} ({where})"
        yield Origin(what, difference.exact, _beginnings(keys), DIFFERENCE)


def _means_of_complete_rows(study: Study, columns: Sequence[ScoreColumn]) -> dict[str, list[float]]:
    """Row -> its mean in each of these columns, of the rows that have all."""
    means_of: dict[str, list[float]] = {}
    for row in study.systems:
        found = [study.summaries.get((row, column)) for column in columns]
        means = [summary.mean for summary in found if summary is not None]
        if len(means) == len(columns):
            means_of[row] = means
    return means_of


def _pairs_near(
    means_of: Mapping[str, Sequence[float]], number: PrintedNumber
) -> Iterator[tuple[str, str]]:
    """Two different rows whose difference is at most a step of the number's last digit from it.

    They are looked up among the sorted means: not every row is subtracted from every other one.
    """
    by_mean = sorted((sum(means) / len(means), row) for row, means in means_of.items())
    sorted_means = [mean for mean, _ in by_mean]
    wanted = float(number.value)
    reach = float(number.step) + ROUNDING
    for mean, first in by_mean:
        begin = bisect_left(sorted_means, mean - wanted - reach)
        end = bisect_right(sorted_means, mean - wanted + reach)
        for _, second in by_mean[begin:end]:
            if first != second:
                yield first, second


def _fitting(origins: Iterable[Origin], kind: str, number: PrintedNumber) -> list[Origin]:
    """The origins that are printed so, each once."""
    found: dict[tuple[str, ...], Origin] = {}
    for origin in origins:
        if kind in (PLAIN, origin.kind) and _rounds_to(number, origin.exact):
            found[(origin.what, *origin.records)] = origin
    return list(found.values())


def _rounds_to(number: PrintedNumber, exact: float) -> bool:
    """Whether this is printed so."""
    return number.is_rounded(Decimal(repr(round(exact, 9))))


def _commands(tables: Sequence[Study]) -> dict[str, str]:
    """Beginning of a record's key -> the command that trains it again; of finished models none,
    which were trained elsewhere."""
    commands: dict[str, str] = {}
    for study in tables:
        command = verifying(study)
        for record in (*study.records, *(left for left, _ in study.left_out)):
            if record.cell.method not in FINISHED:
                commands[record.key[:12]] = command
    return commands


def _beginnings(keys: Iterable[str]) -> tuple[str, ...]:
    """The beginnings of some records' keys, each once."""
    return tuple(dict.fromkeys(key[:12] for key in keys))


def _kind(text: str) -> str:
    """The kind of number that is written like this: only differences have a plus, only speed-ups an
    x."""
    written = text.strip().lower()
    if written.startswith("+"):
        return DIFFERENCE
    if written.endswith(("x", "×")):
        return SPEED_UP
    return PLAIN


def _where(study: Study) -> str:
    """The data, the recipe and the optimiser of a table."""
    limit = study.cell.data.max_train_rows
    examples = f", {limit:,} examples" if limit else ""
    return f"{study.cell.data.slug}{examples}, {study.cell.recipe['name']}, {study.optimizer}"


def describe(text: str, origins: Sequence[Origin], results: Path) -> str:
    """One line an origin, the first of many, and how to see or rebuild the first record."""
    if not origins:
        return (
            f"{text}: no number of the reports of {results} rounds to it. "
            "Not searched: the notes below tables"
        )
    lines = [f"{text}: {counted(len(origins), 'place')} in {results}"]
    for origin in origins[:SHOWN]:
        line = f"  {origin.what}: {origin.exact:.4f}"
        if origin.records:
            line += f"; records {', '.join(origin.records[:SHOWN_RECORDS])}"
        if len(origin.records) > SHOWN_RECORDS:
            line += ", ..."
        lines.append(line)
    if len(origins) > SHOWN:
        lines.append(
            f"  ... and {len(origins) - SHOWN} more: --json FILE has all; "
            "with more digits fewer places fit"
        )
    with_records = next((origin for origin in origins if origin.records), None)
    if with_records is not None:
        key = with_records.records[0]
        lines.append(f"  see one: python -m bench show {key} --results {results}")
        if with_records.verify:
            lines.append(
                "  run it again (folders and files are named without their place): "
                f"{with_records.verify}"
            )
    return "\n".join(lines)
