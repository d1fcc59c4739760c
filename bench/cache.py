"""The cache: what is made once and kept under its key, by one process for all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.files import folder_in_place_of, lock_of, sha256_of
from bench.folders import users_cache
from bench.record.code import is_given, named_code

WEIGHTS = "model.safetensors"
MADE = "made.json"


_OWN: ContextVar[Path | None] = ContextVar("a folder in the place of the cache", default=None)


def cache_root() -> Path:
    """Where things are looked for and kept: the user's cache, or the folder in its place inside
    :func:`isolated_cache`."""
    return _OWN.get() or users_cache()


@contextmanager
def isolated_cache(slots: Iterable[Slot], folder: Path) -> Iterator[None]:
    """Inside, the cache has these things alone: no others, and no states of trainings that broke
    off. What is made there is gone with ``folder``."""
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
    """The place of one thing in the cache, and what would make it now."""

    kind: str
    """the folder of such things"""
    key: str
    code: tuple[str, ...]
    """the modules that make it, for :mod:`bench.record.code`"""
    title: str
    """for people"""
    identity: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """plain values whose hash is the key; of a teacher also the tokenizer, which is in the key of
    its students"""

    @property
    def folder(self) -> Path:
        return cache_root() / self.kind / self.key[:24]

    @property
    def is_made(self) -> bool:
        """Whether it is there, with what is known of how it was made; its files are looked at when
        they are read."""
        try:
            body = self.read_made()
            made_with = dict(body.get("identity", {})).get("tokenizer")
        except (OSError, ValueError, AttributeError, TypeError):
            return False
        # of a teacher the key has no tokenizer: what was tuned with another one, as after its file
        # was mended, is made again
        now = dict(self.identity).get("tokenizer")
        return None in (made_with, now) or made_with == now

    def read_made(self) -> dict[str, Any]:
        """The facts of how it was made; raises FileNotFoundError where it was not."""
        body: dict[str, Any] = json.loads((self.folder / MADE).read_text(encoding="utf-8"))
        return body

    def forget(self) -> None:
        """Remove it, so that it is made again when it is next wanted."""
        with lock_of(self.folder.with_suffix(".lock")):
            _remove(self.folder)


_CHECKED: set[Path] = set()
"""Folders of the cache whose files this process has compared with their hashes, or has written:
none is read twice for that."""


def damage_reason(folder: Path, key: str = "") -> str:
    """Why what a folder of the cache holds cannot be used; "" where it can, or where there is
    nothing.

    Args:
        key: that it is kept under; "" where the folder's name is all that is known of it.
    """
    if not any(map(os.path.lexists, (folder / MADE, folder / WEIGHTS))):
        return ""
    try:
        body = json.loads((folder / MADE).read_text(encoding="utf-8"))
        if not isinstance(body, dict) or not isinstance(body.get("key"), str):
            return f"its {MADE} does not say what it is"
        if body["key"] != key if key else not body["key"].startswith(folder.name):
            return f"its {MADE} names another key"
        for name, sha256 in body["files"].items():
            if sha256_of(folder / name) != sha256:
                return f"its {name} is not the file that was written (sha256)"
    except OSError as error:
        file = Path(error.filename).name if error.filename else "content"
        return f"its {file} cannot be read: {error.strerror}"
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError):
        return f"its {MADE} does not say what its files are"
    return ""


def keep(
    slot: Slot,
    write: Callable[[Path], dict[str, Any]],
    parts: Mapping[str, Mapping[str, Any]] | None = None,
    file: str = WEIGHTS,
    say: Callable[[str], Any] = lambda text: None,
) -> dict[str, Any]:
    """The content of the cache in this slot. If it has nothing, or a damaged file, ``write`` makes
    it in a temporary folder that is moved into place; other processes wait and find it made.

    Args:
        parts: what it is made from, as :func:`keep` returned it: the code behind that counts too.
            Looked at after ``write``, which may fill it.
        file: the one whose hash ``write`` returns as ``weights``; it is not read again for that.
        say: told where a file of it is not the one that was written, and it is made again.

    Returns:
        What ``write`` says of it, with its key and the code that made it.
    """
    final = slot.folder
    final.parent.mkdir(parents=True, exist_ok=True)
    with lock_of(final.with_suffix(".lock")):
        if final.resolve() not in _CHECKED or not slot.is_made:
            if reason := damage_reason(final, slot.key):
                say(f"  {slot.title}, in the cache, is damaged and made again: {reason}")
                _remove(final)
            if not slot.is_made:
                _remove(final)
                with folder_in_place_of(final) as folder:
                    said = write(folder)
                    used = {
                        name: body.get("code")
                        for name, body in (parts or {}).items()
                        if not is_given(body)
                    }
                    files = {
                        path.name: sha256_of(path)
                        for path in sorted(folder.iterdir())
                        if path.name != file
                    }
                    body = {
                        "key": slot.key,
                        "code": named_code(slot.code, used),
                        "identity": dict(slot.identity),
                        **said,
                    }
                    body["files"] = {**files, file: said["weights"]}
                    (folder / MADE).write_text(json.dumps(body, indent=1), encoding="utf-8")
            _CHECKED.add(final.resolve())
        return slot.read_made()


def _remove(folder: Path) -> None:
    """A folder of the cache, or what :func:`isolated_cache` put in its place: the original
    stays."""
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
