"""The cache: what is made once and kept under its key, by one process for all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from bench.record.code import Code, is_given

WEIGHTS = "model.safetensors"
MADE = "made.json"


_OWN: ContextVar[Path | None] = ContextVar("a folder in the place of the cache", default=None)


def users_cache() -> Path:
    """``BERT_BENCH_CACHE``, or the user's cache folder."""
    given = os.environ.get("BERT_BENCH_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "bert-bench"


def cache_root() -> Path:
    """Where things are looked for and kept: the user's cache, or the folder in its place inside :func:`only`."""
    return _OWN.get() or users_cache()


@contextmanager
def only(slots: Iterable[Slot], folder: Path) -> Iterator[None]:
    """Inside, the cache has these things alone: no others, and no states of trainings that broke off. What is made there is
    gone with ``folder``."""
    there = [(slot, slot.folder) for slot in slots if slot.is_made]
    token = _OWN.set(folder)
    try:
        for slot, original in there:
            slot.folder.parent.mkdir(parents=True, exist_ok=True)
            slot.folder.symlink_to(original, target_is_directory=True)
        yield
    finally:
        _OWN.reset(token)


@dataclass(frozen=True)
class Slot:
    """The place of one thing in the cache, and the code that would make it now."""

    kind: str
    """the folder of such things"""
    key: str
    code: Code
    title: str
    """for people"""

    @property
    def folder(self) -> Path:
        return cache_root() / self.kind / self.key[:24]

    @property
    def is_made(self) -> bool:
        return (self.folder / MADE).is_file()

    def made(self) -> dict[str, Any]:
        """What is known of how it was made; raises FileNotFoundError where it was not."""
        return dict(json.loads((self.folder / MADE).read_text()))

    def forget(self) -> None:
        """Remove it, so that it is made again when it is next wanted."""
        with FileLock(self.folder.with_suffix(".lock")):
            shutil.rmtree(self.folder, ignore_errors=True)


def keep(
    slot: Slot, write: Callable[[Path], dict[str, Any]], parts: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Run ``write`` in a temporary folder and move it into place; other processes wait and find it made.

    Args:
        parts: what it is made from, as :func:`keep` returned it: the code behind that counts too. Looked at after
            ``write``, which may fill it.

    Returns:
        What ``write`` says of it, with its key and the code that made it.
    """
    final = slot.folder
    final.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(final.with_suffix(".lock")):
        if not slot.is_made:
            shutil.rmtree(final, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=final.parent, prefix=".tmp-") as temporary:
                folder = Path(temporary) / "new"
                folder.mkdir()
                said = write(folder)
                used = {name: body.get("code") for name, body in (parts or {}).items() if not is_given(body)}
                made = {"key": slot.key, "code": replace(slot.code, parts=used).as_dict(), **said}
                (folder / MADE).write_text(json.dumps(made, indent=1))
                os.replace(folder, final)
        return slot.made()
