"""A row's own numbers for a method's stages, ``stage.number=value`` in its spelling: ``name:stage.epochs=50``.

They go in the place of those that the method's file takes from its paper (``Stage.paper``), so they need the recipe
``paper``. They count among the row's settings: they are in its name and in the key of its records.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationError, create_model

from bench.errors import InputError, unknown
from bench.optimizers import OPTIMIZERS, Schedule
from bench.user_files import TypedFile

StageOverrides = tuple[tuple[str, Any], ...]
"""``stage.number`` and its value, in alphabetical order"""
LIMITS: dict[str, dict[str, Any]] = {
    "epochs": {"gt": 0, "lt": 10_000},
    "learning_rate": {"gt": 0, "le": 1},
    "warmup": {"ge": 0, "lt": 1},
    "weight_decay": {"ge": 0, "lt": 1},
    "clip": {"gt": 0, "lt": 1_000_000},
    "eps": {"gt": 0, "lt": 1},
}
"""Number of a stage -> its bounds."""
CHOICES: dict[str, Any] = {"schedule": Schedule, "optimizer": Literal[tuple(OPTIMIZERS)]}
_fields: dict[str, Any] = {
    **{name: (float | None, Field(None, strict=True, **bounds)) for name, bounds in LIMITS.items()},
    **{name: (choices | None, None) for name, choices in CHOICES.items()},
}
StageNumbers: Any = create_model("StageNumbers", __base__=TypedFile, **_fields)
"""The numbers of one stage, as a spelling and a file have them."""


def read(where: str, name: str, text: str) -> Any:
    """The value of ``stage.number``.

    Raises:
        InputError: there is no such number, or the value makes no sense.
    """
    number = name.rpartition(".")[2]
    if number not in StageNumbers.model_fields:
        raise unknown(f"number of a stage in {where}", number, list(StageNumbers.model_fields))
    try:
        return getattr(StageNumbers(**{number: float(text) if number in LIMITS else text}), number)
    except ValidationError as error:
        raise InputError(f"{where}: {name}={text}: {error.errors()[0]['msg']}") from None
    except ValueError:
        raise InputError(f"{where}: {name}={text}: expected a number") from None
