"""The cells of finished rows: classifiers that somebody has tuned, and predictions that somebody
has made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.data.checkpoints import Checkpoint, hash_of_tokenizer
from bench.errors import InputError
from bench.plan.plan import TaskPlan
from bench.plan.planned_tasks import mean_tokens
from bench.record.cell import CHECKPOINT, PREDICTIONS, Cell
from bench.record.keys import digest
from bench.request import Request

if TYPE_CHECKING:
    from bench.data.predictions import Predictions


def finished_cells(
    spellings: Sequence[str], task: TaskPlan, request: Request
) -> list[tuple[Cell, Checkpoint | Predictions]]:
    """The cells of finished rows on a task, each with what is scored.

    Args:
        spellings: ``checkpoint:PATH`` and ``predictions:PATH``, as they were typed.

    Raises:
        InputError: the task has texts to write, or a folder has nothing that answers it.
    """
    if spellings and task.task.writes:
        raise InputError(
            f"{spellings[0]} on {task.shown}: finished models are classifiers; this task has texts "
            "to write"
        )
    cells: list[tuple[Cell, Checkpoint | Predictions]] = []
    for spelling in spellings:
        if spelling.startswith(f"{CHECKPOINT}:"):
            cells.append(_checkpoint_cell(spelling, spellings, task, request))
        else:
            cells += _prediction_cells(spelling, spellings, task)
    return cells


def _label(spelling: str, name: str, spellings: Sequence[str]) -> str:
    """The label of a finished row: ``name``, with the folders above it where another row has it
    too."""
    kind, _, _ = spelling.partition(":")
    # others of this kind whose folders have the same name
    parts = _path_of(spelling).parts
    alike = []
    for other in spellings:
        others = _path_of(other).parts
        is_other = other.startswith(f"{kind}:") and others != parts
        if is_other and others[-1:] == parts[-1:] == (name,):
            alike.append(others)
    if not alike:
        return f"{kind}:{name}"
    # as many folders above it as tell it from them
    count = 1
    while any(others[-count:] == parts[-count:] for others in alike):
        count += 1
    return f"{kind}:{'/'.join(parts[-count:])}"


def _path_of(spelling: str) -> Path:
    """The folder of a finished row."""
    return Path(spelling.partition(":")[2]).expanduser().resolve()


def _prediction_cells(
    spelling: str, spellings: Sequence[str], task: TaskPlan
) -> list[tuple[Cell, Predictions]]:
    """The cells of somebody else's predictions, one for each seed.

    They are identified by what was predicted, and by their name.
    """
    from bench.data.predictions import read_predictions

    folder = Path(spelling.partition(":")[2]).expanduser()
    cells = []
    for answers in read_predictions(folder, task.task, task.evaluation, spelling):
        label = _label(spelling, folder.resolve().name, spellings)
        cell = task.cell(
            label=label,
            method=PREDICTIONS,
            version=1,
            # with its name: nothing is saved by finding the same answers under another one
            settings={"answers": answers.sha256, "seeded": answers.seed is not None, "name": label},
            recipe=task.recipe.as_dict(),
            seed=answers.seed or 0,
        )
        cells.append((cell, answers))
    return cells


def _checkpoint_cell(
    spelling: str, spellings: Sequence[str], task: TaskPlan, request: Request
) -> tuple[Cell, Checkpoint]:
    """The cell of a finished classifier, which is read with its own tokenizer.

    It is identified by weights and configuration.
    """
    from bench.data.checkpoints import OURS, find

    # a classifier that answers this task
    folder = spelling.partition(":")[2]
    checkpoint = find(folder, task.task, request.offline, ours=True, asked=spelling)
    if not checkpoint.finetuned:
        raise InputError(
            f"{spelling}: no classification head in it, so it has no answers to {task.shown}; "
            f"a finished checkpoint is a ...ForSequenceClassification that was tuned on the task"
        )
    # its tokenizer has to read the task's text
    mean_tokens(checkpoint, task.task, task.train, task.recipe.max_length)

    # what says who wrote the file, and where, changes no answer
    config = checkpoint.config.to_dict()
    for name in (OURS, "transformers_version", "_name_or_path"):
        config.pop(name, None)
    cell = task.cell(
        label=_label(spelling, checkpoint.name, spellings),
        method=CHECKPOINT,
        # 1 took other configurations of the same weights (speeds of an early exit) for one
        version=2,
        settings={"weights": checkpoint.sha256, "config": digest(config)},
        tokenizer=hash_of_tokenizer(checkpoint),
        recipe=task.recipe.as_dict(),
    )
    return cell, checkpoint
