"""Hashes of canonical JSON: the identity of everything the harness makes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

SCHEMA = 1
"""Goes up when the meaning of a key or of a record's fields changes."""


def canonical(value: Any) -> str:
    """JSON with sorted keys and no blanks. Numbers that are equal are written alike (2.0 as 2).

    Raises:
        TypeError: something that JSON cannot hold.
        ValueError: NaN or an infinity.
    """
    return json.dumps(
        _plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True
    )


def _plain(value: Any) -> Any:
    if isinstance(value, str):  # by far the most
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def digest(value: Any) -> str:
    """sha256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
