"""The tasks that come with the program, as records describe them: names, forms, classes, metrics.

Where their examples lie, and in which columns, is :mod:`bench.data.tasks`. No torch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from bench.errors import unknown
from bench.record.task_facts import TaskFacts


def _classes(labels: str, metrics: str, unlabelled: tuple[str, ...] = ()) -> TaskFacts:
    """The facts of a task whose answers are classes; words are separated by blanks."""
    return TaskFacts(
        form="classes",
        labels=tuple(labels.split()),
        metrics=tuple(metrics.split()),
        unlabelled=unlabelled,
    )


# Label codes as in the Hugging Face hub's nyu-mll/glue. Which metric comes first follows the test
# tables of the compression papers: F1 for MRPC and QQP, Spearman for STS-B.
GLUE: Mapping[str, TaskFacts] = {
    "cola": _classes("unacceptable acceptable", "matthews accuracy"),
    "sst2": _classes("negative positive", "accuracy"),
    "mrpc": _classes("not_equivalent equivalent", "f1 accuracy"),
    "stsb": TaskFacts(form="score", labels=(), metrics=("spearman", "pearson")),
    "qqp": _classes("not_duplicate duplicate", "f1 accuracy"),
    "mnli": _classes("entailment neutral contradiction", "accuracy", unlabelled=("ax",)),
    "qnli": _classes("entailment not_entailment", "accuracy"),
    "rte": _classes("entailment not_entailment", "accuracy"),
    "wnli": _classes("not_entailment entailment", "accuracy"),
}


def _questions(*metrics: str) -> TaskFacts:
    """The facts of a task whose answers are parts of a text."""
    return TaskFacts(form="span", labels=("no_answer", "answer"), metrics=metrics)


SQUAD: Mapping[str, TaskFacts] = {
    "squad": _questions("answer_f1", "exact_match"),
    "squad_v2": _questions("answer_f1", "exact_match", "best_answer_f1", "best_exact_match"),
}
"""Tasks whose answers are parts of a text."""


def _texts(*metrics: str) -> TaskFacts:
    """The facts of a task whose answers are texts."""
    return TaskFacts(form="text", labels=(), metrics=metrics)


# ROUGE comes first where the field reports it
WRITTEN: Mapping[str, TaskFacts] = {
    "generated-translation": _texts("bleu", "rouge_l"),
    "question-generation": _texts("bleu", "rouge_l"),
    "iwslt14-de-en": _texts("bleu", "rouge_l"),
    "wmt14-de-en": _texts("bleu", "rouge_l"),
    "gigaword": _texts("rouge_l", "bleu"),
}
"""Tasks whose answers are texts."""
KNOWN: Mapping[str, TaskFacts] = {**GLUE, **SQUAD, **WRITTEN}
"""Name -> facts, of all tasks that come with the program."""
GROUPS: Mapping[str, tuple[str, ...]] = {"glue": tuple(GLUE)}
"""A name that may be typed for several tasks -> their names."""


def facts_of_older_record(
    tasks: Sequence[str], scores: Mapping[str, Mapping[str, float]]
) -> TaskFacts:
    """The facts of a record that was written before records described their task.

    A task of GLUE is in the table above; of others the scores name the metrics.

    Args:
        tasks: of the cell: the one task that was scored.
        scores: evaluation set -> metric -> value.
    """
    if tasks and tasks[0] in GLUE:
        return GLUE[tasks[0]]
    return TaskFacts(metrics=tuple(next(iter(scores.values()), {})))


def recorded_tasks(typed: Sequence[str], recorded: Collection[str], results: Path) -> list[str]:
    """The names of the tasks that somebody typed; of a group those that records have.

    Args:
        typed: names of tasks and of groups.
        recorded: the names by which the folder's tasks may be asked for
            (:func:`bench.record.task_facts.recorded_names`).

    Raises:
        InputError: neither the records of this folder nor this program has a task.
    """
    names: list[str] = []
    for task in typed:
        members = GROUPS.get(task, (task,))
        found = [name for name in members if name in recorded or name == task]
        if not found or found[0] not in {*recorded, *KNOWN}:
            raise unknown(f"task in {results}", task, sorted(recorded))
        names += found
    return names
