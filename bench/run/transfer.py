"""Things of the cache on their way between machines that share no disk: in parts, checked where they arrive.

A thing is a folder of the cache with some files. Its place is ``kind/key``, the same on every machine.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cache import MADE, Slot, cache_root
from bench.errors import InputError
from bench.files import TEMPORARY, lock_of, sha256_of

PART_BYTES = 64 * 2**20
"""Bytes that travel in one piece: what a machine holds in memory of a file on its way."""


@dataclass(frozen=True)
class TransferredFile:
    """One file of a thing on its way."""

    name: str
    sha256: str
    parts: Sequence[Any]
    """what the cluster knows each part by, in their order"""


def place_of(slot: Slot) -> str:
    """Where a thing lies below the folder of any cache."""
    return f"{slot.kind}/{slot.key[:24]}"


def content_of(place: str) -> str | None:
    """The hash of the weights of a thing that this machine's cache has; None where it has none."""
    try:
        body = json.loads((cache_root() / place / MADE).read_text(encoding="utf-8"))
        return str(body["weights"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget(place: str) -> None:
    """Remove a thing from this machine's cache."""
    folder = cache_root() / place
    folder.parent.mkdir(parents=True, exist_ok=True)
    with lock_of(folder.with_suffix(".lock")):
        shutil.rmtree(folder, ignore_errors=True)


def pack(place: str, ship: Callable[[bytes], Any]) -> list[TransferredFile]:
    """Hand every part of a thing of this machine's cache to the cluster.

    Args:
        ship: takes the bytes of a part; returns what the cluster knows it by.

    Raises:
        OSError: it cannot be read.
    """
    folder = cache_root() / place
    files = sorted(file for file in folder.iterdir() if file.is_file())
    return [TransferredFile(file.name, sha256_of(file), [ship(part) for part in _parts(file)]) for file in files]


def _parts(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while part := stream.read(PART_BYTES):
            yield part


def unpack(place: str, files: Iterable[TransferredFile], receive: Callable[[Any], bytes]) -> None:
    """Put a thing that comes from another machine into this machine's cache, whole or not at all.

    Args:
        receive: gives the bytes of a part.

    Raises:
        InputError: it is not what was sent.
        OSError: it cannot be written.
    """
    final = cache_root() / place
    final.parent.mkdir(parents=True, exist_ok=True)
    new = tempfile.TemporaryDirectory(dir=final.parent, prefix=TEMPORARY)
    with lock_of(final.with_suffix(".lock")), new as temporary:
        folder = Path(temporary) / "new"
        folder.mkdir()
        arrived = {file.name: _write(folder, file, receive) for file in files}
        _check(place, folder, arrived)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(folder, final)


def _write(folder: Path, file: TransferredFile, receive: Callable[[Any], bytes]) -> str:
    """Write one file; returns its sha256."""
    if Path(file.name).name != file.name:
        raise InputError(f"a file that arrived is called {file.name}: that is no plain name")
    with (folder / file.name).open("wb") as stream:
        for part in file.parts:
            stream.write(receive(part))
    found = sha256_of(folder / file.name)
    if found != file.sha256:
        raise InputError(f"{file.name} of {folder.parent.parent.name} was damaged on its way: another sha256")
    return found


def _check(place: str, folder: Path, arrived: Mapping[str, str]) -> None:
    """Raises InputError where what a thing says of its own content is not true."""
    try:
        weights = json.loads((folder / MADE).read_text(encoding="utf-8"))["weights"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{place} arrived without what is known of how it was made") from None
    if weights not in arrived.values():
        raise InputError(f"{place} arrived, and none of its files has the sha256 that it names")
