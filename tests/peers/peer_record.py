"""The file of a measurement: written after each round, so that whoever stops it loses nothing and can go on."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from contestants import Contestant

from bench.files import write_atomically
from bench.measure.machine import environment, revision
from bench.run.failure_records import redact_paths

SCHEMA = 1
Record = dict[str, Any]


class OtherMeasurement(Exception):
    """The file is of another measurement: rounds of the two cannot stand in one table."""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def begun(settings: Mapping[str, Any], contestants: Mapping[str, Contestant]) -> Record:
    """A record without rounds."""
    versions = {one.package: version(one.package) for one in contestants.values() if one.package}
    return {
        "what": "peers",
        "schema": SCHEMA,
        "command": redact_paths(shlex.join(["python", *sys.argv])),
        "started": now(),
        "settings": dict(settings),
        "contestants": {
            name: {
                "title": one.title,
                "is_peer": one.is_peer,
                "same_batches": one.same_batches,
                "useful": list(one.useful),
            }
            for name, one in contestants.items()
        },
        "code": revision(),
        "env": {**environment("cpu"), **versions},
        "first_losses": {},
        "sessions": [],
    }


def opened(path: Path, fresh: Record) -> Record:
    """The record at ``path`` to go on with, or ``fresh`` where there is none.

    Raises:
        OtherMeasurement: it has other settings, contestants, code or versions.
    """
    if not path.exists():
        return fresh
    found: Record = json.loads(path.read_text())
    for part in ("settings", "contestants", "code", "env"):
        if found.get(part) != json.loads(json.dumps(fresh[part])):
            raise OtherMeasurement(f"{path} was measured with other {part}; name another file with --out")
    return found


def write(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())


def default_path(folder: Path) -> Path:
    """Named by date and commit, so that the files of a folder are a history."""
    code = revision()
    commit = (code["commit"] or "no-commit")[:9] + ("-changed" if code["dirty"] else "")
    return folder / f"{now()[:10]}-{commit}.json"


def rounds_of(record: Record) -> list[dict[str, Any]]:
    """Of all sessions, in their order."""
    return [one for session in record["sessions"] for one in session["rounds"]]
