"""The split of examples that come without a validation set: a fifth of them is scored. A search
holds out a tenth of the training examples of a user's own classes in the same way.

It is drawn by the texts themselves, so that the same examples are always on the same side, in
whatever order they come and on every machine. Each class gives a fifth of its rows. Rows with the
same texts stay on one side, and so do rows of one group, such as those of one customer.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.data.table_files import Split
from bench.data.tasks import Task
from bench.errors import InputError, one_line

FIFTH = 5
TENTH = 10
SHARES = {FIFTH: "a fifth", TENTH: "a tenth"}
"""One of how many parts is scored -> what messages call it."""
STRATA = 10
"""Ranges of a regression's targets, with as many rows each, that give a fifth each."""
MOST_TIMES = 2
"""Times the part that is scored at most, where large groups would make it more."""
FEW = 5
"""Scored rows of a class below which the plan names it."""
MOST_NAMED = 8
"""Classes that a line names; of more the first ones."""


@dataclass(frozen=True)
class Division:
    """Rows by their numbers, in their order, and what a reader should know of them."""

    train: list[int]
    scored: list[int]
    said: tuple[str, ...]


@dataclass(frozen=True)
class _Unit:
    """Rows that stay together.

    Attributes:
        digest: of their texts: the order in which units are drawn.
        rows: their numbers.
        counts: stratum -> how many of the rows are in it.
    """

    digest: bytes
    rows: list[int]
    counts: Counter[int]


def divided(examples: Split, task: Task, where: str, parts: int = FIFTH, draw: int = 0) -> Division:
    """The examples as those to train on and those to score.

    Args:
        examples: with labels, and with the group of each row where the task names such a column.
        where: how messages begin.
        parts: one of so many is scored, :data:`FIFTH` or :data:`TENTH`.
        draw: which one: each number is another random one.

    Raises:
        InputError: fewer rows than parts, or so few texts or groups that none can be scored.
    """
    if len(examples) < parts:
        raise InputError(
            f"{where} has {len(examples)} rows; scoring {SHARES[parts]} of them needs at least "
            f"{parts}"
        )
    salt = f"{draw}\x1f" if draw else ""
    digests = [hashlib.sha256(f"{salt}{a}\x1f{b}".encode()).digest() for a, b in examples.texts]
    strata = _strata(examples, task, digests, parts)
    units = _units(examples, digests, strata)
    scored = _drawn(units, Counter(strata), _wanted(strata, units, parts), parts)
    if not scored:
        kept = f" or {task.group}" if task.group else ""
        way_out = "; name a file to score with :validation=FILE" if parts == FIFTH else ""
        raise InputError(
            f"{where}: rows with the same text{kept} stay together, and so many hang together that "
            f"{SHARES[parts]} cannot be taken out{way_out}"
        )
    train = [row for row in range(len(examples)) if row not in scored]
    said = [f"{task.name}: {line}" for line in _said(examples, task, units, scored)]
    return Division(train, sorted(scored), tuple(said))


def _drawn(
    units: Sequence[_Unit], sizes: Counter[int], wanted: dict[int, int], parts: int
) -> set[int]:
    """The rows to score.

    Args:
        units: in the order in which they are drawn.
        sizes: stratum -> all of its rows.
        wanted: stratum -> rows to score.
        parts: one of so many is scored.
    """
    scored: set[int] = set()
    taken: Counter[int] = Counter()
    # the strata with the fewest rows first: later ones count what these have taken of them
    for stratum in sorted(wanted, key=lambda s: (wanted[s], s)):
        free = [unit for unit in units if stratum in unit.counts and unit.rows[0] not in scored]
        for unit in free:
            fits = all(taken[s] + count <= wanted[s] for s, count in unit.counts.items())
            if fits and _leaves_some(unit, taken, sizes):
                scored.update(unit.rows)
                taken += unit.counts
        # where all are larger than what is wanted, the smallest one, if it is not most of the rows
        most = MOST_TIMES * sizes.total() // parts - len(scored)
        possible = [
            unit for unit in free if len(unit.rows) <= most and _leaves_some(unit, taken, sizes)
        ]
        if wanted[stratum] and not taken[stratum] and possible:
            smallest = min(possible, key=lambda unit: len(unit.rows))
            scored.update(smallest.rows)
            taken += smallest.counts
    return scored


def _leaves_some(unit: _Unit, taken: Counter[int], sizes: Counter[int]) -> bool:
    """Whether rows of every stratum are left to train on if this unit is scored too."""
    return all(taken[stratum] + count < sizes[stratum] for stratum, count in unit.counts.items())


def _strata(examples: Split, task: Task, digests: Sequence[bytes], parts: int) -> list[int]:
    """The stratum of each row: its class, or the range of its target."""
    assert examples.labels is not None, "what is divided has labels"
    if task.labels:
        return [int(code) for code in examples.labels]
    # of equal targets the digests decide, so that the order of the rows does not matter
    targets = examples.labels
    order = sorted(range(len(examples)), key=lambda row: (targets[row], digests[row]))
    strata = np.empty(len(examples), dtype=int)
    strata[order] = np.arange(len(examples)) * min(STRATA, len(examples) // parts) // len(examples)
    return [int(stratum) for stratum in strata]


def _units(examples: Split, digests: Sequence[bytes], strata: Sequence[int]) -> list[_Unit]:
    """Rows that share their texts or their group, directly or through others; in drawing order."""
    # each row and each group points towards the first row of its unit
    above = list(range(len(examples)))

    def first_of(row: int) -> int:
        while above[row] != row:
            above[row] = above[above[row]]
            row = above[row]
        return row

    met: dict[object, int] = {}
    for row, digest in enumerate(digests):
        names: list[object] = [digest]
        if examples.groups:
            names.append(examples.groups[row])
        for name in names:
            one = first_of(met.setdefault(name, row))
            other = first_of(row)
            above[max(one, other)] = min(one, other)

    together: dict[int, list[int]] = {}
    for row in range(len(examples)):
        together.setdefault(first_of(row), []).append(row)
    units = []
    for rows in together.values():
        # of one text its own digest; of several the smallest, whatever their order
        digest = min(digests[row] for row in rows)
        units.append(_Unit(digest, rows, Counter(strata[row] for row in rows)))
    return sorted(units, key=lambda unit: unit.digest)


def _wanted(strata: Sequence[int], units: Sequence[_Unit], parts: int) -> dict[int, int]:
    """Stratum -> rows to score: one of so many parts, and one row at least where another unit is
    left to train on."""
    sizes = Counter(strata)
    divisible = Counter(stratum for unit in units for stratum in unit.counts)
    wanted = {}
    for stratum, size in sizes.items():
        least = 1 if divisible[stratum] > 1 else 0
        wanted[stratum] = max(size // parts, least) if least else 0
    # what rounding has left goes to the strata that lost the most
    left = len(strata) // parts - sum(wanted.values())
    for stratum in sorted(sizes, key=lambda s: (-(sizes[s] % parts), -sizes[s], s)):
        if left > 0 and divisible[stratum] > 1 and wanted[stratum] * parts < sizes[stratum]:
            wanted[stratum] += 1
            left -= 1
    return wanted


def _said(examples: Split, task: Task, units: Sequence[_Unit], scored: set[int]) -> list[str]:
    """The sentence of a plan about the split: rows that stay together, and what classes lost by
    it."""
    lines = []
    texts = Counter(examples.texts)
    repeated = {text for text, count in texts.items() if count > 1}
    if repeated:
        rows = sum(texts[text] for text in repeated)
        line = f"{rows:,} rows have a text of another row; equal texts are on one side of the split"
        # of numbers it is no alarm that two ratings of a text differ
        contradicting = _contradicting(examples, repeated) if task.labels else 0
        if contradicting:
            line += f"; texts with different labels: {contradicting:,} of {len(repeated):,}"
        lines.append(line)
    if task.group:
        lines.append(
            f"each {one_line(task.group)} is on one side of the split: {len(units):,} parts that "
            "share none, nor a text"
        )
    if not task.labels:
        return lines

    assert examples.labels is not None
    counts = Counter(examples.labels.tolist())
    of_scored = Counter(int(examples.labels[row]) for row in scored)
    absent = []
    few = []
    # the classes with the fewest scored rows first
    for code in sorted(range(len(task.labels)), key=lambda code: (of_scored[code], code)):
        name = task.labels[code]
        named = f"{one_line(name)} ({of_scored[code]} of {counts[code]})"
        if not of_scored[code]:
            absent.append(named)
        elif of_scored[code] < FEW:
            few.append(named)
    if absent:
        lines.append(f"not scored, for lack of rows that training can spare: {_named(absent)}")
    if few:
        lines.append(f"scored on fewer than {FEW} rows, which say little: {_named(few)}")
    return lines


def _contradicting(examples: Split, texts: set[tuple[str, str]]) -> int:
    """How many of these texts have more than one label."""
    labels: dict[tuple[str, str], set[float]] = {text: set() for text in texts}
    for text, label in zip(examples.texts, examples.labels, strict=True):  # type: ignore[arg-type]
        if text in labels:
            labels[text].add(label)
    return sum(len(own) > 1 for own in labels.values())


def _named(classes: Sequence[str]) -> str:
    more = f" and {len(classes) - MOST_NAMED} more" if len(classes) > MOST_NAMED else ""
    return ", ".join(classes[:MOST_NAMED]) + more
