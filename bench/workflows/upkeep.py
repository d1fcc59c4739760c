"""Upkeep of a folder of records and of the cache: what they hold, what is broken, and what nothing needs any more. No torch.

``store verify`` reads everything. ``store repair`` writes the pointers that are missing and puts broken files out of the
way: each is renamed to ``NAME.broken`` in its folder. ``store gc`` names what nothing needs. Nothing is removed unless a
person asks for it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.cache import MADE, WEIGHTS, damage_reason
from bench.errors import InputError
from bench.files import TEMPORARY
from bench.folders import NOT_FINISHED, STATES
from bench.measure.busy_mark import refuse_while_training, trainings
from bench.record.cell_locks import FOLDER as CLAIMS
from bench.record.set_aside import ADOPTED, CHANGED, SET_ASIDE, WITHOUT_ANSWERS, Note
from bench.record.speed_sessions import speed_records
from bench.record.store import Store

BROKEN, UNPOINTED, NO_ANSWERS = "broken", "no pointer", "no answers"
LEFTOVER, UNFINISHED, RENAMED, UNNAMED = "leftover", "unfinished", "put aside", "named by no record"
RESULTS, CACHE = "results", "cache"
BROKEN_SUFFIX = ".broken"
WAIT = "wait for them to end"
HELD = {
    "records, ok": ("valid record", "valid records"),
    "records, failed": ("record of a failed cell", "records of failed cells"),
    "records, interrupted": ("record of an interrupted cell", "records of interrupted cells"),
    "sessions of timing": ("speed session", "speed sessions"),
    "cache, states of trainings under way": ("saved state of a training", "saved states of trainings"),
}
"""What a survey counts -> its name for one and for several. Other entries of the cache are called by their folders."""
YOUNG_SECONDS = 600.0
"""What changed so recently may be in use."""


@dataclass(frozen=True)
class Found:
    """One file or folder that is not as it should be, or that nothing needs."""

    place: str
    """:data:`RESULTS` or :data:`CACHE`"""
    kind: str
    path: Path
    why: str
    size: int = 0
    """bytes"""

    def sentence(self) -> str:
        """One line."""
        return Note(self.kind, self.path, self.why).sentence()

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {"place": self.place, "kind": self.kind, "path": str(self.path), "why": self.why, "bytes": self.size}


@dataclass
class Survey:
    """What a folder of records and the cache hold."""

    holds: dict[str, int] = field(default_factory=dict)
    """what -> how many"""
    sizes: dict[str, int] = field(default_factory=dict)
    """what -> bytes"""
    found: list[Found] = field(default_factory=list)

    def add(self, what: str, size: int) -> None:
        """Count one thing."""
        self.holds[what] = self.holds.get(what, 0) + 1
        self.sizes[what] = self.sizes.get(what, 0) + size

    def describe(self) -> str:
        """``314 valid records (12.3 MB), 1 speed session``"""
        return ", ".join(
            f"{count:,} {one if count == 1 else several}"
            + (f" ({megabytes(size)})" if (size := self.sizes[what]) else "")
            for what, count in self.holds.items()
            for one, several in [HELD.get(what, (what, what))]
        )


def megabytes(size: int) -> str:
    """``12.3 MB``"""
    return f"{size / 1e6:,.1f} MB"


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    files = (
        [path]
        if path.is_symlink() or not path.is_dir()
        else [Path(at, name) for at, _, names in os.walk(path) for name in names]
    )
    return sum(file.lstat().st_size for file in files if os.path.lexists(file))


def survey_store(results: Path, cache: Path) -> Survey:
    """Read every attempt, its answers and every entry of the cache.

    Raises:
        InputError: there is no folder of results.
    """
    if not results.is_dir():
        raise InputError(f"--results {results}: there is no such folder; name the folder of records")
    survey = Survey()
    _records(results, survey)
    _cached(cache, survey)
    return survey


def _records(results: Path, survey: Survey) -> None:
    store = Store(results)
    for folder in store.cells():
        current_file = store.current_attempt(folder)
        for file in store.attempts_in(folder):
            record = store.opened(file)
            if record is None:
                continue
            answers = file.with_suffix(".npz")
            survey.add(f"records, {record.status}", size_of(file) + size_of(answers))
            if record.status == "ok" and record.answers is None and not answers.is_file() and file == current_file:
                why = "its answers are not stored: tests leave it out; `run --rerun` makes them"
                survey.found.append(Found(RESULTS, NO_ANSWERS, file, why))
    for _ in speed_records(results, store.note):
        survey.add("sessions of timing", 0)
    kinds = {SET_ASIDE: BROKEN, CHANGED: BROKEN, ADOPTED: UNPOINTED, WITHOUT_ANSWERS: NO_ANSWERS}
    survey.found += [Found(RESULTS, kinds[one.kind], one.path, one.why, size_of(one.path)) for one in store.notes]


def _cached(cache: Path, survey: Survey) -> None:
    for folder in _things(cache):
        wrong = damage_reason(folder) or (
            "" if os.path.lexists(folder / MADE) else f"it has no {MADE} that can be read"
        )
        survey.add(f"cache, {folder.parent.name}", size_of(folder))
        if wrong:
            why = f"{wrong}; `bench store repair` puts it aside, and the next run makes it again"
            survey.found.append(Found(CACHE, BROKEN, folder, why, size_of(folder)))
    for file in _files(cache / STATES):
        if file.suffix == ".safetensors":
            survey.add("cache, states of trainings under way", size_of(file))
            if wrong := _wrong_in_safetensors(file):
                why = f"{wrong}; `bench store repair` puts it aside, and the training begins anew"
                survey.found.append(Found(CACHE, BROKEN, file, why, size_of(file)))


def _things(cache: Path) -> Iterator[Path]:
    """The folders of finished entries, ``<kind>/<key>``; also empty ones, which are reported as broken."""
    for kind in _files(cache):
        if not kind.is_dir() or kind.name in NOT_FINISHED or kind.name.startswith(TEMPORARY):
            continue
        for folder in _files(kind):
            named = not folder.name.startswith(TEMPORARY) and folder.suffix != BROKEN_SUFFIX
            names = {path.name for path in _files(folder)}
            if folder.is_dir() and named and (names & {MADE, WEIGHTS} or not names):
                yield folder


def _files(folder: Path) -> list[Path]:
    """What lies in a folder; nothing where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _wrong_in_safetensors(file: Path) -> str:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np"):
            return ""
    except (OSError, SafetensorError) as error:
        return f"it cannot be opened ({str(error).partition(chr(10))[0]})"


def repair(results: Path, cache: Path, say: Callable[[str], None]) -> Survey:
    """Write the pointers that are missing, and put what is broken aside; returns what is left.

    Raises:
        InputError: there is no folder of results, or something trains.
    """
    survey = survey_store(results, cache)
    refuse_while_training(cache, WAIT)  # what they write looks like a leftover
    while broken := [one for one in survey.found if one.kind == BROKEN and os.path.lexists(one.path)]:
        for one in broken:
            say(f"put aside: {_put_aside(one.path)}")
        survey = survey_store(results, cache)  # a pointer to what was put aside is broken now
    for pointer, attempt in Store(results).write_pointers():
        say(f"written: {pointer} names {attempt}")
    return survey_store(results, cache)


def _put_aside(path: Path) -> Path:
    """Give a broken file, and the answers of a broken record, another name; returns the new one."""
    if path.name.startswith("attempt-") and path.with_suffix(".npz").is_file():
        _renamed(path.with_suffix(".npz"))
    return _renamed(path)


def _renamed(path: Path) -> Path:
    number, target = 1, path.with_name(f"{path.name}{BROKEN_SUFFIX}")
    while os.path.lexists(target):
        number, target = number + 1, path.with_name(f"{path.name}.{number}{BROKEN_SUFFIX}")
    return path.rename(target)


def unneeded(results: Path, cache: Path) -> list[Found]:
    """What killed processes left, unfinished attempts, what was put aside, and what of the cache no record here names.

    Raises:
        InputError: there is no folder of results.
    """
    if not results.is_dir():
        raise InputError(f"--results {results}: there is no such folder; name the folder of records")
    busy = bool(trainings(cache))
    found = [*_left_in(results, RESULTS), *_unfinished(results)]
    if not busy:  # an entry that is being made is a temporary folder, for hours
        found += _left_in(cache, CACHE)
    return [replace(one, size=size_of(one.path)) for one in [*found, *_unnamed(results, cache)]]


def _left_in(root: Path, place: str) -> list[Found]:
    found = []
    for path in _walk(root):
        if path.name.startswith(TEMPORARY) and _age(path) > YOUNG_SECONDS:
            found.append(Found(place, LEFTOVER, path, "a process that was killed left it"))
        elif path.name.endswith(BROKEN_SUFFIX):
            found.append(Found(place, RENAMED, path, "`bench store repair` put it aside"))
    return found


def _walk(root: Path) -> Iterator[Path]:
    """Everything below a folder; not into what is listed as a whole, nor through links."""
    for path in _files(root):
        yield path
        listed = path.name.startswith(TEMPORARY) or path.name.endswith(BROKEN_SUFFIX) or path.name == CLAIMS
        if path.is_dir() and not path.is_symlink() and not listed:
            yield from _walk(path)


def _age(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0


def _unfinished(results: Path) -> list[Found]:
    """Attempts without an answer that do not count, and answers without a record."""
    store, found = Store(results), []
    for folder in store.cells():
        current_file = store.current_attempt(folder)
        current_record = None if current_file is None else store.opened(current_file)
        is_finished = current_record is not None and current_record.status == "ok"
        files = store.attempts_in(folder)
        for file in files:
            record = store.opened(file)
            if current_file and is_finished and record is not None and record.status != "ok":
                found.append(Found(RESULTS, UNFINISHED, file, f"{record.status}; {current_file.name} is finished"))
        for answers in sorted(folder.glob("attempt-*.npz")):
            if answers.with_suffix(".json") not in files and _age(answers) > YOUNG_SECONDS:
                found.append(Found(RESULTS, UNFINISHED, answers, "its record was never written"))
    return found


def _unnamed(results: Path, cache: Path) -> list[Found]:
    """Finished entries of the cache whose key no record of this folder has."""
    named: set[str] = set()
    for record in Store(results).records():
        cell = record.cell
        keys = [cell.teacher.key, cell.data.train, *cell.artefacts.values()]
        keys += [one.teacher for one in cell.together] + [str(one.get("key")) for one in record.artefacts.values()]
        named |= set(keys)
    why = (
        "no record of these results names it; an artefact that a record names may have been made from it, and another "
        "folder of results may need it"
    )
    unnamed = (folder for folder in _things(cache) if not any(key.startswith(folder.name) for key in named))
    return [Found(CACHE, UNNAMED, folder, why) for folder in unnamed]


def remove(found: Iterable[Found], cache: Path) -> int:
    """Remove these entries; returns the bytes that it freed.

    Raises:
        InputError: something trains, or cannot be removed.
    """
    found = list(found)
    refuse_while_training(cache, WAIT)  # what they write looks like a leftover
    for one in found:
        try:
            if one.path.is_dir() and not one.path.is_symlink():
                shutil.rmtree(one.path)
            else:
                one.path.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InputError(f"{one.path} cannot be removed: {error.strerror}") from None
    return sum(one.size for one in found)


def counts_by_kind(found: Iterable[Found]) -> str:
    """``3 broken, 1 leftover``"""
    kinds = Counter(one.kind for one in found)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())
