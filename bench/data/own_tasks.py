"""Tasks as they are typed: by name, as a TOML file, or by their data alone.

By data: ``reviews.csv:text=title+body:label=stars``, or ``hub:OWNER/NAME/CONFIG`` with the same.
What is not said is read off the data, and refused where that would be a guess: the label column is
``label``, the text is what else is text (:mod:`bench.data.columns`), and the values of the labels
say whether they are classes (:mod:`bench.data.label_kinds`). A file without a ``validation`` is
split: one fifth of its rows, drawn once, is scored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path

from bench.data.hub import DATA_SET, converted
from bench.data.tasks import (
    GLUE,
    GROUPS,
    KNOWN,
    READERS,
    EvaluationSet,
    Task,
    check_metrics,
    free_name,
    from_toml,
)
from bench.errors import InputError, unknown
from bench.user_files import comma_separated

SETTINGS = (
    "text",
    "label",
    "kind",
    "validation",
    "metrics",
    "positive",
    "unlabelled",
    "name",
)


def is_own(typed: str) -> bool:
    """Whether a task is a user's own: a TOML file, a file of examples, or a data set of the hub."""
    place = typed.partition(":")[0]
    return place == "hub" or Path(place).suffix in (".toml", *READERS)


def expand(names: str, offline: bool = False) -> list[tuple[Task, bool]]:
    """``"glue,mine.toml,reviews.csv:label=stars"`` -> tasks in order, each with whether it was asked for by its own name.

    Raises:
        InputError: unknown name, two task files of one name, a TOML file that is not a task.
    """
    chosen: dict[str, tuple[Task, bool]] = {}
    for name in comma_separated(names):
        if name in GROUPS:
            for member in GROUPS[name]:
                chosen.setdefault(member, (GLUE[member], False))
        elif name in KNOWN:
            chosen[name] = (KNOWN[name], True)
        elif is_own(name):
            task = from_toml(Path(name)) if name.endswith(".toml") else task_of_data(name, offline)
            if task.name in chosen:
                raise InputError(f"two tasks are called {task.name!r}; rename the one in {name}")
            chosen[task.name] = (task, True)
        else:
            raise unknown("task", name, [*KNOWN, *GROUPS, "FILE.csv", "FILE.toml", "hub:NAME"])
    if not chosen:
        raise InputError("no task was named; try --tasks glue")
    return list(chosen.values())


def recorded_tasks(typed: Sequence[str], recorded: Collection[str], results: Path) -> list[str]:
    """How records call tasks as they are typed; of a group those that they have.

    Raises:
        InputError: neither the records of this folder nor this program has a task.
    """
    names = list[str]()
    for task in typed:
        own = [task]
        if task in GROUPS:
            own = [name for name in GROUPS[task] if name in recorded]
        elif is_own(task) and task not in recorded:
            own = [member.name for member, _ in expand(task)]
        if not own or own[0] not in {*recorded, *KNOWN}:
            raise unknown(f"task in {results}", task, sorted(recorded))
        names += own
    return names


@lru_cache
def task_of_data(typed: str, offline: bool = False) -> Task:
    """The task of a file, or of a data set of the hub, with the settings that are typed behind it.

    They are ``:text=COLUMN`` or ``:text=COLUMN+COLUMN``, ``:label=COLUMN``, ``:kind=classes`` or
    ``regression``, ``:validation=FILE`` (of the hub: a split), ``:metrics=NAME+NAME``,
    ``:positive=CLASS``, ``:unlabelled=drop`` or ``keep``, and ``:name=NAME``.

    Raises:
        InputError: no such file or data set, a setting that is not there, columns that are missing
            or not plain, labels that may be of either kind, too many classes.
    """
    # pandas and numpy, which --help does without
    from bench.data.inferred import inferred
    from bench.data.table_files import table_of

    on_hub = typed.startswith("hub:")
    place, *parts = typed.removeprefix("hub:").split(":")
    given: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if key not in SETTINGS:
            raise unknown(f"setting of {typed}", key, SETTINGS)
        if not equals or not value or key in given:
            raise InputError(f"--tasks {typed}: write {key} once, as {key}=VALUE")
        given[key] = value
    if on_hub:
        files = _of_hub(place, given.get("validation"), offline)
    else:  # a file that is both is split by whoever reads it
        scored = Path(place).parent / given["validation"] if "validation" in given else Path(place)
        for file in (Path(place), scored):
            if not os.path.isfile(file):
                raise InputError(f"--tasks {place}: there is no file {file}")
        files = [("train", str(Path(place))), ("validation", str(scored))]
    is_same = given.get("validation") == "train" if on_hub else os.path.samefile(place, scored)
    if "validation" in given and is_same:
        raise InputError(
            f"--tasks {typed}: validation names what is trained on; name another, or leave it out to score a fifth of the rows"
        )
    text = given["text"].split("+") if "text" in given else ()
    taken = inferred(table_of(Path(files[0][1]), text), given, f"--tasks {typed}")
    try:
        name = free_name(given.get("name") or _name(place, on_hub))
    except ValueError as error:
        raise InputError(f"--tasks {typed}: {error}, with :name=NAME") from None
    task = Task(
        name,
        taken.columns,
        taken.labels,
        taken.metrics,
        (EvaluationSet("validation", name, "validation"),),
        taken.label_column,
        tuple(files),
        ":".join([f"hub:{place}" if on_hub else Path(place).name, *parts]),
        unlabelled=taken.unlabelled,
        why_macro_f1=taken.why_macro_f1,
    )
    check_metrics(task, f"--tasks {typed}")
    return task


def _of_hub(place: str, validation: str | None, offline: bool) -> list[tuple[str, str]]:
    """Splits and their parquet files, as the hub itself converts every public data set."""
    parts = DATA_SET.fullmatch(f"hub:{place}")
    if parts is None:
        raise InputError(
            f"--tasks hub:{place}: name a data set like hub:stanfordnlp/imdb/plain_text, that is hub:OWNER/NAME/CONFIG"
        )
    name, config, revision = parts.groups()
    config = config or "default"
    root = converted(name, config, offline, "name a file instead, like reviews.csv", revision)
    there = {folder.name: sorted(folder.glob("*.parquet")) for folder in sorted(root.glob("*"))}
    scored = validation or next(
        (split for split in ("validation", "dev", "test", "train") if split in there), ""
    )
    if "train" not in there or scored not in there:
        has = ", ".join(there) or f"no configuration {config!r}"
        raise InputError(
            f"--tasks hub:{place}: it needs the splits train and {scored or 'validation'}; the hub has {has}"
        )
    return [
        *(("train", str(file)) for file in there["train"]),
        *(("validation", str(file)) for file in there[scored]),
    ]


def _name(place: str, on_hub: bool) -> str:
    """What the task is called: the data set or the file, whose folder if the file is called train; with ``own-`` where a task
    of the name is there."""
    path = Path(place.partition("@")[0])
    name = (
        path.parts[1]
        if on_hub
        else path.absolute().parent.name
        if path.stem == "train"
        else path.stem
    )
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "own"
    return f"own-{name}" if name in {*KNOWN, *GROUPS} else name
