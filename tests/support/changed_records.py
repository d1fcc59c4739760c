"""Records with one field changed: what another program, a hand or a damaged disk may leave, and JSON can hold."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.record.cell import Cell, record_key, train_key
from bench.record.store import KEY_DIGITS

ABSENT = object()
"""Instead of a value: the field is taken out."""
VALUES: tuple[Any, ...] = (
    ABSENT, None, True, 0, -1, 7, 2.5, 1e308, -1e308, 2**70, float("nan"), float("inf"), "", "7", "x",
    "\x1b]0;title\x07", "a\nb", "../../up", "x" * 5000, [], [[]], [7], ["x"], {}, {"x": 7}, {"x": {}}, {"": None},
)  # fmt: skip
"""What each field is changed to."""
Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Change:
    """One field of a record, and what it becomes."""

    path: Path_
    value: Any

    def __str__(self) -> str:
        value = "absent" if self.value is ABSENT else repr(self.value)[:30]
        return f"{'.'.join(map(str, self.path))} = {value}"


def fields(body: Any, path: Path_ = ()) -> Iterator[Path_]:
    """The place of each value below a body; of a list only its first part, since the others are alike."""
    if path:
        yield path
    if isinstance(body, dict):
        for name, part in body.items():
            yield from fields(part, (*path, name))
    if isinstance(body, list) and body:
        yield from fields(body[0], (*path, 0))


def changes(body: Any) -> list[Change]:
    """All changes of one field of a record, and a further field in each of its objects."""
    found = [Change(path, value) for path in fields(body) for value in VALUES]
    return [*found, *(Change((*path, "further"), 7) for path in fields(body))]


def changed(body: Any, change: Change) -> Any | None:
    """The record with that change; None where the place can have no field."""
    new = copy.deepcopy(body)
    *outer, name = change.path
    place = new
    for step in outer:
        place = place[step]
    if not isinstance(place, dict | list) or (isinstance(place, list) and isinstance(name, str)):
        return None
    if change.value is ABSENT:
        del place[name]
    else:
        place[name] = change.value
    return new


def with_its_keys(body: Any) -> Any:
    """The record with the keys that follow from its cell, where it still has one."""
    try:
        cell = Cell.model_validate(body["cell"])
        keys = {"key": record_key(cell, body["point"]), "train_key": train_key(cell)}
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError):
        return body
    return {**body, **keys}


def put(root: Path, body: Any, answers: Path | None) -> Path:
    """Write a record below a folder, where a store looks for it, without a hash that says that it was changed."""
    cell = Cell.model_validate(body["cell"])
    from bench.record.store import Store

    folder = Store(root).folder(cell, body["point"])
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "attempt-1.json"
    file.write_text(json.dumps(body))
    (folder / "current").write_text(f"{file.name}\n")
    if answers is not None:
        shutil.copyfile(answers, file.with_suffix(".npz"))
    assert folder.name == body["key"][:KEY_DIGITS]
    return file
