"""Where two cells differ, field by field, in exactly what their keys are the hashes of. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.record.cell import Cell, scoring_identity, training_identity
from bench.record.keys import canonical

ABSENT = "(not there)"
"""The value of a field that only the other cell has."""
WORDS: Mapping[str, str] = {
    "method": "the method",
    "version": "the method's version",
    "dropped": "the dropped terms",
    "tasks": "the task",
    "data": "the training examples",
    "max_train_rows": "the limit of training examples",
    "teacher.base": "the teacher's checkpoint",
    "teacher.key": "the fine-tuned teacher",
    "together": "the tasks of the student",
    "tokenizer": "the tokenizer",
    "seed": "the seed",
    "point": "the operating point",
    "search": "the search of its settings",
    "teacher_outputs": "how the teacher's outputs are kept",
    "kernels": "the kernels of the training",
    "selection.rule": "the rule that chooses the epoch",
}
"""Field of an identity -> what it is, for a reader."""
GROUPS: Mapping[str, str] = {
    "evaluation.": "the evaluation set {}",
    "settings.": "the setting {}",
    "artefacts.": "the artefact {}",
    "recipe.": "the recipe's {}",
    "numeric.": "the {}",
    "selection.rows.": "the examples of {} that choose the epoch",
    "together.": "of the tasks of the student: {}",
}
"""The same of fields that have names of their own."""


@dataclass(frozen=True)
class DifferingField:
    """One field of two cells' identities that has two values."""

    field: str
    """its place, like ``recipe.epochs``"""
    first: Any
    """its value in the first cell"""
    second: Any

    @property
    def what(self) -> str:
        """The field in words."""
        if self.field in WORDS:
            return WORDS[self.field]
        return next(
            (
                text.format(self.field.removeprefix(group))
                for group, text in GROUPS.items()
                if self.field.startswith(group)
            ),
            self.field,
        )


def differences(first: Cell, second: Cell, point: str = "") -> list[DifferingField]:
    """Every field in which the keys' contents differ, in the order of the keys; none exactly where the keys are the same.

    Args:
        point: the operating point of both.
    """
    return field_differences(identity(first, point), identity(second, point))


def field_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[DifferingField]:
    """The same of two identities."""
    return [
        DifferingField(name, first.get(name, ABSENT), second.get(name, ABSENT))
        for name in dict.fromkeys([*first, *second])
        if _differ(name, first, second)
    ]


def identity(cell: Cell, point: str = "") -> dict[str, Any]:
    """What a record's key is made of, as one level of fields with dotted names."""
    whole = training_identity(cell) | scoring_identity(cell, point)
    return dict(flat(whole | {"numeric": cell.numeric.model_dump()}))  # a key leaves the device out where it is the CPU


def flat(values: Mapping[str, Any], top: bool = True) -> Iterator[tuple[str, Any]]:
    """An identity as one level of fields with dotted names."""
    for name, value in values.items():
        if top and name == "together":  # below it is a setting of a method
            yield name, [partner["task"] for partner in value]
            for partner in value:
                yield from ((f"{name}.{partner['task']}.{k}", v) for k, v in partner.items() if k != "task")
        elif isinstance(value, dict) and not (top and name == "search"):  # one search is one thing
            yield from ((f"{name}.{inner}", found) for inner, found in flat(value, top=False))
        else:
            yield name, value


def _differ(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    if name not in first or name not in second:
        # of a task that only one student learns, `together` itself says enough
        return not (name.startswith("together.") and "together" in first and "together" in second)
    return canonical(first[name]) != canonical(second[name])
