"""The commands that make a table's records again, from the records alone; no torch."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
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
EACH_SEED = "a search for each seed"
"""In the place of the option that says how many, until the seeds of a command are known."""


def commands(group: ReportGroup) -> list[str]:
    """The commands that find the records of a group, each with the rows that have the same tasks and seeds.

    Rows that were chosen in another way, tasks learned together and starts on another text have commands of their own.
    Folders and files are named without their place, which is the reader's to know. The trials of a search have none:
    they are made again by the search whose best row names them.
    """
    if group.facts.held_back and group.facts.augmented is None:
        return []
    known, slug, cells = (
        group.texts,
        group.cell.data.slug,
        [record.cell for record in group.records],
    )
    plain = next((cell.recipe for cell in cells if cell.method == TEACHER), Recipe().as_dict())
    place = {label: number for number, label in enumerate(group.systems if group.order else ())}

    # row, and how it was asked for -> task -> seeds
    asked: dict[tuple[str, Words, Words, int | None, Words], dict[str, set[int]]] = {}
    for record in sorted(group.records, key=lambda record: place.get(record.row, 0)):
        if record.row != TEACHER:
            together = tuple(partner.task for partner in record.cell.together)
            limit = record.cell.row_limit if together else group.cell.data.max_train_rows
            search = record.cell.search
            # of two searches with different seeds each has a command, which begins with its own;
            # but one command repeats the search for each seed
            own = str(search.seed) if search and not search.each_seed else ""
            begins = (own, *_begins(record.cell, plain))
            how = (_row(record), begins, together, limit, _text(record, known))
            seeds_of_task = asked.setdefault(how, {}).setdefault(record.cell.tasks[0], set())
            seeds_of_task |= {record.cell.seed, *([search.seed] if search else [])}

    # a command: how it begins, its tasks, seeds, limit and text -> its rows; those that no text concerns join others of the same rest
    rows: dict[tuple[Words, Words, tuple[int, ...], int | None, Words], list[str]] = {}
    for (row, begins, together, limit, text), seeds_of in sorted(
        asked.items(), key=lambda item: not item[0][-1]
    ):
        for seeds in dict.fromkeys(tuple(sorted(seeds)) for seeds in seeds_of.values()):
            tasks = together or tuple(
                t for t in group.tasks if tuple(sorted(seeds_of.get(t, ()))) == seeds
            )
            command = (begins, tasks, seeds, limit, text)
            home = next(
                (other for other in rows if not text and other[:-1] == command[:-1]), command
            )
            rows.setdefault(home, []).append(row)
    if not rows:
        rows[
            ("", "run", "--only", "teachers"),
            tuple(group.tasks),
            (),
            group.cell.data.max_train_rows,
            (),
        ] = []

    written = []
    for ((_, verb, *options), tasks, seeds, limit, text), of_command in rows.items():
        # a row is among those of its own ablations, and is made for its score in 8 bits
        named = [
            r
            for r in dict.fromkeys(of_command)
            if not {f"{r}:ablate", f"{r}{PLUS_INT8}"} & set(of_command)
        ]
        words = [verb, "--methods", ",".join(named)] if named else [verb]
        words += ["--tasks", ",".join(typed_task(slug, task, cells) for task in tasks)]
        # a search knows the common recipe alone
        recipe = ["--recipe", group.recipe] if verb != "tune" else []
        if EACH_SEED in options:
            options = [*(word for word in options if word != EACH_SEED)]
            options += ["--searches", str(len(seeds))]
        written.append(
            _typed(group, words, seeds, limit, text, [*options, *recipe, *_numbers(group)])
        )
    return written


def _row(record: Record) -> str:
    """How a row was typed; an ablation by its full row."""
    cell = record.cell
    if cell.search is not None:
        return cell.search.of
    if record.point in POINTS_IN_8_BITS:
        return f"{row_as_typed(cell)}{PLUS_INT8}"
    return (
        row_as_typed(cell)
        if cell.ablation_of is None
        else f"{row_as_typed(cell, cell.ablation_of)}:ablate"
    )


def _begins(cell: Cell, plain: Mapping[str, Any]) -> Words:
    """The command, how its rows were chosen and computed, and the numbers that its teacher's recipe has otherwise."""
    words = ["run"]
    if cell.search is not None:
        words = ["tune", "--trials", str(len(cell.search.trials))]
        words += ["--search", ",".join(cell.search.settings)] if cell.search.settings else []
        words += [EACH_SEED] if cell.search.each_seed else []
    elif cell.selection is not None:
        words += ["--checkpoint", CHECKPOINT_OPTION_OF_RULE[cell.selection.rule]]
    words += ["--vary", ",".join(cell.varied.sources)] if cell.varied else []
    words += ["--teacher-outputs", cell.teacher_outputs] if cell.teacher_outputs else []
    words += ["--kernels", cell.kernels] if cell.kernels else []
    for name in NUMBERS:
        words += (
            ["--set", f"{name}={cell.recipe[name]}"]
            if cell.recipe.get(name) != plain.get(name)
            else []
        )
    return tuple(words)


def experiment_command(
    group: ReportGroup, file: Path, tables: str, tasks: str, of_the_file: bool = False
) -> str:
    """The command that made the report of an experiment file.

    Args:
        group: its records, of all tables.
        tables, tasks: the names that were typed; "" for all.
        of_the_file: whether the file sets numbers for some rows or tasks, which an option would override.
    """
    seeds = sorted({record.cell.seed for record in group.records if record.cell.method != TEACHER})
    words = ["run", "--experiment", as_typed_path(file)]
    words += ["--table", tables] if tables else []
    words += ["--tasks", tasks] if tasks else []
    words += ["--vary", ",".join(group.cell.varied.sources)] if group.cell.varied else []
    optimizer = ["--optimizer", group.optimizer] if group.optimizer != ADAMW else []
    numbers = optimizer if of_the_file else ["--recipe", group.recipe, *_numbers(group)]
    return _typed(group, words, seeds, group.cell.data.max_train_rows, _any_text(group), numbers)


def _numbers(group: ReportGroup) -> list[str]:
    """Epochs, optimiser, precision and augmentation of a group."""
    words = ["--epochs", as_typed(group.epochs)] if group.recipe != "paper" else []
    words += ["--optimizer", group.optimizer] if group.optimizer != ADAMW else []
    words += (
        ["--precision", group.cell.numeric.precision]
        if group.cell.numeric.precision != "fp32"
        else []
    )
    words += ["--deterministic"] if group.cell.numeric.deterministic else []
    if augmented := group.facts.augmented:
        words += ["--augment", augmented.kind, "--augment-times", str(augmented.times)]
        words += ["--word-vectors", augmented.vectors] if augmented.vectors else []
    return words


def _typed(
    group: ReportGroup,
    words: Sequence[str],
    seeds: Sequence[int],
    limit: int | None,
    text: Words,
    numbers: Sequence[str],
) -> str:
    """A command: seeds, data, teacher, text, machine and results behind these words, with the numbers of a recipe between them."""
    cell = group.cell
    options = ["--seeds", ",".join(map(str, seeds))] if seeds else []
    options += [*source_options(cell.data.slug, cell.teacher.name, cell.teacher.base), *numbers]
    options += own_metrics(group)
    options += ["--max-train-rows", str(limit)] if limit else []
    options += [*text, "--threads", str(cell.numeric.threads), "--device", cell.numeric.device]
    return shlex.join(["python", "-m", "bench", *words, *options, "--results", group.results])


def verifying(group: ReportGroup) -> str:
    """The command that trains one record of a group again; its key is left open.

    A record has neither the file of a task of one's own nor that of word vectors: both are typed.
    """
    words = ["python", "-m", "bench", "verify", "KEY", "--results", group.results]
    if is_own(group.cell.data.slug):
        cells = [record.cell for record in group.records]
        words += [
            "--tasks",
            ",".join(typed_task(group.cell.data.slug, task, cells) for task in group.tasks),
        ]
    words += source_options(group.cell.data.slug, group.cell.teacher.name, group.cell.teacher.base)
    if (augmented := group.facts.augmented) and augmented.vectors:
        words += ["--word-vectors", augmented.vectors]
    words += own_metrics(group)
    return shlex.join([*words, *_any_text(group), "--device", group.cell.numeric.device])


def own_metrics(group: ReportGroup) -> list[str]:
    """The options that name metrics in files of their users, where records have such."""
    scored = sorted({name for record in group.records for name in record.task.metrics})
    references = [reference for name in scored if (reference := reference_of(name))]
    return [word for reference in references for word in ("--metric", reference)]


def as_typed_path(place: Path) -> str:
    """How to type a folder of records, or a file: from here if it is below, else by its name, as other folders."""
    here, there = Path.cwd().resolve(), place.resolve()
    return (
        str(there.relative_to(here)) if there.is_relative_to(here) and there != here else there.name
    )


def set_record_source(group: ReportGroup, store: Store, records: Iterable[Record]) -> None:
    """Set what the commands of a group need to know of the folder of its records, of which ``records`` are all."""
    group.results, group.texts = as_typed_path(store.root), _texts(records)


def _any_text(group: ReportGroup) -> tuple[str, ...]:
    """The text of the first start of a group that has a known one."""
    known = group.texts
    return next(filter(None, (_text(record, known) for record in group.records)), ())


def _texts(records: Iterable[Record]) -> dict[str, tuple[str, ...]]:
    """Key of a start made from text -> the options for that text, where one of the records says it."""
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
    """The options for the text of a record's starts; nothing where it has none, or where nobody knows it."""
    return next((known[a["key"]] for a in record.artefacts.values() if a.get("key") in known), ())


def starts_without_text(group: ReportGroup) -> dict[str, list[str]]:
    """Pre-trainings whose text no record names, since all are older than that: key -> the rows that use it."""
    known = group.texts
    rows: dict[str, set[str]] = {}
    for record in group.records:
        for name, artefact in record.artefacts.items():
            if "train" in artefact and artefact["key"] not in known and name != TEACHER:
                rows.setdefault(artefact["key"][:12], set()).add(record.row)
    return {key: sorted(rows[key]) for key in sorted(rows)}
