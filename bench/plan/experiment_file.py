"""Experiments as files: the rows and tasks of a paper's tables, in TOML, and the settings of its tasks.

title = "A paper: the paper's settings"
teacher = "bert-base-uncased"    # also data, seeds = [0, 1], epochs, optimizer, max_train_rows and corpus_tokens: options of `run`
recipe = "paper"                 # or common: then the title says so

[[table]]
name = "ablation"
methods = ["microbert:ablate", "pd:start=masked"]
tasks = ["mrpc", "rte"]
show = "differences"             # accuracy, reappearance, or differences to the first row
labels = { "pd:start=masked" = "BERT_TINY (4 x 312)" }    # what a row is called in the report

[[settings]]                     # of these rows on these tasks; of all where none is named; later ones override earlier ones
source = "appendix B, table 7"   # where the numbers are printed; an entry without numbers says that none are known
methods = ["microbert"]          # every row of a method by its name, or one row as it is typed above, without :ablate
tasks = ["rte"]
tables = ["ablation"]
batch_size = 16                  # of the students; their teacher keeps its own
max_length = 128
augment = "masked"               # or rules; none takes an earlier entry back
augment_times = 20
row = { temperature = 2.0 }      # settings of the method
stages.distil = { epochs = 10, learning_rate = 1e-5, schedule = "linear", warmup = 0.0, weight_decay = 0.01, clip = 1.0, optimizer = "adamw" }
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from bench.data.tasks import expand
from bench.errors import InputError, unknown
from bench.optimizers.learning_rate import Schedule
from bench.plan.request import NUMBERS
from bench.plan.spelling import ALL, MethodRow, parse_methods, parse_one
from bench.plan.stage_settings import LIMITS
from bench.record.cell import CHECKPOINT, split_row
from bench.user_files import TypedFile, checked, comma_separated, toml_of


class TableSpec(TypedFile):
    """One table of the paper: its rows, its tasks, and what it shows."""

    name: str = Field(min_length=1)
    methods: tuple[str, ...] = Field(min_length=1)
    tasks: tuple[str, ...] = Field(min_length=1)
    show: Literal["accuracy", "reappearance", "differences"] = "accuracy"
    labels: dict[str, str] = Field(default_factory=dict)
    """row as it is typed in ``methods`` -> what the report calls it"""

    @property
    def task_names(self) -> list[str]:
        """Its tasks, each group as its members."""
        return [task.name for task, _ in expand(",".join(self.tasks))]


def _number(name: str) -> Any:
    """A field of a stage's number, with the limits that it has in a row's spelling."""
    bounds: Mapping[str, Any] = LIMITS[name].bounds
    return Field(default=None, strict=True, **bounds)


class StageNumbers(TypedFile):
    """Numbers of one stage in the place of those in the method's file."""

    epochs: float | None = _number("epochs")
    learning_rate: float | None = _number("learning_rate")
    schedule: Schedule | None = None
    warmup: float | None = _number("warmup")
    weight_decay: float | None = _number("weight_decay")
    clip: float | None = _number("clip")
    optimizer: str | None = None
    eps: float | None = _number("eps")


class PaperSettings(TypedFile):
    """What a paper sets for some rows on some tasks, and where it says so."""

    source: str = Field(min_length=1)
    methods: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    batch_size: int | None = Field(default=None, strict=True, ge=NUMBERS["batch_size"][0], le=NUMBERS["batch_size"][1])
    max_length: int | None = Field(default=None, strict=True, ge=NUMBERS["max_length"][0], le=NUMBERS["max_length"][1])
    micro_batch: int | None = Field(
        default=None, strict=True, ge=NUMBERS["micro_batch"][0], le=NUMBERS["micro_batch"][1]
    )
    augment: Literal["none", "masked", "rules"] | None = None
    augment_times: int | None = Field(default=None, strict=True, ge=1)
    row: dict[str, bool | int | float | str] = Field(default_factory=dict)
    stages: dict[str, StageNumbers] = Field(default_factory=dict)

    def is_for(self, table: str, row: MethodRow, task: str) -> bool:
        """Whether it says something of this row on this task."""
        return (
            (not self.tables or table in self.tables)
            and (not self.tasks or task in self.tasks)
            and (not self.methods or bool({split_row(row.spelling)[0], full_row(row)} & set(map(_typed, self.methods))))
        )

    @property
    def options(self) -> dict[str, Any]:
        """Of the request."""
        return self.model_dump(include={*NUMBERS, "augment", "augment_times"}, exclude_none=True)

    @property
    def spelling_parts(self) -> dict[str, str]:
        """Of the row's spelling: name -> value."""
        own = {name: str(value).lower() if isinstance(value, bool) else f"{value}" for name, value in self.row.items()}
        for stage, numbers in self.stages.items():
            given = numbers.model_dump(exclude_none=True)
            own |= {f"{stage}.{name}": f"{value}" for name, value in given.items()}
        return own

    def describe(self) -> str:
        """One line: the rows, tasks and tables; their numbers; the source."""
        who = ", ".join(self.methods) or "all rows"
        where = f" on {', '.join(self.tasks)}" if self.tasks else ""
        where += f" in {', '.join(self.tables)}" if self.tables else ""
        said = [f"{name.replace('_', ' ')} {value}" for name, value in self.options.items()]
        said += [f"{name} {value}" for name, value in self.row.items()]
        for stage, numbers in self.stages.items():
            given = numbers.model_dump(exclude_none=True)
            listed = [f"{name.replace('_', ' ')} {_figure(value)}" for name, value in given.items()]
            said.append(f"stage {stage}: {', '.join(listed)}")
        return f"{who}{where}: {'; '.join(said) or 'as the recipe has it'} ({self.source})"


def _figure(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@cache
def _typed(row: str) -> str:
    """A row in its shortest spelling, however it was typed; a method's name stays."""
    return row if ":" not in row else parse_one(row).spelling


@cache
def _parsed(text: str) -> tuple[MethodRow, ...]:
    """The rows of one entry: settings ask for them again and again."""
    return tuple(parse_methods(text))


def full_row(row: MethodRow) -> str:
    """A row's spelling; of an ablation that of its full row."""
    return row.ablation_of or row.spelling


class Experiment(TypedFile):
    """A paper's tables and how they are run. What is None stays as ``run`` has it."""

    title: str = Field(min_length=1)
    table: tuple[TableSpec, ...] = Field(min_length=1)
    settings: tuple[PaperSettings, ...] = ()
    seeds: tuple[Annotated[int, Field(strict=True)], ...] | None = None
    data: str | None = None
    teacher: str | None = None
    recipe: Literal["common", "paper"] | None = None
    epochs: float | None = Field(default=None, strict=True)
    optimizer: str | None = None
    max_train_rows: int | None = Field(default=None, strict=True)
    corpus_tokens: int | None = Field(default=None, strict=True)

    def options(self) -> dict[str, object]:
        """What the file says besides its tables and their settings."""
        return {k: v for k, v in self.model_dump(exclude={"title", "table", "settings"}).items() if v is not None}

    def chosen(self, tables: str = "", tasks: str = "") -> list[TableSpec]:
        """The tables named (all, if none is), with only the tasks named; tables left without a task are gone.

        Raises:
            InputError: a table that is not there, or a task that none of these tables has.
        """
        wanted, named = comma_separated(tables), comma_separated(tasks)
        for name in wanted:
            if name not in [table.name for table in self.table]:
                raise unknown("table", name, [table.name for table in self.table])
        found = [table for table in self.table if not wanted or table.name in wanted]
        if not named:
            return found
        there = list(dict.fromkeys(task for table in found for task in (*table.tasks, *table.task_names)))
        for name in named:
            if name not in there:
                raise unknown("task of these tables", name, there)
        kept = [table.model_copy(update={"tasks": tuple(_kept(table.tasks, named))}) for table in found]
        return [table for table in kept if table.tasks]

    def settings_lines(self, tables: Sequence[TableSpec]) -> list[str]:
        """The settings that some row of these tables has, a line each."""
        return [one.describe() for one in self.settings if any(_concerns(one, table) for table in tables)]

    def requests_of(self, table: TableSpec) -> list[TableRequest]:
        """The requests that make a table: one where all of its rows and tasks have the same settings.

        Raises:
            InputError: a row, a task or a label that is not there, or settings that do not fit their row.
        """
        from bench.plan.student_cells import multitask

        settings = [one for one in self.settings if not one.tables or table.name in one.tables]
        if not settings and not table.labels:
            return [TableRequest(",".join(table.methods), ",".join(table.tasks))]
        rows, others = _rows_of(table)
        labels = _labels(table, [row for _, members in rows for row in members])
        if not any(_concerns(one, table) for one in settings):
            return [TableRequest(",".join(table.methods), ",".join(table.tasks), labels=labels)]
        tokens = [(token, task.name) for text in table.tasks for token, task in _single(text)]
        # options of the request, tasks -> rows in the order of the table
        asked: dict[tuple[tuple[tuple[str, Any], ...], tuple[str, ...]], list[str]] = {}
        shown = dict(labels)
        for text, members in rows:
            by_settings: dict[tuple[tuple[tuple[str, Any], ...], str], list[str]] = {}
            for token, task in tokens:
                options, own = self._settings_of(table.name, members[0], task)
                by_settings.setdefault((tuple(sorted(options.items())), ":".join([text, *own])), []).append(token)
            if len(by_settings) > 1 and multitask(members[0]):
                raise InputError(
                    f"{members[0].spelling} is one student of all tasks: settings of some of them cannot be its own"
                )
            for (chosen, spelled), tasks in by_settings.items():
                for spelling, name in _named(members, spelled, labels).items():
                    if shown.setdefault(spelling, name) != name:
                        raise InputError(
                            f"table {table.name}: with its settings {name[0]} on {', '.join(tasks)} is its other row {spelling}"
                        )
                asked.setdefault((chosen, tuple(tasks)), []).append(spelled)
        if others:
            asked.setdefault(((), tuple(token for token, _ in tokens)), []).extend(others)
        return [
            TableRequest(",".join(those), ",".join(on), dict(common), shown) for (common, on), those in asked.items()
        ]

    def _settings_of(self, table: str, row: MethodRow, task: str) -> tuple[dict[str, Any], list[str]]:
        """Options of the request and parts of the spelling of one row on one task; later entries override earlier ones."""
        options: dict[str, Any] = {}
        own: dict[str, str] = {}
        for one in self.settings:
            if one.is_for(table, row, task):
                options |= one.options
                own |= one.spelling_parts
        if options.get("augment") == "none":  # as if it had never been set
            options = {name: value for name, value in options.items() if not name.startswith("augment")}
        return options, [f"{name}={value}" for name, value in own.items()]


@dataclass(frozen=True)
class TableRequest:
    """What one request makes of a table."""

    methods: str
    tasks: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """the numbers of NUMBERS, augment and augment_times, where they are set"""
    labels: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    """spelling of a row -> what the table calls it, and its full row where it is an ablation"""

    def request_options(self) -> dict[str, Any]:
        """As a request has them."""
        numbers = tuple((name, self.options[name]) for name in sorted(NUMBERS) if name in self.options)
        found: dict[str, Any] = {"numbers": numbers} if numbers else {}
        return found | {name: self.options[name] for name in ("augment", "augment_times") if name in self.options}


def _kept(tasks: Sequence[str], named: Collection[str]) -> list[str]:
    """Those of a table's tasks that were named; of a group its members."""
    found = []
    for text in tasks:
        found += [text] if text in named else [token for token, task in _single(text) if task.name in named]
    return found


def _single(text: str) -> list[tuple[str, Any]]:
    """Each task of an entry: how to type it, and the task."""
    members = expand(text)
    return [(text if len(members) == 1 else task.name, task) for task, _ in members]


def _rows_of(table: TableSpec) -> tuple[list[tuple[str, list[MethodRow]]], list[str]]:
    """Each entry of a table with its rows; and its finished checkpoints, which have no settings.

    Raises:
        InputError: a row that is not there, or ``all``.
    """
    rows, others = [], []
    for text in table.methods:
        if text == ALL:
            raise InputError(
                f"table {table.name}: `all` names no row that settings or labels could be of; list the rows"
            )
        if text.split(":")[0] == CHECKPOINT:
            others.append(text)
        else:
            rows.append((text, list(_parsed(text))))
    return rows, others


def _labels(table: TableSpec, rows: Sequence[MethodRow]) -> dict[str, tuple[str, str | None]]:
    """Spelling -> label and full row, for the rows of the table as they are typed.

    Raises:
        InputError: a label of a row that the table has not, or one of two rows.
    """
    own = {}
    for text, label in table.labels.items():
        spelling = parse_one(text).spelling
        if spelling not in [row.spelling for row in rows]:
            raise unknown(f"row of table {table.name} that a label is of", text, [row.spelling for row in rows])
        own[spelling] = label
    found: dict[str, tuple[str, str | None]] = {}
    for row in rows:
        full = row.ablation_of
        label = row.label if full is None else f"{own.get(full, full)}{row.label.removeprefix(full)}"
        found[row.spelling] = own.get(row.spelling, label), None if full is None else own.get(full, full)
    names = [label for label, _ in found.values()]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"table {table.name}: two rows are called {name!r}; give each its own label")
    return found


def _named(
    members: Sequence[MethodRow], spelled: str, labels: Mapping[str, tuple[str, str | None]]
) -> dict[str, tuple[str, str | None]]:
    """What the rows of an entry are called when they are typed with their settings."""
    own = _parsed(spelled)
    if len(own) != len(members):
        raise InputError(f"{spelled}: with these settings it has other rows than without")
    return {with_settings.spelling: labels[row.spelling] for with_settings, row in zip(own, members, strict=True)}


def _concerns(settings: PaperSettings, table: TableSpec) -> bool:
    if settings.tables and table.name not in settings.tables:
        return False  # before its rows are asked for: they may be `all`
    rows = [row for _, members in _rows_of(table)[0] for row in members]
    return any(settings.is_for(table.name, row, task) for row in rows for task in table.task_names)


def read_experiment(path: Path) -> Experiment:
    """Raises InputError: no such file, not TOML, or a field that does not fit."""
    said = f"--experiment {path}"
    experiment = checked(Experiment, toml_of(path, said), said)
    try:
        _check(experiment)
    except InputError as error:
        raise InputError(f"{said}: {error}") from None
    return experiment


def _check(experiment: Experiment) -> None:
    """Raises InputError: settings or labels of something that the file does not have."""
    for number, one in enumerate(experiment.settings):
        _check_settings(experiment, f"settings.{number}", one)
    for table in experiment.table:
        experiment.requests_of(table)


def _check_settings(experiment: Experiment, where: str, one: PaperSettings) -> None:
    """Raises InputError: this entry is for something that the file does not have, or its fields do not fit each other."""
    names = [table.name for table in experiment.table]
    for table in one.tables:
        if table not in names:
            raise unknown(f"table for {where}", table, names)
    # each name is looked for in what the names before it leave, so the message names the first one that fits nothing
    tables = [table for table in experiment.table if not one.tables or table.name in one.tables]
    tasks = list(dict.fromkeys(task for table in tables for task in table.task_names))
    for task in one.tasks:
        if task not in tasks:
            raise unknown(f"task in the tables for {where}", task, tasks)
    rows = [row for table in tables for _, members in _rows_of(table)[0] for row in members]
    known = list(dict.fromkeys(name for row in rows for name in (split_row(row.spelling)[0], full_row(row))))
    for method in one.methods:
        if _typed(method) not in known:
            raise unknown(f"row in the tables for {where}", method, known)
    if not any(_concerns(one, table) for table in tables):
        raise InputError(f"{where}: no table has these rows on these tasks")
    if one.stages and experiment.recipe != "paper":
        raise InputError(f'{where}.stages: numbers of a stage go with recipe = "paper"')
    if one.augment_times is not None and one.augment in (None, "none"):
        raise InputError(f"{where}.augment_times goes with augment")
