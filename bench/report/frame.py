"""Records as one tidy table for pandas: a line for each score. Reports and `bench.load` read scores from it. No torch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.record.recipe import ADAMW
from bench.record.schema import Record
from bench.record.store import CELLS

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(records: Iterable[Record]) -> DataFrame:
    """A line for each score, with what was scored, the score in percent, and facts of its record; ``bench.load`` names the columns."""
    import pandas

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
        for record in records
        if record.status == "ok"
        for cell in [record.cell]
        for evaluation, scores in record.scores.items()
        for place, (metric, score) in enumerate(scores.items())
    ]
    # without this, a column of which every value is missing has objects
    numbers = dict.fromkeys(("max_train_rows", "parameters", "flops"), "Int64") | {"train_seconds": "float64"}
    scored = ["row", "task", "set", "metric", "seed", "score"]
    return pandas.DataFrame(lines).astype(numbers) if lines else pandas.DataFrame(columns=scored)


def nothing_in(root: Path) -> str:
    """What is wrong with a folder without records, and what to type."""
    if any(root.glob(CELLS)):
        return f"no record in {root} can be used; `bench store verify --results {root}` says why"
    if root.is_dir():
        return f"no records in {root}; type: python -m bench run --methods all --tasks glue"
    return f"no records in {root}: there is no such folder; name the folder of records with --results"


def teacher_weights(record: Record) -> str | None:
    """sha256 of the weights of the teacher that a record names; None where it names none."""
    teacher = record.artefacts.get("teacher") or record.artefacts.get(f"teacher.{record.cell.tasks[0]}")
    return teacher.get("weights") if teacher else None


def same_teacher(student: Record, teacher: Record) -> bool:
    """Whether both records name the same teacher: by its weights where both do, else by its key."""
    own, theirs = teacher_weights(student), teacher_weights(teacher)
    return own == theirs if own and theirs else student.cell.teacher.key == teacher.cell.teacher.key
