"""Tasks as they are typed: by name, as a TOML file, or by their data alone.

By data: ``reviews.csv:text=title+body:label=stars``, a folder, or ``hub:OWNER/NAME/CONFIG`` with
the same. What is not said is read off the data, and refused where that would be a guess: the label
column is ``label``, the text is what else is text (:mod:`bench.data.columns`), and the values of
the labels say whether they are classes (:mod:`bench.data.label_kinds`). What lies beside ``train``
and is called ``validation``, ``dev`` or ``test`` is scored. Where there is none, one fifth of the
rows is scored (:mod:`bench.data.automatic_split`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.data.example_files import (
    READERS,
    SPLIT_OF_WORD,
    TRAIN,
    Found,
    Group,
    data_set_of,
    found_beside,
    has_known_ending,
    is_pattern,
    named,
    shared_files,
    validation_of,
    without_shard,
    words_of,
)
from bench.data.hub import DATA_SET, converted
from bench.data.tasks import (
    BALANCED,
    EQUAL,
    GLUE,
    KNOWN,
    NO_CLASSES_TO_WEIGH,
    WEIGHTS,
    EvaluationSet,
    Task,
    check_metrics,
    free_name,
    from_toml,
    is_name,
)
from bench.errors import InputError, unknown
from bench.record.known_tasks import GROUPS

if TYPE_CHECKING:
    from bench.data.table import Tables

SETTINGS = (
    "text",
    "label",
    "kind",
    "validation",
    "metrics",
    "positive",
    "unlabelled",
    "name",
    "quotes",
    "group",
    "weights",
)
SETTING = r":(?=[A-Za-z_]+=)"
"""The sign before each setting."""
HUB = "hub:"


def typed_tasks(names: str) -> list[str]:
    """The tasks of a list with commas between. One in a path that is there separates nothing."""
    pieces = names.split(",")
    tasks: list[str] = []
    while pieces:
        count = 1
        if not _names_something(pieces[0].strip()):
            # the first pieces that together are the path of a file
            longer = range(2, len(pieces) + 1)
            paths = (n for n in longer if os.path.exists(place_of(",".join(pieces[:n]).strip())))
            count = next(paths, 1)
        tasks.append(",".join(pieces[:count]).strip())
        pieces = pieces[count:]
    return [task for task in tasks if task]


def _names_something(typed: str) -> bool:
    """Whether a task is there by its name alone."""
    place = place_of(typed)
    if typed in KNOWN or typed in GROUPS or place.startswith(HUB):
        return True
    return os.path.exists(place) or is_pattern(place)


def place_of(typed: str) -> str:
    """The part of a typed task before its settings: a name of the hub, or a path."""
    if typed.startswith(HUB):
        return HUB + typed.removeprefix(HUB).partition(":")[0]
    parts = typed.split(":")
    # the longest path that is there
    for count in range(len(parts), 0, -1):
        path = ":".join(parts[:count])
        if os.path.exists(path):
            return path
    # else all before the first setting: also of a pattern, and of C:\\reviews.csv
    return re.split(SETTING, typed)[0]


def is_own(typed: str) -> bool:
    """Whether a task is a user's own: a TOML file, files of examples, a folder, or of the hub."""
    if typed in KNOWN or typed in GROUPS:
        return False
    place = place_of(typed)
    if place.startswith(HUB) or is_pattern(place) or os.path.isdir(place):
        return True
    return any(has_known_ending(part) or _is_toml(part) for part in place.split(":"))


def _is_toml(place: str) -> bool:
    return Path(place).suffix.lower() == ".toml"


def settings_of(typed: str) -> tuple[str, dict[str, str]]:
    """The settings of a typed task, by name, behind the part before them.

    Raises:
        InputError: a setting that is not there, has no value, or stands there twice.
    """
    place = place_of(typed)
    rest = typed[len(place) + 1 :]
    given: dict[str, str] = {}
    parts = re.split(SETTING, rest) if rest else []
    for part in parts:
        key, equals, value = part.partition("=")
        if key not in SETTINGS:
            raise unknown(f"setting of {typed}", key, SETTINGS)
        if not equals or not value or key in given:
            raise InputError(f"--tasks {typed}: write {key} once, as {key}=VALUE")
        given[key] = value
    return place, given


def expand(names: str, offline: bool = False) -> list[tuple[Task, bool]]:
    """``"glue,mine.toml,reviews.csv:label=stars"`` -> tasks in order, each with whether it was
    asked for by its own name.

    Raises:
        InputError: unknown name, two task files of one name, a TOML file that is not a task.
    """
    chosen: dict[str, tuple[Task, bool]] = {}
    for name in typed_tasks(names):
        if name in GROUPS:
            for member in GROUPS[name]:
                chosen.setdefault(member, (GLUE[member], False))
        elif name in KNOWN:
            chosen[name] = (KNOWN[name], True)
        elif is_own(name):
            task = _own_task(name, offline)
            if task.name in chosen:
                raise InputError(f"two tasks are called {task.name!r}; rename the one in {name}")
            chosen[task.name] = (task, True)
        else:
            raise _no_task(name)
    if not chosen:
        raise InputError("no task was named; try --tasks glue")
    return list(chosen.values())


def names_of_typed(typed: Sequence[str]) -> list[str]:
    """The names that records have of tasks as they are typed: files, folders and data sets by name.

    What could be a name itself stays: the folder of a task ``reviews`` is typed ``./reviews``.

    Raises:
        InputError: files that are no task.
    """
    names: list[str] = []
    for task in typed:
        if is_name(task) or not is_own(task):
            names.append(task)
        else:
            names += [member.name for member, _ in expand(task)]
    return names


def _own_task(name: str, offline: bool) -> Task:
    place = place_of(name)
    if not _is_toml(place):
        return task_of_data(name, offline)
    if place != name:
        raise InputError(f"--tasks {name}: a TOML file takes no settings; write them into {place}")
    return from_toml(Path(place))


def _no_task(name: str) -> InputError:
    """The error for what is neither a task nor a file that can be read."""
    place = place_of(name)
    if os.path.isfile(place):
        known = ", ".join(READERS)
        return InputError(f"--tasks {name}: {place} has no ending that can be read; known: {known}")
    if os.path.basename(place) != place:
        return InputError(f"--tasks {name}: there is no file {place}")
    return unknown("task", name, [*KNOWN, *GROUPS, "FILE.csv", "FOLDER", "FILE.toml", "hub:NAME"])


def task_of_data(typed: str, offline: bool = False) -> Task:
    """The task of files, or of a data set of the hub, with the settings that are typed behind it.

    These are ``:text=COLUMN``, ``:text=COLUMN+COLUMN``, ``:label=COLUMN``, ``:kind=classes`` or
    ``regression``, ``:validation=FILE`` (of the hub: a split), ``:metrics=NAME+NAME``,
    ``:positive=CLASS``, ``:unlabelled=drop`` or ``keep``, ``:name=NAME``, ``:quotes=csv`` or
    ``text``, ``:group=COLUMN``, and ``:weights=balanced``.

    Raises:
        InputError: no such file or data set, a setting that is not there, columns that are missing
            or not plain, labels that may be of either kind, too many classes.
    """
    place, given = settings_of(typed)
    files, files_note = _files_of_task(typed, place, given, offline)
    return _task_of_files(typed, tuple(files), files_note, _states(file for _, file in files))


def _states(files: Iterable[str]) -> tuple[tuple[str, int, int], ...]:
    """A mark by which files are known to be the same as before: a session in Python lives long."""
    states = [(os.path.realpath(file), os.stat(file)) for file in files]
    return tuple((path, state.st_mtime_ns, state.st_size) for path, state in states)


@lru_cache  # a plan asks for the same one several times
def _task_of_files(
    typed: str, files: tuple[tuple[str, str], ...], files_note: str, states: object
) -> Task:
    # pandas and numpy, which --help does without
    from bench.data.inferred import inferred

    place, given = settings_of(typed)
    on_hub = place.startswith(HUB)
    quotes = given.get("quotes", "")
    if quotes not in ("", "csv", "text"):
        raise InputError(
            f"--tasks {typed}: write quotes=csv where quotes enclose fields, or quotes=text where "
            "they are part of the texts"
        )
    rows = _training_rows(files, given)
    where = f"--tasks {typed}"
    if len(rows.parts) > 1:
        where += f", counted over its {len(rows.parts)} files"
    taken = inferred(rows, given, where)
    try:
        name = free_name(given.get("name") or _name(place))
    except ValueError as error:
        raise InputError(f"--tasks {typed}: {error}, with :name=NAME") from None
    shown = place if on_hub else _without_folders(place)
    task = Task(
        name,
        taken.columns,
        taken.labels,
        taken.metrics,
        (EvaluationSet("validation", name, "validation"),),
        taken.label_column,
        files,
        ":".join([shown, *(f"{key}={value}" for key, value in given.items())]),
        unlabelled=taken.unlabelled,
        why_macro_f1=taken.why_macro_f1,
        quotes=quotes,
        weights=_weights(given.get("weights", EQUAL), taken.labels, typed),
        group=given.get("group", ""),
        files_note=files_note,
    )
    check_metrics(task, f"--tasks {typed}")
    return task


def _weights(asked: str, labels: Sequence[str], typed: str) -> str:
    """Raises InputError: weights of another kind, or of a task without classes."""
    if asked not in WEIGHTS:
        raise unknown(f"weights of --tasks {typed}", asked, WEIGHTS)
    if asked == BALANCED and not labels:
        raise InputError(f"--tasks {typed}: {NO_CLASSES_TO_WEIGH}")
    return asked


def _training_rows(files: Sequence[tuple[str, str]], given: Mapping[str, str]) -> Tables:
    """The rows of all training files: one shard need not have all classes."""
    from bench.data.table import Tables, table_of

    text = given["text"].split("+") if "text" in given else []
    columns = [given.get("label", "label")] if text else None
    if columns is not None and "group" in given:
        columns.append(given["group"])
    quotes = given.get("quotes", "")
    training = [Path(file) for split, file in files if split == TRAIN]
    return Tables(tuple(table_of(file, text, columns, quotes) for file in training))


def _files_of_task(
    typed: str, place: str, given: dict[str, str], offline: bool
) -> tuple[list[tuple[str, str]], str]:
    """The splits ``train`` and ``validation`` with their files, and what was inferred about these.

    Where nothing else is there to be scored, both have the same files, of which a fifth is scored.
    """
    said = f"--tasks {typed}"
    if place.startswith(HUB):
        found = _of_hub(place.removeprefix(HUB), given.get("validation"), offline)
    else:
        found = data_set_of(place, said, chosen="validation" in given)
    scored = found.validation
    notes = list[str]()
    unread = list(found.others)
    if "validation" in given and not place.startswith(HUB):
        scored = validation_of(given["validation"], place, said)
        unread = []
    elif found.test and _has_labels(
        found.test, given.get("label", "label"), _states(map(str, found.test))
    ):
        scored = found.test
    elif found.test:
        unread += [named(found.test)]
    if scored and "validation" not in given:
        notes.append(":validation=NAME names another")
    if unread:
        notes.append(f"not read, though it lies there: {', '.join(unread[:8])}")
    if scored and shared_files(scored, found.train):
        raise InputError(
            f"{said}: validation names what is trained on; name another, or leave it out to score "
            "a fifth of the rows"
        )
    _refuse_group(given, scored, said)
    files = [("train", str(file)) for file in found.train]
    files += [("validation", str(file)) for file in scored or found.train]
    return files, "; ".join(notes)


def _refuse_group(given: Mapping[str, str], scored: Sequence[Path], said: str) -> None:
    """Raises InputError: a group is named although no fifth is drawn."""
    if scored and "group" in given:
        raise InputError(
            f"{said}: group keeps rows together where a fifth is drawn, and {named(scored)} is "
            "scored; leave group out"
        )


@lru_cache
def _has_labels(files: tuple[Path, ...], label: str, states: object) -> bool:
    """Whether a test set can be scored: its labels are often left out, or all -1."""
    from bench.data.labels import unlabelled_rows
    from bench.data.table import table_of

    for file in files:
        table = table_of(file, (), [label])
        if not table.has(label):
            return False
        values = table[label]
        if len(unlabelled_rows(values, (), False)) == len(values):
            return False
    return True


def files_line(task: Task, rows: Mapping[str, int]) -> str:
    """One line: which files are trained on and which are scored, with the rows of each.

    Args:
        rows: of ``train`` and of each evaluation set.
    """
    train = [Path(file) for split, file in task.files if split == TRAIN]
    scored = [Path(file) for split, file in task.files if split != TRAIN]
    (evaluation, *_) = task.evaluation
    count = f"{rows[evaluation.name]:,} rows"
    if evaluation.split == TRAIN:
        of_them = f"{count} of the same files that are held back"
    elif train == scored:
        of_them = f"{count} of the same, a fifth that is drawn once"
    else:
        of_them = f"{count} of {named(scored)}"
    line = f"{task.name}: trained on {rows[TRAIN]:,} rows of {named(train)}; scored on {of_them}"
    return f"{line}; {task.files_note}" if task.files_note else line


@lru_cache
def _of_hub(place: str, validation: str | None, offline: bool) -> Found:
    """Splits and their parquet files, as the hub itself converts every public data set."""
    parts = DATA_SET.fullmatch(f"{HUB}{place}")
    if parts is None:
        raise InputError(
            f"--tasks hub:{place}: name a data set like hub:stanfordnlp/imdb/plain_text, "
            "that is hub:OWNER/NAME/CONFIG"
        )
    name, config, revision = parts.groups()
    config = config or "default"
    root = converted(name, config, offline, "name a file instead, like reviews.csv", revision)
    there = {folder.name: sorted(folder.glob("*.parquet")) for folder in sorted(root.glob("*"))}
    needed = ["train", *([validation] if validation else [])]
    if not set(needed) <= there.keys():
        has = ", ".join(there) or f"no configuration {config!r}"
        raise InputError(
            f"--tasks hub:{place}: it needs the splits {' and '.join(needed)}; the hub has {has}"
        )
    groups = [Group(split, tuple(files), is_folder=True) for split, files in there.items()]
    training = next(group for group in groups if group.name == "train")
    if validation:
        return Found(training.files, tuple(there[validation]))
    return found_beside(training, groups, f"--tasks hub:{place}")


def _without_folders(place: str) -> str:
    """A path as a command repeats it that is typed in the folder of the files."""
    first, *others = [place] if os.path.exists(place) else place.split("+")
    return "+".join([Path(first).name or Path(first).absolute().name, *others])


def _name(place: str) -> str:
    """The name of a task: the data set, the folder, or the file if its name says more than train.

    It has ``own-`` before it where a task of the name is there.
    """
    if place.startswith(HUB):
        name = place.removeprefix(HUB).partition("@")[0].split("/")[1]
    else:
        path = Path(os.path.abspath(place if os.path.exists(place) else place.partition("+")[0]))
        name = path.name if path.is_dir() else without_shard(path.stem)
        # names that say no more than the split, or nothing
        while path != path.parent and not _says_more(name):
            path = path.parent
            name = path.name
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "own"
    return f"own-{name}" if name in {*KNOWN, *GROUPS} else name


def _says_more(name: str) -> bool:
    """Whether a name has a word besides that of a split, ``data`` and numbers."""
    words = [word for word in words_of(name) if not word.isdigit()]
    return any(word not in SPLIT_OF_WORD and word != "data" for word in words)
