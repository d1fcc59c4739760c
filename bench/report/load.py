"""`bench.load`: the scores of a folder of records for pandas, with those of their teachers. No torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import NothingMeasured
from bench.record.cell import TEACHER
from bench.record.keys import canonical
from bench.record.recipe import ADAMW
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.frame import nothing_in, same_teacher
from bench.report.studies import groups

if TYPE_CHECKING:
    from pandas import DataFrame


def load(results: Path | str, everything: bool = False) -> DataFrame:
    """The scores of a folder of records, a line each, in the order of the records' paths; docs/reports.md has the columns.

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
    kept = [record for record in records if everything or record.key in shown]
    lines = [
        {
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
            "key": record.key,
        }
        for record in kept
        for cell in [record.cell]
        for evaluation, scores in record.scores.items()
        for place, (metric, score) in enumerate(scores.items())
    ]
    if not lines:
        unfinished = f"no cell in {results} has finished: all failed or were interrupted; run again with --retry-failed"
        raise NothingMeasured(unfinished if there else nothing_in(Path(results)))
    # without this, a column of which every value is missing has objects
    numbers = dict.fromkeys(("max_train_rows", "parameters", "flops"), "Int64") | {
        "train_seconds": "float64"
    }
    table = pandas.DataFrame(lines).astype(numbers)

    # what a student's scores and those of its own teacher have in common -> the trainings of that teacher, the current one first
    def place(record: Record, evaluation: str) -> tuple[object, ...]:
        cell = record.cell
        examples = cell.data.evaluation.get(evaluation, "")
        return (
            cell.tasks,
            cell.teacher.key,
            examples,
            canonical(cell.numeric.identity()),
            evaluation,
        )

    teachers: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        if record.cell.method == TEACHER and not record.point:
            for training in (record, *store.attempts(record).values()):
                for evaluation in training.scores:
                    teachers.setdefault(place(training, evaluation), []).append(training)

    by_key, taught = {record.key: record for record in kept}, []
    for key, evaluation, metric in table[["key", "set", "metric"]].itertuples(index=False):
        student = by_key[key]
        trainings = teachers.get(place(student, evaluation), ())
        own = next((t.scores[evaluation] for t in trainings if same_teacher(student, t)), {})
        taught.append(100 * own[metric] if metric in own else None)
    after_score = list(table).index("score") + 1
    table.insert(after_score, "teacher_score", taught)
    table["teacher_score"] = table["teacher_score"].astype("float64")
    table.insert(
        after_score + 1,
        "retention",
        100 * table["score"] / table["teacher_score"].where(lambda score: score > 0),
    )
    table.insert(list(table).index("key"), "newest", table["key"].isin(shown))
    return table
