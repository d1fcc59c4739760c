"""Where a printed number comes from: the numbers of reports that round to it, and their records.

Searched are the tables of reports, the scores of single seeds, and the differences of any two rows of a table. Tables with
intervals take long to draw anew: they are searched where nothing else fits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench.audit.printed import PrintedNumber, printed
from bench.errors import InputError
from bench.record.cell import FINISHED
from bench.record.speed_sessions import speed_records
from bench.record.store import Store
from bench.record.task_facts import shown_tasks
from bench.report.reproduce import verifying
from bench.report.score_column import ScoreColumn
from bench.report.speed import latency_tables
from bench.report.studies import Folder, Reads, groups, study_of
from bench.report.study import Study as ReportGroup
from bench.report.table import Table
from bench.report.tables.parts import counted
from bench.report.tables.registry import tables_of

PLAIN, DIFFERENCE, SPEED_UP = "", "difference", "speed-up"
SHOWN = 20
"""Origins that are printed; of a short number there may be hundreds."""
ROUNDING = 1e-6
"""More than the sum of a few means loses to rounding."""
Origin = dict[str, Any]
"""``what`` rounds to the number, its ``exact`` value, the keys of its ``records``, its ``kind``, the ``session`` of a timing, and
the command that makes the first record again (``verify``)."""


def trace(text: str, results: Path) -> list[Origin]:
    """The numbers of a folder of records that are printed as ``text`` with its number of decimals.

    A number with a plus, ``+4.5``, is a difference; one with an x, ``2.03x``, is a speed-up; others may be any.

    Raises:
        InputError: not a number, or no records.
    """
    number, store = printed(text), Store(results)
    if number is None:
        raise InputError(f"{text!r} is not a number, like 86.6, +4.5 or 2.03x")
    records, sessions = list(store.records()), list(speed_records(results, store.note))
    if not records and not sessions:
        raise InputError(f"no records in {results}")
    kind = _kind(text)
    folder = Folder(store, records, sessions)
    found = groups(records)
    tables = [study_of(group, folder, reads=Reads.ALL) for group in found]
    origins = [origin for group in tables for origin in origins_of(group)]
    for session in sessions:
        where = f"session {session.key[:12]}, teacher {session.teacher}"
        where += ", busy" if session.others else ""
        origins += [
            o | {"session": session.key}
            for table in latency_tables(session)
            for o in _cells(table, where)
        ]
    if kind in (PLAIN, DIFFERENCE):
        origins += [origin for group in tables for origin in _differences(group, number)]

    def fitting(candidates: Iterable[Origin]) -> list[Origin]:
        fits = [
            o for o in candidates if kind in (PLAIN, o["kind"]) and _rounds_to(number, o["exact"])
        ]
        return list({(o["what"], *o["records"]): o for o in fits}.values())

    answer = fitting(origins)
    if not answer:
        drawn = (study_of(group, folder) for group in found)
        answer = fitting(
            o
            for group in drawn
            for table in tables_of(group)
            for o in _cells(table, _where(group), group)
        )
    commands = dict[str, str]()  # that make a record again
    for group in tables if answer else ():
        of_group = [*group.records, *(record for record, _ in group.left_out)]
        # these were trained elsewhere
        of_group = [record for record in of_group if record.cell.method not in FINISHED]
        commands |= dict.fromkeys((record.key[:12] for record in of_group), verifying(group))
    for origin in answer:
        first = next(iter(origin["records"]), "")
        origin["verify"] = commands.get(first, "").replace("KEY", first)
    return answer


def origins_of(group: ReportGroup) -> Iterator[Origin]:
    """Every number of a group's tables that need no intervals, and the scores of its single seeds."""
    where = _where(group)
    left_out = [
        (record, "left out: a newer training has that name") for record, _ in group.left_out
    ]
    for record, why in [*left_out, *((record, where) for record in group.records)]:
        for name, metrics in record.scores.items():
            for metric, value in metrics.items():
                what = f"{record.row}, {shown_tasks(record.cell)} {name} {metric}, seed {record.cell.seed} ({why})"
                yield _origin(what, 100 * value, [record.key])
    for row in group.systems if group.left_out_of_means else ():
        means = [group.summaries[row, c].mean for c in group.columns if (row, c) in group.summaries]
        if len(means) == len(group.columns):
            what = f"{row}, mean of all {len(means)} columns, as an experiment's table has it ({where})"
            yield _origin(
                what, sum(means) / len(means), [record.key for record in group.records_of(row)]
            )
    # without resamples, so nothing is drawn
    for table in tables_of(group):
        yield from _cells(table, where, group)


def _cells(table: Table, where: str, group: ReportGroup | None = None) -> Iterator[Origin]:
    """The numbers of a table and the bounds of their intervals; a cell that names no records is of its row's in its column."""
    tasks = {} if group is None else {column.title: column.task for column in group.columns}
    for line in table.lines:
        row = line.label if line.row is None else line.row
        for column, cell in zip(table.columns[1:], line.cells, strict=True):
            of_row = (
                []
                if group is None
                else [record.key for record in group.records_of(row, tasks.get(column.title))]
            )
            for name, value in (
                ("", cell.value),
                (", lower bound", cell.low),
                (", upper bound", cell.high),
            ):
                if value is not None:
                    what = f"{line.label}, {column.title}{name} ({where}; {table.title})"
                    yield _origin(
                        what, value, cell.keys or of_row, _kind(cell.text.partition(" ")[0])
                    )


def _rounds_to(number: PrintedNumber, exact: float) -> bool:
    """Whether this is printed so."""
    return number.is_rounded(Decimal(repr(round(exact, 9))))


def _differences(group: ReportGroup, number: PrintedNumber) -> Iterator[Origin]:
    """The differences that are printed so, of any two rows, either way round.

    They are looked for column by column, on the mean of all columns, and of those that a report
    averages.
    """
    places = [(column.title, [column]) for column in group.columns]
    means = [group.columns, group.averaged][: 1 + bool(group.left_out_of_means)]
    places += [
        (f"mean of {len(columns)} columns", columns) for columns in means if len(columns) > 1
    ]
    order = {row: place for place, row in enumerate(group.systems)}
    found: list[tuple[int, int, int, float]] = []
    for place, (_, columns) in enumerate(places):
        means_of = _means_of_complete_rows(group, columns)
        for first, second in _pairs_near(means_of, number):
            gaps = [a - b for a, b in zip(means_of[first], means_of[second], strict=True)]
            exact = sum(gaps) / len(gaps)
            if _rounds_to(number, exact):
                found.append((order[first], order[second], place, exact))
    for first_place, second_place, place, exact in sorted(found):
        rows = group.systems[first_place], group.systems[second_place]
        title, columns = places[place]
        keys = [r.key for row in rows for c in columns for r in group.records_of(row, c.task)]
        what = f"{rows[0]} minus {rows[1]}, {title} ({_where(group)})"
        yield _origin(what, exact, keys, DIFFERENCE)


def _means_of_complete_rows(
    group: ReportGroup, columns: Sequence[ScoreColumn]
) -> dict[str, list[float]]:
    """Row -> its mean in each of these columns, of the rows that have all."""
    means_of: dict[str, list[float]] = {}
    for row in group.systems:
        found = [group.summaries.get((row, column)) for column in columns]
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


def _origin(what: str, exact: float, keys: Iterable[str], kind: str = PLAIN) -> Origin:
    records = tuple(dict.fromkeys(key[:12] for key in keys))
    return {"what": what, "exact": exact, "records": records, "kind": kind, "session": ""}


def _kind(text: str) -> str:
    """The kind of number that is written like this: only differences have a plus, only speed-ups an x."""
    written = text.strip().lower()
    return (
        DIFFERENCE
        if written.startswith("+")
        else SPEED_UP
        if written.endswith(("x", "×"))
        else PLAIN
    )


def _where(group: ReportGroup) -> str:
    limit = (
        f", {group.cell.data.max_train_rows:,} examples" if group.cell.data.max_train_rows else ""
    )
    return f"{group.cell.data.slug}{limit}, {group.cell.recipe['name']}, {group.optimizer}"


def describe(text: str, origins: list[Origin], results: Path) -> str:
    """One line an origin, the first of many, and how to see or rebuild the first record."""
    if not origins:
        return f"{text}: no number of the reports of {results} rounds to it. Not searched: the notes below tables"
    lines = [f"{text}: {counted(len(origins), 'place')} in {results}"]
    for origin in origins[:SHOWN]:
        keys = [*origin["records"][:6], *(["..."] if len(origin["records"]) > 6 else [])]
        lines.append(
            f"  {origin['what']}: {origin['exact']:.4f}{'; records ' if keys else ''}{', '.join(keys)}"
        )
    if len(origins) > SHOWN:
        lines.append(
            f"  ... and {len(origins) - SHOWN} more: --json FILE has all; with more digits fewer places fit"
        )
    for origin in [origin for origin in origins if origin["records"]][:1]:
        lines.append(f"  see one: python -m bench show {origin['records'][0]} --results {results}")
        if origin["verify"]:
            lines.append(
                f"  run it again (folders and files are named without their place): {origin['verify']}"
            )
    return "\n".join(lines)
