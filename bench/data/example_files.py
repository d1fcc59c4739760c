"""Which files a typed path means: a file, its shards, a pattern, a list, or a folder. No torch."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import InputError
from bench.user_files import json_of

READERS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json",
    ".json": "json",
    ".arrow": "arrow",
}
"""Endings of files of examples -> the form that they have."""
TRAIN = "train"
VALIDATION = "validation"
TEST = "test"
SPLIT_OF_WORD = {
    **dict.fromkeys(["train", "training", "trainset", "trn"], TRAIN),
    **dict.fromkeys(["validation", "valid", "val", "validset", "valset"], VALIDATION),
    **dict.fromkeys(["dev", "devel", "development", "devset"], VALIDATION),
    **dict.fromkeys(["test", "testing", "testset", "eval", "evaluation"], TEST),
}
"""A word in the name of a file -> the split that it holds, as ``datasets`` reads names."""
SHARD = re.compile(r"(?P<head>.+)-(?P<number>\d+)-of-(?P<shards>\d+)(?P<hash>-[0-9a-f]{8,})?")
"""The stem of one of several files of a split, like ``train-00000-of-00002``."""
DESCRIPTIONS = ("dataset_info", "dataset_infos", "dataset_dict", "state", "config")
"""Stems of JSON files that describe a data set and hold no examples."""
MOST_SHARDS = 100_000
"""So many shards are looked for."""
IN_FULL = 3
"""So many files are named one by one; of more the first and the last."""


# --- what names say


def words_of(name: str) -> list[str]:
    """The words of a file's name: ``Reviews_train2`` -> reviews, train, 2."""
    return re.findall(r"[^\W\d_]+|\d+", name.lower())


def split_of(name: str) -> str:
    """The split that a name says; "" where it says none, or several."""
    splits = {SPLIT_OF_WORD[word] for word in words_of(name) if word in SPLIT_OF_WORD}
    return splits.pop() if len(splits) == 1 else ""


def without_shard(stem: str) -> str:
    """``train-00000-of-00002`` -> ``train``"""
    shard = SHARD.fullmatch(stem)
    return shard["head"] if shard else stem


def is_pattern(place: str) -> bool:
    """Whether a path stands for all files that match it, as in a shell."""
    return any(sign in place for sign in "*?[")


def has_known_ending(place: str) -> bool:
    """Whether a path ends like a file of examples, in capitals or not."""
    return Path(place).suffix.lower() in READERS


def named(files: Sequence[Path]) -> str:
    """Files by their names: each one, or the first and the last of many."""
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        names = [f"{file.parent.name}/{file.name}" for file in files]
    if len(names) > IN_FULL:
        return f"{len(names):,} files, {names[0]} to {names[-1]}"
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def shared_files(some: Sequence[Path], others: Sequence[Path]) -> bool:
    """Whether a file is among both, by whatever path."""
    return bool({os.path.realpath(file) for file in some} & {os.path.realpath(f) for f in others})


# --- shards


def check_shards(files: Sequence[Path]) -> None:
    """Refuse files that say that they are one of several, where another of these is not among them.

    Raises:
        InputError: naming the shard that is missing, or two sets of shards of one name.
    """
    sets: dict[tuple[Path, str, str], dict[int, list[Path]]] = {}
    for file in files:
        shard = SHARD.fullmatch(file.stem)
        if shard:
            key = (file.parent, shard["head"], file.suffix)
            sets.setdefault(key, {}).setdefault(int(shard["shards"]), []).append(file)
    for by_count in sets.values():
        if len(by_count) > 1:
            one, other, *_ = by_count.values()
            raise InputError(
                f"{one[0]} and {other[0].name} are shards of two data sets of one name; "
                "take one of them out of the folder, or name the files"
            )
        ((count, shards),) = by_count.items()
        _check_set(count, shards)


def _check_set(count: int, files: Sequence[Path]) -> None:
    """Refuse shards of one split of which a number is missing, or there twice."""
    numbers: dict[int, Path] = {}
    for file in files:
        number = int(_shard(file)["number"])
        if number in numbers:
            raise InputError(
                f"{file} and {numbers[number].name} are the same shard; take one out of the folder"
            )
        numbers[number] = file
    # most count from 0; where the last number is the count, they count from 1
    first = 1 if count in numbers and 0 not in numbers else 0
    # a name may claim any number of shards
    wanted = range(first, first + min(count, MOST_SHARDS))
    missing = [number for number in wanted if number not in numbers]
    if missing:
        there = files[0]
        shard = _shard(there)
        digits = f"{missing[0]:0{len(shard['number'])}}"
        name = f"{shard['head']}-{digits}-of-{shard['shards']}{there.suffix}"
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise InputError(
            f"{there.parent / name} is missing{more}: {there.name} is one of {count:,} files; "
            "bring all of them, or rename those that you have"
        )


def _shard(file: Path) -> re.Match[str]:
    """The parts of the name of a shard."""
    match = SHARD.fullmatch(file.stem)
    assert match is not None
    return match


def _with_other_shards(file: Path) -> tuple[Path, ...]:
    """A file, and all other files of its split where its name says that there are some."""
    shard = SHARD.fullmatch(file.stem)
    if shard is None:
        return (file,)
    files = []
    for other in sorted(file.parent.iterdir()):
        its = SHARD.fullmatch(other.stem)
        if its is None or other.suffix != file.suffix:
            continue
        if (its["head"], its["shards"]) == (shard["head"], shard["shards"]):
            files.append(other)
    check_shards(files)
    return tuple(files)


# --- folders


@dataclass(frozen=True)
class Group:
    """Files of one name: a file, the shards of a split, or a folder that is called like a split."""

    name: str
    files: tuple[Path, ...]
    is_folder: bool = False

    @property
    def split(self) -> str:
        return split_of(self.name)

    @property
    def rest(self) -> set[str]:
        """The words of the name that say no split: of ``reviews_train`` reviews."""
        return {word for word in words_of(self.name) if word not in SPLIT_OF_WORD}

    @property
    def shown(self) -> str:
        return f"{self.name}/" if self.is_folder else self.files[0].name


def _examples_in(folder: Path) -> list[Path]:
    """The files of examples right in a folder; those that it lists where ``datasets`` saved it."""
    saved = folder / "state.json"
    if saved.is_file():
        state = json_of(saved, str(saved))
        listed = state.get("_data_files") if isinstance(state, dict) else None
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
            raise InputError(f"{saved} does not list the files of a data set; save it again")
        files = [folder / str(each.get("filename")) for each in listed]
        for file in files:
            if not os.path.isfile(file):
                raise InputError(f"{file} is missing, which {saved} lists; save the data set again")
        return files
    return [
        file
        for file in sorted(folder.iterdir())
        if has_known_ending(file.name)
        and not file.name.startswith(".")
        and file.stem not in DESCRIPTIONS
        and os.path.isfile(file)
    ]


def _grouped(files: Sequence[Path]) -> list[Group]:
    """Files by their names without shard numbers, and by their endings."""
    by_name: dict[tuple[str, str], list[Path]] = {}
    for file in files:
        by_name.setdefault((without_shard(file.stem), file.suffix), []).append(file)
    return [Group(name, tuple(each)) for (name, _), each in by_name.items()]


def _groups_in(folder: Path) -> list[Group]:
    """The groups in a folder: files by their names without shards, and folders called like a
    split."""
    if (folder / "state.json").is_file():
        return [Group("data", tuple(_examples_in(folder)))]
    groups = _grouped(_examples_in(folder))
    for entry in sorted(folder.iterdir()):
        # a folder of somebody else's is none of this data set
        is_open = entry.is_dir() and os.access(entry, os.R_OK | os.X_OK)
        if is_open and split_of(entry.name):
            files = _examples_in(entry)
            if files:
                groups.append(Group(entry.name, tuple(files), is_folder=True))
    return groups


def _has_train(groups: Sequence[Group]) -> bool:
    return any(group.split == TRAIN for group in groups)


def _data_set_in(folder: Path) -> tuple[Path, list[Group]]:
    """The folder of a data set's files: this one, its ``data``, or the only configuration in it."""
    groups = _groups_in(folder)
    if _has_train(groups):
        return folder, groups
    if (folder / "data").is_dir():
        in_data = _groups_in(folder / "data")
        if in_data:
            return folder / "data", in_data
    if groups:
        return folder, groups
    below = [
        (entry, _groups_in(entry))
        for entry in sorted(folder.iterdir())
        if entry.is_dir() and not entry.name.startswith(".")
    ]
    with_train = [(entry, found) for entry, found in below if _has_train(found)]
    if len(with_train) > 1:
        names = ", ".join(str(entry) for entry, _ in with_train[:8])
        raise InputError(f"{folder} has several data sets; name one of them: {names}")
    return with_train[0] if with_train else (folder, [])


# --- what is typed


@dataclass(frozen=True)
class Found:
    """The files of a data set, and what was inferred about them.

    Attributes:
        train: what is trained on.
        validation: what is scored, ``()`` where nothing there is called so.
        test: a test set that lies there, of which nobody has looked whether it has labels.
        others: names of files that lie there and are not read.
    """

    train: tuple[Path, ...]
    validation: tuple[Path, ...] = ()
    test: tuple[Path, ...] = ()
    others: tuple[str, ...] = ()


def files_of(place: str, folder: Path, said: str) -> tuple[Path, ...]:
    """The files of one split: a file with its shards, a pattern, a list or a folder.

    Args:
        folder: where relative paths begin.
        said: how messages begin: what was typed.

    Raises:
        InputError: there are no such files, or one of a split's shards is missing.
    """
    path = folder / place
    # a name that exists is taken literally, whatever signs it has
    if os.path.isfile(path):
        return _with_other_shards(path)
    if os.path.isdir(path):
        files = tuple(_examples_in(path))
        if not files:
            raise InputError(f"{said}: the folder {path} has no files of examples")
        check_shards(files)
        return files
    if is_pattern(place):
        files = _matching(place, folder)
        if not files:
            raise InputError(f"{said}: there is no file {path}, and none matches it as a pattern")
        check_shards(files)
        return files
    if "+" in place:
        return _listed(place, folder, said)
    raise InputError(f"{said}: there is no file {path}")


def _matching(pattern: str, folder: Path) -> tuple[Path, ...]:
    try:
        found = glob.glob(pattern, root_dir=folder, recursive=True)
    except (ValueError, OSError, re.error):  # signs that no name can have
        return ()
    return tuple(sorted(folder / each for each in found if os.path.isfile(folder / each)))


def _listed(place: str, folder: Path, said: str) -> tuple[Path, ...]:
    """Files with plus signs between. A name without a folder lies where the first file lies."""
    first, *others = place.split("+")
    files = [folder / first]
    for other in others:
        has_folder = os.path.dirname(other)
        files.append(folder / other if has_folder else files[0].parent / other)
    for file in files:
        if not os.path.isfile(file):
            raise InputError(f"{said}: there is no file {file}")
    if len(set(map(os.path.realpath, files))) < len(files):
        raise InputError(f"{said}: it names the same file twice")
    return tuple(files)


def data_set_of(place: str, said: str, chosen: bool) -> Found:
    """The files that a typed path means, and those of evaluation sets that lie beside them.

    Args:
        said: how messages begin: what was typed.
        chosen: whether the evaluation set was typed, so that none is looked for.

    Raises:
        InputError: no such files, a missing shard, or names that leave open which are meant.
    """
    path = Path(place)
    if os.path.isdir(path):
        folder, groups = _data_set_in(path)
        if SPLIT_OF_WORD.get(path.absolute().name.lower()) == TRAIN and not _has_train(groups):
            files = files_of(place, Path(), said)
            return Found(files) if chosen else _beside(files, said)
        training = _training_group(groups, folder, said)
        check_shards(training.files)
        return Found(training.files) if chosen else found_beside(training, groups, said)
    files = files_of(place, Path(), said)
    is_typed_pattern = is_pattern(place) and not os.path.isfile(path)
    groups = _grouped(files)
    if is_typed_pattern and len({group.split for group in groups}) > 1:
        # a pattern may take in several splits
        training = _training_group(groups, path.parent, said)
        return Found(training.files) if chosen else found_beside(training, groups, said)
    return Found(files) if chosen else _beside(files, said)


def _training_group(groups: Sequence[Group], folder: Path, said: str) -> Group:
    """The one group that is called train, or the only one that there is."""
    if not groups:
        known = ", ".join(READERS)
        raise InputError(f"{said}: {folder} has no files of examples, which end with {known}")
    shown = ", ".join(group.shown for group in groups[:8])
    training = [group for group in groups if group.split == TRAIN]
    if len(training) > 1:
        several = ", ".join(group.shown for group in training[:8])
        raise InputError(
            f"{said}: several are called train: {several}; name one, or all of them with a pattern"
        )
    if training:
        return training[0]
    if len(groups) == 1 and not groups[0].split:
        return groups[0]
    raise InputError(
        f"{said}: none of the files is called train: {shown}; name those that are meant, "
        "like FOLDER/a.csv+b.csv or 'FOLDER/part-*.csv'"
    )


def _beside(files: Sequence[Path], said: str) -> Found:
    """Files that were typed, with the evaluation sets beside them where all are called train."""
    folders = {file.parent for file in files}
    names = {without_shard(file.stem) for file in files}
    if len(folders) == 1 and all(split_of(name) == TRAIN for name in names):
        training = Group(min(names), tuple(files))
        groups = [g for g in _groups_in(files[0].parent) if not set(g.files) & set(files)]
        return found_beside(training, groups, said)
    # the folder may have the split's name: set/train/0000.parquet
    folder = files[0].parent.absolute()
    if len(folders) == 1 and SPLIT_OF_WORD.get(folder.name.lower()) == TRAIN:
        endings = {file.suffix for file in files}
        groups = [
            group
            for group in _groups_in(folder.parent)
            if group.is_folder and group.files[0].suffix in endings and group.split != TRAIN
        ]
        return found_beside(Group(folder.name, tuple(files), is_folder=True), groups, said)
    alike = _called_alike(files) if len(files) == 1 else ()
    return Found(tuple(files), others=alike)


def _called_alike(files: Sequence[Path]) -> tuple[str, ...]:
    """Names beside a file that differ from its own in a number alone: perhaps more of the data."""
    own = files[0]
    if not re.search(r"\d", own.name):
        return ()
    form = re.sub(r"\d+", "0", own.name)
    entries = sorted(own.parent.iterdir())
    return tuple(e.name for e in entries if e != own and re.sub(r"\d+", "0", e.name) == form)


def found_beside(training: Group, groups: Sequence[Group], said: str) -> Found:
    """The files of a data set whose training files are known.

    Raises:
        InputError: several evaluation sets could be meant.
    """
    others = [group for group in groups if group is not training and group.split]
    scored = _counterpart(training, others, VALIDATION) or _counterpart(training, others, TEST)
    if len(scored) > 1:
        several = ", ".join(group.shown for group in scored)
        raise InputError(
            f"{said}: several could be scored: {several}; choose one with :validation=NAME"
        )
    unread = tuple(group.shown for group in others if group not in scored)
    if not scored:
        return Found(training.files, others=unread)
    (group,) = scored
    check_shards(group.files)
    if group.split == TEST:
        return Found(training.files, test=group.files, others=unread)
    return Found(training.files, group.files, others=unread)


def _counterpart(training: Group, groups: Sequence[Group], split: str) -> list[Group]:
    """The evaluation sets of a split that are called like the training files.

    That is dev for train, and reviews_dev for reviews_train.
    """
    of_split = [group for group in groups if group.split == split]
    same = [group for group in of_split if group.rest == training.rest]
    near = [g for g in of_split if g.rest < training.rest or g.rest > training.rest]
    return same or near


def validation_of(name: str, place: str, said: str) -> tuple[Path, ...]:
    """The files of ``:validation=NAME``, seen from the training files, or else from here.

    Raises:
        InputError: there are no such files.
    """
    path = Path(place)
    if os.path.isdir(path):
        folder, groups = _data_set_in(path)
        for group in groups:
            if group.name == name:
                check_shards(group.files)
                return group.files
    else:
        folder = Path(place.partition("+")[0]).parent
    is_there = os.path.exists(folder / name)
    if not is_there and os.path.exists(name):
        folder = Path()
    return files_of(name, folder, said)
