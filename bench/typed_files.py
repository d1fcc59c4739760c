"""The forms of files that a person types: a wrong or unknown key is refused in one line. No torch.

They are apart from :mod:`bench.user_files` because pydantic takes a quarter of a second to load.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from bench.errors import InputError, unknown

EXTRA = "extra_forbidden"
"""The name that pydantic has for a key that a form has not."""
Form = TypeVar("Form", bound=BaseModel)


class TypedFile(BaseModel):
    """A file that somebody types, or a part of one: a key that is not known is refused.

    A field that takes a number, or its class, sets ``strict=True``, so that ``"3"`` in quotes is
    refused.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


def checked(form: type[Form], body: Any, said: str) -> Form:
    """The content of a file, if it has this form.

    Raises:
        InputError: its first fault: where it is, and the nearest name that is known.
    """
    try:
        return form.model_validate(body)
    except ValidationError as error:
        # a misspelt key is missing and unknown; its nearest name tells more
        first = min(error.errors(), key=lambda fault: fault["type"] != EXTRA)
    *outer, name = first["loc"] or ("",)
    # people count the tables of a file from 1
    where = "".join(f"{part + 1}." if isinstance(part, int) else f"{part}." for part in outer)
    if first["type"] == EXTRA:
        kind = f"key of {where[:-1]}" if where else "key"
        raise InputError(f"{said}: {unknown(kind, str(name), _keys_at(form, outer))}")
    if first["type"] == "missing":
        raise InputError(f"{said}: the key {where}{name} is missing")
    why = first["msg"].removeprefix("Value error, ")
    why = why.replace("a valid tuple", "a list in square brackets")
    raise InputError(f"{said}: {where}{name}: {why}")


def _keys_at(form: type[BaseModel], path: Iterable[int | str]) -> list[str]:
    """The keys of the part of a form at this path; numbers of a list and keys of a table lead to
    the same part."""
    for part in path:
        if part in form.model_fields:
            form = next(_forms_in(form.model_fields[str(part)].annotation), form)
    return sorted(form.model_fields)


def _forms_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _forms_in(argument)
