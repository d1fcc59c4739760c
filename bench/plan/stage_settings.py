"""A row's own numbers for a method's stages, ``stage.number=value`` in its spelling: ``tinybert:intermediate.epochs=50``.

They go in the place of those that the method's file takes from its paper (``Stage.paper``), so they need the recipe
``paper``. They count among the row's settings: they are in its name and in the key of its records.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, get_args

from bench.errors import InputError, unknown
from bench.optimizers import OPTIMIZERS
from bench.optimizers.learning_rate import Schedule

StageOverrides = tuple[tuple[str, Any], ...]
"""``stage.number`` and its value, in alphabetical order"""
SCHEDULES: tuple[str, ...] = get_args(Schedule)


COMPARISONS = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}


@dataclass(frozen=True)
class NumberLimits:
    """Which values of a number make sense."""

    bounds: Mapping[str, float]
    """gt, ge, lt or le, as pydantic calls them -> the bound"""
    words: str
    """how to say so"""

    def allow(self, value: float) -> bool:
        """Whether a value is within all bounds."""
        return all(COMPARISONS[comparison](value, bound) for comparison, bound in self.bounds.items())


LIMITS: Mapping[str, NumberLimits] = {
    "epochs": NumberLimits({"gt": 0, "lt": 10_000}, "above 0 and below 10,000"),
    "learning_rate": NumberLimits({"gt": 0, "le": 1}, "above 0 and at most 1"),
    "warmup": NumberLimits({"ge": 0, "lt": 1}, "a share of the steps, from 0 to below 1"),
    "weight_decay": NumberLimits({"ge": 0, "lt": 1}, "from 0 to below 1"),
    "clip": NumberLimits({"gt": 0, "lt": 1_000_000}, "above 0 and below 1,000,000"),
    "eps": NumberLimits({"gt": 0, "lt": 1}, "above 0 and below 1"),
}
"""Number of a stage -> which values make sense. The fields of an experiment file have these limits too."""
CHOICES: Mapping[str, tuple[str, ...]] = {"schedule": SCHEDULES, "optimizer": tuple(OPTIMIZERS)}
NUMBER_NAMES = ("epochs", "learning_rate", "schedule", "warmup", "weight_decay", "clip", "optimizer", "eps")


def is_stage_number(name: str) -> bool:
    """Whether a part of a spelling names a number of a stage."""
    return "." in name


def read(where: str, name: str, text: str) -> Any:
    """The value of ``stage.number``.

    Raises:
        InputError: there is no such number, or the value makes no sense.
    """
    number = name.rpartition(".")[2]
    if number in CHOICES:
        if text not in CHOICES[number]:
            raise unknown(f"{number} of {where}", text, list(CHOICES[number]))
        return text
    if number not in LIMITS:
        raise unknown(f"number of a stage in {where}", number, list(NUMBER_NAMES))
    limits = LIMITS[number]
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{where}: {name}={text}: expected a number") from None
    if not limits.allow(value):
        raise InputError(f"{where}: {name}={text} should be {limits.words}")
    return value


def with_stage_settings(method: Any, numbers: StageOverrides) -> Any:
    """The same method with these numbers in its stages.

    Its ``stages`` raises MethodError for a stage that the method has not.
    """
    if not numbers:
        return method
    values = vars(method)
    own = _class(type(method), numbers)  # type: ignore[arg-type]  # a class is hashable
    return own(**{setting.name: values[setting.name] for setting in fields(method)})


@cache
def _class(of: type, numbers: StageOverrides) -> type:
    def stages(self: Any, setup: Any) -> Sequence[Any]:
        return with_numbers(of.stages(self, setup), numbers)  # type: ignore[attr-defined]

    def again(self: Any) -> Any:  # pickle finds no class that was made here
        return with_stage_settings, (of(**{one.name: vars(self)[one.name] for one in fields(self)}), numbers)

    members = {"stages": stages, "__reduce__": again, "__module__": of.__module__, "__qualname__": of.__qualname__}
    return type(of.__name__, (of,), members)


def with_numbers(stages: Sequence[Any], numbers: StageOverrides) -> tuple[Any, ...]:
    """The stages, each with its own numbers before those of its paper.

    Raises:
        MethodError: a number is of no stage.
    """
    from methods.api import MethodError

    own: dict[str, dict[str, Any]] = {}
    for name, value in numbers:
        stage, _, number = name.rpartition(".")
        own.setdefault(stage, {})[number] = value
    there = [stage.name for stage in stages]
    for stage in own:
        if stage not in there:
            raise MethodError(f"there is no stage {stage}; its stages are: {', '.join(there)}")
    return tuple(replace(stage, paper={**stage.paper, **own.get(stage.name, {})}) for stage in stages)
