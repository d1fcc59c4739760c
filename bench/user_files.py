"""Files that a person gives: read as a whole, or refused in one line that names the file, the line and what to do. No torch."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from bench.errors import InputError, unknown

EXTRA = "extra_forbidden"
"""What pydantic calls a key that a form has not."""
Form = TypeVar("Form", bound=BaseModel)


class TypedFile(BaseModel):
    """A file that somebody types, or a part of one: a key that is not known is refused.

    A field that takes a number, or its class, sets ``strict=True``, so that ``"3"`` in quotes is refused.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


def comma_separated(text: str) -> list[str]:
    """``"rte, mrpc,"`` -> ``["rte", "mrpc"]``"""
    return [part for part in map(str.strip, text.split(",")) if part]


POINTER = b"version https://git-lfs"
"""How the text begins that git-lfs leaves in the place of a file that was not fetched."""


def refuse_pointer(path: Path, begins: bytes = b"") -> None:
    """Refuse the pointer that git-lfs has left in the place of a file.

    Args:
        begins: the first bytes of the file, where somebody has read them: a pipe is read once.

    Raises:
        InputError: it is one.
    """
    if not begins:
        with path.open("rb") as file:
            begins = file.read(len(POINTER))
    if begins.startswith(POINTER):
        raise InputError(
            f"{path} is a pointer of git-lfs and not the file; type git lfs pull in its folder"
        )


def text_of(path: Path, said: str) -> str:
    """The text of a file.

    Args:
        said: what the message calls it: ``--accept notes.toml``.

    Raises:
        InputError: no such file, one that cannot be read, a pointer of git-lfs, or no UTF-8 text.
    """
    try:
        content = path.read_bytes()
        if content:
            refuse_pointer(path, content)
        # some editors of Windows begin a file with a byte order mark
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{said}: not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from None
    except OSError as error:
        raise InputError(f"{said}: {error.strerror}; name a file that can be read") from None
    except ValueError as error:  # a name that no file can have
        raise InputError(f"{said}: {error}; name a file that can be read") from None


def toml_of(path: Path, said: str) -> dict[str, Any]:
    """A TOML file.

    Raises:
        InputError: as :func:`text_of`, or not TOML, with the line.
    """
    text = text_of(path, said)
    try:
        return tomllib.loads(text.replace("\r\n", "\n").replace("\r", "\n"))
    except (ValueError, RecursionError) as error:  # also a number or a date that Python has not
        raise InputError(f"{said} is not TOML: {error}") from None


def json_of(path: Path, said: str) -> Any:
    """A JSON file.

    Raises:
        InputError: as :func:`text_of`, or not JSON, with the line.
    """
    text = text_of(path, said)
    with refused_as_json(said):
        return json.loads(text)


@contextmanager
def refused_as_json(said: str) -> Iterator[None]:
    """Inside, what is wrong with JSON is an InputError."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        raise InputError(f"{said} is not JSON: {error}") from None


def checked(form: type[Form], body: Any, said: str) -> Form:
    """What a file says, if it has this form.

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
    raise InputError(
        f"{said}: {where}{name}: {first['msg'].removeprefix('Value error, ').replace('a valid tuple', 'a list in square brackets')}"
    )


def _keys_at(form: type[BaseModel], path: Iterable[int | str]) -> list[str]:
    """The keys of the part of a form at this path; numbers of a list and keys of a table lead to the same part."""
    for part in path:
        if part in form.model_fields:
            form = next(_forms_in(form.model_fields[str(part)].annotation), form)
    return sorted(form.model_fields)


def _forms_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _forms_in(argument)
