"""Two rows on the same examples: the difference, its interval, a paired test, and whether it is significant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, zip_longest
from pathlib import Path

from bench.data.own_tasks import recorded_tasks
from bench.errors import InputError, known_row, unknown
from bench.progress import Progress
from bench.record.cell import TEACHER, is_one_model
from bench.record.code import stale_lines, unknown_lines
from bench.record.differences import left_out_lines
from bench.record.recipe import ADAMW
from bench.record.rescored import scored_alike, scored_first_by
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import SAMPLE, data_facts
from bench.report.comparison import (
    Comparison,
    columns_of_noise,
    compared,
    judged,
    p_in_words,
)
from bench.report.file_names import place_of
from bench.report.groups import ReportGroup, ScoreColumn, groups
from bench.report.render import github
from bench.report.resampled import resampled
from bench.report.tables.parts import left_out_of_means
from bench.stats.own_metrics import named_metrics

CONDITIONS = (
    "data", "limit of training examples", "teacher", "origin of the teacher", "recipe", "epochs", "precision, threads or device", "optimiser"
)  # fmt: skip
"""What tables differ in, in the order of :attr:`bench.report.groups.ReportGroup.identity`."""
SHORTEST_HASH = 6
"""Digits of the hash of a teacher's weights that name it."""


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
) -> dict[str, list[Comparison]]:
    """By table of records, as a report has them: one comparison for each evaluation set that both rows have, and of their mean.

    A row is named by its label or as tables print it. Each is the mean of all its seeds, or of ``seeds``. Where no table has both, rows
    of two tables are compared that were scored on the same examples, and a line says in what else the tables differ.

    Args:
        theirs: the folder of results that has the second row, if it is another one.
        teachers: names of the teacher of the first row and of that of the second one, or one name
            for both, where rows have
            several; as tables print them, or the beginning of the hash of the weights.
        metric: that scores the tasks, as :func:`bench.analysis.choose.choose` takes it.

    Raises:
        InputError: a row that is not there, one row twice, a teacher that a row has not, or no
            examples that both were scored on. Also: a metric that does not suit a task.
    """
    progress = Progress()
    store = Store(results)
    metrics = named_metrics(metric)
    named = _named_rows(store, first, second, theirs, metrics, tasks)
    if teachers:
        named = _of_teachers(named, teachers, results)
    everything, rows, stores = named.records, named.rows, named.stores

    def store_of(record: Record) -> Store:
        return stores.get(record.row, store)

    tasks = recorded_tasks(tasks, {task for r in everything for task in r.cell.tasks}, results)
    if rows[0] == rows[1]:
        raise InputError(_one_row(named))
    of_rows = [r for r in everything if r.row in rows and r.status == "ok"]
    for r in [r for r in of_rows if not store_of(r).has_predictions(r)]:
        place = f"{r.row} on {'+'.join(r.cell.tasks)}, seed {r.cell.seed} ({r.key[:12]})"
        progress.say(f"left out: {place}: its answers are not stored; run it again with --rerun")
        of_rows.remove(r)
    of_tasks = [r for r in of_rows if not tasks or r.cell.tasks[0] in tasks]
    met = [r for r in of_tasks if not seeds or r.cell.seed in seeds or is_one_model(r.cell)]
    for row in rows:
        if all(r.row != row for r in met):
            has: dict[str, list[int]] = {}
            for task, seed in sorted(
                {(r.cell.tasks[0], r.cell.seed) for r in of_rows if r.row == row}
            ):
                has.setdefault(task, []).append(seed)
            there = (
                "; ".join(
                    f"{task}, seed {' '.join(map(str, seeds))}" for task, seeds in has.items()
                )
                or "none"
            )
            raise InputError(
                f"no finished record of the row {row!r} in {results} on these tasks and seeds; it has: {there}"
            )

    # a mean over what nobody named leaves out the columns that a report's does, which the teacher decides
    learned = {task for r in met for task in r.cell.tasks}
    taught = [
        r
        for r in everything
        if r.row == TEACHER and learned.issuperset(r.cell.tasks) and r.status == "ok"
    ]
    taught = [r for r in taught if r not in met and store.has_predictions(r)]
    # generated sentences last, and what was trained on fewer rows behind what was trained on all
    apart = sorted(
        groups([*met, *taught]),
        key=lambda g: (g.facts.source == SAMPLE, g.cell.data.max_train_rows or 0),
    )
    tables = _with_both(apart, rows)
    # of rows of two tables, on the same examples: said with what else differs
    others: list[ReportGroup] = []
    for group, other in permutations(apart, 2) if not tables else ():
        own = [r for r in other.records if r.row == rows[1]]
        pair = _with_both(
            [replace(group, records=[*(r for r in group.records if r.row != rows[1]), *own])], rows
        )
        if pair:
            parts = zip_longest(CONDITIONS, group.identity, other.identity)
            differing = ", ".join(name for name, one, two in parts if one != two)
            progress.say(
                f"{rows[0]} and {rows[1]} stand in two tables, which differ in: {differing}"
            )
            tables += pair
            others.append(other)
    if not tables:
        raise InputError(f"{rows[0]} and {rows[1]} were scored on no examples in common")
    shown = list({r.key: r for group, _ in tables for r in group.records if r.row in rows}.values())
    left = list(
        {
            entry[0].key: entry
            for group, _ in tables
            for entry in group.left_out
            if entry[0].row in rows
        }.values()
    )
    for text in (*left_out_lines(left), *stale_lines(shown), *unknown_lines(shown)):
        progress.say(text)
    answer = {}
    with progress.task("resampling") as update:
        titles = _titles([group for group, _ in tables])
        if others:
            titles = [
                first_title
                if len(others) == 1
                else f"{first_title}, and {rows[1]} of {other_title}"
                for first_title, other_title in zip(titles, _titles(others), strict=True)
            ]
        for number, ((group, columns), title) in enumerate(
            zip(tables, titles, strict=True), start=1
        ):
            sides = [
                (group.finished(rows[0], column), group.finished(rows[1], column))
                for column in columns
            ]
            pairs = [
                (
                    resampled(c, [(r, store_of(r).predictions(r)) for r in (*side[0], *side[1])]),
                    side,
                )
                for side, c in zip(sides, columns, strict=True)
            ]
            lines = [compared(data, side, exact) for data, side in pairs]
            group.left_out_of_means = (
                [] if tasks else [c for c in columns_of_noise(group, store) if c in columns]
            )
            averaged = {n: pair for n, pair in enumerate(pairs) if columns[n] in group.averaged}
            answer[title] = judged(lines, averaged if len(averaged) > 1 else {})
            # of one column that is left there is no mean, and this is why
            if 0 < len(averaged) < len(pairs):
                progress.say(f"{title}: {left_out_of_means(group)}")
            update(number, len(tables))
    return answer


@dataclass(frozen=True)
class NamedRows:
    """Two rows among records.

    Attributes:
        rows: what records call the first and the second one.
        records: all those among which they are.
        stores: row -> the folder that has its answers, where it is another one than the first
            row's.
    """

    rows: list[str]
    records: list[Record]
    stores: Mapping[str, Store]


def _named_rows(
    store: Store,
    first: str,
    second: str,
    theirs: Path | None,
    metrics: Sequence[str],
    tasks: Sequence[str],
) -> NamedRows:
    """The rows of these names, by their label or as tables print them.

    Args:
        metrics: that come first on the tasks; none for those that records have first.

    Raises:
        InputError: a row that is not there, or a task that no metric suits.
    """
    everything = _scored_by(metrics, _results_in(store), store, tasks)
    stores = dict[str, Store]()
    if theirs is not None:
        second_store = Store(theirs)
        published = _scored_by(metrics, _results_in(second_store), second_store, tasks)
        called = {r.called: r.row for r in published}
        second = called.get(second) or known_row(second, called.values(), theirs)
        moved = [_of_another_folder(r, theirs.resolve().name) for r in published if r.row == second]
        stores = dict.fromkeys((r.row for r in moved), second_store)
        second, everything = moved[0].row, [*everything, *moved]
    labels = {r.row for r in everything}
    printed = {r.called: r.row for r in everything if r.called not in labels}
    rows = [printed.get(name) or known_row(name, labels, store.root) for name in (first, second)]
    return NamedRows(rows, everything, stores)


def _of_teachers(named: NamedRows, teachers: Sequence[str], results: Path) -> NamedRows:
    """The same rows, each with the students of one teacher, whose name is then behind its own.

    Raises:
        InputError: more than two teachers, or one that a row has not.
    """
    if len(teachers) > 2:
        raise InputError("--teacher names the teacher of the first row and that of the second one")
    # one name is that of both
    typed = [teachers[0], teachers[-1]]
    kept = [r for r in named.records if r.row not in named.rows]
    rows = []
    stores = dict[str, Store]()
    for row, name in zip(named.rows, typed, strict=True):
        own = [r for r in named.records if r.row == row]
        base = _base_of_teacher(own, name, f"{row} in {results}")
        taught = [_of_a_teacher(r, name) for r in own if r.cell.teacher.base == base]
        rows.append(taught[0].row)
        if row in named.stores:
            stores[rows[-1]] = named.stores[row]
        # the same row of the same teacher, named twice, stays one
        kept += [r for r in taught if r.row not in rows[:-1]]
    # means leave out the columns of each teacher that is no better than a constant
    return NamedRows(rows, kept, stores)


def _base_of_teacher(records: Sequence[Record], typed: str, where: str) -> str:
    """The hash of the weights of the teacher that was typed, among those of these records.

    Raises:
        InputError: none of them is called so, or several are.
    """
    there = {r.cell.teacher.base: r.cell.teacher.name for r in records}
    found = [base for base, name in there.items() if typed in (name, name.split("/")[-1])]
    if not found and len(typed) >= SHORTEST_HASH:
        found = [base for base in there if base.startswith(typed)]
    if not found:
        raise unknown(f"teacher of {where}", typed, there.values())
    if len(found) > 1:
        hashes = ", ".join(base[:12] for base in found)
        raise InputError(
            f"--teacher {typed}: {len(found)} teachers of {where} are called so; name one by the "
            f"beginning of its hash: {hashes}"
        )
    return found[0]


def _of_a_teacher(record: Record, teacher: str) -> Record:
    """A record by a name that says its teacher."""
    label = f"{record.cell.label}, teacher {teacher}"
    return record.model_copy(update={"cell": record.cell.model_copy(update={"label": label})})


def _one_row(named: NamedRows) -> str:
    """What to type where both rows are one."""
    row = named.rows[0]
    teachers = {r.cell.teacher.base: r.cell.teacher.name for r in named.records if r.row == row}
    text = f"compare needs two different rows; both are {row!r}"
    if len(teachers) < 2:
        return text
    names = list(teachers.values())
    # two of one name are known by their hashes
    told = names if len(set(names)) == len(names) else [base[:12] for base in teachers]
    return f"{text}. It has the teachers {', '.join(told)}: add --teacher {told[0]},{told[1]}"


def _results_in(store: Store) -> list[Record]:
    """Its records without trials of a search, on examples that chose; with them where nothing else is there."""
    records = scored_alike(store.records(), store)
    return [r for r in records if not data_facts(r.cell.data.slug).held_back] or records


def _scored_by(
    metrics: Sequence[str], records: Sequence[Record], store: Store, tasks: Sequence[str]
) -> list[Record]:
    """The records, with one of these metrics first on the tasks as they were typed."""
    there = {task for record in records for task in record.cell.tasks}
    chosen = recorded_tasks(tasks, there, store.root) if metrics else ()
    return scored_first_by(records, metrics, store, chosen)


def _of_another_folder(record: Record, folder: str) -> Record:
    """A record by a name and keys that no other one has: the same training may lie in both folders."""
    cell = record.cell.model_copy(update={"label": f"{record.cell.label} in {folder}"})
    keys = {"key": f"{record.key} in {folder}", "train_key": f"{record.train_key} in {folder}"}
    return record.model_copy(update={"cell": cell, **keys})


def _with_both(
    tables: Iterable[ReportGroup], rows: Sequence[str]
) -> list[tuple[ReportGroup, list[ScoreColumn]]]:
    """The tables in which both rows are scored, each with the columns in which they are scored on the same examples."""

    def has_both(group: ReportGroup, column: ScoreColumn) -> bool:
        sides = [group.finished(row, column) for row in rows]
        return (
            all(sides)
            and len({r.cell.data.evaluation[column.evaluation] for side in sides for r in side})
            == 1
        )

    shared = [
        (group, [column for column in group.columns if has_both(group, column)]) for group in tables
    ]
    return [
        (group, sorted(columns, key=lambda c: (c.task, c.evaluation)))
        for group, columns in shared
        if columns
    ]


def _titles(tables: Sequence[ReportGroup]) -> list[str]:
    """What the examples of each table are, with its optimiser where that is not AdamW; and its report where two have one title."""
    titles = [
        g.described_data() + ("" if g.optimizer == ADAMW else f", optimizer {g.optimizer}")
        for g in tables
    ]
    reports = [place_of(group).as_posix() for group in tables]
    return [
        t if titles.count(t) == 1 else f"{t}, report {r}"
        for t, r in zip(titles, reports, strict=True)
    ]


def table(first: str, second: str, lines: Sequence[Comparison]) -> str:
    """Markdown."""
    rows = [
        [
            line.task,
            line.metric,
            f"{line.examples:,}",
            # the first's, and after a stroke the second's where they are others
            " / ".join(
                dict.fromkeys(", ".join(map(str, s)) for s in (line.seeds, line.second_seeds))
            )
            or "each its own",
            f"{line.first:.1f}",
            f"{line.second:.1f}",
            f"{line.difference + 0.0:+.1f}",
            f"{line.low + 0.0:+.1f} to {line.high + 0.0:+.1f}",
            "–" if line.least is None else f"{line.least:.1f}",
            f"{p_in_words(line.p)} ({line.test})",
            p_in_words(line.adjusted),
            str(line.family),
            line.verdict,
        ]
        for line in lines
    ]
    called = next((line.names for line in lines), (first, second))
    header = ["task", "metric", "examples", "seeds", *called, "difference", "95 % interval"]
    header += ["min. detectable", "p", "p, Holm", "tests", "verdict"]
    return github(rows, header, "right")
