"""The records of a folder as one table for pandas: a line for each score. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import NothingMeasured
from bench.record.cell import TEACHER
from bench.record.keys import canonical
from bench.record.recipe import ADAMW
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.groups import groups
from bench.report.tables.retention import same_teacher
from bench.report.write import nothing_in

if TYPE_CHECKING:
    from pandas import DataFrame

Teachers = Mapping[tuple[Any, ...], Sequence[Record]]
"""What a student has in common with its teacher -> the trainings of that teacher, the current one first."""


def load(results: Path | str, everything: bool = False) -> DataFrame:
    """The scores of a folder of records, a line each, in the order of the records' paths.

    The columns:

    - ``data``, ``task``, ``set``, ``metric``: what was scored; ``headline`` says whether tables show this metric.
    - ``row``, ``method``, ``version``, ``point``, ``seed``: who was scored; the teacher's row is ``teacher``.
    - ``score``: percent. ``teacher_score``: of the very training of the teacher that the row learned from, percent; NaN
      without its record.
    - ``retention``: the first over the second, percent; NaN without the second, and where that is not above 0. It is a
      point estimate: reports and ``choose`` have the intervals.
    - ``parameters``; ``flops`` of one sequence, 2 x MACs; ``train_seconds`` of its own; ``train_rows``.
    - ``max_train_rows`` (<NA> for all), ``teacher``, ``recipe``, ``epochs``, ``optimizer``, ``precision``, ``threads``,
      ``device``: a table of a report has students of one of each. Only ``max_train_rows`` may be missing for small tasks,
      which the limit leaves whole.
    - ``newest``: False for a training that a newer one of the same name replaces. ``key``: of the record.

    Args:
        results: a folder of records.
        everything: also the trainings that newer ones of the same name replace.

    Raises:
        NothingMeasured: no record there has a score.
    """
    import pandas

    store = Store(Path(results))
    there = list(store.records())
    records = [record for record in there if record.status == "ok"]
    shown = {record.key for group in groups(records) for record in group.records}
    teachers = _teachers(records, store)
    lines = [line for r in records if everything or r.key in shown for line in _lines(r, r.key in shown, teachers)]
    if not lines:
        unfinished = f"no cell in {results} has finished: all failed or were interrupted; run again with --retry-failed"
        raise NothingMeasured(unfinished if there else nothing_in(Path(results)))
    # without this, a column of which every value is missing has objects
    numbers = dict.fromkeys(("max_train_rows", "parameters", "flops"), "Int64")
    numbers |= dict.fromkeys(("teacher_score", "retention", "train_seconds"), "float64")
    return pandas.DataFrame(lines).astype(numbers)


def _lines(record: Record, newest: bool, teachers: Teachers) -> list[dict[str, Any]]:
    cell, sizes, train = record.cell, record.sizes, record.train
    found = []
    for evaluation, scores in record.scores.items():
        trainings = teachers.get(_place(record, evaluation), ())
        taught: Mapping[str, float] = next((t.scores[evaluation] for t in trainings if same_teacher(record, t)), {})
        for number, (metric, score) in enumerate(scores.items()):
            of_teacher = taught.get(metric)
            found.append(
                {
                    "data": cell.data.slug,
                    "task": "+".join(cell.tasks),
                    "set": evaluation,
                    "metric": metric,
                    "headline": number == 0,
                    "row": record.row,
                    "method": cell.method,
                    "version": cell.version,
                    "point": record.point,
                    "seed": cell.seed,
                    "score": 100 * score,
                    "teacher_score": None if of_teacher is None else 100 * of_teacher,
                    "retention": 100 * score / of_teacher if of_teacher and of_teacher > 0 else None,
                    "parameters": sizes.parameters if sizes else None,
                    "flops": sizes.flops if sizes else None,
                    "train_seconds": train.seconds_own if train else None,
                    "train_rows": cell.data.rows["train"],
                    "max_train_rows": cell.data.max_train_rows,
                    "teacher": cell.teacher.name,
                    "recipe": cell.recipe["name"],
                    "epochs": cell.recipe["epochs"],
                    "optimizer": cell.recipe.get("optimizer", ADAMW),
                    "precision": cell.numeric.precision,
                    "threads": cell.numeric.threads,
                    "device": cell.numeric.device,
                    "newest": newest,
                    "key": record.key,
                }
            )
    return found


def _teachers(records: Sequence[Record], store: Store) -> Teachers:
    found: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        if record.cell.method == TEACHER:
            for training in (record, *store.attempts(record).values()):
                for evaluation in training.scores:
                    found.setdefault(_place(training, evaluation), []).append(training)
    return found


def _place(record: Record, evaluation: str) -> tuple[Any, ...]:
    """What a student's scores and those of its own teacher have in common: teacher, examples and arithmetic."""
    cell = record.cell
    examples = cell.data.evaluation.get(evaluation, "")
    return cell.tasks, cell.teacher.key, examples, canonical(cell.numeric.identity()), evaluation
