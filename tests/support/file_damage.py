"""What can happen to the files of a record, each as a function of its folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Damage = Callable[[Path], None]


def edited(change: Callable[[dict[str, Any]], None]) -> Damage:
    """The record's fields, edited by hand."""

    def do(folder: Path) -> None:
        file = folder / "attempt-1.json"
        body = json.loads(file.read_text())
        change(body)
        file.write_text(json.dumps(body))

    return do


def written(name: str, data: bytes) -> Damage:
    """A file with other bytes."""
    return lambda folder: (folder / name).write_bytes(data) and None


def truncated(folder: Path) -> None:
    file = folder / "attempt-1.json"
    file.write_bytes(file.read_bytes()[:700])


def arrays(change: Callable[[dict[str, np.ndarray]], None]) -> Damage:
    """Other arrays, in a sound file."""

    def do(folder: Path) -> None:
        file = folder / "attempt-1.npz"
        held = dict(np.load(file))
        change(held)
        np.savez_compressed(file, **held)

    return do


def cut_archive(folder: Path) -> None:
    file = folder / "attempt-1.npz"
    file.write_bytes(file.read_bytes()[:-200])


def of_a_neighbour(folder: Path) -> None:
    """The answers of another training."""
    other = next(one for one in sorted(folder.parent.iterdir()) if one != folder)
    shutil.copy(other / "attempt-1.npz", folder / "attempt-1.npz")


def swapped(folder: Path) -> None:
    """Logits and labels of each other's form."""
    arrays(lambda held: held.update({"labels.validation": held["labels.validation"][::-1][:5]}))(folder)


def with_objects(folder: Path) -> None:
    """An array that only a pickle can hold."""
    np.savez(folder / "attempt-1.npz", allow_pickle=True, **{"logits.validation": np.array([{}], dtype=object)})


RECORD: dict[str, tuple[Damage, str]] = {
    "truncated": (truncated, "is not JSON"),
    "empty": (written("attempt-1.json", b""), "is not JSON"),
    "binary": (written("attempt-1.json", b"\xff\xfe\x00\x01" * 40), "is not text"),
    "nested": (written("attempt-1.json", b'{"a":' * 100_000), "nested too deeply"),
    "array": (written("attempt-1.json", b"[1, 2]"), "no schema_version"),
    "nan": (written("attempt-1.json", b'{"schema_version": 1, "scores": {"validation": {"accuracy": NaN}}}'), "NaN"),
    "infinity": (written("attempt-1.json", b'{"schema_version": 1, "point": 1e999}'), "1e999"),
    "digits": (written("attempt-1.json", b'{"schema_version": ' + b"9" * 5000 + b"}"), "is not JSON"),
    "null for NaN": (edited(lambda b: b["scores"]["validation"].update(accuracy=None)), "scores.validation.accuracy"),
    "foreign": (written("attempt-1.json", b'{"name": "package.json"}'), "no schema_version"),
    "newer": (edited(lambda b: b.update(schema_version=99)), "update the package"),
    "newer field": (edited(lambda b: b.update(colour="red")), "update the package"),
    "other seed": (edited(lambda b: b["cell"].update(seed=77)), "another cell"),
    "other task": (edited(lambda b: b["cell"].update(tasks=["../../x"])), "another cell"),
    "other slug": (edited(lambda b: b["cell"]["data"].update(slug="../elsewhere")), "another cell"),
    "other key": (edited(lambda b: b.update(key="f" * 64)), "another cell"),
    "no task": (edited(lambda b: b["cell"].update(tasks=[])), "tasks"),
    "no rows": (edited(lambda b: b["cell"]["data"].update(rows={})), "training rows"),
    "no scores": (edited(lambda b: b.update(scores={})), "neither scores"),
    "edited score": (edited(lambda b: b["scores"]["validation"].update(accuracy=0.99)), "does not follow"),
    "impossible score": (edited(lambda b: b["scores"]["validation"].update(accuracy=2)), "less than or equal to 1"),
    "artefact": (edited(lambda b: b.update(artefacts={"teacher": {"weights": 5}})), "artefacts.teacher"),
    "code": (edited(lambda b: b["code"].update(computed_by=[])), "computed_by"),
    "code by another name": (edited(lambda b: b["code"].update(computed_by={"digest": 5})), "computed_by.digest"),
}
ANSWERS: dict[str, tuple[Damage, str]] = {
    "empty": (written("attempt-1.npz", b""), "no arrays"),
    "garbage": (written("attempt-1.npz", b"garbage" * 99), "no arrays"),
    "half": (cut_archive, "no arrays"),
    "neighbour's": (of_a_neighbour, "does not follow"),
    "fewer labels": (swapped, "examples"),
    "objects": (with_objects, "no arrays"),
    "nan": (arrays(lambda held: held["logits.validation"].__setitem__((0, 0), np.nan)), "not all numbers"),
    "no logits": (arrays(lambda held: held.__delitem__("logits.validation")), "have no logits"),
    "turned labels": (arrays(lambda held: held.update({"labels.validation": 1 - held["labels.validation"]})), "does not follow"),
    "classes": (arrays(lambda held: held["labels.validation"].__setitem__(0, 7)), "not among its 2 classes"),
}  # fmt: skip
POINTER: dict[str, tuple[Damage, str]] = {
    "binary": (written("current", b"\xff\xfe\x00"), "is not text"),
    "empty": (written("current", b""), "does not name an attempt"),
    "elsewhere": (written("current", b"../../../../../etc/passwd"), "does not name an attempt"),
    "dangling": (written("current", b"attempt-7.json\n"), "not there"),
}
