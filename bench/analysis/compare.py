"""Two rows on the same examples: the difference, its interval, a paired test, and whether it is
significant.

Either side may be the mean of several rows, and a lead over a baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, zip_longest
from pathlib import Path

from bench.analysis.mean_in_detail import in_detail
from bench.errors import InputError, known_row, unknown
from bench.progress import Progress
from bench.record.cell import TEACHER, is_one_model
from bench.record.code import made_by
from bench.record.differences import LeftOut, left_out_lines
from bench.record.known_tasks import recorded_tasks
from bench.record.recipe import ADAMW
from bench.record.rescored import scored_alike, scored_first_by
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import (
    SAMPLE,
    data_facts,
    recorded_names,
    shown_tasks,
    task_names,
)
from bench.report.comparison import (
    Comparison,
    Pair,
    Side,
    columns_of_noise,
    compared,
    judged,
    p_in_words,
)
from bench.report.file_names import place_of
from bench.report.groups import ReportGroup, ScoreColumn, groups
from bench.report.render import github
from bench.report.resampled import resampled
from bench.report.tables.parts import left_out_of_means, listed
from bench.stats.own_metrics import named_metrics

CONDITIONS = (
    "data", "limit of training examples", "teacher", "origin of the teacher", "recipe", "epochs", "precision, threads or device", "optimiser"
)  # fmt: skip
"""What tables differ in, in the order of :attr:`bench.report.groups.ReportGroup.identity`."""
LONGEST_HEAD = 60
"""Characters of a row's name above a column."""
SHORTEST_HASH = 6
"""Digits of the hash of a teacher's weights that name it."""


@dataclass(frozen=True)
class NamedSide:
    """What records call the rows of one side.

    Attributes:
        rows: one, or several that are averaged.
        against: those whose mean is subtracted; none for the rows as they are.
    """

    rows: tuple[str, ...]
    against: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return self.rows + self.against


@dataclass(frozen=True)
class Named:
    """Two sides among records.

    Attributes:
        first, second: the sides.
        records: all those among which their rows are.
        stores: row -> the folder that has its answers, where it is another one than the first
            side's.
    """

    first: NamedSide
    second: NamedSide
    records: list[Record]
    stores: Mapping[str, Store]

    @property
    def rows(self) -> list[str]:
        """All rows, each once."""
        return list(dict.fromkeys(self.first.all + self.second.all))

    @property
    def is_of_two_rows(self) -> bool:
        return len(self.first.all) == len(self.second.all) == 1


@dataclass(frozen=True)
class SharedTable:
    """A table in which all rows of a comparison were scored.

    Attributes:
        group: its records.
        columns: those in which all rows are scored on the same examples.
        other: the table that the second side's rows come from, if it is another one.
    """

    group: ReportGroup
    columns: list[ScoreColumn]
    other: ReportGroup | None = None


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
) -> dict[str, list[Comparison]]:
    """By table of records, as a report has them: one comparison for each evaluation set that both
    sides have, and of their mean.

    A row is named by its label or as tables print it. Each is the mean of all its seeds, or of ``seeds``. Where no table has both, rows
    of two tables are compared that were scored on the same examples, and a line says in what else the tables differ.

    Args:
        first, second: a row, or several whose mean is compared, separated by commas.
        theirs: the folder of results that has the rows of the second side, if it is another one.
        teachers: names of the teacher of the first row and of that of the second one, or one name
            for both, where rows have
            several; as tables print them, or the beginning of the hash of the weights.
        metric: that scores the tasks, as :func:`bench.analysis.choose.choose` takes it.
        against: a row that is subtracted from both sides, or that of the first one and that of the
            second, separated by a comma: leads are compared, and a row that both share is one
            training of each seed.
        detail: whether the mean has its :class:`bench.stats.mean_detail.MeanDetail`; it has none
            without a verdict.

    Raises:
        InputError: a row that is not there, one row twice, a teacher that a row has not, or no
            examples that all were scored on. Also: a metric that does not suit a task, or teachers
            of more than two rows.
    """
    progress = Progress()
    store = Store(results)
    named = _named(store, (first, second, against), theirs, named_metrics(metric), tasks)
    if teachers:
        named = _of_teachers(named, teachers, results)
    if named.first == named.second:
        raise InputError(_one_row(named))
    for side in (named.first, named.second):
        if set(side.rows) & set(side.against):
            raise InputError(
                f"--against {against}: {side.rows[0]!r} cannot be subtracted from itself"
            )

    def store_of(record: Record) -> Store:
        return named.stores.get(record.row, store)

    there = recorded_names(r.cell for r in named.records)
    tasks = recorded_tasks(tasks, there, results)
    met = _met(named, tasks, seeds, store_of, progress, results)
    tables = _shared_tables(_with_teachers(named, met, store_of), named, progress)
    # whether seeds are far apart is seen beside all rows of a report's table
    reported = groups(named.records)
    _say_what_is_left(tables, named.rows, progress)
    answer = {}
    with progress.task("resampling") as update:
        for number, (title, shared) in enumerate(
            zip(_titles_of(tables, named), tables, strict=True), start=1
        ):
            group = shared.group
            noise = [] if tasks else columns_of_noise(group, store)
            group.left_out_of_means = [c for c in noise if c in shared.columns]
            lines, averaged = _compared(shared, named, store_of, exact, reported)
            answer[title] = judged(lines, averaged)
            if detail and averaged and not answer[title][-1].no_verdict:
                own = [lines[place] for place in averaged]
                found = in_detail(list(averaged.values()), own)
                answer[title][-1] = replace(answer[title][-1], detail=found)
            # of one column that is left there is no mean, and this is why
            if any(c in group.averaged for c in shared.columns) and group.left_out_of_means:
                progress.say(f"{title}: {left_out_of_means(group)}")
            update(number, len(tables))
    return answer


def _met(
    named: Named,
    tasks: Sequence[str],
    seeds: Sequence[int],
    store_of: Callable[[Record], Store],
    progress: Progress,
    results: Path,
) -> list[Record]:
    """The rows' finished records on these tasks and seeds whose answers are stored.

    Raises:
        InputError: a row has none.
    """
    finished = [r for r in named.records if r.row in named.rows and r.status == "ok"]
    stored = []
    for record in finished:
        if store_of(record).has_predictions(record):
            stored.append(record)
            continue
        place = f"{record.row} on {shown_tasks(record.cell)}, seed {record.cell.seed}"
        progress.say(
            f"left out: {place} ({record.key[:12]}): its answers are not stored; run it again with --rerun"
        )
    of_tasks = [r for r in stored if not tasks or task_names(r.cell).intersection(tasks)]
    met = [r for r in of_tasks if not seeds or r.cell.seed in seeds or is_one_model(r.cell)]
    for row in named.rows:
        if all(r.row != row for r in met):
            raise InputError(
                f"no finished record of the row {row!r} in {results} on these tasks and seeds; "
                f"it has: {_tasks_and_seeds([r for r in stored if r.row == row])}"
            )
    return met


def _tasks_and_seeds(records: Sequence[Record]) -> str:
    """``rte, seed 0 1 2; sst2, seed 0``."""
    has: dict[str, list[str]] = {}
    for task, seed in sorted({(shown_tasks(r.cell), r.cell.seed) for r in records}):
        has.setdefault(task, []).append(str(seed))
    return "; ".join(f"{task}, seed {' '.join(own)}" for task, own in has.items()) or "none"


def _with_teachers(
    named: Named, met: Sequence[Record], store_of: Callable[[Record], Store]
) -> list[ReportGroup]:
    """Tables of the rows' records and their teachers, which decide what a mean leaves out."""
    learned = {task for record in met for task in record.cell.tasks}
    taught = [
        r
        for r in named.records
        if r.row == TEACHER and r.status == "ok" and learned.issuperset(r.cell.tasks)
    ]
    # a teacher without its answers decides nothing
    taught = [r for r in taught if r not in met and store_of(r).has_predictions(r)]
    # generated sentences last, and what was trained on fewer rows behind what was trained on all
    return sorted(
        groups([*met, *taught]),
        key=lambda g: (g.facts.source == SAMPLE, g.cell.data.max_train_rows or 0),
    )


def _shared_tables(
    apart: Sequence[ReportGroup], named: Named, progress: Progress
) -> list[SharedTable]:
    """The tables that have all rows; where there is none, pairs of tables whose rows were scored on
    the same examples.

    Raises:
        InputError: no such pair either.
    """
    tables = [
        SharedTable(group, columns)
        for group in apart
        if (columns := _shared_columns(group, named.rows))
    ]
    if tables:
        return tables
    moved = [row for row in named.second.all if row not in named.first.all]
    for group, other in permutations(apart, 2):
        kept = [r for r in group.records if r.row not in moved]
        own = [r for r in other.records if r.row in moved]
        together = replace(group, records=[*kept, *own])
        columns = _shared_columns(together, named.rows)
        if columns:
            parts = zip_longest(CONDITIONS, group.identity, other.identity)
            differing = ", ".join(name for name, one, two in parts if one != two)
            both = f"{_spoken(named.first)} and {_spoken(named.second)}"
            progress.say(f"{both} stand in two tables, which differ in: {differing}")
            tables.append(SharedTable(together, columns, other))
    if not tables:
        both = f"{_spoken(named.first)} and {_spoken(named.second)}"
        raise InputError(f"{both} were scored on no examples in common")
    return tables


def _shared_columns(group: ReportGroup, rows: Sequence[str]) -> list[ScoreColumn]:
    """The columns of a table in which all rows are scored, on the same examples."""
    columns = []
    for column in group.columns:
        sides = [group.finished(row, column) for row in rows]
        examples = {r.cell.data.evaluation[column.evaluation] for side in sides for r in side}
        if all(sides) and len(examples) == 1:
            columns.append(column)
    return sorted(columns, key=lambda c: (c.task, c.evaluation))


def _say_what_is_left(
    tables: Sequence[SharedTable], rows: Sequence[str], progress: Progress
) -> None:
    """Which records of the rows stand under a newer training, and how many today's code did not
    make."""
    shown: dict[str, Record] = {}
    left: dict[str, LeftOut] = {}
    for table in tables:
        shown |= {r.key: r for r in table.group.records if r.row in rows}
        for entry in table.group.left_out:
            if entry[0].row in rows:
                left[entry[0].key] = [entry]
    entries = [entry for own in left.values() for entry in own]
    records = list(shown.values())
    for text in (*left_out_lines(entries), made_by(records)):
        if text:
            progress.say(text)


def _titles_of(tables: Sequence[SharedTable], named: Named) -> list[str]:
    """What the examples of each table are, and where the second side stands in another one."""
    titles = _titles([table.group for table in tables])
    others = [table.other for table in tables if table.other is not None]
    if len(others) < 2:
        return titles
    second = _spoken(named.second)
    of_others = zip(titles, _titles(others), strict=True)
    return [f"{title}, and {second} of {other}" for title, other in of_others]


def _compared(
    shared: SharedTable,
    named: Named,
    store_of: Callable[[Record], Store],
    exact: bool,
    reported: Sequence[ReportGroup],
) -> tuple[list[Comparison], dict[int, Pair]]:
    """The comparisons of one table, column by column; and of those that are averaged, by their
    place, the answers and what is compared: none where that is one.

    Args:
        reported: the tables of all records.
    """
    group = shared.group
    lines = []
    averaged = dict[int, Pair]()
    for number, column in enumerate(shared.columns):
        sides = (
            _side_in(group, column, named.first),
            _side_in(group, column, named.second),
        )
        records = [r for row in named.rows for r in group.finished(row, column)]
        data = resampled(column, [(r, store_of(r).predictions(r)) for r in records])
        keys = {record.key for record in records}
        own = [table for table in reported if not keys.isdisjoint(r.key for r in table.records)]
        apart = any(table.has_seeds_apart(named.rows, [column]) for table in own)
        lines.append(replace(compared(data, sides, exact), has_seeds_apart=apart))
        if column in group.averaged:
            averaged[number] = data, sides
    return lines, averaged if len(averaged) > 1 else {}


def _side_in(group: ReportGroup, column: ScoreColumn, side: NamedSide) -> Side:
    """A side's records in one column."""
    return Side(
        tuple(tuple(group.finished(row, column)) for row in side.rows),
        tuple(tuple(group.finished(row, column)) for row in side.against),
    )


def _spoken(side: NamedSide) -> str:
    """The rows of a side, as messages name them."""
    rows = listed(side.rows)
    return f"{rows} less {listed(side.against)}" if side.against else rows


def _named(
    store: Store,
    typed: tuple[str, str, str],
    theirs: Path | None,
    metrics: Sequence[str],
    tasks: Sequence[str],
) -> Named:
    """The two sides of these names.

    Args:
        typed: the rows of both sides, and those that are subtracted.
        metrics: that come first on the tasks; none for those that records have first.

    Raises:
        InputError: a row that is not there, or a task that no metric suits.
    """
    first, second, against = typed
    own = _scored_by(metrics, _results_in(store), store, tasks)
    if theirs is None:
        subtracted = _rows_called(against, own, store.root)
        if len(subtracted) > 2:
            raise InputError(f"--against {against}: names a row of both sides, or one of each")
        return Named(
            NamedSide(_rows_called(first, own, store.root), subtracted[:1]),
            NamedSide(_rows_called(second, own, store.root), subtracted[-1:]),
            own,
            {},
        )
    second_store = Store(theirs)
    published = _scored_by(metrics, _results_in(second_store), second_store, tasks)
    baselines = _baselines(against, own, published, (store.root, theirs))
    rows = _rows_called(second, published, theirs)
    chosen = [r for r in published if r.row in (*rows, *baselines[1])]
    moved = [_of_another_folder(r, theirs.resolve().name) for r in chosen]
    renamed = {before.row: after.row for before, after in zip(chosen, moved, strict=True)}
    return Named(
        NamedSide(_rows_called(first, own, store.root), baselines[0]),
        NamedSide(tuple(renamed[row] for row in rows), tuple(renamed[row] for row in baselines[1])),
        [*own, *moved],
        dict.fromkeys(renamed.values(), second_store),
    )


def _rows_called(typed: str, records: Sequence[Record], root: Path) -> tuple[str, ...]:
    """The rows of names separated by commas, by their label or as tables print them; one name that
    has a comma is one row.

    Raises:
        InputError: a row that is not there.
    """
    labels = {r.row for r in records}
    printed = {r.called: r.row for r in records if r.called not in labels}
    if typed in labels or typed in printed:
        return (printed.get(typed, typed),)
    names = [part.strip() for part in typed.split(",") if part.strip()]
    return tuple(printed.get(name) or known_row(name, labels, root) for name in names)


def _baselines(
    against: str,
    own: Sequence[Record],
    published: Sequence[Record],
    roots: tuple[Path, Path],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The row that is subtracted from the first side, and that of the second one, which is in the
    other folder."""
    if not against:
        return (), ()
    labels = {r.row for r in own} | {r.called for r in own}
    names = [against] if against in labels else [name.strip() for name in against.split(",")]
    if len(names) > 2:
        raise InputError(f"--against {against}: names a row of both sides, or one of each")
    return (
        _rows_called(names[0], own, roots[0]),
        _rows_called(names[-1], published, roots[1]),
    )


def _of_teachers(named: Named, teachers: Sequence[str], results: Path) -> Named:
    """The same rows, each with the students of one teacher, whose name is then behind its own.

    Raises:
        InputError: more than two teachers or rows, or a teacher that a row has not.
    """
    if len(teachers) > 2:
        raise InputError("--teacher names the teacher of the first row and that of the second one")
    if not named.is_of_two_rows:
        raise InputError("--teacher goes with one row on each side, and without --against")
    # one name is that of both
    typed = [teachers[0], teachers[-1]]
    kept = [r for r in named.records if r.row not in named.rows]
    rows: list[str] = []
    stores = dict[str, Store]()
    for side, name in zip((named.first, named.second), typed, strict=True):
        (row,) = side.rows
        own = [r for r in named.records if r.row == row]
        base = _base_of_teacher(own, name, f"{row} in {results}")
        taught = [_of_a_teacher(r, name) for r in own if r.cell.teacher.base == base]
        if row in named.stores:
            stores[taught[0].row] = named.stores[row]
        # the same row of the same teacher, named twice, stays one
        if taught[0].row not in rows:
            kept += taught
        rows.append(taught[0].row)
    # means leave out the columns of each teacher that is no better than a constant
    return Named(NamedSide((rows[0],)), NamedSide((rows[1],)), kept, stores)


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


def _one_row(named: Named) -> str:
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
    there = recorded_names(record.cell for record in records)
    chosen = recorded_tasks(tasks, there, store.root) if metrics else ()
    return scored_first_by(records, metrics, store, chosen)


def _of_another_folder(record: Record, folder: str) -> Record:
    """A record by a name and keys that no other one has: the same training may lie in both folders."""
    cell = record.cell.model_copy(update={"label": f"{record.cell.label} in {folder}"})
    keys = {"key": f"{record.key} in {folder}", "train_key": f"{record.train_key} in {folder}"}
    return record.model_copy(update={"cell": cell, **keys})


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
    """Markdown; names too long for the head of a column stand below the table.

    Without verdicts there are no columns of tests.
    """
    is_tested = any(not line.no_verdict for line in lines)
    rows = []
    for line in lines:
        cells = [
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
        ]
        test = [
            f"{p_in_words(line.p)} ({line.test})",
            p_in_words(line.adjusted),
            str(line.family),
            line.verdict,
        ]
        if line.no_verdict:
            test = ["–"] * len(test)
        rows.append([*cells, *(test if is_tested else [])])
    called = next((line.names for line in lines), (first, second))
    heads = called if max(map(len, called)) <= LONGEST_HEAD else ("first", "second")
    header = ["task", "metric", "examples", "seeds", *heads, "difference", "95 % interval"]
    header.append("min. detectable")
    if is_tested:
        header += ["p", "p, Holm", "tests", "verdict"]
    said = "" if heads == called else f"\n\nfirst: {called[0]}\nsecond: {called[1]}"
    return github(rows, header, "right") + said
