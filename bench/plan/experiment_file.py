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
from bench.plan.spelling import ALL, MethodRow, StageNumbers, parse_methods, parse_one
from bench.record.cell import FINISHED, TEACHER, split_row
from bench.request.choices import NUMBERS
from bench.typed_files import TypedFile, checked
from bench.user_files import comma_separated, toml_of

Options = tuple[tuple[str, Any], ...]
"""Fields of a request with their values, in alphabetical order."""
Labels = Mapping[str, tuple[str, str | None]]
"""Spelling of a row -> what a table calls it, and its full row where it is an ablation."""


class TableSpec(TypedFile):
    """One table of the paper: its rows, its tasks, and what it shows."""

    # what is trained, and how it is shown
    name: str = Field(min_length=1)
    methods: tuple[str, ...] = Field(min_length=1)
    tasks: tuple[str, ...] = Field(min_length=1)
    show: Literal["accuracy", "reappearance", "differences"] = "accuracy"
    labels: dict[str, str] = Field(default_factory=dict)
    """row as it is typed in ``methods`` -> what the report calls it"""

    # what the paper prints
    paper: str | tuple[str, ...] = ()
    printed: dict[str, str | tuple[str, ...]] = Field(default_factory=dict)
    absent: dict[str, str] = Field(default_factory=dict)
    summed: Literal["mean", "median", "best"] = "mean"

    # how settings are searched for
    trials: int | None = Field(None, strict=True, ge=2)
    """so many trials of each row on held-out training examples; the best is trained with all
    seeds, as ``tune`` does"""
    search: tuple[str, ...] = ()
    """what these vary: ``pace`` for the learning rate, settings of the methods; all that they
    offer where none is named"""

    @property
    def papers(self) -> tuple[str, ...]:
        """The papers whose numbers are printed beside the rows."""
        if isinstance(self.paper, str):
            return (self.paper,) if self.paper else ()
        return self.paper

    @property
    def typed_tasks(self) -> dict[str, str]:
        """Name of each task -> how to type it; groups as their members."""
        typed = {}
        for text in self.tasks:
            members = expand(text)
            for task, _ in members:
                typed[task.name] = text if len(members) == 1 else task.name
        return typed

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
        finished = _finished(self)
        trained = [text for text in self.methods if text not in finished]
        return [(text, _parsed(text)) for text in trained]


class Difference(TypedFile):
    """How rows are other systems than the printed ones that they are named after."""

    why: str = Field(min_length=1)
    methods: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


def _number(name: str) -> Any:
    least, most = NUMBERS[name]
    return Field(None, strict=True, ge=least, le=most)


class PaperSettings(TypedFile):
    """The settings of a paper for some rows on some tasks, and where it says so."""

    # where the paper says it, and of which rows, tasks and tables
    source: str = Field(min_length=1)
    methods: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()

    # options of the request
    batch_size: int | None = _number("batch_size")
    max_length: int | None = _number("max_length")
    micro_batch: int | None = _number("micro_batch")
    augment: Literal["none", "masked", "rules"] | None = None
    augment_times: int | None = Field(None, strict=True, ge=1)

    # parts of the row's spelling
    row: dict[str, bool | int | float | str] = Field(default_factory=dict)
    stages: dict[str, StageNumbers] = Field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """The options of the request that it sets."""
        return self.model_dump(include={*NUMBERS, "augment", "augment_times"}, exclude_none=True)

    @property
    def stage_numbers(self) -> dict[str, dict[str, Any]]:
        return {
            stage: numbers.model_dump(exclude_none=True) for stage, numbers in self.stages.items()
        }

    @property
    def spelling_parts(self) -> dict[str, str]:
        """Parts of the row's spelling: name -> value."""
        parts: dict[str, Any] = dict(self.row)
        for stage, numbers in self.stage_numbers.items():
            for name, value in numbers.items():
                parts[f"{stage}.{name}"] = value
        return {name: _typed(value) for name, value in parts.items()}

    def describe(self) -> str:
        """One line: the rows, tasks and tables; their numbers; the source."""

        # its rows, tasks and tables
        where = ", ".join(self.methods) or "all rows"
        if self.tasks:
            where += f" on {', '.join(self.tasks)}"
        if self.tables:
            where += f" in {', '.join(self.tables)}"
        # what is set
        numbers = _in_words(self.options)
        numbers += [f"{name} {value}" for name, value in self.row.items()]
        for stage, of_stage in self.stage_numbers.items():
            numbers.append(f"stage {stage}: {', '.join(_in_words(of_stage))}")
        return f"{where}: {'; '.join(numbers) or 'as the recipe has it'} ({self.source})"


def _in_words(numbers: Mapping[str, Any]) -> list[str]:
    """Each number with its name."""
    words = []
    for name, value in numbers.items():
        figure = f"{value:g}" if isinstance(value, float) else value
        words.append(f"{name.replace('_', ' ')} {figure}")
    return words


def _typed(value: bool | float | str) -> str:
    """How a value is typed in a spelling."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names(row: MethodRow) -> set[str]:
    """The names by which settings may mean a row: its method, or its full row."""
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
    """The part of a table that one request makes."""

    methods: str
    tasks: str
    options: Mapping[str, Any]
    """the numbers of NUMBERS, augment and augment_times, where they are set"""
    labels: Labels

    def request_options(self) -> dict[str, Any]:
        """The options as a request has them."""
        # all numbers of a recipe are one option
        numbers: list[tuple[str, Any]] = []
        options: dict[str, Any] = {}
        for name, value in self.options.items():
            if name in NUMBERS:
                numbers.append((name, value))
            else:
                options[name] = value
        if numbers:
            options["numbers"] = tuple(sorted(numbers))
        return options


class Experiment(TypedFile):
    """A paper's tables and how they are run. What is None stays as ``run`` has it."""

    # the tables, and how they differ from the printed ones
    title: str = Field(min_length=1)
    table: tuple[TableSpec, ...] = Field(min_length=1)
    settings: tuple[PaperSettings, ...] = ()
    differs: tuple[Difference, ...] = ()
    expected: str = ""
    """how far from the printed numbers its own are expected, and why"""
    printed_numbers: str = ""
    """a CSV file beside this one, with printed numbers of papers that do not come with the
    package"""

    # options of `run`
    seeds: tuple[Annotated[int, Field(strict=True)], ...] | None = None
    data: str | None = None
    teacher: str | None = None
    recipe: Literal["common", "paper"] | None = None
    epochs: float | None = Field(None, strict=True)
    optimizer: str | None = None
    max_train_rows: int | None = Field(None, strict=True)
    corpus_tokens: int | None = Field(None, strict=True)

    def options(self) -> dict[str, object]:
        """The options of the file besides its tables and their settings."""
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
        names = comma_separated(tables)
        _check_known("table", names, [table.name for table in self.table])
        specs = [table for table in self.table if not names or table.name in names]
        named = comma_separated(tasks)
        if not named:
            return specs
        known = [task for spec in specs for task in (*spec.tasks, *spec.typed_tasks)]
        _check_known("task of these tables", named, known)

        # of each table the tasks that are named by themselves, or by their group
        kept = []
        for spec in specs:
            chosen = set(named)
            for group in spec.tasks:
                if group in named:
                    chosen |= {task.name for task, _ in expand(group)}
            its_tasks = spec.typed_tasks.items()
            left = tuple(typed for name, typed in its_tasks if {name, typed} & chosen)
            if left:
                kept.append(spec.model_copy(update={"tasks": left}))
        return kept

    def entries(self, table: TableSpec, row: MethodRow, task: str) -> list[PaperSettings]:
        """The settings of a row on a task; later ones override earlier ones."""
        found = []
        for entry in self.settings:
            # an entry that names no tables, tasks or rows is of all of them
            rows = {_shortest(name) for name in entry.methods}
            of_table = not entry.tables or table.name in entry.tables
            of_task = not entry.tasks or task in entry.tasks
            of_row = not rows or _names(row) & rows
            if of_table and of_task and of_row:
                found.append(entry)
        return found

    def used(self, table: TableSpec) -> list[PaperSettings]:
        """The settings that some row of a table has on some task."""
        used = []
        for _, members in table.rows():
            for row in members:
                for task in table.typed_tasks:
                    used += self.entries(table, row, task)
        return used

    def settings_lines(self, tables: Sequence[TableSpec]) -> list[str]:
        """The settings that some row of these tables has, a line each."""
        used = []
        for table in tables:
            used += self.used(table)
        return [entry.describe() for entry in self.settings if entry in used]

    def printed_of(self, table: TableSpec) -> dict[str, tuple[Sequence[str], list[str]]]:
        """The label of a row -> the printed rows that it is, and how it is another system.

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
            # the teacher is a row of every table
            known = [*rows, TEACHER]
            _check_known(f"row of table {table.name} that a printed row is", [spelling], known)
            printed_rows = [printed] if isinstance(printed, str) else printed
            if typed == TEACHER:
                named[TEACHER] = (printed_rows, self._why_another(table, {spelling}))
            else:
                why = self._why_another(table, _names(rows[spelling]))
                named[labels[spelling][0]] = (printed_rows, why)
        return named

    def _why_another(self, table: TableSpec, names: set[str]) -> list[str]:
        """How a row of a table is another system than the printed one.

        Args:
            names: what settings may call the row.
        """
        why = []
        for difference in self.differs:
            # one that names no tables or rows is of all of them
            rows = {_shortest(name) for name in difference.methods}
            in_table = not difference.tables or table.name in difference.tables
            of_row = not rows or names & rows
            if in_table and of_row:
                why.append(difference.why)
        return why

    def requests_of(self, table: TableSpec) -> list[TableRequest]:
        """The requests that make a table: one where all of its rows and tasks have the same
        settings.

        Raises:
            InputError: a row, a task or a label that is not there, or settings that do not fit
                their row.
        """
        rows = table.rows()
        labels = _labels(table, [row for _, members in rows for row in members])
        # without settings it is one request
        if not self.used(table):
            return [TableRequest(",".join(table.methods), ",".join(table.tasks), {}, labels)]

        # options of a request, and its tasks -> rows in the order of the table
        asked: dict[tuple[Options, tuple[str, ...]], list[str]] = {}
        called = dict(labels)
        for text, members in rows:
            tasks_of = self._tasks_by_settings(table, text, members[0])
            if len(tasks_of) > 1 and members[0].method.multitask:
                raise InputError(
                    f"{members[0].spelling} is one student of all tasks: settings of some of them "
                    "cannot be its own"
                )
            for (options, spelling), tasks in tasks_of.items():
                # a row with settings is called as without them, and no two rows alike
                for row, name in _named_as_without(spelling, members, labels).items():
                    if called.setdefault(row, name) != name:
                        raise InputError(
                            f"table {table.name}: with its settings {name[0]} on "
                            f"{', '.join(tasks)} is its other row {row}"
                        )
                asked.setdefault((options, tuple(tasks)), []).append(spelling)

        # finished rows have no settings
        finished = _finished(table)
        if finished:
            every_task = tuple(table.typed_tasks.values())
            asked.setdefault(((), every_task), []).extend(finished)

        requests = []
        for (options, of_tasks), methods in asked.items():
            typed = TableRequest(",".join(methods), ",".join(of_tasks), dict(options), called)
            requests.append(typed)
        return requests

    def _tasks_by_settings(
        self, table: TableSpec, text: str, row: MethodRow
    ) -> dict[tuple[Options, str], list[str]]:
        """The options and the spelling that an entry of a table has with its settings -> its tasks.

        Args:
            text: the entry.
            row: its first row.
        """
        tasks_of: dict[tuple[Options, str], list[str]] = {}
        for task, typed in table.typed_tasks.items():
            options: dict[str, Any] = {}
            parts: dict[str, str] = {}
            for entry in self.entries(table, row, task):
                options |= entry.options
                parts |= entry.spelling_parts
            # without augmentation it is as if that had never been set
            if options.get("augment") == "none":
                del options["augment"]
                options.pop("augment_times", None)
            settings = [f"{name}={value}" for name, value in parts.items()]
            spelling = ":".join([text, *settings])
            key = (tuple(sorted(options.items())), spelling)
            tasks_of.setdefault(key, []).append(typed)
        return tasks_of


def _named_as_without(
    spelling: str, members: Sequence[MethodRow], labels: Labels
) -> dict[str, tuple[str, str | None]]:
    """Each row of a spelling with settings -> what the table calls it, as it does without them.

    Args:
        members: the same rows without settings.

    Raises:
        InputError: there are more or fewer rows with them.
    """
    with_settings = _parsed(spelling)
    if len(with_settings) != len(members):
        raise InputError(f"{spelling}: with these settings it has other rows than without")
    pairs = zip(with_settings, members, strict=True)
    return {row.spelling: labels[plain.spelling] for row, plain in pairs}


def _finished(table: TableSpec) -> list[str]:
    """The rows of a table that are not trained here."""
    return [text for text in table.methods if text.split(":")[0] in FINISHED]


def _labels(table: TableSpec, rows: Sequence[MethodRow]) -> Labels:
    """Each row of the table, as it is typed -> its label.

    Raises:
        InputError: a label of a row that the table has not, or one of two rows.
    """
    # the labels that the file gives
    finished = _finished(table)
    given = {}
    for text, label in table.labels.items():
        spelling = text if text in finished else parse_one(text).spelling
        given[spelling] = label
    there = [*(row.spelling for row in rows), *finished]
    _check_known(f"row of table {table.name} that a label is of", list(given), there)

    # those of trained rows: an ablation is called like its full row
    labels: dict[str, tuple[str, str | None]] = {}
    for row in rows:
        label = row.label
        full_label = None
        if row.ablation_of is not None:
            full_label = given.get(row.ablation_of, row.ablation_of)
            label = f"{full_label}{row.label.removeprefix(row.ablation_of)}"
        labels[row.spelling] = (given.get(row.spelling, label), full_label)
    for text in finished:
        kind, _, path = text.partition(":")
        labels[text] = (given.get(text, f"{kind}:{Path(path).name}"), None)

    # no two rows have one label
    names = [label for label, _ in labels.values()]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"table {table.name}: two rows are called {name!r}; give each its own label"
            )

    # in the order of the table
    ordered: dict[str, tuple[str, str | None]] = {}
    for text in table.methods:
        spellings = [text] if text in finished else [row.spelling for row in _parsed(text)]
        ordered |= {spelling: labels[spelling] for spelling in spellings}
    return ordered


def _check_known(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise unknown(what, name, list(dict.fromkeys(known)))


def _names_of_rows(tables: Sequence[TableSpec]) -> list[str]:
    """The names by which settings may mean the rows of these tables."""
    names = []
    for table in tables:
        for _, members in table.rows():
            for row in members:
                names += sorted(_names(row))
    return names


def read_experiment(path: Path) -> Experiment:
    """Read an experiment file.

    Raises:
        InputError: no such file, not TOML, a field that does not fit, or settings of something that
            it does not have.
    """
    said = f"--experiment {path}"
    experiment = checked(Experiment, toml_of(path, said), said)
    try:
        _check_tables(experiment)
        for number, entry in enumerate(experiment.settings, 1):
            _check_settings(experiment, f"settings.{number}", entry)
        _check_differences(experiment)
        for table in experiment.table:
            experiment.requests_of(table)
            experiment.printed_of(table)
    except InputError as error:
        raise InputError(f"{said}: {error}") from None
    return experiment


def _check_tables(experiment: Experiment) -> None:
    """Raises InputError where a table has a name that does not do, or keys that do not go
    together."""
    names = [table.name for table in experiment.table]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two tables are called {name!r}; their files would have one name")
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
            raise InputError(f"table {table.name}: printed rows are of a paper; add the key paper")


def _check_settings(experiment: Experiment, where: str, entry: PaperSettings) -> None:
    """Whether settings are of rows, tasks and tables that are there, and go with the recipe.

    Each name is looked for in what the names before it leave, so the message names the first that
    fits nothing.

    Raises:
        InputError: they are not.
    """
    _check_known(f"table for {where}", entry.tables, [table.name for table in experiment.table])
    tables = [table for table in experiment.table if not entry.tables or table.name in entry.tables]
    tasks = [task for table in tables for task in table.typed_tasks]
    _check_known(f"task in the tables for {where}", entry.tasks, tasks)
    rows = list(map(_shortest, entry.methods))
    _check_known(f"row in the tables for {where}", rows, _names_of_rows(tables))
    if not any(entry in experiment.used(table) for table in tables):
        raise InputError(f"{where}: no table has these rows on these tasks")
    if entry.stages and experiment.recipe != "paper":
        raise InputError(f'{where}.stages: numbers of a stage go with recipe = "paper"')
    if entry.augment_times is not None and entry.augment in (None, "none"):
        raise InputError(f"{where}.augment_times goes with augment")


def _check_differences(experiment: Experiment) -> None:
    """Raises InputError where rows differ from printed ones, and the file has no such table or
    row."""
    tables = [table.name for table in experiment.table]
    with_printed = [table for table in experiment.table if table.printed]
    rows = [*_names_of_rows(with_printed), TEACHER]
    for difference in experiment.differs:
        _check_known("table", difference.tables, tables)
        named = list(map(_shortest, difference.methods))
        _check_known("row with a printed one", named, rows)
