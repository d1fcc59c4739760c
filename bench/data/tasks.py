"""What a task is: the nine of GLUE with their columns, label names and metrics, and a user's own from TOML."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import InputError, unknown
from bench.user_files import is_file, toml_of

if TYPE_CHECKING:
    from bench.stats.form import Form


@dataclass(frozen=True)
class EvaluationSet:
    """One scored (or only predicted) set: where a source keeps it, and under which name scores are stored."""

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
        files: for a user's own task, splits and where their files are.
        file: for a user's own task, the name of the TOML file that says it.
    """

    name: str
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    evaluation: tuple[EvaluationSet, ...]
    label_column: str = "label"
    files: tuple[tuple[str, str], ...] = ()
    file: str = ""

    @property
    def num_labels(self) -> int:
        return len(self.labels) or 1

    @property
    def regression(self) -> bool:
        return not self.labels

    @property
    def form(self) -> Form:
        """What its answers are. Loads numpy, which lists of tasks do without."""
        from bench.stats.form import CLASSES, SCORE

        return CLASSES if self.labels else SCORE


def _glue(name: str, columns: str, labels: str, metrics: str) -> Task:
    return Task(
        name,
        tuple(columns.split()),
        tuple(labels.split()),
        tuple(metrics.split()),
        (EvaluationSet("validation", name, "validation"),),
    )


# Label codes as in the Hugging Face hub's nyu-mll/glue. Which metric comes first follows the test tables of
# the compression papers: F1 for MRPC and QQP, Spearman for STS-B.
GLUE: dict[str, Task] = {
    task.name: task
    for task in (
        _glue("cola", "sentence", "unacceptable acceptable", "matthews accuracy"),
        _glue("sst2", "sentence", "negative positive", "accuracy"),
        _glue("mrpc", "sentence1 sentence2", "not_equivalent equivalent", "f1 accuracy"),
        _glue("stsb", "sentence1 sentence2", "", "spearman pearson"),
        _glue("qqp", "question1 question2", "not_duplicate duplicate", "f1 accuracy"),
        Task(
            "mnli",
            ("premise", "hypothesis"),
            ("entailment", "neutral", "contradiction"),
            ("accuracy",),
            (
                EvaluationSet("matched", "mnli", "validation_matched"),
                EvaluationSet("mismatched", "mnli", "validation_mismatched"),
                EvaluationSet("ax", "ax", "test", labelled=False),
            ),
        ),
        _glue("qnli", "question sentence", "entailment not_entailment", "accuracy"),
        _glue("rte", "sentence1 sentence2", "entailment not_entailment", "accuracy"),
        _glue("wnli", "sentence1 sentence2", "not_entailment entailment", "accuracy"),
    )
}
GROUPS: dict[str, tuple[str, ...]] = {"glue": tuple(GLUE)}


def expand(names: str) -> list[tuple[Task, bool]]:
    """``"glue,mine.toml"`` -> tasks in order, each with whether it was asked for by its own name.

    Raises:
        InputError: unknown name, a task named twice, a TOML file that is not a task.
    """
    chosen: dict[str, tuple[Task, bool]] = {}
    for name in (part.strip() for part in names.split(",")):
        if not name:
            continue
        if name in GROUPS:
            for member in GROUPS[name]:
                chosen.setdefault(member, (GLUE[member], False))
        elif name in GLUE:
            chosen[name] = (GLUE[name], True)
        elif name.endswith(".toml"):
            task = from_toml(Path(name))
            if task.name in chosen:
                raise InputError(f"two tasks are called {task.name!r}; rename the one in {name}")
            chosen[task.name] = (task, True)
        else:
            raise unknown("task", name, [*GLUE, *GROUPS, "FILE.toml"])
    if not chosen:
        raise InputError("no task was named; try --tasks glue")
    return list(chosen.values())


def from_toml(path: Path) -> Task:
    """A user's own task.

    Keys: ``name``, ``train`` and ``validation`` (files: .parquet, .csv, .tsv, .jsonl, relative to the TOML),
    ``text`` (one or two columns), ``labels`` (names in the order of their codes; leave out for a regression),
    ``label`` (column, default "label"), ``metrics`` (:mod:`bench.stats.metrics`).

    Raises:
        InputError: naming the key that is missing, unknown or wrong.
    """
    if not is_file(path):
        raise InputError(f"no file {path}; a task file is TOML with name, train, validation, text, labels, metrics")
    given = toml_of(path, str(path))
    known = {"name", "train", "validation", "text", "label", "labels", "metrics"}
    for key in given:
        if key not in known:
            raise InputError(f"{path}: {unknown('key', key, sorted(known))}")
    for key in ("name", "train", "validation", "text", "metrics"):
        if key not in given:
            raise InputError(f"{path}: the key {key!r} is missing; needed: name, train, validation, text, metrics")
    name = given["name"]
    if not isinstance(name, str) or not name.replace("_", "").replace("-", "").isalnum():
        raise InputError(f"{path}: name = {name!r} should be letters, digits, - and _")
    if name in GLUE or name in GROUPS:
        raise InputError(f"{path}: the name {name!r} belongs to GLUE; choose another")
    text, labels, metrics = given["text"], given.get("labels", []), given["metrics"]
    for key, value in (("text", text), ("labels", labels), ("metrics", metrics)):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InputError(f"{path}: {key} should be a list of strings, got {value!r}")
    if len(text) not in (1, 2):
        raise InputError(f"{path}: text should name one or two columns, got {text}")
    if len(labels) == 1:
        raise InputError(f"{path}: labels should name at least two classes, or be left out for a regression")
    files = []
    for split in ("train", "validation"):
        file = path.parent / str(given[split])
        if not is_file(file):
            raise InputError(f"{path}: {split} = {given[split]!r}, but there is no file {file}")
        files.append((split, str(file)))
    task = Task(
        name,
        tuple(text),
        tuple(labels),
        tuple(metrics),
        (EvaluationSet("validation", name, "validation"),),
        str(given.get("label", "label")),
        tuple(files),
        path.name,
    )
    _check_metrics(task, path)
    return task


def _check_metrics(task: Task, path: Path) -> None:
    """Raises InputError: no metric, or one that does not suit the task."""
    from bench.stats.metrics import fitting

    known = {metric.name: metric for metric in fitting(task.form)}
    for name in task.metrics or ("",):
        if name not in known:
            raise InputError(f"{path}: metric {name!r} does not fit; for this task: {', '.join(known)}")
        if why := known[name].misfit(task.labels):
            raise InputError(f"{path}: metric {name!r} {why}")
