"""A row's own numbers for a method's stages, ``stage.number=value`` in its spelling: ``tinybert:intermediate.epochs=50``.

They go in the place of those that the method's file takes from its paper (``Stage.paper``), so they need the recipe
``paper``. They count among the row's settings: they are in its name and in the key of its records.
"""

from __future__ import annotations

import operator
from typing import Any, get_args

from bench.errors import InputError, unknown
from bench.optimizers import OPTIMIZERS
from bench.optimizers.learning_rate import Schedule

StageOverrides = tuple[tuple[str, Any], ...]
"""``stage.number`` and its value, in alphabetical order"""
LIMITS: dict[str, tuple[dict[str, Any], str]] = {
    "epochs": ({"gt": 0, "lt": 10_000}, "above 0 and below 10,000"),
    "learning_rate": ({"gt": 0, "le": 1}, "above 0 and at most 1"),
    "warmup": ({"ge": 0, "lt": 1}, "a share of the steps, from 0 to below 1"),
    "weight_decay": ({"ge": 0, "lt": 1}, "from 0 to below 1"),
    "clip": ({"gt": 0, "lt": 1_000_000}, "above 0 and below 1,000,000"),
    "eps": ({"gt": 0, "lt": 1}, "above 0 and below 1"),
}
"""Number of a stage -> its bounds, as pydantic calls them, and how to say so."""
COMPARISONS = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
CHOICES: dict[str, tuple[str, ...]] = {"schedule": get_args(Schedule), "optimizer": tuple(OPTIMIZERS)}


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
        raise unknown(f"number of a stage in {where}", number, [*LIMITS, *CHOICES])
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{where}: {name}={text}: expected a number") from None
    bounds, words = LIMITS[number]
    if not all(COMPARISONS[comparison](value, bound) for comparison, bound in bounds.items()):
        raise InputError(f"{where}: {name}={text} should be {words}")
    return value
