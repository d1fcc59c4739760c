"""Show and check what a source has: the work of ``bench data``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.data.columns import described
from bench.data.own_tasks import expand, files_line
from bench.data.sources import DataSource, source_for
from bench.data.table_files import Split
from bench.data.tasks import EvaluationSet, Task
from bench.errors import InputError


def _splits(
    tasks: str, data: str, offline: bool
) -> Iterator[tuple[Task, DataSource, str | EvaluationSet]]:
    if data == "auto":
        raise InputError(
            "--data auto is for run; say which source to look at: hub, sample or a folder"
        )
    for task, by_name in expand(tasks, offline):
        source = source_for(task, data, offline)
        splits: list[str | EvaluationSet] = ["train", *task.evaluation]
        for wanted in splits:
            if source.has(task, wanted) or by_name:
                yield task, source, wanted


def inspect(tasks: str, data: str, offline: bool) -> list[dict[str, Any]]:
    """One row a split: rows, class counts or range, fingerprint, and what was inferred.

    Raises:
        InputError: data that cannot be used, or nothing there at all.
    """
    rows: list[dict[str, Any]] = []
    train: tuple[str, Split] | None = None
    for task, source, wanted in _splits(tasks, data, offline):
        split = source.load(task, wanted)
        # how many of its examples are trained on too
        shared = 0
        if wanted == "train":
            train = (task.name, split)
        elif train and train[0] == task.name:
            shared = split.shared_with(train[1])

        # one row of the table
        labels = "no labels: predictions only"
        if split.labels is not None:
            labels = task.form.described(split.labels, task.labels)
        name = wanted if isinstance(wanted, str) else wanted.name
        columns = list(task.columns)
        if not task.writes:
            columns.append(task.label_column)
        row = {
            "task": task.name,
            "split": name,
            "rows": len(split),
            "labels": labels,
            "form": task.form.name,
            "columns": columns,
            "taken": described(task),
            "fingerprint": split.fingerprint(),
            "also_in_train": shared,
            "said": list(split.said),
        }
        rows.append(row)

        # the last split of a task of files: which files these are, said with the first split
        if task.files and wanted == task.evaluation[-1]:
            of_task = [each for each in rows if each["task"] == task.name]
            line = files_line(task, {each["split"]: each["rows"] for each in of_task})
            of_task[0]["said"].insert(0, line)
    if not rows:
        raise InputError(f"--data {data} has none of the tasks {tasks}")
    return rows


def export(tasks: str, data: str, offline: bool, out: Path) -> int:
    """Write every split as ``<config>/<split>-00000-of-00001.parquet``; returns how many files."""
    import pandas

    count = 0
    for task, source, wanted in _splits(tasks, data, offline):
        split = source.load(task, wanted)
        if isinstance(wanted, str):
            config = task.name
            name = wanted
        else:
            config = wanted.config
            name = wanted.split
        # the columns of the hub's files
        columns: dict[str, Any] = {task.columns[0]: list(split.first)}
        if split.second is not None:
            columns[task.columns[1]] = list(split.second)
        if split.answers is not None:
            columns["id"] = list(split.answers.names)
            columns["answers"] = [_as_squad(answers) for answers in split.answers.of_questions]
        elif not task.writes:
            columns[task.label_column] = [-1] * len(split) if split.labels is None else split.labels
        columns["idx"] = list(split.ids)
        file = out / config / f"{name}-00000-of-00001.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pandas.DataFrame(columns).to_parquet(file, index=False)
        count += 1
    return count


def _as_squad(answers: Sequence[tuple[int, str]]) -> dict[str, list[Any]]:
    """The answers of one question as the hub's files of SQuAD have them."""
    texts = [text for _, text in answers]
    starts = [start for start, _ in answers]
    return {"text": texts, "answer_start": starts}
