"""The settings of a method: fields of a frozen dataclass, checked against their declared types and
limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from methods.core.errors import MethodError


@dataclass(frozen=True)
class Limit:
    """Which numbers a setting may have: declared with its type, ``steps: Annotated[int,
    NOT_NEGATIVE] = 500``."""

    allows: Callable[[Any], bool]
    words: str  # ends the message to who types another one: layers=0 should be at least 1


Count = Annotated[int, Limit(lambda value: value >= 1, "be at least 1")]  # A whole number from 1
# A number above 0, like a temperature
Positive = Annotated[float, Limit(lambda value: value > 0, "be above 0")]
Fraction = Annotated[float, Limit(lambda value: 0 <= value <= 1, "lie between 0 and 1")]
"""A number from 0 to 1, like the share of one of two losses."""
NOT_NEGATIVE = Limit(lambda value: value >= 0, "not be negative")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Checks that every field has a value of its declared type, of those offered, and within its
    limit. Raises MethodError, which says what would have been right."""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for name, value in values_of(self).items():
            hint = hints[name]
            check_setting(name, value, hint)
            limits = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
            for limit in limits:
                if isinstance(limit, Limit) and not limit.allows(value):
                    raise MethodError(f"{name}={value} should {limit.words}")


def values_of(settings: Settings) -> Mapping[str, Any]:
    """Name of each setting -> its value, in the order in which they are declared."""
    held = vars(settings)
    return {setting.name: held[setting.name] for setting in fields(settings)}


def added_setting(default: Any) -> Any:
    """A setting that joined a method after results with it were published: identity holds it only
    where it was changed, so the keys of rows that leave it alone stay what they were."""
    return field(default=default, metadata={"later": True})


def check_setting(name: str, value: object, hint: object) -> None:
    """Raises MethodError, naming what would have been right, for a value of another type than
    ``hint``."""
    kind: Any = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            offered = ", ".join(map(str, get_args(kind)))
            raise MethodError(f"{name}={value} is not offered; choose one of: {offered}")
        return
    # to Python a bool is an int
    is_bool = isinstance(value, bool) and kind is not bool
    if not isinstance(value, kind) or is_bool:
        wanted = "a float, like 1.0" if kind is float else f"of type {kind.__name__}"
        raise MethodError(f"{name}={value} should be {wanted}")
    if isinstance(value, float) and not math.isfinite(value):
        raise MethodError(f"{name}={value} is not a finite number")
