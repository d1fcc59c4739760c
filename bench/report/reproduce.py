"""The commands that make a table's records again, from the records alone; no torch."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.plan.from_record import is_own, source_options, typed_task
from bench.plan.request import CHECKPOINT_OPTION_OF_RULE, NUMBERS, SAMPLE
from bench.plan.spelling import as_typed
from bench.record.cell import PLUS_INT8, POINTS_IN_8_BITS, TEACHER, Cell
from bench.record.recipe import ADAMW, Recipe
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import data_facts, row_as_typed
from bench.report.groups import ReportGroup
from bench.stats.own_metrics import reference_of

Words = tuple[str, ...]


@dataclass(frozen=True)
class How:
    """How records were made, as far as one command has it for all its rows.

    Attributes:
        verb: ``run`` or ``tune``.
        options: how the rows were chosen and computed, and the numbers that the teacher's recipe
            has otherwise.
        limit: training rows; None for all.
        each_seed: whether a search was repeated for each seed.
        search_seed: the seed of a search that was not. Of two searches with different seeds each
            has a command.
    """

    verb: str
    options: Words
    limit: int | None
    each_seed: bool = False
    search_seed: int | None = None


@dataclass(frozen=True)
class Asked:
    """How one row was asked for, whatever its tasks and seeds.

    Attributes:
        row: as it was typed.
        together: the tasks that one student learned together; none where each task has its own.
        text: the options for the text of its start.
    """

    row: str
    how: How
    together: Words
    text: Words


@dataclass(frozen=True)
class Command:
    """A command without its rows."""

    how: How
    tasks: Words
    seeds: tuple[int, ...]
    text: Words


def commands(group: ReportGroup) -> list[str]:
    """The commands that find the records of a group: one for all rows of the same tasks and seeds.

    Rows that were chosen in another way, tasks learned together and starts on another text have
    commands of their own. Folders and files are named without their place, which is the reader's to
    know. The trials of a search have none: they are made again by the search whose best row names
    them.
    """
    if group.facts.held_back and group.facts.augmented is None:
        return []

    # first the rows with a text, so that rows of the same rest that no text concerns join them
    asked = _asked(group)
    rows: dict[Command, list[str]] = {}
    for row in sorted(asked, key=lambda row: not row.text):
        for command in _commands_of(row, asked[row], group.tasks):
            rows.setdefault(_joined(command, rows), []).append(row.row)

    # a group without students
    if not rows:
        how = How("run", ("--only", "teachers"), group.cell.data.max_train_rows)
        rows[Command(how, tuple(group.tasks), (), ())] = []
    return [_written(group, command, named) for command, named in rows.items()]


def _asked(group: ReportGroup) -> dict[Asked, dict[str, set[int]]]:
    """How each row of students was asked for -> task -> seeds, in the order of the table."""
    recipes_of_teachers = [
        record.cell.recipe for record in group.records if record.cell.method == TEACHER
    ]
    plain = recipes_of_teachers[0] if recipes_of_teachers else Recipe().as_dict()
    rows = group.systems if group.order else []
    place_of = {label: number for number, label in enumerate(rows)}

    asked: dict[Asked, dict[str, set[int]]] = {}
    for record in sorted(group.records, key=lambda record: place_of.get(record.row, 0)):
        cell = record.cell
        if record.row == TEACHER:
            continue
        together = tuple(partner.task for partner in cell.together)
        limit = cell.row_limit if together else group.cell.data.max_train_rows
        row = Asked(_row(record), _how(cell, plain, limit), together, _text(record, group.texts))
        seeds = asked.setdefault(row, {}).setdefault(cell.tasks[0], set())
        seeds.add(cell.seed)
        if cell.search is not None:
            seeds.add(cell.search.seed)
    return asked


def _commands_of(
    row: Asked, seeds_of: Mapping[str, Collection[int]], tasks: Sequence[str]
) -> list[Command]:
    """One command for all tasks of a row that have the same seeds.

    Args:
        seeds_of: task -> seeds of the row.
        tasks: all tasks, in their order.
    """
    in_order = {task: tuple(sorted(seeds)) for task, seeds in seeds_of.items()}
    found = []
    for seeds in dict.fromkeys(in_order.values()):
        alike = tuple(task for task in tasks if in_order.get(task, ()) == seeds)
        found.append(Command(row.how, row.together or alike, seeds, row.text))
    return found


def _joined(command: Command, known: Iterable[Command]) -> Command:
    """The first known command that differs in its text alone, where this has none; else this."""
    if command.text:
        return command
    alike = (other for other in known if replace(other, text=()) == command)
    return next(alike, command)


def _written(group: ReportGroup, command: Command, rows: Sequence[str]) -> str:
    """A command with its rows, as it is typed."""
    how = command.how
    # a row is among those of its own ablations, and is made for its score in 8 bits
    made_with_another = set()
    for row in rows:
        if f"{row}:ablate" in rows or f"{row}{PLUS_INT8}" in rows:
            made_with_another.add(row)
    named = [row for row in dict.fromkeys(rows) if row not in made_with_another]

    words = [how.verb]
    if named:
        words += ["--methods", ",".join(named)]
    cells = [record.cell for record in group.records]
    slug = group.cell.data.slug
    words += ["--tasks", ",".join(typed_task(slug, task, cells) for task in command.tasks)]

    options = list(how.options)
    if how.each_seed:
        options += ["--searches", str(len(command.seeds))]
    # a search knows the common recipe alone
    if how.verb != "tune":
        options += ["--recipe", group.recipe]
    options += _numbers(group)
    return _typed(group, words, command.seeds, how.limit, command.text, options)


def _row(record: Record) -> str:
    """How a row was typed; an ablation by its full row."""
    cell = record.cell
    if cell.search is not None:
        return cell.search.of
    if record.point in POINTS_IN_8_BITS:
        return f"{row_as_typed(cell)}{PLUS_INT8}"
    if cell.ablation_of is not None:
        return f"{row_as_typed(cell, cell.ablation_of)}:ablate"
    return row_as_typed(cell)


def _how(cell: Cell, plain: Mapping[str, Any], limit: int | None) -> How:
    """How a cell was made.

    Args:
        plain: the teacher's recipe, whose numbers need no option.
        limit: training rows; None for all.
    """
    search = cell.search
    options: list[str] = []
    if search is not None:
        options += ["--trials", str(len(search.trials))]
        if search.settings:
            options += ["--search", ",".join(search.settings)]
    elif cell.selection is not None:
        options += ["--checkpoint", CHECKPOINT_OPTION_OF_RULE[cell.selection.rule]]
    if cell.teacher_outputs:
        options += ["--teacher-outputs", cell.teacher_outputs]
    if cell.kernels:
        options += ["--kernels", cell.kernels]
    for name in NUMBERS:
        if cell.recipe.get(name) != plain.get(name):
            options += ["--set", f"{name}={cell.recipe[name]}"]

    if search is None:
        return How("run", tuple(options), limit)
    search_seed = None if search.each_seed else search.seed
    return How("tune", tuple(options), limit, search.each_seed, search_seed)


def experiment_command(
    group: ReportGroup, file: Path, tables: str, tasks: str, of_the_file: bool = False
) -> str:
    """The command that made the report of an experiment file.

    Args:
        group: its records, of all tables.
        tables, tasks: the names that were typed; "" for all.
        of_the_file: whether the file sets numbers for some rows or tasks, which an option would
            override.
    """
    seeds = sorted({record.cell.seed for record in group.records if record.cell.method != TEACHER})
    words = ["run", "--experiment", as_typed_path(file)]
    if tables:
        words += ["--table", tables]
    if tasks:
        words += ["--tasks", tasks]
    numbers = _optimizer(group) if of_the_file else ["--recipe", group.recipe, *_numbers(group)]
    return _typed(group, words, seeds, group.cell.data.max_train_rows, _any_text(group), numbers)


def _optimizer(group: ReportGroup) -> list[str]:
    """The option for another optimiser than the usual one."""
    return [] if group.optimizer == ADAMW else ["--optimizer", group.optimizer]


def _numbers(group: ReportGroup) -> list[str]:
    """Epochs, optimiser, precision and augmentation of a group."""
    numeric = group.cell.numeric
    words = []
    if group.recipe != "paper":
        words += ["--epochs", as_typed(group.epochs)]
    words += _optimizer(group)
    if numeric.precision != "fp32":
        words += ["--precision", numeric.precision]
    if numeric.deterministic:
        words += ["--deterministic"]
    augmented = group.facts.augmented
    if augmented:
        words += ["--augment", augmented.kind, "--augment-times", str(augmented.times)]
        if augmented.vectors:
            words += ["--word-vectors", augmented.vectors]
    return words


def _typed(
    group: ReportGroup,
    words: Sequence[str],
    seeds: Sequence[int],
    limit: int | None,
    text: Words,
    numbers: Sequence[str],
) -> str:
    """A command: behind these words seeds, data, teacher, text, machine and results.

    Args:
        words: the verb, the rows and the tasks.
        numbers: the options of the recipe, which stand behind those of the teacher.
    """
    cell = group.cell
    options: list[str] = []
    if seeds:
        options += ["--seeds", ",".join(map(str, seeds))]
    options += source_options(cell.data.slug, cell.teacher.name, cell.teacher.base)
    options += numbers
    options += own_metrics(group)
    if limit:
        options += ["--max-train-rows", str(limit)]
    options += text
    options += ["--threads", str(cell.numeric.threads), "--device", cell.numeric.device]
    return shlex.join(["python", "-m", "bench", *words, *options, "--results", group.results])


def verifying(group: ReportGroup) -> str:
    """The command that trains one record of a group again; its key is left open.

    A record has neither the file of a task of one's own nor that of word vectors: both are typed.
    """
    slug = group.cell.data.slug
    teacher = group.cell.teacher
    words = ["python", "-m", "bench", "verify", "KEY", "--results", group.results]
    if is_own(slug):
        cells = [record.cell for record in group.records]
        words += ["--tasks", ",".join(typed_task(slug, task, cells) for task in group.tasks)]
    words += source_options(slug, teacher.name, teacher.base)
    augmented = group.facts.augmented
    if augmented and augmented.vectors:
        words += ["--word-vectors", augmented.vectors]
    words += own_metrics(group)
    words += _any_text(group)
    return shlex.join([*words, "--device", group.cell.numeric.device])


def own_metrics(group: ReportGroup) -> list[str]:
    """The options that name metrics in files of their users, where records have such."""
    scored = sorted({name for record in group.records for name in record.task.metrics})
    options = []
    for name in scored:
        reference = reference_of(name)
        if reference:
            options += ["--metric", reference]
    return options


def as_typed_path(path: Path) -> str:
    """How to type a folder of records, or a file.

    It is typed from here if it is below, else by its name, as other folders.
    """
    here = Path.cwd().resolve()
    there = path.resolve()
    if there.is_relative_to(here) and there != here:
        return str(there.relative_to(here))
    return there.name


def set_record_source(group: ReportGroup, store: Store, records: Iterable[Record]) -> None:
    """Set what the commands of a group need to know of the folder of its records.

    Args:
        records: all records of the folder.
    """
    group.results = as_typed_path(store.root)
    group.texts = _texts(records)


def _any_text(group: ReportGroup) -> tuple[str, ...]:
    """The text of the first start of a group that has a known one."""
    for record in group.records:
        text = _text(record, group.texts)
        if text:
            return text
    return ()


def _texts(records: Iterable[Record]) -> dict[str, tuple[str, ...]]:
    """Key of a start made from text -> the options for that text, where a record says it."""
    texts = {}
    for record in records:
        # the generated sentences of the sample suite need no word with its data
        generated = [] if data_facts(record.cell.data.slug).source == SAMPLE else [SAMPLE]
        for artefact in record.artefacts.values():
            text = artefact.get("text")
            if text is None:
                continue
            files = text["files"] or generated
            # a user's own tasks read their training texts where no text is named
            if text.get("training_texts_of"):
                files = []
            options = [word for file in files for word in ("--corpus", file)]
            texts[artefact.get("key", "")] = (*options, "--corpus-tokens", str(text["tokens"]))
    return texts


def _text(record: Record, known: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The options for the text of a record's starts.

    They are none where no start was made from text, or where nobody knows it.
    """
    for artefact in record.artefacts.values():
        if artefact.get("key") in known:
            return known[artefact["key"]]
    return ()


def starts_without_text(group: ReportGroup) -> dict[str, list[str]]:
    """Pre-trainings whose text no record names: key -> the rows that use it.

    All their records are older than that entry.
    """
    known = group.texts
    rows: dict[str, set[str]] = {}
    for record in group.records:
        for name, artefact in record.artefacts.items():
            if "train" in artefact and artefact["key"] not in known and name != TEACHER:
                rows.setdefault(artefact["key"][:12], set()).add(record.row)
    return {key: sorted(rows[key]) for key in sorted(rows)}
