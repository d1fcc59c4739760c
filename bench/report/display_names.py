"""The names that rows have in a paper, from a file of a person. No torch."""

from __future__ import annotations

from pathlib import Path

from bench.errors import InputError
from bench.user_files import toml_of

LONGEST = 200
"""Characters of a name."""


def names_in(path: Path) -> dict[str, str]:
    """Row -> name, from a TOML file: ``"kd:layers=3" = "KD, three layers"``.

    Raises:
        InputError: no such file, not TOML, or a name that is no short text.
    """
    said = f"--names {path}"
    body = toml_of(path, said)
    for row, name in body.items():
        if not isinstance(name, str) or not name.strip() or len(name) > LONGEST:
            raise InputError(f"{said}: {row}: give a name of 1 to {LONGEST} characters, like {row!r} = 'Name'")
        if list(body.values()).count(name) > 1 or (name in body and name != row):
            raise InputError(f"{said}: {row}: another row has {name!r} as its name or label; give each its own")
    return body
