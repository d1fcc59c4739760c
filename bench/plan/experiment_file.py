"""Experiments as files: the rows and tasks of a paper's tables, in TOML, and the settings of its
tasks. docs/experiments.md has all keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from bench.data.own_tasks import expand
from bench.errors import InputError, unknown
from bench.plan.request import NUMBERS
from bench.plan.spelling import ALL, MethodRow, StageNumbers, parse_methods, parse_one
from bench.record.cell import FINISHED, TEACHER, split_row
from bench.typed_files import TypedFile, checked
from bench.user_files import comma_separated, toml_of

Labels = Mapping[str, tuple[str, str | None]]
"""Spelling of a row -> what a table calls it, and its full row where it is an ablation."""


class TableSpec(TypedFile):
    """One table of the paper: its rows, its tasks, and what it shows."""

    name: str = Field(min_length=1)
    methods: tuple[str, ...] = Field(min_length=1)
    tasks: tuple[str, ...] = Field(min_length=1)
    show: Literal["accuracy", "reappearance", "differences"] = "accuracy"
    labels: dict[str, str] = Field(default_factory=dict)
    """row as it is typed in ``methods`` -> what the report calls it"""
    paper: str | tuple[str, ...] = ()
    printed: dict[str, str | tuple[str, ...]] = Field(default_factory=dict)
    absent: dict[str, str] = Field(default_factory=dict)
    summed: Literal["mean", "median", "best"] = "mean"
    trials: int | None = Field(None, strict=True, ge=2)
    """so many trials of each row on held-out training examples; the best is trained with all
    seeds, as ``tune`` does"""
    search: tuple[str, ...] = ()
    """what these vary: ``pace`` for the learning rate, settings of the methods; all that they
    offer where none is named"""

    @property
    def papers(self) -> tuple[str, ...]:
        """Those whose numbers are printed beside the rows."""
        if isinstance(self.paper, str):
            return (self.paper,) if self.paper else ()
        return self.paper

    @property
    def typed_tasks(self) -> dict[str, str]:
        """Name of each task -> how to type it; groups as their members."""
        members = [(text, expand(text)) for text in self.tasks]
        return {
            task.name: text if len(those) == 1 else task.name
            for text, those in members
            for task, _ in those
        }

    def rows(self) -> list[tuple[str, tuple[MethodRow, ...]]]:
        """Each entry of ``methods`` that is trained, with its rows.

        Raises:
            InputError: a row that is not there, or ``all``.
        """
        if ALL in self.methods:
            raise InputError(
                f"table {self.name}: `all` names no row that settings or labels could be of; list "
                "the rows"
            )
        return [
            (text, _parsed(text)) for text in self.methods if text.split(":")[0] not in FINISHED
        ]


class Difference(TypedFile):
    """How rows are other systems than the printed ones that they are named after."""

    why: str = Field(min_length=1)
    methods: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


def _number(name: str) -> Any:
    least, most = NUMBERS[name]
    return Field(None, strict=True, ge=least, le=most)


class PaperSettings(TypedFile):
    """What a paper sets for some rows on some tasks, and where it says so."""

    source: str = Field(min_length=1)
    methods: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    batch_size: int | None = _number("batch_size")
    max_length: int | None = _number("max_length")
    micro_batch: int | None = _number("micro_batch")
    augment: Literal["none", "masked", "rules"] | None = None
    augment_times: int | None = Field(None, strict=True, ge=1)
    row: dict[str, bool | int | float | str] = Field(default_factory=dict)
    stages: dict[str, StageNumbers] = Field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """Of the request."""
        return self.model_dump(include={*NUMBERS, "augment", "augment_times"}, exclude_none=True)

    @property
    def stage_numbers(self) -> dict[str, dict[str, Any]]:
        return {
            stage: numbers.model_dump(exclude_none=True) for stage, numbers in self.stages.items()
        }

    @property
    def spelling_parts(self) -> dict[str, str]:
        """Of the row's spelling: name -> value."""
        stages = {
            f"{stage}.{k}": v
            for stage, numbers in self.stage_numbers.items()
            for k, v in numbers.items()
        }
        parts = {**self.row, **stages}
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in parts.items()
        }

    def describe(self) -> str:
        """One line: the rows, tasks and tables; their numbers; the source."""

        def listed(numbers: Mapping[str, Any]) -> list[str]:
            figures = {
                name: f"{value:g}" if isinstance(value, float) else value
                for name, value in numbers.items()
            }
            return [f"{name.replace('_', ' ')} {value}" for name, value in figures.items()]

        where = f" on {', '.join(self.tasks)}" if self.tasks else ""
        where += f" in {', '.join(self.tables)}" if self.tables else ""
        numbers = [*listed(self.options), *(f"{name} {value}" for name, value in self.row.items())]
        numbers += [
            f"stage {stage}: {', '.join(listed(those))}"
            for stage, those in self.stage_numbers.items()
        ]
        who = ", ".join(self.methods) or "all rows"
        return f"{who}{where}: {'; '.join(numbers) or 'as the recipe has it'} ({self.source})"


def _names(row: MethodRow) -> set[str]:
    """What settings may call a row: its method, or its full row."""
    return {split_row(row.spelling)[0], row.ablation_of or row.spelling}


@cache
def _shortest(row: str) -> str:
    """A row in its shortest spelling, however it was typed; a method's name stays."""
    return row if ":" not in row else parse_one(row).spelling


@cache
def _parsed(text: str) -> tuple[MethodRow, ...]:
    """The rows of one entry: settings ask for them again and again."""
    return tuple(parse_methods(text))


class TableRequest(NamedTuple):
    """What one request makes of a table."""

    methods: str
    tasks: str
    options: Mapping[str, Any]
    """the numbers of NUMBERS, augment and augment_times, where they are set"""
    labels: Labels

    def request_options(self) -> dict[str, Any]:
        """As a request has them."""
        numbers = tuple(
            (name, self.options[name]) for name in sorted(NUMBERS) if name in self.options
        )
        others = {name: value for name, value in self.options.items() if name not in NUMBERS}
        return ({"numbers": numbers} if numbers else {}) | others


class Experiment(TypedFile):
    """A paper's tables and how they are run. What is None stays as ``run`` has it."""

    title: str = Field(min_length=1)
    table: tuple[TableSpec, ...] = Field(min_length=1)
    settings: tuple[PaperSettings, ...] = ()
    differs: tuple[Difference, ...] = ()
    expected: str = ""
    """how far from the printed numbers its own are expected, and why"""
    printed_numbers: str = ""
    """a CSV file beside this one, with printed numbers of papers that do not come with the
    package"""
    seeds: tuple[Annotated[int, Field(strict=True)], ...] | None = None
    data: str | None = None
    teacher: str | None = None
    recipe: Literal["common", "paper"] | None = None
    epochs: float | None = Field(None, strict=True)
    optimizer: str | None = None
    max_train_rows: int | None = Field(None, strict=True)
    corpus_tokens: int | None = Field(None, strict=True)

    def options(self) -> dict[str, object]:
        """What the file says besides its tables and their settings."""
        return self.model_dump(
            exclude={"title", "table", "settings", "differs", "expected", "printed_numbers"},
            exclude_none=True,
        )

    def chosen(self, tables: str = "", tasks: str = "") -> list[TableSpec]:
        """The tables named (all, if none is), with only the tasks named; tables left without a task
        are gone.

        Raises:
            InputError: a table that is not there, or a task that none of these tables has.
        """
        wanted, named = comma_separated(tables), comma_separated(tasks)
        _check_known("table", wanted, [table.name for table in self.table])
        specs = [table for table in self.table if not wanted or table.name in wanted]
        if not named:
            return specs
        _check_known(
            "task of these tables",
            named,
            [task for t in specs for task in (*t.tasks, *t.typed_tasks)],
        )
        kept = []
        for spec in specs:
            of_groups = {
                task.name for text in spec.tasks if text in named for task, _ in expand(text)
            }
            tasks_kept = tuple(
                typed
                for name, typed in spec.typed_tasks.items()
                if {name, typed} & {*named, *of_groups}
            )
            if tasks_kept:
                kept.append(spec.model_copy(update={"tasks": tasks_kept}))
        return kept

    def entries(self, table: TableSpec, row: MethodRow, task: str) -> list[PaperSettings]:
        """The settings of a row on a task; later ones override earlier ones."""
        return [
            entry
            for entry in self.settings
            if (not entry.tables or table.name in entry.tables)
            and (not entry.tasks or task in entry.tasks)
            and (not entry.methods or _names(row) & set(map(_shortest, entry.methods)))
        ]

    def used(self, table: TableSpec) -> list[PaperSettings]:
        """The settings that some row of a table has on some task."""
        rows = [row for _, members in table.rows() for row in members]
        return [
            entry
            for row in rows
            for task in table.typed_tasks
            for entry in self.entries(table, row, task)
        ]

    def settings_lines(self, tables: Sequence[TableSpec]) -> list[str]:
        """The settings that some row of these tables has, a line each."""
        used = [entry for table in tables for entry in self.used(table)]
        return [entry.describe() for entry in self.settings if entry in used]

    def printed_of(self, table: TableSpec) -> dict[str, tuple[Sequence[str], list[str]]]:
        """What a row is called -> the printed rows that it is, and how it is another system.

        Raises:
            InputError: a row that the table has not.
        """
        if not table.printed:
            return {}
        rows = {row.spelling: row for _, members in table.rows() for row in members}
        labels = _labels(table, list(rows.values()))
        named: dict[str, tuple[Sequence[str], list[str]]] = {}
        for typed, printed in table.printed.items():
            spelling = typed if typed == TEACHER else parse_one(typed).spelling
            _check_known(
                f"row of table {table.name} that a printed row is", [spelling], [*rows, TEACHER]
            )
            names = {spelling} if typed == TEACHER else _names(rows[spelling])
            why = [
                d.why
                for d in self.differs
                if (not d.methods or names & set(map(_shortest, d.methods)))
                and table.name in (d.tables or (table.name,))
            ]
            named[labels[spelling][0] if typed != TEACHER else TEACHER] = (
                [printed] if isinstance(printed, str) else printed,
                why,
            )
        return named

    def requests_of(self, table: TableSpec) -> list[TableRequest]:
        """The requests that make a table: one where all of its rows and tasks have the same
        settings.

        Raises:
            InputError: a row, a task or a label that is not there, or settings that do not fit
                their row.
        """
        rows = table.rows()
        labels = _labels(table, [row for _, members in rows for row in members])
        if not self.used(table):
            return [TableRequest(",".join(table.methods), ",".join(table.tasks), {}, labels)]
        # options of the request, tasks -> rows in the order of the table
        asked: dict[tuple[tuple[tuple[str, Any], ...], tuple[str, ...]], list[str]] = {}
        called = dict(labels)
        for text, members in rows:
            by_settings: dict[tuple[tuple[tuple[str, Any], ...], str], list[str]] = {}
            for task, typed in table.typed_tasks.items():
                options, own = dict[str, Any](), dict[str, str]()
                for entry in self.entries(table, members[0], task):
                    options, own = options | entry.options, own | entry.spelling_parts
                if options.get("augment") == "none":  # as if it had never been set
                    options = {
                        name: value
                        for name, value in options.items()
                        if not name.startswith("augment")
                    }
                spelled = ":".join([text, *(f"{name}={value}" for name, value in own.items())])
                by_settings.setdefault((tuple(sorted(options.items())), spelled), []).append(typed)
            if len(by_settings) > 1 and members[0].method.multitask:
                raise InputError(
                    f"{members[0].spelling} is one student of all tasks: settings of some of them "
                    "cannot be its own"
                )
            for (asked_options, spelled), tasks in by_settings.items():
                with_settings = _parsed(spelled)
                if len(with_settings) != len(members):
                    raise InputError(
                        f"{spelled}: with these settings it has other rows than without"
                    )
                for row, plain in zip(with_settings, members, strict=True):
                    name = labels[plain.spelling]
                    if called.setdefault(row.spelling, name) != name:
                        raise InputError(
                            f"table {table.name}: with its settings {name[0]} on "
                            f"{', '.join(tasks)} is its other row {row.spelling}"
                        )
                asked.setdefault((asked_options, tuple(tasks)), []).append(spelled)
        if given := [text for text in table.methods if text.split(":")[0] in FINISHED]:
            asked.setdefault(((), tuple(table.typed_tasks.values())), []).extend(given)
        return [
            TableRequest(",".join(those), ",".join(on), dict(own), called)
            for (own, on), those in asked.items()
        ]


def _labels(table: TableSpec, rows: Sequence[MethodRow]) -> Labels:
    """What each row of the table is called, as it is typed.

    Raises:
        InputError: a label of a row that the table has not, or one of two rows.
    """
    finished = [text for text in table.methods if text.split(":")[0] in FINISHED]
    there = [*(row.spelling for row in rows), *finished]
    own = {
        text if text in finished else parse_one(text).spelling: label
        for text, label in table.labels.items()
    }
    _check_known(f"row of table {table.name} that a label is of", list(own), there)
    labels: dict[str, tuple[str, str | None]] = {}
    for row in rows:
        full = row.ablation_of
        label = (
            row.label if full is None else f"{own.get(full, full)}{row.label.removeprefix(full)}"
        )
        labels[row.spelling] = (
            own.get(row.spelling, label),
            None if full is None else own.get(full, full),
        )
    for text in finished:
        labels[text] = (
            own.get(text, f"{text.partition(':')[0]}:{Path(text.partition(':')[2]).name}"),
            None,
        )
    names = [label for label, _ in labels.values()]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(
            f"table {table.name}: two rows are called {twice[0]!r}; give each its own label"
        )
    typed = [
        [text] if text in finished else [row.spelling for row in _parsed(text)]
        for text in table.methods
    ]
    return {spelling: labels[spelling] for spellings in typed for spelling in spellings}


def _check_known(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise unknown(what, name, list(dict.fromkeys(known)))


def read_experiment(path: Path) -> Experiment:
    """Raises InputError: no such file, not TOML, a field that does not fit, or settings of
    something that it does not have."""
    said = f"--experiment {path}"
    experiment = checked(Experiment, toml_of(path, said), said)
    names = [table.name for table in experiment.table]

    def rows_of(tables: Sequence[TableSpec]) -> list[str]:
        rows = [row for table in tables for _, members in table.rows() for row in members]
        return [name for row in rows for name in sorted(_names(row))]

    try:
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(f"two tables are called {twice[0]!r}; their files would have one name")
        for table in experiment.table:
            if "," in table.name:
                raise InputError(
                    f"table {table.name!r}: --table separates names by commas; call it without one"
                )
            if table.search and table.trials is None:
                raise InputError(
                    f"table {table.name}: search says what trials vary; add the key trials"
                )
            if (table.printed or table.absent) and not table.papers:
                raise InputError(
                    f"table {table.name}: printed rows are of a paper; add the key paper"
                )
        for number, entry in enumerate(experiment.settings):
            # each name is looked for in what the names before it leave, so the message names the
            # first that fits nothing
            where = f"settings.{number + 1}"
            _check_known(f"table for {where}", entry.tables, names)
            tables = [
                table
                for table in experiment.table
                if not entry.tables or table.name in entry.tables
            ]
            tasks = [task for table in tables for task in table.typed_tasks]
            _check_known(f"task in the tables for {where}", entry.tasks, tasks)
            _check_known(
                f"row in the tables for {where}",
                list(map(_shortest, entry.methods)),
                rows_of(tables),
            )
            if not any(entry in experiment.used(table) for table in tables):
                raise InputError(f"{where}: no table has these rows on these tasks")
            if entry.stages and experiment.recipe != "paper":
                raise InputError(f'{where}.stages: numbers of a stage go with recipe = "paper"')
            if entry.augment_times is not None and entry.augment in (None, "none"):
                raise InputError(f"{where}.augment_times goes with augment")
        known = [*rows_of([table for table in experiment.table if table.printed]), TEACHER]
        for difference in experiment.differs:
            _check_known("table", difference.tables, names)
            _check_known("row with a printed one", list(map(_shortest, difference.methods)), known)
        for table in experiment.table:
            experiment.requests_of(table)
            experiment.printed_of(table)
    except InputError as error:
        raise InputError(f"{said}: {error}") from None
    return experiment
