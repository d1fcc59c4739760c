"""The store: a folder of records, one file an attempt, with an atomic pointer to the current one.

<root>/<data>/<tasks>/<method>/<key>/attempt-1.json   the record
                                     attempt-1.npz    logits, labels, example hashes (no text)
                                     current          the name of the attempt that counts
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from bench.errors import InputError
from bench.plan.cell import Cell, record_key
from bench.record.freshness import Freshness
from bench.record.schema import Record, load

if TYPE_CHECKING:
    import numpy as np

KEY_DIGITS = 16


def slug(text: str) -> str:
    """A file name for any text: letters, digits, ``-``, ``_`` and ``.``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "x"


def write_atomically(path: Path, data: bytes) -> None:
    """Either the whole file or nothing, even if the machine stops."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


class Store:
    """Records below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def freshness(self) -> Freshness:
        """Judges which of the records today's code made."""
        return Freshness(self.root)

    def folder(self, cell: Cell, point: str = "") -> Path:
        name = slug(cell.method + "".join(f"-no-{term}" for term in cell.dropped))
        return (
            self.root / slug(cell.data.slug) / slug("+".join(cell.tasks)) / name / record_key(cell, point)[:KEY_DIGITS]
        )

    def find(self, cell: Cell, point: str = "") -> Record | None:
        """The current record of this cell, or None."""
        return self._current(self.folder(cell, point))

    def _current(self, folder: Path) -> Record | None:
        pointer = folder / "current"
        if not pointer.is_file():
            return None
        file = folder / pointer.read_text(encoding="utf-8").strip()
        if file.parent != folder or not file.is_file():
            raise InputError(
                f"{pointer} points to {file.name}, which is not there; remove the folder {folder} to run the cell again"
            )
        return load(file.read_text(encoding="utf-8"), str(file))

    def write(self, record: Record, arrays: Mapping[str, np.ndarray] | None = None) -> Path:
        """Add an attempt and make it the current one. Earlier attempts stay."""
        folder = self.folder(record.cell, record.point)
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            taken = [int(file.stem.split("-")[1]) for file in folder.glob("attempt-*.json")]
            name = f"attempt-{max(taken, default=0) + 1}"
            if arrays:
                import io

                import numpy as np

                buffer = io.BytesIO()
                np.savez_compressed(buffer, allow_pickle=False, **arrays)
                write_atomically(folder / f"{name}.npz", buffer.getvalue())
            write_atomically(folder / f"{name}.json", (record.model_dump_json(indent=1) + "\n").encode())
            write_atomically(folder / "current", f"{name}.json\n".encode())
        return folder / f"{name}.json"

    def attempts(self, record: Record) -> dict[str, Record]:
        """Every finished attempt of this record's question whose raw answers are there, by its name."""
        folder = self.folder(record.cell, record.point)
        files = [file for file in sorted(folder.glob("attempt-*.json")) if file.with_suffix(".npz").is_file()]
        found = {file.stem: load(file.read_text(encoding="utf-8"), str(file)) for file in files}
        return {name: one for name, one in found.items() if one.status == "ok"}

    def has_predictions(self, record: Record) -> bool:
        """Whether the raw answers of the current attempt are there."""
        folder = self.folder(record.cell, record.point)
        name = (folder / "current").read_text(encoding="utf-8").strip()
        return (folder / name.replace(".json", ".npz")).is_file()

    def predictions(self, record: Record, attempt: str = "") -> dict[str, np.ndarray]:
        """``logits.<set>``, ``labels.<set>`` and ``examples.<set>`` of an attempt, or of the current one."""
        import numpy as np

        folder = self.folder(record.cell, record.point)
        name = attempt or (folder / "current").read_text(encoding="utf-8").strip().removesuffix(".json")
        with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
            return dict(arrays)

    def one(self, key: str) -> Record:
        """The one record whose key begins so.

        Raises:
            InputError: none or several, or a file that cannot be read as a record.
        """
        found = [record for record in self.records() if record.key.startswith(key)]
        if len(found) != 1:
            raise InputError(f"{len(found) or 'no'} records in {self.root} have a key that begins with {key}")
        return found[0]

    def like(self, cell: Cell) -> Iterator[Record]:
        """The current records of these data, tasks and method with the same dropped terms, in the order of their paths."""
        yield from self._below(self.folder(cell).parent, "*/current")

    def records(self) -> Iterator[Record]:
        """The current record of every cell, in the order of their paths.

        Raises:
            InputError: a file that cannot be read as a record.
        """
        yield from self._below(self.root, "*/*/*/*/current")

    def _below(self, folder: Path, pointers: str) -> Iterator[Record]:
        for pointer in sorted(folder.glob(pointers)):
            record = self._current(pointer.parent)
            if record is not None:
                yield record
