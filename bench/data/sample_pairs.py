"""Sentences and their translations, generated: English into an invented language with its verb at the end. It is no corpus, and no
table may call it one.

The translation follows from the sentence alone. Words have one translation each, made of syllables; the verb goes to the end and the
time to the front, adjectives stand behind their nouns, and nouns get an ending for their part in the sentence. So what is written
depends on what follows it, and the order has to be learned. No sentence of one split is in the other.
"""

from __future__ import annotations

import random
from functools import lru_cache

from bench.data.sample_suite import ADJECTIVES, OBJECTS, PEOPLE, PLACES

VERSION = "v1"
EPOCHS = 30.0
"""Of students that begin with random weights."""
ROWS = {"train": 300, "validation": 500}
"""So few that a student alone does not learn all of it: from 600 it writes 99.7 BLEU."""
WORDS = 24
"""So many of each kind."""
VERBS = {
    "saw": "see",
    "found": "find",
    "took": "take",
    "sold": "sell",
    "painted": "paint",
    "broke": "break",
    "hid": "hide",
    "washed": "wash",
}
WILL = "will"
TIMES = ("yesterday", "tomorrow", "today", "often")
SUBJECT, OBJECT, PLACE, PAST, FUTURE = "a", "en", "us", "ti", "ro"
"""Endings of the invented language."""


@lru_cache
def lexicon() -> dict[str, str]:
    """English word -> invented word of two or three syllables, each used once."""
    rng, taken = random.Random(f"{VERSION} lexicon"), set[str]()
    words: dict[str, str] = {}
    for word in sorted(
        {*PEOPLE[:WORDS], *OBJECTS[:WORDS], *PLACES[:WORDS], *ADJECTIVES[:WORDS], *VERBS.values(), *TIMES}
    ):
        made = ""
        while not made or made in taken:
            made = "".join(rng.choice("bdfgklmnprstv") + rng.choice("aeiou") for _ in range(rng.choice((2, 2, 3))))
        taken.add(made)
        words[word] = made
    return words


def _pair(rng: random.Random) -> tuple[str, str]:
    words = lexicon()

    def noun(kind: tuple[str, ...], ending: str) -> tuple[str, str]:
        name, adjective = rng.choice(kind[:WORDS]), rng.choice(["", rng.choice(ADJECTIVES[:WORDS])])
        ours = f"the {adjective} {name}" if adjective else f"the {name}"
        theirs = f"{words[name]}{ending}"
        return ours, f"{theirs} {words[adjective]}" if adjective else theirs

    past = rng.choice(sorted(VERBS))
    stem, is_future = VERBS[past], rng.random() < 0.5
    verb, verb_end = (f"{WILL} {stem}", FUTURE) if is_future else (past, PAST)
    (subject, subject_there), (thing, thing_there) = noun(PEOPLE, SUBJECT), noun(OBJECTS, OBJECT)
    ours, theirs = [subject, verb, thing], [subject_there, thing_there]
    if rng.random() < 0.5:
        place, place_there = noun(PLACES, PLACE)
        ours, theirs = [*ours, f"in {place}"], [subject_there, place_there, thing_there]
    if rng.random() < 0.5:
        time = rng.choice(TIMES)
        ours, theirs = [*ours, time], [words[time], *theirs]
    return " ".join(ours), " ".join([*theirs, words[stem] + verb_end])


@lru_cache
def generate(split: str) -> tuple[tuple[str, str], ...]:
    """The pairs of one split.

    Raises:
        KeyError: there is no such split.
    """
    wanted, rng = sum(ROWS.values()), random.Random(VERSION)
    pairs: dict[str, str] = {}
    while len(pairs) < wanted:
        source, target = _pair(rng)
        pairs[source] = target
    rows, ends = list(pairs.items()), ROWS["train"]
    return tuple({"train": rows[:ends], "validation": rows[ends:]}[split])
