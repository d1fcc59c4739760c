"""Two rows on the same examples: the difference, its interval, a paired test, and whether it is
significant.

Either side may be the mean of several rows, and a lead over a baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.analysis import compare_in_words as words
from bench.analysis.compared_sides import (
    NamedSide,
    NamedSides,
    named_sides,
    of_teachers,
    one_row,
    sides_of_two_folders,
)
from bench.analysis.mean_in_detail import in_detail
from bench.analysis.shared_tables import SharedTable, shared_tables, titles_of
from bench.errors import InputError
from bench.progress import Progress
from bench.record.cell import is_one_model
from bench.record.cell_differences import LeftOut, left_out_lines
from bench.record.code import made_by
from bench.record.known_tasks import recorded_tasks
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import recorded_names, task_names
from bench.report.paired_rows import Comparison, Pair, Side, compared, judged
from bench.report.resampled import resampled
from bench.report.score_column import ScoreColumn
from bench.report.studies import Folder, Reads, studies, study_of
from bench.report.study import Study
from bench.report.tables.parts import left_out_of_means
from bench.stats.own_metrics import named_metrics


def compare(
    results: Path,
    first: str,
    second: str,
    tasks: Sequence[str] = (),
    seeds: Sequence[int] = (),
    exact: bool = False,
    theirs: Path | None = None,
    teachers: Sequence[str] = (),
    metric: str | Sequence[str] = (),
    against: str = "",
    detail: bool = False,
    tuned: bool = False,
) -> dict[str, list[Comparison]]:
    """By table of records, as a report has them: one comparison for each evaluation set that both
    sides have, and of their mean.

    A row is named as tables print it or as it was typed
    (:func:`bench.record.named_rows.row_named`). Each is the mean of all its seeds, or of ``seeds``.
    Where no table has both, rows of two tables are compared that were scored on the same examples,
    and a line says in what else the tables differ.

    Args:
        first, second: a row, or several whose mean is compared, separated by commas.
        exact: whether two trainings are compared by McNemar's exact test, not by its mid-p.
        theirs: the folder of results that has the rows of the second side, if it is another one.
        teachers: names of the teacher of the first row and of that of the second one, or one name
            for both, where rows have several; as tables print them, or the beginning of the hash
            of the weights.
        metric: that scores the tasks, as :func:`bench.analysis.choose.choose` takes it.
        against: a row that is subtracted from both sides, or that of the first one and that of the
            second, separated by a comma: leads are compared, and a row that both share is one
            training of each seed.
        detail: whether the mean has its :class:`bench.stats.mean_detail.MeanDetail`; it has none
            without a verdict.
        tuned: whether all names are those of rows that a search chose.

    Raises:
        InputError: a row that is not there, one row twice, a teacher that a row has not, or no
            examples that all were scored on. Also: a metric that does not suit a task, or teachers
            of more than two rows.
    """
    progress = Progress()
    store = Store(results)

    # the rows that were typed, among the records
    metrics = named_metrics(metric)
    if theirs is None:
        named = named_sides(store, first, second, against, metrics, tasks, tuned)
    else:
        named = sides_of_two_folders(
            store, Store(theirs), first, second, against, metrics, tasks, tuned
        )
    if teachers:
        named = of_teachers(named, teachers)
    if named.first == named.second:
        raise InputError(one_row(named))
    for side in (named.first, named.second):
        if set(side.rows) & set(side.against):
            why = f"{side.rows[0]!r} cannot be subtracted from itself"
            raise InputError(f"--against {against}: {why}")

    # their finished records, and the tables that have all rows
    recorded = recorded_names(record.cell for record in named.records)
    only_tasks = recorded_tasks(tasks, recorded, results)
    records = _finished(named, only_tasks, seeds, progress, results)
    tables = shared_tables(named, records, progress)
    # whether seeds are far apart is seen beside all rows of a report's table
    reported = studies(named.records)
    _say_what_is_left(tables, named.rows, progress)

    # one table after the other; columns of noise are in no mean, unless tasks were named
    folder = Folder(store)
    reads = Reads.NOTHING if only_tasks else Reads.TEACHER
    answer: dict[str, list[Comparison]] = {}
    with progress.task("resampling") as update:
        for title, table in zip(titles_of(tables, named), tables, strict=True):
            study = study_of(table.group, folder, reads=reads)
            table = replace(table, group=study)
            answer[title] = _compared(table, named, exact, detail, reported)
            # of one column that is left there is no mean, and this is why
            noise = [column for column in study.noise if column in table.columns]
            if 0 < len(noise) < len(table.columns):
                progress.say(f"{title}: {left_out_of_means(study, noise)}")
            update(len(answer), len(tables))
    return answer


def _finished(
    named: NamedSides,
    tasks: Sequence[str],
    seeds: Sequence[int],
    progress: Progress,
    results: Path,
) -> list[Record]:
    """The rows' finished records on these tasks and seeds whose answers are stored.

    Raises:
        InputError: a row has none.
    """
    stored: list[Record] = []
    for record in named.records:
        if record.row not in named.rows or record.status != "ok":
            continue
        if named.store_of(record).has_predictions(record):
            stored.append(record)
        else:
            progress.say(words.without_answers(record))

    chosen: list[Record] = []
    for record in stored:
        cell = record.cell
        has_task = not tasks or not task_names(cell).isdisjoint(tasks)
        has_seed = not seeds or cell.seed in seeds or is_one_model(cell)
        if has_task and has_seed:
            chosen.append(record)
    there = {record.row for record in chosen}
    for row in named.rows:
        if row not in there:
            raise InputError(words.no_record(row, stored, results))
    return chosen


def _say_what_is_left(
    tables: Sequence[SharedTable], rows: Sequence[str], progress: Progress
) -> None:
    """Which records of the rows stand under a newer training, and how many today's code did not
    make."""
    shown: dict[str, Record] = {}
    left: dict[str, tuple[Record, str]] = {}
    for table in tables:
        shown |= {record.key: record for record in table.group.records if record.row in rows}
        for record, why in table.group.left_out:
            if record.row in rows:
                left[record.key] = (record, why)
    entries: LeftOut = list(left.values())
    for text in (*left_out_lines(entries), made_by(shown.values())):
        if text:
            progress.say(text)


def _compared(
    table: SharedTable,
    named: NamedSides,
    exact: bool,
    detail: bool,
    reported: Sequence[Study],
) -> list[Comparison]:
    """The comparisons of one table, column by column, and behind them that of their mean.

    Args:
        reported: the tables of all records.
    """
    group = table.group
    lines: list[Comparison] = []
    averaged: dict[int, Pair] = {}
    for number, column in enumerate(table.columns):
        sides = (_side_in(group, column, named.first), _side_in(group, column, named.second))
        records: list[Record] = []
        for row in named.rows:
            records += group.finished(row, column)
        answers = [(record, named.store_of(record).predictions(record)) for record in records]
        data = resampled(column, answers)
        line = compared(data, sides, exact)
        is_apart = _has_seeds_apart(named.rows, column, records, reported)
        lines.append(replace(line, has_seeds_apart=is_apart))
        if column in group.averaged:
            averaged[number] = (data, sides)

    # one column has no mean
    if len(averaged) < 2:
        return judged(lines)
    comparisons = judged(lines, averaged)
    mean = comparisons[-1]
    if detail and not mean.no_verdict:
        of_columns = [lines[number] for number in averaged]
        found = in_detail(list(averaged.values()), of_columns)
        comparisons[-1] = replace(mean, detail=found)
    return comparisons


def _has_seeds_apart(
    rows: Sequence[str],
    column: ScoreColumn,
    records: Sequence[Record],
    reported: Sequence[Study],
) -> bool:
    """Whether seeds of one of the rows end in results of several kinds, in a table that has some of
    the records."""
    keys = {record.key for record in records}
    for group in reported:
        has_records = any(record.key in keys for record in group.records)
        if has_records and group.has_seeds_apart(rows, [column]):
            return True
    return False


def _side_in(group: Study, column: ScoreColumn, side: NamedSide) -> Side:
    """A side's records in one column."""
    return Side(
        tuple(tuple(group.finished(row, column)) for row in side.rows),
        tuple(tuple(group.finished(row, column)) for row in side.against),
    )
