"""Whether today's code is the code that made a record: current, stale, or unknown. No torch.

A record and each artefact that it was trained from name the code that computed them (:mod:`bench.record.code_hash`).
The file :data:`EQUIVALENT` of the folder of records has pairs of an old and a new hash. What the old code made counts
as made by the new code, and so on along the pairs. They are never followed backwards, and of several pairs with the
same old hash only the last one counts. Only a retraining that ended with the same bits adds to that file; people review
it like any other change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from bench.errors import InputError
from bench.files import write_atomically
from bench.record.code_hash import code_of, is_given, version_of
from bench.record.schema import NamedCode, Record
from bench.record.set_aside import SET_ASIDE, Note, notify

CURRENT, STALE, UNKNOWN = "current", "stale", "unknown"
EQUIVALENT = "equivalent-code.json"
"""File of a folder of records: pairs of codes that gave the same bits. Only a retraining adds to it; people review it."""
COMPUTED_BY = "computed_by"
"""Where ``Record.code`` names the code that trained and scored it; in what is cached the field is ``code``."""
WHAT_TO_DO = "`run --rerun-stale` trains again what other code made; where results should change, raise `version`"


class EquivalentCode(BaseModel):
    """Two codes that gave the same bits, and the retraining that showed it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    old: str
    """hash"""
    new: dict[str, Any]
    """kind, definitions and hash, as :meth:`bench.record.code_hash.Code.as_dict` writes them"""
    record: str
    """key of the record that was trained again"""
    weights: str
    """sha256 of the weights that both trainings gave"""
    commit: str | None
    """of the new code"""
    libraries: str
    when: str

    @field_validator("new")
    @classmethod
    def _is_code(cls, new: dict[str, Any]) -> dict[str, Any]:
        NamedCode.model_validate(new)
        return new


def read_equivalents(root: Path) -> list[EquivalentCode]:
    """What :data:`EQUIVALENT` of a folder of records says; nothing where it is not there.

    Raises:
        InputError: it is not what :func:`add_equivalents` writes.
    """
    path = root / EQUIVALENT
    try:
        return [EquivalentCode.model_validate(one) for one in json.loads(path.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, ValidationError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {str(error).partition(chr(10))[0]}") from None


def add_equivalents(root: Path, new: Sequence[EquivalentCode]) -> Path:
    """Add pairs to :data:`EQUIVALENT` of a folder of records; returns the file."""
    known = read_equivalents(root)
    known += [one for one in new if all((one.old, one.new) != (k.old, k.new) for k in known)]
    path = root / EQUIVALENT
    write_atomically(path, (json.dumps([one.model_dump() for one in known], indent=1) + "\n").encode())
    return path


@dataclass(frozen=True)
class JudgedCode:
    """One code that a record names, without its ``parts``, compared with today's."""

    state: str
    today: str
    """today's hash of the definitions that the last of ``equivalents`` names, or, without equivalents, of those that
    the record names; "" where one of them cannot be found"""
    equivalents: tuple[EquivalentCode, ...] = ()
    """those that lead from the record's hash to others, in their order"""


class Freshness:
    """Judges what one folder of records says of its code."""

    def __init__(self, root: Path, note: Callable[[Note], None] = notify) -> None:
        """
        Args:
            note: told that :data:`EQUIVALENT` cannot be read. Then no two codes are known to be equivalent.
        """
        try:
            known = read_equivalents(root)
        except InputError as error:
            why = str(error).removeprefix(f"{root / EQUIVALENT} ")
            note(Note(SET_ASIDE, root / EQUIVALENT, f"{why}; what other code made counts as stale"))
            known = []
        self._equivalents = {one.old: one for one in known}

    def state_of_code(self, said: Mapping[str, Any] | None) -> str:
        """Of one code as a record or a cache names it."""
        if not said or not said.get("hash"):
            return UNKNOWN
        parts = {self.state_of_code(part) for part in said.get("parts", {}).values()}
        return next((one for one in (STALE, UNKNOWN) if one in {*parts, self.judge(said).state}), CURRENT)

    def judge(self, said: Mapping[str, Any]) -> JudgedCode:
        """Of one code that is named, without its ``parts``; :meth:`state_of_code` looks at those too."""
        seen: set[str] = set()
        passed: list[EquivalentCode] = []
        while True:
            today = code_of(said["kind"], said["of"]).hash
            if today == said["hash"]:
                return JudgedCode(CURRENT, today, tuple(passed))
            seen.add(said["hash"])
            known = self._equivalents.get(said["hash"])
            if known is None or known.new["hash"] in seen:
                return JudgedCode(STALE if today or not _elsewhere(said["of"]) else UNKNOWN, today, tuple(passed))
            passed.append(known)
            said = known.new

    def of(self, record: Record) -> str:
        """Of a record: stale if its version, its own code or that of an artefact is; unknown if a code is not named."""
        found = {self.state_of_code(said) for said in codes_of(record).values()}
        if other_version(record):
            found.add(STALE)
        return next((one for one in (STALE, UNKNOWN) if one in found), CURRENT)

    def stale_parts(self, record: Record) -> list[str]:
        """What of a record was made by other code, in words."""
        parts = [in_words(name) for name, said in codes_of(record).items() if self.state_of_code(said) == STALE]
        return [*filter(None, [other_version(record)]), *parts]


def in_words(name: str) -> str:
    """What a record calls a code or an artefact, for people."""
    return "truncated teacher" if name == "cut_teacher" else name.replace("_", " ")


def other_version(record: Record) -> str:
    """Which version of its method trained a record, where today's is another one; "" where it is the same or not known."""
    made, today = record.cell.version, version_of(record.cell.method)
    return "" if today in (None, made) else f"version {made}, today's is {today}"


def _elsewhere(of: Iterable[str]) -> bool:
    """Whether some of the code belongs to a package that may not be installed here."""
    return any(one.split(".")[0].split(":")[0] not in ("bench", "methods") for one in of)


def codes_of(record: Record) -> dict[str, Mapping[str, Any] | None]:
    """What the record is made by: its training, and what the harness prepared for it. None where the code is not named."""
    found: dict[str, Mapping[str, Any] | None] = {"training": record.code.get(COMPUTED_BY)}
    return found | {name: made.get("code") for name, made in record.artefacts.items() if not is_given(made)}


def stale_lines(records: Iterable[Record], freshness: Freshness) -> list[str]:
    """For a reader: which finished records were made by other code than this. One line for each other version,
    and for each set of parts that other code made."""
    older: dict[str, list[Record]] = {}
    other: dict[str, list[Record]] = {}
    for record in records:
        if record.status == "ok" and freshness.of(record) == STALE:
            version, parts = other_version(record), ", ".join(freshness.stale_parts(record))
            (older if version else other).setdefault(version or parts, []).append(record)
    lines = [
        f"{_counted(those)} made by another version of the method ({version}): {_rows_and_tasks(those)}. The `run` that made "
        f"{'them' if len(those) > 1 else 'it'} trains today's version."
        for version, those in sorted(older.items())
    ]
    return lines + [
        f"{_counted(those)} made by other code than this ({parts}): {_rows_and_tasks(those)}. {WHAT_TO_DO}."
        for parts, those in sorted(other.items())
    ]


def _counted(records: Sequence[Record]) -> str:
    return f"{len(records)} record{'s were' if len(records) > 1 else ' was'}"


def _rows_and_tasks(records: Sequence[Record]) -> str:
    met: dict[str, set[str]] = {}
    for record in records:
        met.setdefault(record.row, set()).add("+".join(record.cell.tasks))
    return "; ".join(f"{row} on {', '.join(sorted(tasks))}" for row, tasks in sorted(met.items()))


def unknown_line(records: Iterable[Record], freshness: Freshness, short: bool = False) -> str:
    """One line on the finished records whose code cannot be compared with today's; "" where there are none."""
    done = [record for record in records if record.status == "ok"]
    count = sum(freshness.of(record) == UNKNOWN for record in done)
    if not count:
        return ""
    said = (
        f"{count} of {len(done)} records {'was' if count == 1 else 'were'} made by code that is not known here: no hash of "
        f"it was kept, or its package is not installed"
    )
    return said if short else f"{said}. Nobody checked that today's code gives the same results."


def code_warnings(records: Sequence[Record], freshness: Freshness) -> list[str]:
    """All that a reader of these records should know of the code that made them."""
    unknown = unknown_line(records, freshness, short=True)
    return [*stale_lines(records, freshness), *([unknown] if unknown else [])]
