"""Records with fields changed: what another program, a hand or a damaged disk may leave, and JSON can hold."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import InputError
from bench.record.cell import Cell, record_key, train_key
from bench.record.schema import load
from bench.record.store import Store

ABSENT = object()
"""Instead of a value: the field is taken out."""
VALUES: tuple[Any, ...] = (
    ABSENT, None, True, 0, -1, 7, 2.5, 1e308, -1e308, 2**70, float("nan"), float("inf"), "", "7", "x",
    "a\nb", "../../up", "x" * 5000, [], [[]], [7], ["x"], {}, {"x": 7}, {"x": {}}, {"": None},
)  # fmt: skip
"""What each field is changed to."""
LONGEST_NAME = 255
"""Characters of a folder's name on most disks: no record can lie in one of a longer name."""
Place = tuple[str | int, ...]
Body = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """One field of a record, and what it becomes."""

    place: Place
    value: Any

    def __str__(self) -> str:
        value = "absent" if self.value is ABSENT else repr(self.value)[:30]
        return f"{'.'.join(map(str, self.place))} = {value}"


def places(body: Any, outer: Place = ()) -> Iterator[Place]:
    """The place of each value below a body; of a list only its first part, since the others are alike."""
    if outer:
        yield outer
    if isinstance(body, dict):
        for name, part in body.items():
            yield from places(part, (*outer, name))
    if isinstance(body, list) and body:
        yield from places(body[0], (*outer, 0))


def changes(body: Body) -> list[Change]:
    """All changes of one field of a record, and a further field in each of its objects."""
    found = [Change(place, value) for place in places(body) for value in VALUES]
    for place in places(body):
        if isinstance(value_at(body, place), dict):
            found.append(Change((*place, "further"), 7))
    return found


def value_at(body: Any, place: Place) -> Any:
    for step in place:
        body = body[step]
    return body


def changed(body: Body, change: Change) -> Body:
    """The record with that change.

    Raises:
        LookupError, TypeError: another change took the place away.
    """
    new = copy.deepcopy(body)
    *outer, name = change.place
    holder = value_at(new, tuple(outer))
    if change.value is ABSENT:
        del holder[name]
    else:
        holder[name] = change.value
    return new


def with_its_keys(body: Body) -> Body:
    """The record with the keys that follow from its cell, where it still has one."""
    try:
        cell = Cell.model_validate(body["cell"])
        keys = {"key": record_key(cell, body.get("point", "")), "train_key": train_key(cell)}
    except (ValueError, TypeError, KeyError, AttributeError):
        return body
    return {**body, **keys}


def many_changes(body: Body, value: Any, rng: random.Random) -> tuple[Body, list[Change]]:
    """The record with the same value in as many of its fields as a reader still takes, or in a third of these."""
    chosen = [Change(place, value) for place in places(body)]
    rng.shuffle(chosen)
    if rng.random() < 0.5:
        chosen = chosen[: len(chosen) // 3]
    applied: list[Change] = []
    for change in chosen:
        try:
            new = with_its_keys(changed(body, change))
            load(json.dumps(new), "it")
        except (InputError, LookupError, TypeError):
            continue
        folder = Store(Path()).folder(Cell.model_validate(new["cell"]))
        if max(map(len, folder.parts)) > LONGEST_NAME:
            continue
        body = new
        applied.append(change)
    return body, applied


def put(root: Path, body: Body, answers: Path) -> Path:
    """Write a record where a store looks for it, without the hash that would say that it was changed."""
    cell = Cell.model_validate(body["cell"])
    folder = Store(root).folder(cell, body.get("point", ""))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "attempt-1.json"
    file.write_text(json.dumps(body))
    (folder / "current").write_text(f"{file.name}\n")
    shutil.copyfile(answers, file.with_suffix(".npz"))
    return file
