"""What besides the row, the task and the seed two records must share to be answers to one question."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from bench.record.cell import Cell
from bench.record.keys import canonical

PARTS: Mapping[str, Callable[[Cell], Any]] = {
    "data": lambda c: (c.data.train, sorted(c.data.evaluation.items()), c.data.max_train_rows),
    "teacher": lambda c: (c.teacher.base, c.teacher.origin),
    "recipe": lambda c: sorted(c.recipe.items()),
    "precision, threads or device": lambda c: c.numeric.model_dump(),
    "settings": lambda c: (c.version, sorted(c.settings.items()), c.dropped),
    "search of the settings": lambda c: c.search and c.search.model_dump(),
    "general start or other artefacts": lambda c: sorted(c.artefacts.items()),
    "tokenizer": lambda c: c.tokenizer,
    "tasks learned together": lambda c: [partner.model_dump() for partner in c.together],
    "teacher's training": lambda c: c.teacher.key,
}
"""In the order in which a reader is told: the last one differs with many of the others."""


SHARED = ("data", "teacher", "teacher's training")
"""What all rows of a column must have in common."""


def comparability_key(cell: Cell, parts: Collection[str] = tuple(PARTS)) -> str:
    """The same for cells that agree in these parts.

    With all of them, only the task's name, the seed and the row's name may differ, and what that name says: method,
    chosen epoch, outputs, kernels.
    """
    return canonical([PARTS[name](cell) for name in parts])


def differing_parts(one: Cell, other: Cell, parts: Collection[str] = tuple(PARTS)) -> str:
    """Which of these parts of the question differ, in words."""
    found = [
        name for name in PARTS if name in parts and comparability_key(one, [name]) != comparability_key(other, [name])
    ]
    return ", ".join(found[:-1] if len(found) > 1 and found[-1] == "teacher's training" else found)
