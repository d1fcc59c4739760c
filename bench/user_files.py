"""Files that a person gives: read as a whole, or refused in one line that names the file, the line
and what to do. No torch."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.errors import InputError

LARGEST_TOML = 2**18
"""Bytes of a TOML file that is read; those of this program have some thousand."""
MOST_DOTS = 256
"""Dots in a line of TOML.

They may be those of a key, ``a.b.c``: the memory that Python needs for one grows with the square
of its length.
"""


def comma_separated(text: str) -> list[str]:
    """``"rte, mrpc,"`` -> ``["rte", "mrpc"]``"""
    return [part for part in map(str.strip, text.split(",")) if part]


LFS_POINTER = b"version https://git-lfs"
"""How the three lines begin that git-lfs leaves in the place of a large file."""


def refuse_lfs_pointer(path: Path, said: str) -> None:
    """Refuse what git-lfs left in the place of a file that it has not fetched.

    Args:
        said: what the message calls the file.

    Raises:
        InputError: it is such a pointer, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(len(LFS_POINTER))
    except OSError as error:
        raise InputError(f"{said}: {error.strerror}; name a file that can be read") from None
    _refuse_pointer(content, path, said)


def _refuse_pointer(content: bytes, path: Path, said: str) -> None:
    if content.startswith(LFS_POINTER):
        raise InputError(
            f"{said} is a pointer of git-lfs, not the file itself; type git lfs pull in "
            f"{path.parent}"
        )


def text_of(path: Path, said: str, limit: int | None = None) -> str:
    """The text of a file.

    Args:
        said: what the message calls it: ``--accept notes.toml``.
        limit: the largest size, in bytes.

    Raises:
        InputError: no such file, one that cannot be read or is larger, one that is no UTF-8 text,
            or a pointer of git-lfs.
    """
    try:
        with path.open("rb") as file:
            data = file.read(-1 if limit is None else limit + 1)
        _refuse_pointer(data, path, said)
        if limit is not None and len(data) > limit:
            raise InputError(f"{said}: larger than {limit / 1e6:.1f} MB; name a smaller file")
        # some editors of Windows begin a file with a byte order mark
        return data.decode("utf-8-sig")
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
        InputError: as :func:`text_of`; not TOML, with the line; or a line of more than
            :data:`MOST_DOTS` dots.
    """
    text = text_of(path, said, LARGEST_TOML).replace("\r\n", "\n").replace("\r", "\n")
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > MOST_DOTS:
            raise InputError(
                f"{said}: more than {MOST_DOTS} dots (at line {number}); write it as several lines"
            )
    try:
        return tomllib.loads(text)
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
