"""How the sample pairs were made: ``python docs/tools/sample_pairs.py`` writes ``bench/data/sample/pairs.parquet`` anew.

They are sentences in two word orders: English, and its words with the verb at the end. They are no corpus, and no table may call them one.

The second sentence follows from the first alone: the time goes to the front and the verb to the end, adjectives stand behind their
nouns, a particle says each noun's part, and the verb is its stem with the time of the action behind it. So what is written hangs on
what follows it, and the order has to be learned. No sentence of one split is in the other.
"""

from __future__ import annotations

import random
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq
from sample_suite import ADJECTIVES, OBJECTS, PEOPLE, PLACES

from bench.data.sample_suite import FOLDER, PAIRS, PAIRS_VERSION

ROWS = {"train": 300, "validation": 500}
"""So few that a student alone does not learn all of it."""
VERBS = {
    "saw": "see", "found": "find", "took": "take", "sold": "sell", "painted": "paint", "broke": "break", "hid": "hide", "washed": "wash",
}  # fmt: skip
TIMES = ("yesterday", "tomorrow", "today", "often")
SUBJECT, OBJECT, PLACE = "ga", "o", "ni"
"""Particles behind a noun."""


def _pair(rng: random.Random) -> tuple[str, str]:
    def noun(kind: tuple[str, ...], particle: str) -> tuple[str, str]:
        name, adjective = rng.choice(kind), rng.choice(["", rng.choice(ADJECTIVES)])
        words = f"{adjective} {name}", f"{name} {adjective}"
        return f"the {words[0].strip()}", f"{words[1].strip()} {particle}"

    past, is_future = rng.choice(sorted(VERBS)), rng.random() < 0.5
    stem = VERBS[past]
    (subject, subject_there), (thing, thing_there) = noun(PEOPLE, SUBJECT), noun(OBJECTS, OBJECT)
    first, second = [subject, f"will {stem}" if is_future else past, thing], [subject_there]
    if rng.random() < 0.5:
        place, place_there = noun(PLACES, PLACE)
        first, second = [*first, f"in {place}"], [*second, place_there]
    second += [thing_there, stem, "will" if is_future else "did"]
    if rng.random() < 0.5:
        time = rng.choice(TIMES)
        first, second = [*first, time], [time, *second]
    return " ".join(first), " ".join(second)


@lru_cache
def generate(split: str) -> tuple[tuple[str, str], ...]:
    """The pairs of one split.

    Raises:
        KeyError: there is no such split.
    """
    wanted, rng = sum(ROWS.values()), random.Random(PAIRS_VERSION)
    pairs: dict[str, str] = {}
    while len(pairs) < wanted:
        source, target = _pair(rng)
        pairs[source] = target
    rows, ends = list(pairs.items()), ROWS["train"]
    return tuple({"train": rows[:ends], "validation": rows[ends:]}[split])


if __name__ == "__main__":
    rows = [(split, *pair) for split in ROWS for pair in generate(split)]
    columns = dict(zip(["split", "first", "second"], zip(*rows, strict=True), strict=True))
    pq.write_table(pa.table(columns), FOLDER / PAIRS, compression="zstd")
