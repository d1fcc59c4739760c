"""Files that a person gives: read as a whole, or refused in one line that names the file, the line and what to do. No torch."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.errors import InputError

MOST_BYTES = 16 * 2**20
"""Of a file that somebody types: tables, settings, configurations."""


def text_of(path: Path, said: str, most: int = MOST_BYTES) -> str:
    """The text of a file.

    Args:
        said: what the message calls it: ``--accept notes.toml``.

    Raises:
        InputError: no such file, one that cannot be read, one that is no UTF-8 text, or one that is far too large.
    """
    try:
        if path.is_file() and path.stat().st_size > most:
            raise InputError(f"{said}: larger than {most // 2**20} MiB; is it the right file?")
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{said}: not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8") from None
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
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{said} is not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{said} is not TOML: nested too deeply") from None
    except ValueError as error:  # a number or a date that Python has not
        raise InputError(f"{said} is not TOML: {error}") from None


def json_of(path: Path, said: str, most: int = MOST_BYTES) -> Any:
    """A JSON file.

    Raises:
        InputError: as :func:`text_of`, or not JSON, with the line.
    """
    text = text_of(path, said, most)
    with refused_as_json(said):
        return json.loads(text)


@contextmanager
def refused_as_json(said: str) -> Iterator[None]:
    """Inside, what is wrong with JSON is an InputError."""
    try:
        yield
    except json.JSONDecodeError as error:
        raise InputError(f"{said} is not JSON (line {error.lineno}: {error.msg})") from None
    except RecursionError:
        raise InputError(f"{said} is not JSON: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{said} is not JSON: {error}") from None


def table_at(body: Mapping[str, Any], name: str, said: str) -> list[Mapping[str, Any]]:
    """The ``[[name]]`` tables of a TOML file; none where it has none.

    Raises:
        InputError: something else has that name.
    """
    found = body.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InputError(f"{said}: {name} should be tables, each under its own [[{name}]]")
    return found


def is_file(path: Path) -> bool:
    """Whether there is such a file; no for a name that none can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
