"""The sample suite: nine GLUE-shaped tasks, unlabelled lines and pairs of sentences.

It comes with the package. All of it is generated, with labels true by construction; it is not GLUE,
and no table may say so. It is there so that the whole way from data to report runs on a machine
without a network.
``docs/tools/sample_suite.py`` made it, and says by which rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

VERSION = "v2"
PAIRS_VERSION = "v1"
EPOCHS = 3.0
PAIRS_EPOCHS = 30.0
"""The epochs of students that begin with random weights."""
FOLDER = Path(__file__).parent / "sample"
EXAMPLES = "examples.parquet"
CORPUS = "corpus.parquet"
PAIRS = "pairs.parquet"


@dataclass(frozen=True)
class SampleExample:
    """A text or two, and the code of its class; of stsb a number from 0 to 5."""

    first: str
    second: str | None
    label: float


def _columns(name: str) -> dict[str, list]:
    """The columns of a file of the suite."""
    import pyarrow.parquet

    return dict(pyarrow.parquet.read_table(FOLDER / name).to_pydict())


@lru_cache
def examples() -> Mapping[tuple[str, str], tuple[SampleExample, ...]]:
    """Configuration and split, in the hub's names -> its examples: none occurs twice."""
    columns = _columns(EXAMPLES)
    of_split: dict[tuple[str, str], list[SampleExample]] = {}
    for config, split, first, second, label in zip(*columns.values(), strict=True):
        of_split.setdefault((config, split), []).append(SampleExample(first, second, label))
    return {place: tuple(rows) for place, rows in of_split.items()}


@lru_cache
def pairs() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Split -> its pairs: a sentence, and what is written of it."""
    columns = _columns(PAIRS)
    of_split: dict[str, list[tuple[str, str]]] = {}
    for split, first, second in zip(*columns.values(), strict=True):
        of_split.setdefault(split, []).append((first, second))
    return {split: tuple(rows) for split, rows in of_split.items()}


@lru_cache
def corpus() -> tuple[str, ...]:
    """Unlabelled lines of some 100,000 words in all; none holds a development sentence."""
    return tuple(_columns(CORPUS)["text"])
