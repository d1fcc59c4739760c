"""Unlabelled text for the general start: the sample suite's sentences, or a user's files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.data import sample_suite
from bench.errors import InputError
from bench.user_files import is_file


@dataclass(frozen=True)
class Corpus:
    """Documents in the order of their files. ``name`` is what a report prints."""

    name: str
    documents: Sequence[str]
    files: tuple[str, ...] = ()
    """names of the files it was read from; none for the sample suite's sentences"""

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for document in self.documents:
            digest.update(document.encode() + b"\x1e")
        return digest.hexdigest()


def sample_corpus() -> Corpus:
    return Corpus(f"sentences of the sample suite {sample_suite.VERSION}", sample_suite.corpus())


def read_corpus(files: Sequence[str]) -> Corpus:
    """Text files with one document a line, or parquet files with a ``text`` column.

    Raises:
        InputError: a file that is missing, unreadable or without that column; or no text in any of them.
    """
    documents: list[str] = []
    for name in files:
        path = Path(name).expanduser()
        if not is_file(path):
            raise InputError(
                f"--corpus {name}: no such file; give text with one document a line, or parquet with a text column"
            )
        documents += _parquet(path) if path.suffix == ".parquet" else _lines(path)
    if not documents:
        raise InputError(f"--corpus {', '.join(files)}: no text in it")
    names = tuple(Path(name).name for name in files)
    return Corpus(", ".join(names), documents, names)


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    except UnicodeDecodeError as error:
        raise InputError(f"--corpus {path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise InputError(f"--corpus {path}: {error.strerror}; name a file that can be read") from None


def _parquet(path: Path) -> list[str]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(path)
        names = table.schema_arrow.names
        if names.count("text") != 1:
            what = "several columns" if "text" in names else "no column"
            raise InputError(f"--corpus {path}: {what} 'text'; it has: {', '.join(names)}")
        found = table.read(columns=["text"])["text"].to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise InputError(f"--corpus {path}: not a parquet file ({error})") from None
    for row, text in enumerate(found):
        if text is not None and not isinstance(text, str):
            raise InputError(f"--corpus {path}, row {row}: text should be text, found {repr(text)[:80]}")
    return [text for text in found if text]
