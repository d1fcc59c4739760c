"""Upkeep of a folder of records and of the cache: what they hold, what is broken, and what nothing
needs any more. No torch.

``store verify`` reads everything. ``store repair`` writes the pointers that are missing and puts
broken files out of the way: each is renamed to ``NAME.broken`` in its folder. ``store gc`` names
what nothing needs. Nothing is removed unless a person asks for it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.cache import MADE, WEIGHTS, damage_reason
from bench.errors import InputError, one_line
from bench.files import TEMPORARY, entries_of
from bench.folders import NOT_FINISHED, STATES
from bench.measure.busy import refuse_while_training, trainings
from bench.record.cell_locks import FOLDER as CLAIMS
from bench.record.schema import Record
from bench.record.set_aside import ADOPTED, SET_ASIDE, UNREADABLE, WITHOUT_ANSWERS
from bench.record.speed_sessions import speed_records
from bench.record.store import Store
from bench.train.sealed_files import damage_of

BROKEN = "broken"
UNPOINTED = "no pointer"
NO_ANSWERS = "no answers"
LEFTOVER = "leftover"
UNFINISHED = "unfinished"
RENAMED = "put aside"
UNNAMED = "named by no record"
KINDS = {
    SET_ASIDE: BROKEN,
    UNREADABLE: UNREADABLE,
    ADOPTED: UNPOINTED,
    WITHOUT_ANSWERS: NO_ANSWERS,
}
"""What a store notes -> what a survey calls it. A folder that is unreadable stays where it is."""
RESULTS = "results"
CACHE = "cache"
BROKEN_SUFFIX = ".broken"
WAIT = "wait for them to end"  # what a training writes looks like a leftover
YOUNG_SECONDS = 600.0
"""What changed so recently may be in use."""


@dataclass(frozen=True)
class Problem:
    """A file or folder that is not as it should be, or that nothing needs."""

    place: str
    """RESULTS or CACHE"""
    kind: str
    """BROKEN and the others"""
    path: str
    why: str
    bytes: int
    """that it has on disk"""

    def sentence(self) -> str:
        """The kind, the path and the reason on one line."""
        return one_line(f"{self.kind}: {self.path}: {self.why}")


def problem(place: str, kind: str, path: Path, why: str) -> Problem:
    """A problem with the size that its file or folder has now."""
    return Problem(place, kind, str(path), why, size_of(path))


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def total(problems: Iterable[Problem]) -> str:
    """``12.3 MB``"""
    return megabytes(sum(listed.bytes for listed in problems))


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    files = [path]
    if path.is_dir() and not path.is_symlink():
        files = [Path(at, name) for at, _, names in os.walk(path) for name in names]
    return sum(file.lstat().st_size for file in files if os.path.lexists(file))


@dataclass(frozen=True)
class Survey:
    """The content of a folder of records and of a cache, and what is wrong there."""

    holds: Mapping[str, int]
    """kind of thing -> how many there are"""
    bytes: Mapping[str, int]
    """kind of thing -> how large all of them are"""
    found: Sequence[Problem]
    """what is wrong"""


class _Counts:
    """A survey that is under way."""

    def __init__(self) -> None:
        self.holds = Counter[str]()
        self.sizes = Counter[str]()
        self.problems: list[Problem] = []

    def hold(self, what: str, *paths: Path) -> None:
        """Count one more of a kind, and its bytes."""
        self.holds[what] += 1
        self.sizes[what] += sum(map(size_of, paths))


def survey_store(results: Path, cache: Path) -> Survey:
    """Read every attempt, its answers and every entry of the cache.

    What cannot be read is among what is wrong, and the others are read.

    Raises:
        InputError: there is no folder of results.
    """
    counts = _Counts()
    _survey_records(_store(results), counts)
    _survey_cache(cache, counts)
    sizes = {what: counts.sizes[what] for what in counts.holds}
    return Survey(dict(counts.holds), sizes, counts.problems)


def _survey_records(store: Store, survey: _Counts) -> None:
    """Read every attempt, its answers and every session of timing."""
    for folder in store.cells():
        current = store.current_attempt(folder)
        for file in store.attempts_in(folder):
            record = store.opened(file)
            answers = file.with_suffix(".npz")
            if record is None:  # the store noted what is wrong
                continue
            survey.hold(f"records, {record.status}", file, answers)
            is_without = record.status == "ok" and record.answers is None
            if is_without and not answers.is_file() and file == current:
                why = "its answers are not stored: tests leave it out; `run --rerun` makes them"
                survey.problems.append(Problem(RESULTS, NO_ANSWERS, str(file), why, 0))
    sessions = len(list(speed_records(store.root, store.note)))
    if sessions:
        survey.holds["sessions of timing"] = sessions
    survey.problems += [
        problem(RESULTS, KINDS[note.kind], note.path, note.why) for note in store.notes
    ]


def _survey_cache(cache: Path, survey: _Counts) -> None:
    """Read every file of the cache, and compare it with its hash."""
    unread = set[Path]()

    def note_unread(folder: Path, error: OSError) -> None:
        unread.add(folder)
        why = f"the folder cannot be read: {error.strerror}"
        survey.problems.append(problem(CACHE, UNREADABLE, folder, why))

    for folder in _entries(cache, note_unread):
        survey.hold(f"cache, {folder.parent.name}", folder)
        if folder in unread:
            continue
        wrong = damage_reason(folder)
        if wrong or not os.path.lexists(folder / MADE):
            what = wrong or f"it has no {MADE}"
            why = f"{what}; `bench store repair` puts it aside, and the next run makes it again"
            survey.problems.append(problem(CACHE, BROKEN, folder, why))
    for file in _files(cache / STATES, note_unread):
        if file.suffix == ".safetensors":
            survey.hold("cache, states of trainings under way", file)
            wrong = _wrong_in_state(file)
            if wrong:
                why = f"{wrong}; `bench store repair` puts it aside, and the training begins anew"
                survey.problems.append(problem(CACHE, BROKEN, file, why))


def described(survey: Survey) -> str:
    """A survey in lines for a terminal."""
    held = []
    for what, count in survey.holds.items():
        held.append(f"{what}: {count:,} ({megabytes(survey.bytes[what])})")
    sentences = [listed.sentence() for listed in survey.found]
    kinds = Counter(listed.kind for listed in survey.found)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    contents = f"contents: {'; '.join(held) or 'nothing'}"
    return "\n".join([contents, *sentences, counts or "nothing is broken"])


def repair(results: Path, cache: Path, say: Callable[[str], None]) -> Survey:
    """Write the pointers that are missing, and put what is broken aside. Returns the survey of what
    is left.

    Raises:
        InputError: there is no folder of results, or something trains.
    """
    survey = survey_store(results, cache)
    refuse_while_training(cache, WAIT)
    while broken := _broken_in(survey):
        for path in broken:
            # an attempt goes with its answers
            answers = path.with_suffix(".npz")
            if path.name.startswith("attempt-") and answers.is_file():
                _put_aside(answers)
            say(f"put aside: {_put_aside(path)}")
        survey = survey_store(results, cache)  # a pointer to what was put aside is broken now
    for pointer, attempt in Store(results).write_pointers():
        say(f"written: {pointer} names {attempt}")
    return survey_store(results, cache)


def _broken_in(survey: Survey) -> list[Path]:
    """The broken files and folders of a survey that are there."""
    paths = [Path(listed.path) for listed in survey.found if listed.kind == BROKEN]
    return [path for path in paths if os.path.lexists(path)]


def unneeded(results: Path, cache: Path) -> list[Problem]:
    """What killed processes left, unfinished attempts, what was put aside, and what of the cache no
    record here names.

    Raises:
        InputError: there is no folder of results, or one in it cannot be read.
    """
    store = _store(results)
    problems = _left_in(results, RESULTS)

    # cell by cell: what its record is made from, and the attempts that came to nothing
    needed: set[str] = set()
    for folder in store.cells():
        current = store.current_attempt(folder)
        attempts = store.attempts_in(folder)
        record = None if current is None else store.opened(current)
        if current is not None and record is not None:
            needed |= _keys_needed(record)
            if record.status == "ok":
                problems += _unfinished_beside(current, attempts, store)
        for answers in sorted(folder.glob("attempt-*.npz")):
            is_old = _age(answers) > YOUNG_SECONDS
            if answers.with_suffix(".json") not in attempts and is_old:
                why = "its record was never written"
                problems.append(problem(RESULTS, UNFINISHED, answers, why))
    for note in store.notes:
        if note.kind == UNREADABLE:
            # what the cache has for its records would be listed as needed by none
            raise InputError(f"{note.sentence()}; make it readable before anything is removed")

    # the cache
    if not trainings(cache):  # an entry that is being made is a temporary folder, for hours
        problems += _left_in(cache, CACHE)
    why = (
        "no record of these results names it; an artefact that a record names may have been made "
        "from it, and another folder of results may need it"
    )
    for folder in _entries(cache):
        # a folder's name is the beginning of its key
        if not any(key.startswith(folder.name) for key in needed):
            problems.append(problem(CACHE, UNNAMED, folder, why))
    return problems


def _keys_needed(record: Record) -> set[str]:
    """Keys of what of the cache a record names."""
    cell = record.cell
    keys = {cell.teacher.key, cell.data.train, *cell.artefacts.values()}
    keys |= {task.teacher for task in cell.together}
    return keys | {str(made.get("key")) for made in record.artefacts.values()}


def _unfinished_beside(current: Path, attempts: Iterable[Path], store: Store) -> list[Problem]:
    """The attempts of a cell that came to nothing, beside its finished one."""
    problems = []
    for file in attempts:
        record = store.opened(file)
        if record is not None and record.status != "ok":
            why = f"{record.status}; {current.name} is finished"
            problems.append(problem(RESULTS, UNFINISHED, file, why))
    return problems


def remove(listed: Collection[Problem], cache: Path) -> None:
    """Remove files and folders that are listed.

    Raises:
        InputError: something trains, or cannot be removed.
    """
    refuse_while_training(cache, WAIT)
    for entry in listed:
        path = Path(entry.path)
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InputError(f"{path} cannot be removed: {error.strerror}") from None


def _store(results: Path) -> Store:
    if not results.is_dir():
        raise InputError(
            f"--results {results}: there is no such folder; name the folder of records"
        )
    return Store(results)


def _files(
    folder: Path, tell: Callable[[Path, OSError], object] = lambda folder, error: None
) -> list[Path]:
    """What lies in a folder; nothing where it cannot be read.

    Args:
        tell: told of a folder that cannot be read.
    """
    return [Path(entry.path) for entry in entries_of(folder, lambda error: tell(folder, error))]


def _entries(
    cache: Path, tell: Callable[[Path, OSError], object] = lambda folder, error: None
) -> Iterator[Path]:
    """The folders of finished entries, ``<kind>/<key>``.

    Empty ones are among them, and are reported as broken.

    Args:
        tell: told of a folder that cannot be read.
    """
    for kind in _files(cache, tell):
        is_temporary = kind.name.startswith(TEMPORARY)
        if is_temporary or kind.name in NOT_FINISHED or not os.path.isdir(kind):
            continue
        for folder in _files(kind, tell):
            names = {path.name for path in _files(folder, tell)}
            is_entry = bool(names & {MADE, WEIGHTS}) or not names
            is_named = not folder.name.startswith(TEMPORARY) and folder.suffix != BROKEN_SUFFIX
            if is_entry and is_named and os.path.isdir(folder):
                yield folder


def _wrong_in_state(file: Path) -> str:
    """Why the state of a training cannot be used; "" where it can."""
    try:
        return damage_of(file)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def _put_aside(path: Path) -> Path:
    """Rename a file or folder, and return its new name: the first that is free."""
    target = path.with_name(f"{path.name}{BROKEN_SUFFIX}")
    number = 0
    while os.path.lexists(target):
        number += 1
        target = path.with_name(f"{path.name}.{number}{BROKEN_SUFFIX}")
    return path.rename(target)


def _left_in(folder: Path, place: str) -> list[Problem]:
    """What was left anywhere below a folder; not looked for in what is listed as a whole, nor
    through links."""
    left = []
    for path in _files(folder):
        if path.name.startswith(TEMPORARY):
            if _age(path) > YOUNG_SECONDS:
                left.append(problem(place, LEFTOVER, path, "a process that was killed left it"))
        elif path.name.endswith(BROKEN_SUFFIX):
            left.append(problem(place, RENAMED, path, "`bench store repair` put it aside"))
        elif os.path.isdir(path) and not path.is_symlink() and path.name != CLAIMS:
            left += _left_in(path, place)
    return left


def _age(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0
