"""Define a task by its examples: GLUE's and others with their columns and files, and those of TOML.

What their records state of them is :mod:`bench.record.known_tasks`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from bench.data.example_files import files_of, shared_files
from bench.errors import InputError, nearest, unknown
from bench.record.known_tasks import GROUPS
from bench.record.known_tasks import KNOWN as KNOWN_TASKS
from bench.record.task_facts import ENDING, TaskFacts
from bench.typed_files import TypedFile, checked
from bench.user_files import toml_of

if TYPE_CHECKING:
    from bench.stats.form import Form


EQUAL: Literal["equal"] = "equal"
BALANCED = "balanced"
WEIGHTS = (EQUAL, BALANCED)
"""The values of ``:weights=`` for classes in the loss on labels: all examples weigh the same, or
classes weigh more the fewer examples they have."""


@dataclass(frozen=True)
class EvaluationSet:
    """A set that is scored or predicted: where a source keeps it, and the name of its scores."""

    name: str
    config: str
    split: str
    labelled: bool = True


@dataclass(frozen=True)
class Task:
    """A sentence or sentence-pair task.

    Attributes:
        columns: one or two text columns.
        labels: names in the order of their codes; empty for a regression.
        metrics: those that are stored; the first is the one a table shows.
        evaluation: in the order of a table's columns.
        writes: whether its answers are texts: the columns are then a source and the target that is
            written.
        repository: of the hub, where it is not GLUE's: owner, name and configuration.
        files: for a user's own task, splits and where their files are.
        file: for a user's own task, the name of the TOML file that says it.
        spans: whether a part of the second text is the answer.
        max_length: of its sequences, unless a request says another.
        truncation: what stays of a longer text: ``head``, ``tail`` or ``both``.
        unlabelled: what becomes of rows without a label, of :data:`bench.data.labels.UNLABELLED`.
        why_macro_f1: why macro-F1 is the first metric although nobody typed it.
        quotes: of CSV and TSV files ``csv`` where they enclose fields, ``text`` where they are part
            of the texts, "" as each file says.
        weights: of :data:`WEIGHTS`: whether rare classes weigh more in the loss on labels
            (:mod:`bench.data.class_weights`).
        group: the column whose equal rows an automatic split keeps on one side; "" for none.
        files_note: what was inferred about its files, in words; "" where they were named.
    """

    name: str
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    evaluation: tuple[EvaluationSet, ...]
    label_column: str = "label"
    files: tuple[tuple[str, str], ...] = ()
    file: str = ""
    writes: bool = False
    repository: str = ""
    spans: bool = False
    max_length: int = 128
    truncation: str = "head"
    unlabelled: str = "refuse"
    why_macro_f1: str = ""
    quotes: str = ""
    weights: str = EQUAL
    group: str = ""
    files_note: str = ""

    @property
    def num_labels(self) -> int:
        return len(self.labels) or 1

    @property
    def regression(self) -> bool:
        return not self.labels and not self.writes

    @property
    def draws_by_class(self) -> bool:
        """Whether what is drawn of its examples has every class's share: of a user's own classes.
        GLUE's examples are drawn as they always were, so that its records stay."""
        return bool(self.files and self.labels)

    @property
    def form(self) -> Form:
        """The form of its labels. Loads numpy, which lists of tasks do without."""
        from bench.stats.form import CLASSES, SCORE, SPANS, TEXT

        if self.spans:
            return SPANS
        if self.labels:
            return CLASSES
        return TEXT if self.writes else SCORE

    def facts(self) -> TaskFacts:
        """The facts that its records state of it."""
        return TaskFacts(
            form=self.form.name,
            labels=self.labels,
            metrics=self.metrics,
            unlabelled=tuple(each.name for each in self.evaluation if not each.labelled),
        )


def _task(name: str, columns: str, *sets: EvaluationSet, **more: Any) -> Task:
    """A task that comes with the program: its examples, besides the facts that its records state.

    Args:
        columns: their names, with blanks between them.
        sets: that are scored; ``validation`` where none is named.
    """
    facts = KNOWN_TASKS[name]
    scored = sets or (EvaluationSet("validation", name, "validation"),)
    return Task(
        name,
        tuple(columns.split()),
        facts.labels or (),
        facts.metrics,
        scored,
        writes=facts.form == "text",
        spans=facts.form == "span",
        **more,
    )


GLUE: dict[str, Task] = {
    task.name: task
    for task in (
        _task("cola", "sentence"),
        _task("sst2", "sentence"),
        _task("mrpc", "sentence1 sentence2"),
        _task("stsb", "sentence1 sentence2"),
        _task("qqp", "question1 question2"),
        _task(
            "mnli",
            "premise hypothesis",
            EvaluationSet("matched", "mnli", "validation_matched"),
            EvaluationSet("mismatched", "mnli", "validation_mismatched"),
            EvaluationSet("ax", "ax", "test", labelled=False),
        ),
        _task("qnli", "question sentence"),
        _task("rte", "sentence1 sentence2"),
        _task("wnli", "sentence1 sentence2"),
    )
}


def _written(name: str, columns: str, repository: str, *sets: str) -> Task:
    """A task whose answers are texts, of a repository of the hub."""
    scored = (EvaluationSet(each, name, each) for each in sets)
    return _task(name, columns, *scored, repository=repository)


# Columns within a column are written with a dot.
BOTH = ("validation", "test")
WRITTEN: dict[str, Task] = {
    task.name: task
    for task in (
        _written("generated-translation", "source target", ""),
        _written("question-generation", "source target", "rajpurkar/squad/plain_text"),
        _written(
            "iwslt14-de-en", "translation.de translation.en", "bbaaaa/iwslt14-de-en/de-en", *BOTH
        ),
        _written("wmt14-de-en", "translation.de translation.en", "wmt/wmt14/de-en", *BOTH),
        _written("gigaword", "document summary", "Harvard/gigaword/default", *BOTH),
    )
}
"""Tasks whose answers are texts. Only the first is generated; the second is made of SQuAD."""


def _questions(name: str, config: str) -> Task:
    """A task whose answers are parts of a text."""
    return _task(
        name,
        "question context",
        EvaluationSet("validation", config, "validation"),
        label_column="answers",
        repository=f"rajpurkar/{name}",
        max_length=384,
    )


SQUAD: dict[str, Task] = {
    "squad": _questions("squad", "plain_text"),
    "squad_v2": _questions("squad_v2", "squad_v2"),
}
"""Tasks whose answers are parts of a text."""
KNOWN: dict[str, Task] = GLUE | SQUAD | WRITTEN
"""All tasks that come with the program."""


NO_CLASSES_TO_WEIGH = "weights=balanced is for classes, and this task has none; leave it out"


def is_name(typed: str) -> bool:
    """Whether a task may be called so: letters, digits, - and _."""
    return typed.replace("_", "").replace("-", "").isalnum()


def free_name(name: str) -> str:
    """The name of somebody's own task.

    Raises ValueError: it has other signs, or means something else in records and commands.
    """
    if not is_name(name):
        raise ValueError(f"{name!r} should be letters, digits, - and _")
    known = ENDING.fullmatch(name)
    ending = name.removeprefix(known["base"]) if known else ""
    if ending:
        raise ValueError(
            f"{name!r}: names of records end with {ending!r} for what was done with the data; "
            "choose another end"
        )
    if name in KNOWN or name in GROUPS:
        raise ValueError(f"the name {name!r} belongs to a task of this program; choose another")
    return name


class TaskFile(TypedFile):
    """A user's own task as its TOML file says it. Files are named as seen from there."""

    model_config = ConfigDict(strict=True)

    name: str
    train: list[str]
    """files, one of several shards, patterns or folders; one of them without brackets"""
    validation: list[str]
    text: list[str]
    """one or two columns"""
    labels: list[str] = Field(default_factory=list)
    """names in the order of their codes; left out for a regression"""
    target: str = ""
    """the column of the texts to write from the one column of ``text``; then there are no labels"""
    label: str = "label"
    """the column of the labels"""
    metrics: list[str]
    """of :mod:`bench.stats.metrics`"""
    max_length: int = Field(default=128, ge=8)
    """tokens of a sequence, unless ``--set max_length`` says another"""
    truncation: Literal["head", "tail", "both"] = "head"
    """what stays of a longer text; of pairs always the head of the longer one"""
    positive: str = ""
    """of two classes the one that ``f1`` is of; the second one of ``labels`` if it is left out"""
    unlabelled: Literal["refuse", "drop"] = "refuse"
    """``drop`` leaves out rows without a label: an empty cell, -1, or ``-``"""
    quotes: Literal["", "csv", "text"] = ""
    """of CSV and TSV files: whether quotes enclose fields or are part of the texts"""
    weights: Literal["equal", "balanced"] = EQUAL
    """``balanced``: classes weigh more in the loss on labels the fewer examples they have"""

    _is_free = field_validator("name")(free_name)

    @field_validator("train", "validation", mode="before")
    @classmethod
    def _is_a_list(cls, files: Any) -> Any:
        return [files] if isinstance(files, str) else files

    @field_validator("text")
    @classmethod
    def _is_one_or_two(cls, text: list[str]) -> list[str]:
        if len(text) not in (1, 2):
            raise ValueError(f"name one or two columns, not {len(text)}")
        if len(set(text)) < len(text):
            raise ValueError("it names the same column twice")
        return text

    @model_validator(mode="after")
    def _has_classes_to_weigh(self) -> Self:
        if self.weights == BALANCED and not self.labels:
            raise ValueError(NO_CLASSES_TO_WEIGH)
        return self

    @field_validator("labels")
    @classmethod
    def _are_several(cls, labels: list[str]) -> list[str]:
        if len(labels) == 1:
            raise ValueError("name at least two classes, or leave it out for a regression")
        if len(set(labels)) < len(labels):
            raise ValueError("two classes have the same name")
        return labels


def from_toml(path: Path) -> Task:
    """A user's own task, from a file of the form :class:`TaskFile`.

    Raises:
        InputError: naming the key that is missing, unknown or wrong.
    """
    if not os.path.isfile(path):
        raise InputError(
            f"no file {path}; "
            "a task file is TOML with name, train, validation, text, labels, metrics"
        )
    given = checked(TaskFile, toml_of(path, str(path)), str(path))
    files: dict[str, list[Path]] = {}
    for split, typed in (("train", given.train), ("validation", given.validation)):
        files[split] = []
        for name in typed:
            files[split] += files_of(name, path.parent, f"{path}: {split}")
        if not files[split]:
            raise InputError(f"{path}: {split} names no file")
    if shared_files(files["train"], files["validation"]):
        raise InputError(
            f"{path}: train and validation are the same file; name another, or type --tasks "
            f"{files['train'][0]} to score a fifth of its rows"
        )
    if given.target and (given.labels or len(given.text) != 1):
        raise InputError(f"{path}: target goes with one column of text and without labels")
    task = Task(
        given.name,
        tuple(given.text) + ((given.target,) if given.target else ()),
        tuple(given.labels),
        with_positive(given.metrics, given.positive, given.labels, str(path)),
        (EvaluationSet("validation", given.name, "validation"),),
        given.label,
        tuple((split, str(file)) for split, each in files.items() for file in each),
        path.name,
        bool(given.target),
        max_length=given.max_length,
        truncation=given.truncation,
        unlabelled=given.unlabelled,
        quotes=given.quotes,
        weights=given.weights,
    )
    if task.truncation != "head" and len(task.columns) == 2:
        raise InputError(f"{path}: truncation={task.truncation} is for one column of text")
    check_metrics(task, str(path))
    return task


def with_positive(
    metrics: Sequence[str], positive: str, labels: Sequence[str], where: str
) -> tuple[str, ...]:
    """The metrics, with F1 of this class.

    Args:
        positive: one of the two labels; "" for F1 as it is.

    Raises:
        InputError: no such class, more than two of them, or no F1 among the metrics.
    """
    from bench.stats.metrics import OF_ONE_CLASS

    if not positive:
        return tuple(metrics)
    if len(labels) != 2:
        kind = f"has {len(labels)} classes" if labels else "is a regression"
        raise InputError(
            f"{where}: positive chooses which of two classes F1 is of, and this task {kind}; leave "
            "it out" + (", and choose macro_f1" if labels else "")
        )
    if positive not in labels:
        raise unknown(f"class of {where}", positive, labels)
    if not OF_ONE_CLASS.keys() & {*metrics}:
        raise InputError(f"{where}: positive={positive} goes with the metric f1; add it to metrics")
    code = list(labels).index(positive)
    chosen = next(name for name, of in OF_ONE_CLASS.items() if of == code)
    return tuple(dict.fromkeys(chosen if name in OF_ONE_CLASS else name for name in metrics))


def check_metrics(task: Task, where: str) -> None:
    """Raises InputError: no metric, or one that does not suit the task."""
    from bench.stats.metrics import METRICS, NAME_YOURS, fitting

    known = {metric.name: metric for metric in fitting(task.form)}
    for name in task.metrics or ("",):
        if name not in known:
            # one that is nowhere may be in a file of the user's
            wrong = "does not fit" if name in METRICS else "is not known"
            own = "" if name in METRICS else f"; {NAME_YOURS}"
            near = nearest(name, known)
            hint = f"did you mean {near!r}? " if near else ""
            raise InputError(
                f"{where}: metric {name!r} {wrong}; {hint}for this task: {', '.join(known)}{own}"
            )
        if why := known[name].misfit(task.labels):
            raise InputError(f"{where}: metric {name!r} {why}")
