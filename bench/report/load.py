"""`bench.load`: the scores of a folder of records for pandas, with those of their teachers. No
torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import NothingMeasured
from bench.record.cell import TEACHER
from bench.record.keys import canonical
from bench.record.recipe import ADAMW
from bench.record.schema import Record
from bench.record.store import Store, nothing_in
from bench.report.studies import groups
from bench.report.teachers import same_teacher

if TYPE_CHECKING:
    from pandas import DataFrame

NUMBERS = {
    "max_train_rows": "Int64",
    "parameters": "Int64",
    "flops": "Int64",
    "train_seconds": "float64",
    "teacher_score": "float64",
}
"""Column -> its type: without it, a column of which every value is missing has objects."""
Shared = tuple[object, ...]
"""What a student's score and that of its own teacher have in common."""


def load(results: Path | str, everything: bool = False) -> DataFrame:
    """The scores of a folder of records, a line each, in the order of the records' paths;
    docs/reports.md has the columns.

    Args:
        results: a folder of records.
        everything: also the trainings that newer ones of the same name replace.

    Raises:
        NothingMeasured: no record there has a score.
    """
    import pandas

    store = Store(Path(results))
    records = list(store.records())
    finished = [record for record in records if record.status == "ok"]
    newest = {record.key for group in groups(finished) for record in group.records}

    # a line for each score, with that of the record's teacher
    teachers = _teachers(finished, store)
    lines: list[dict[str, Any]] = []
    for record in finished:
        if everything or record.key in newest:
            lines += _lines_of(record, teachers, record.key in newest)
    if not lines and records:
        raise NothingMeasured(
            f"no cell in {results} has finished: all failed or were interrupted; "
            "run again with --retry-failed"
        )
    if not lines:
        raise NothingMeasured(nothing_in(Path(results)))

    table = pandas.DataFrame(lines).astype(NUMBERS)
    taught = table["teacher_score"].where(lambda score: score > 0)
    after_teacher = list(table).index("teacher_score") + 1
    table.insert(after_teacher, "retention", 100 * table["score"] / taught)
    return table


def _lines_of(
    record: Record, teachers: Mapping[Shared, Sequence[Record]], is_newest: bool
) -> list[dict[str, Any]]:
    """A line for each score of a record.

    Args:
        teachers: as :func:`_teachers` has them.
    """
    cell = record.cell
    lines = []
    for evaluation, scores in record.scores.items():
        taught = _teacher_scores(record, evaluation, teachers)
        for place, (metric, score) in enumerate(scores.items()):
            teacher_score = 100 * taught[metric] if metric in taught else None
            line = {
                "data": cell.data.slug,
                "task": "+".join(cell.tasks),
                "set": evaluation,
                "metric": metric,
                "headline": place == 0,
                "row": record.row,
                "method": cell.method,
                "version": cell.version,
                "point": record.point,
                "seed": cell.seed,
                "score": 100 * score,
                "teacher_score": teacher_score,
                "parameters": record.sizes.parameters if record.sizes else None,
                "flops": record.sizes.flops if record.sizes else None,
                "train_seconds": record.train.seconds_own if record.train else None,
                "train_rows": cell.data.rows["train"],
                "max_train_rows": cell.data.max_train_rows,
                "teacher": cell.teacher.name,
                "recipe": cell.recipe["name"],
                "epochs": cell.recipe["epochs"],
                "optimizer": cell.recipe.get("optimizer", ADAMW),
                "precision": cell.numeric.precision,
                "threads": cell.numeric.threads,
                "device": cell.numeric.device,
                "newest": is_newest,
                "key": record.key,
            }
            lines.append(line)
    return lines


def _shared(record: Record, evaluation: str) -> Shared:
    """What a score of a student and that of its own teacher have in common."""
    cell = record.cell
    examples = cell.data.evaluation.get(evaluation, "")
    numeric = canonical(cell.numeric.identity())
    return (cell.tasks, cell.teacher.key, examples, numeric, evaluation)


def _teachers(finished: Iterable[Record], store: Store) -> dict[Shared, list[Record]]:
    """What scores have in common -> the trainings of their teacher, the current one first."""
    teachers: dict[Shared, list[Record]] = {}
    for record in finished:
        if record.cell.method == TEACHER and not record.point:
            for training in (record, *store.attempts(record).values()):
                for evaluation in training.scores:
                    teachers.setdefault(_shared(training, evaluation), []).append(training)
    return teachers


def _teacher_scores(
    student: Record, evaluation: str, teachers: Mapping[Shared, Sequence[Record]]
) -> Mapping[str, float]:
    """Metric -> the score of the teacher that a student learned from; empty where none is known."""
    for training in teachers.get(_shared(student, evaluation), ()):
        if same_teacher(student, training):
            return training.scores[evaluation]
    return {}
