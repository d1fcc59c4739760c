"""Word vectors from a text file, as GloVe and word2vec write them: a word and numbers a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from bench.errors import InputError

WORDS_AT_ONCE = 64
"""Their cosines with all words of the file are computed at once: with the 400,000 of a GloVe file
these are 100 MB."""


@dataclass(frozen=True)
class WordVectors:
    """``vectors`` are [V, W], float32, each of length 1."""

    words: Sequence[str]
    vectors: np.ndarray

    @cached_property
    def _rows(self) -> dict[str, int]:
        """Word -> its first row."""
        return {word: row for row, word in reversed(list(enumerate(self.words)))}

    def _row(self, word: str) -> int | None:
        return self._rows.get(word, self._rows.get(word.lower()))

    def nearest(self, asked: Iterable[str], count: int) -> dict[str, list[str]]:
        """The ``count`` nearest other words of each word by cosine.

        A word that is not in the file has none.
        """
        rows = {word: self._row(word) for word in asked}
        known = {word: row for word, row in rows.items() if row is not None}
        neighbours: dict[str, list[str]] = {}
        for start in range(0, len(known), WORDS_AT_ONCE):
            some = list(known)[start : start + WORDS_AT_ONCE]
            numbers = np.array([known[word] for word in some])
            cosines = self.vectors[numbers] @ self.vectors.T
            # no word is its own neighbour
            cosines[np.arange(len(some)), numbers] = -np.inf
            best = min(count, len(self.words) - 1)
            for word, cosines_V in zip(some, cosines, strict=True):
                # the nearest first, of equal ones the first in the file
                close = np.argpartition(-cosines_V, best)[:best]
                order = np.lexsort((close, -cosines_V[close]))
                neighbours[word] = [self.words[i] for i in close[order]]
        return neighbours


def head_of(file: Path) -> tuple[int, int]:
    """Lines to skip and numbers on a line, from the file's first two lines.

    Raises:
        InputError: no such file, or not word vectors.
    """
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            lines = [next(stream, "").split() for _ in range(2)]
    except OSError as error:
        raise InputError(f"--word-vectors {file}: cannot be read: {error.strerror}") from None
    # word2vec says its shape first
    skipped = int(len(lines[0]) == 2 and lines[0][0].isdigit() and len(lines[1]) > 2)
    width = len(lines[skipped]) - 1
    try:
        [float(number) for number in lines[skipped][1:]]
    except ValueError:
        width = 0
    if width < 1:
        raise InputError(
            f"--word-vectors {file}: expected a word and its numbers on each line, "
            "as in GloVe's files"
        )
    return skipped, width


def read(file: Path) -> WordVectors:
    """Every word of the file with its vector.

    Raises:
        InputError: naming the line that does not fit.
    """
    skipped, width = head_of(file)
    words: list[str] = []
    rows: list[np.ndarray] = []
    # a word that is not UTF-8 is one that nobody asks for; a number that float32 has not is refused
    # with its line
    with file.open(encoding="utf-8", errors="replace") as stream, np.errstate(over="ignore"):
        for number, line in islice(enumerate(stream, start=1), skipped, None):
            # some words of GloVe's largest file have spaces in them: the numbers are the last
            # fields
            word, *numbers = line.rstrip().rsplit(" ", width)
            try:
                row = np.array(numbers, dtype=np.float32)
            except ValueError:
                row = np.empty(0, dtype=np.float32)
            if len(row) != width or not np.isfinite(row).all():
                raise InputError(
                    f"--word-vectors {file}, line {number}: expected a word and {width} numbers"
                )
            words.append(word)
            rows.append(row)
    vectors = np.stack(rows)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return WordVectors(words, vectors / np.where(lengths > 0, lengths, 1))
