"""The commands that make a table's records again, from the records alone; no torch."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.record.cell import PLUS_INT8, POINTS_IN_8_BITS, TEACHER
from bench.record.recipe import Recipe
from bench.record.schema import Record
from bench.record.task_facts import OWN, data_facts, row_as_typed
from bench.report.study import Study
from bench.request import RECORDED, Request
from bench.request.choices import SAMPLE
from bench.request.recorded import PretrainingText, Recorded, task_as_typed
from bench.stats.own_metrics import reference_of

FIRST = ("seeds", "data", "teacher")
"""Options that every command begins with, behind rows and tasks."""
OF_ROWS = ("checkpoint", "teacher_outputs", "kernels", "numbers")
"""Options in which the rows of one table may differ."""
OF_TRAINING = (
    "recipe",
    "epochs",
    "optimizer",
    "precision",
    "deterministic",
    "augment",
    "augment_times",
    "word_vectors",
)
"""Options of the training that all rows of a table share; an experiment's file may set them."""
LAST = ("metric", "max_train_rows", "corpus", "corpus_tokens", "threads", "device")
ALWAYS = (*FIRST, "recipe", "epochs", "threads", "device", "results")
"""Options that are typed although they are the usual ones: those may change."""


@dataclass(frozen=True)
class SearchOptions:
    """The options of ``tune`` that its request has not."""

    trials: int
    settings: tuple[str, ...]
    each_seed: bool
    """whether each seed has a search of its own"""
    seed: int | None
    """of the trials, where all seeds have one search: such searches have a command each"""

    def words(self, seeds: int) -> list[str]:
        """How they are typed for so many seeds."""
        words = ["--trials", str(self.trials)]
        if self.settings:
            words += ["--search", ",".join(self.settings)]
        if self.each_seed:
            words += ["--searches", str(seeds)]
        return words


@dataclass(frozen=True)
class Asked:
    """How rows were asked for: what they share that one command asks for."""

    request: Request
    """without rows, tasks and seeds"""
    together: tuple[str, ...]
    """tasks that are learned together"""
    search: SearchOptions | None

    @property
    def without_text(self) -> Asked:
        """The same of rows that no text of pre-training concerns."""
        return replace(self, request=replace(self.request, corpus=(), corpus_tokens=None))


def commands(study: Study) -> list[str]:
    """The commands that find the records of a group, each with the rows that have the same tasks
    and seeds.

    Rows that were chosen in another way, tasks learned together and starts on another text have
    commands of their own. Folders and files are named without their place, which is the reader's
    to know. The trials of a search have none: they are made again by the search whose best row
    names them.
    """
    if study.facts.held_back and study.facts.augmented is None:
        return []
    shared = request_of(study)
    usual = _usual(study)

    # row, and how it was asked for -> task -> seeds
    found: dict[tuple[str, Asked], dict[str, set[int]]] = {}
    for record in _in_order(study):
        how = _asked(Recorded(record.cell, usual=usual, text=_text(record, study)), shared)
        seeds_of_task = found.setdefault((_row(record), how), {})
        seeds = seeds_of_task.setdefault(record.cell.tasks[0], set())
        seeds.add(record.cell.seed)
        if record.cell.search is not None:
            seeds.add(record.cell.search.seed)

    # a command: what it asks for, its tasks and its seeds -> its rows; those that no text concerns
    # come last, and join others of the same rest
    rows: dict[tuple[Asked, tuple[str, ...], tuple[int, ...]], list[str]] = {}
    in_order = sorted(found.items(), key=lambda item: not _has_text(item[0][1]))
    for (row, how), seeds_of_task in in_order:
        for some in dict.fromkeys(tuple(sorted(seeds)) for seeds in seeds_of_task.values()):
            tasks = how.together
            if not tasks:
                tasks = tuple(t for t in study.tasks if seeds_of_task.get(t) == set(some))
            command = (how, tasks, some)
            if not _has_text(how):
                alike = [c for c in rows if (c[0].without_text, *c[1:]) == command]
                command = next(iter(alike), command)
            rows.setdefault(command, []).append(row)
    if not rows:
        return [_command_of_teachers(study, shared)]
    return [
        _command_of_rows(study, how, tasks, seeds, named)
        for (how, tasks, seeds), named in rows.items()
    ]


def _command_of_teachers(study: Study, shared: Request) -> str:
    """The command of a study of teachers alone: one for all seeds, or one for each."""
    seeds: tuple[int, ...] = ()
    if study.cell.varied is not None:
        seeds = tuple(sorted({record.cell.seed for record in study.records}))
    tasks = _typed(study, study.tasks)
    teachers = replace(shared, methods="", tasks=tasks, seeds=seeds, corpus=(), corpus_tokens=None)
    return _command(study, "run", teachers, [])


def _in_order(study: Study) -> list[Record]:
    """The records of a group's rows, in the order of its table where that has one."""
    labels = study.systems if study.order else ()
    place = {label: number for number, label in enumerate(labels)}
    students = [record for record in study.records if record.row != TEACHER]
    return sorted(students, key=lambda record: place.get(record.row, 0))


def _asked(told: Recorded, shared: Request) -> Asked:
    """How the row of a record was asked for.

    Args:
        shared: the request of its group, whose records agree in all but the options of rows.
    """
    cell = told.cell
    own = Request.of(told)
    request = replace(shared, **{name: getattr(own, name) for name in (*OF_ROWS, *_further())})
    request = replace(request, corpus=own.corpus, corpus_tokens=own.corpus_tokens)
    together = tuple(partner.task for partner in cell.together)
    if together:
        request = replace(request, max_train_rows=own.max_train_rows)
    search = None
    if cell.search is not None:
        seed = None if cell.search.each_seed else cell.search.seed
        search = SearchOptions(
            len(cell.search.trials), cell.search.settings, cell.search.each_seed, seed
        )
        # a search scores the last epoch
        request = replace(request, checkpoint="last")
    return Asked(replace(request, methods="all", tasks="glue", seeds=(0,)), together, search)


def _has_text(how: Asked) -> bool:
    """Whether a command names a text of pre-training."""
    return how.request.corpus_tokens is not None


def _command_of_rows(
    study: Study,
    how: Asked,
    tasks: Sequence[str],
    seeds: tuple[int, ...],
    rows: Sequence[str],
) -> str:
    """The command of some rows on some tasks."""
    # a row is among those of its own ablations, and is made for its score in 8 bits
    named = []
    for row in dict.fromkeys(rows):
        if not {f"{row}:ablate", f"{row}{PLUS_INT8}"} & set(rows):
            named.append(row)
    request = replace(how.request, methods=",".join(named), tasks=_typed(study, tasks), seeds=seeds)
    if how.search is None:
        return _command(study, "run", request, [])
    return _command(study, "tune", request, how.search.words(len(seeds)))


def _command(study: Study, verb: str, request: Request, search: Sequence[str]) -> str:
    """A command of a request; a search, whose words stand behind the teacher, knows the common
    recipe alone."""
    words = request.command(verb, ["methods", "tasks", *FIRST])
    words += search
    further = [*OF_ROWS, *OF_TRAINING, *LAST, *_further()]
    if verb == "tune":
        further.remove("recipe")
    return shlex.join([*words, *_options(request, further), "--results", study.results])


def _options(request: Request, names: Iterable[str]) -> list[str]:
    """The options of these names, but for usual ones that nobody need type."""
    always = {*ALWAYS}
    if request.augment:
        always.add("augment_times")
    return request.typed(name for name in names if name in always or not request.is_usual(name))


def _further() -> list[str]:
    """Options that records state and that no list of this file names: a new one."""
    known = {"methods", "tasks", *FIRST, *OF_ROWS, *OF_TRAINING, *LAST}
    return [name for name in RECORDED if name not in known]


def _typed(study: Study, tasks: Iterable[str]) -> str:
    """How tasks of a group are typed."""
    cells = [record.cell for record in study.records]
    return ",".join(task_as_typed(task, cells) for task in tasks)


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


def request_of(study: Study) -> Request:
    """What the records of a group share, as the request of one of its cells."""
    metrics = own_metrics(study)
    return Request.of(Recorded(study.cell, text=_any_text(study), metrics=metrics))


def _usual(study: Study) -> Mapping[str, Any]:
    """The numbers of the recipe of a group's teacher, which takes over none that were set."""
    for record in study.records:
        if record.cell.method == TEACHER:
            return record.cell.recipe
    return Recipe().as_dict()


def experiment_command(
    study: Study, file: Path, tables: str, tasks: str, of_the_file: bool = False
) -> str:
    """The command that made the report of an experiment file.

    Args:
        study: of all records of the report.
        tables, tasks: the names that were typed; "" for all.
        of_the_file: whether the file sets numbers for some rows or tasks, which an option would
            override.
    """
    seeds = {record.cell.seed for record in study.records if record.cell.method != TEACHER}
    request = replace(request_of(study), seeds=tuple(sorted(seeds)))
    words = ["python", "-m", "bench", "run", "--experiment", as_typed_path(file)]
    if tables:
        words += ["--table", tables]
    if tasks:
        words += ["--tasks", tasks]
    of_training = ("optimizer",) if of_the_file else OF_TRAINING
    words += _options(request, [*FIRST, *of_training, *LAST, *_further()])
    return shlex.join([*words, "--results", study.results])


def verifying(study: Study) -> str:
    """The command that trains one record of a group again; its key is left open.

    A record has neither the file of a task of one's own nor that of word vectors: both are typed.
    """
    request = replace(request_of(study), tasks=_typed(study, study.tasks))
    words = ["python", "-m", "bench", "verify", "KEY", "--results", study.results]
    if study.facts.source == OWN:
        words += request.typed(["tasks"])
    named = ["data", "teacher", "word_vectors", "metric", "corpus", "corpus_tokens", "device"]
    return shlex.join([*words, *request.typed(named)])


def own_metrics(study: Study) -> tuple[str, ...]:
    """The metrics of a group's records that are in files of their users, each MODULE:NAME."""
    scored = sorted({name for record in study.records for name in record.task.metrics})
    return tuple(reference for name in scored if (reference := reference_of(name)))


def as_typed_path(path: Path) -> str:
    """How to type a folder of records, or a file.

    It is typed from here if it is below, else by its name, as other folders.
    """
    here = Path.cwd().resolve()
    there = path.resolve()
    if there.is_relative_to(here) and there != here:
        return str(there.relative_to(here))
    return there.name


def _text(record: Record, study: Study) -> PretrainingText | None:
    """The text of a record's starts; None where it has none, or where nobody knows it."""
    for artefact in record.artefacts.values():
        if artefact.get("key") in study.texts:
            return study.texts[artefact["key"]]
    return None


def _any_text(study: Study) -> PretrainingText | None:
    """The text of the first start of a group that has a known one."""
    for record in study.records:
        text = _text(record, study)
        if text is not None:
            return text
    return None


def texts_of_starts(records: Iterable[Record]) -> dict[str, PretrainingText]:
    """Key of a start made from text -> that text, where one of the records says it."""
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
            texts[artefact.get("key", "")] = PretrainingText(tuple(files), text["tokens"])
    return texts


def starts_without_text(study: Study) -> dict[str, list[str]]:
    """Pre-trainings whose text no record names: key -> the rows that use it.

    All their records are older than that entry.
    """
    known = study.texts
    rows: dict[str, set[str]] = {}
    for record in study.records:
        for name, artefact in record.artefacts.items():
            if "train" in artefact and artefact["key"] not in known and name != TEACHER:
                rows.setdefault(artefact["key"][:12], set()).add(record.row)
    return {key: sorted(rows[key]) for key in sorted(rows)}
