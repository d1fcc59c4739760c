"""How the sample suite was made: ``python docs/tools/sample_suite.py`` writes ``bench/data/sample/`` anew.

It is nine GLUE-shaped tasks and unlabelled sentences, with labels true by construction. It exists so
that the whole way from data to report runs on a machine without a network. It is not GLUE and no
table may say so. Three properties make its numbers mean something (tests keep them):

* Training and development sentences are filled from disjoint halves of the vocabulary, so a bag of words
  learns nothing that carries over, while a model that knows what words mean does well. Both have the words of the
  sentence frames, the aspects of a film (sst2), WNLI's adjectives, and the names of the kinds and six buildings
  (mnli, rte).
* In the pair tasks every second sentence occurs equally often with each label: one sentence alone says
  nothing about the answer.
* No class is more frequent than 60 %.

Everything follows from ``random.Random`` with a fixed text seed: same version, same bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.data.sample_suite import CORPUS, EXAMPLES, FOLDER, VERSION, SampleExample

TRAIN_ROWS = {
    "cola": 600, "sst2": 250, "mrpc": 300, "stsb": 400, "qqp": 420, "mnli": 480, "qnli": 300, "rte": 500, "wnli": 40,
}  # fmt: skip
"""As many as the embedded teacher needs to be well above chance; wnli it does not learn from any number."""
DEVELOPMENT_ROWS, AX_ROWS, CORPUS_TOKENS = 500, 200, 100_000


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


PEOPLE = _words(
    "baker, doctor, teacher, farmer, lawyer, nurse, pilot, singer, soldier, student, tailor, waiter, writer, dentist,"
    "barber, clerk, driver, painter, plumber, poet, sailor, butcher, actor, banker, chef, judge, miner, monk,"
    "officer, dancer, engineer, gardener, hunter, janitor, knight, librarian, mechanic, musician, priest, professor"
)
PLACES = _words(
    "kitchen, garden, office, market, library, station, museum, hotel, harbor, church, factory, forest, village,"
    "castle, school, hospital, theater, airport, stadium, cellar, tower, barn, bakery, palace, valley, temple,"
    "park, square, tunnel, courtyard, warehouse, cottage, gallery, workshop, prison, chapel, attic, clinic, cafe, port"
)
CITIES = _words(
    "paris, london, berlin, rome, madrid, vienna, oslo, dublin, athens, lisbon, prague, warsaw, cairo, tokyo, moscow,"
    "boston, chicago, seattle, denver, dallas, sydney, toronto, delhi, beijing, seoul, lima, havana, geneva, milan, munich"
)
NAMES = _words(
    "anna, peter, maria, david, sarah, thomas, laura, james, emma, robert, julia, martin, alice, henry, susan, paul,"
    "helen, george, nina, oscar, clara, simon, ruth, frank, diana, walter, lucy, victor, rosa, edward"
)
GOOD = _words(
    "wonderful, brilliant, delightful, charming, superb, excellent, touching, funny, fresh, beautiful, fascinating,"
    "lovely, marvelous, enjoyable, impressive, clever, graceful, thrilling, remarkable, magnificent, moving, splendid,"
    "engaging, amazing, terrific, witty, inspiring, elegant, fantastic, perfect, outstanding, gorgeous, pleasant,"
    "captivating, satisfying, refreshing, masterful, exciting, great, hilarious"
)
BAD = _words(
    "dull, terrible, boring, awful, clumsy, annoying, tedious, ugly, stupid, painful, horrible, weak, lifeless,"
    "disappointing, pointless, dreadful, bland, predictable, messy, ridiculous, poor, shallow, irritating, unpleasant,"
    "miserable, worthless, disgusting, lame, pathetic, mediocre, tiresome, lousy, sloppy, forgettable, dreary, bad,"
    "hideous, hollow, depressing, unbearable"
)
ASPECTS = _words(
    "acting, story, music, plot, script, ending, dialogue, camera work, cast, pacing, humor, direction, film, movie,"
    "soundtrack, performance, opening, editing, romance, production"
)
ADJECTIVES = _words(
    "old, young, tall, quiet, tired, happy, rich, brave, nervous, friendly, clever, lonely, proud, gentle, busy, famous,"
    "angry, polite, curious, lazy, thin, strong, pale, cheerful, honest, shy, grumpy, modest, careful, stubborn"
)
OBJECTS = _words(
    "letter, basket, lamp, chair, bottle, box, coat, hat, mirror, clock, ladder, rope, table, knife, blanket, candle,"
    "bucket, painting, suitcase, violin, bicycle, umbrella, carpet, hammer, book, plate, ring, drum, camera, wheel,"
    "helmet, pillow, bell, vase, wallet, guitar, shovel, mask, statue, flag"
)
ACTIONS = tuple(
    tuple(pair.split("/"))
    for pair in _words(
        "bought/purchased, fixed/repaired, found/discovered, stole/took away, showed/presented, made/built, "
        "lost/misplaced, broke/damaged, carried/brought, cleaned/washed, hid/concealed, sold/traded away, "
        "wanted/desired, dropped/let fall, painted/colored, moved/shifted"
    )
)
"""A verb in the past tense, and another one of the same meaning."""
KINDS: dict[str, tuple[str, ...]] = {
    "animal": _words(
        "dog, horse, cow, rabbit, tiger, sheep, goat, wolf, bear, lion, pig, cat, fox, deer, elephant, monkey"
    ),
    "fruit": _words(
        "apple, banana, orange, pear, grape, lemon, cherry, peach, mango, plum, strawberry, melon"
    ),
    "vehicle": _words(
        "car, truck, bus, van, taxi, train, tractor, motorcycle, bicycle, ambulance, jeep, tram"
    ),
    "instrument": _words(
        "violin, piano, guitar, flute, trumpet, drum, harp, cello, clarinet, organ, saxophone, banjo"
    ),
    "tool": _words(
        "hammer, saw, drill, wrench, shovel, axe, chisel, screwdriver, pliers, rake, file, knife"
    ),
    "garment": _words(
        "shirt, coat, jacket, dress, skirt, sweater, scarf, hat, glove, sock, trousers, vest"
    ),
    "building": _words(
        "church, castle, hotel, school, hospital, barn, palace, temple, tower, cottage, library, museum"
    ),
    "drink": _words(
        "coffee, tea, wine, beer, milk, juice, whiskey, lemonade, cider, water, rum, vodka"
    ),
}
WHEN = _words(
    "in 1950, in 1987, last monday, on friday, two weeks ago, in the spring, in 1912, yesterday morning, in december,"
    "at noon, last summer, on tuesday, in 2004, at midnight, three years ago, in october, after dinner, before the war"
)


def _half(words: Sequence, split: str) -> tuple:
    """The half of a vocabulary that a split may use: training the even places, development the odd ones."""
    if split == "corpus":
        return tuple(words)
    return tuple(words[0::2]) if split == "train" else tuple(words[1::2])


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


Group = list[SampleExample]
"""Rows that belong together so that a second sentence meets every label; never divided between splits."""


def _sst2(rng: random.Random, split: str) -> Group:
    good, bad = _half(GOOD, split), _half(BAD, split)
    label = rng.randrange(2)
    right, wrong = (good, bad) if label else (bad, good)
    aspect, other = rng.sample(ASPECTS, 2)
    say = rng.choice
    text = say(
        (
            lambda: f"a film with {_a(say(right))} {aspect}",
            lambda: f"the {aspect} is {say(wrong)} but the {other} is {say(right)}",
            lambda: f"despite {_a(say(wrong))} and {say(wrong)} {aspect} , a {say(right)} movie",
            lambda: f"a {say(right)} movie , even if the {aspect} is {say(wrong)} and {say(wrong)}",
            lambda: f"nobody could call this {say(right)} film {say(wrong)}",
            lambda: f"i found the {aspect} {say(right)}",
        )
    )()
    return [SampleExample(text, None, label)]


def _cola(rng: random.Random, split: str) -> Group:
    """Unacceptable: an article or adjective behind its noun, or a verb in the wrong number."""
    people, places, objects, adjectives = (
        _half(w, split) for w in (PEOPLE, PLACES, OBJECTS, ADJECTIVES)
    )
    who, adjective, place = rng.choice(people), rng.choice(adjectives), rng.choice(places)
    thing, action = rng.choice(objects), rng.choice(_half(ACTIONS, split))[0]
    label = rng.randrange(2)
    kind = rng.choice(("article", "adjective", "number"))
    if kind == "number":
        plural = rng.randrange(2)
        noun = who if not plural else f"{who}s"
        verb = "were" if plural == label else "was"
        ways = (
            f"the {noun} in the {place} {verb} {adjective}",
            f"the {adjective} {noun} {verb} in the {place}",
        )
        return [SampleExample(rng.choice(ways), None, label)]
    subject, ending = f"the {adjective} {who}", f"the {thing}"
    if not label and kind == "adjective":
        subject = f"the {who} {adjective}"
    elif not label:
        ending = f"{thing} the"
    ways = (
        f"{subject} {action} {ending} in the {place}",
        f"in the {place} {subject} {action} {ending}",
    )
    return [SampleExample(rng.choice(ways), None, label)]


def _event(rng: random.Random, split: str, like: tuple | None = None) -> tuple[str, str, tuple]:
    """A sentence, a paraphrase of it, and its four parts; ``like`` another event, one to three parts are changed."""
    pools = [
        _half(PEOPLE, split),
        _half(OBJECTS, split),
        _half(PLACES, split),
        _half(ACTIONS, split),
    ]
    parts = [rng.choice(pool) for pool in pools] if like is None else list(like)
    if like is not None:
        for place in rng.sample(range(4), rng.choice((1, 2, 2, 3))):
            parts[place] = rng.choice([word for word in pools[place] if word != like[place]])
    who, thing, where, (action, synonym) = parts
    sentence = f"the {who} {action} the {thing} in the {where}"
    paraphrase = rng.choice(
        (
            f"the {thing} in the {where} was {_participle(synonym)} by the {who}",
            f"in the {where} the {who} {synonym} the {thing}",
        )
    )
    return sentence, paraphrase, tuple(parts)


def _participle(past: str) -> str:
    return {"took away": "taken away", "let fall": "dropped"}.get(past, past)


def _crossed(a: tuple[str, str], b: tuple[str, str], yes: int) -> Group:
    """Two sentences with their partners, straight and crossed: each partner meets both labels."""
    return [
        SampleExample(a[0], a[1], yes),
        SampleExample(b[0], a[1], 1 - yes),
        SampleExample(b[0], b[1], yes),
        SampleExample(a[0], b[1], 1 - yes),
    ]


def _mrpc(rng: random.Random, split: str) -> Group:
    sentence, paraphrase, parts = _event(rng, split)
    other, other_paraphrase, _ = _event(rng, split, like=parts)
    return _crossed((sentence, paraphrase), (other, other_paraphrase), yes=1)


def _qqp(rng: random.Random, split: str) -> Group:
    """Two questions that differ in the thing, the city, what is asked, or only in the order of two cities."""
    things, cities = rng.sample(_half(OBJECTS, split), 2), rng.sample(_half(CITIES, split), 2)
    if rng.random() < 0.1:
        ways = [
            (f"how far is {a} from {b} ?", f"from {b} , what is the way to {a} ?")
            for a, b in (cities, cities[::-1])
        ]
        return _crossed(ways[0], ways[1], yes=1)
    change = rng.choice(("thing", "city", "kind"))
    kinds = (
        lambda thing, city: (
            f"where can i buy a {thing} in {city} ?",
            f"which shop in {city} sells a {thing} ?",
        ),
        lambda thing, city: (
            f"how much is a {thing} in {city} ?",
            f"what is the price of a {thing} in {city} ?",
        ),
        lambda thing, city: (
            f"how do i repair a {thing} in {city} ?",
            f"who in {city} can fix a broken {thing} ?",
        ),
    )
    first, other = rng.sample(kinds, 2)
    pair = first(things[0], cities[0])
    other_pair = (other if change == "kind" else first)(
        things[change == "thing"], cities[change == "city"]
    )
    return _crossed(pair, other_pair, yes=1)


def _stsb(rng: random.Random, split: str) -> Group:
    """Score 5 minus 1.25 for each of four parts that differ."""
    pools = [_half(words, split) for words in (PEOPLE, OBJECTS, PLACES)] + [
        tuple(a[0] for a in _half(ACTIONS, split))
    ]
    base = [rng.choice(pool) for pool in pools]
    say = lambda w: f"the {w[0]} {w[3]} a {w[1]} in the {w[2]}"  # noqa: E731
    second = say(base)
    rows = []
    for different in range(5):
        words = list(base)
        for place in rng.sample(range(4), different):
            words[place] = rng.choice([w for w in pools[place] if w != base[place]])
        first = f"{rng.choice(('today', 'yesterday', 'once'))} {say(words)}"
        rows.append(SampleExample(first, second, 5 - 1.25 * different))
    return rows


def _kinds(rng: random.Random, split: str) -> tuple[list[str], list[str]]:
    """Two kinds of things, and one thing of each."""
    kinds = rng.sample(sorted(KINDS), 2)
    return kinds, [rng.choice(_half(KINDS[kind], split)) for kind in kinds]


def _mnli(rng: random.Random, split: str) -> Group:
    """One hypothesis with a premise that entails it, one that leaves it open, one that contradicts it."""
    kinds, things = _kinds(rng, split)
    place, person = rng.choice(_half(PLACES, split)), rng.choice(_half(PEOPLE, split))
    frame = rng.choice(("the {1} only wants {0}", "{0} is all the {1} wants"))
    entails, contradicts = (frame.format(_a(thing), person) for thing in things)
    city = rng.choice(_half(CITIES, split))
    leaves_open = rng.choice(
        (f"the {person} walks to the {place}", f"the {person} lives in {city}")
    )
    hypothesis = f"the {person} wants {_a(kinds[0])}"
    premises = entails, leaves_open, contradicts
    return [SampleExample(premise, hypothesis, label) for label, premise in enumerate(premises)]


def _qnli(rng: random.Random, split: str) -> Group:
    """Two facts, each with a question that it answers and the other one does not."""
    facts = []
    for name, person in zip(
        rng.sample(_half(NAMES, split), 2), rng.sample(_half(PEOPLE, split), 2), strict=True
    ):
        action, synonym = rng.choice(_half(ACTIONS, split))
        thing = rng.choice(_half(OBJECTS, split))
        question = rng.choice(
            (f"when was the {thing} {_participle(synonym)} ?", f"who {synonym} the {thing} ?")
        )
        who = rng.choice((name, f"the {person}"))
        facts.append((question, f"{who} {action} the {thing} {rng.choice(_half(WHEN, split))}"))
    return _crossed(facts[0], facts[1], yes=0)


def _rte(rng: random.Random, split: str) -> Group:
    """Something of a kind is named; the hypothesis names the kind or another one."""
    kinds, things = _kinds(rng, split)
    place, person = rng.choice(_half(PLACES, split)), rng.choice(_half(PEOPLE, split))
    does = rng.choice(("was looking at {0}", "saw {0} in the {1}", "dreams about {0}"))
    pairs = [
        (f"the {person} {does.format(_a(thing), place)}", f"the {person} thinks of {_a(kind)}")
        for kind, thing in zip(kinds, things, strict=True)
    ]
    return _crossed(pairs[0], pairs[1], yes=0)


def _wnli(rng: random.Random, split: str) -> Group:
    """Whom a pronoun stands for; the word that decides is the adjective at the end."""
    first, second = rng.sample(_half(PEOPLE, split), 2)
    verb, points_to_first, points_to_second = rng.choice(
        (
            ("thanked", ("grateful", "thankful"), ("helpful", "generous")),
            ("feared", ("weak", "timid"), ("cruel", "violent")),
            ("paid", ("rich", "wealthy"), ("poor", "hungry")),
        )
    )
    start = f"the {first} {verb} the {second} because that person was"
    rows = []
    for word in (rng.choice(points_to_first), rng.choice(points_to_second)):
        answer = first if word in points_to_first else second
        for person in (first, second):
            rows.append(
                SampleExample(
                    f"{start} {word}", f"the {person} was like that", int(person == answer)
                )
            )
    return rows


MAKERS: dict[str, Callable[[random.Random, str], Group]] = {
    maker.__name__[1:]: maker
    for maker in (_cola, _sst2, _mrpc, _stsb, _qqp, _mnli, _qnli, _rte, _wnli)
}
SPLITS: frozenset[tuple[str, str]] = frozenset(
    {(task, split) for task in MAKERS if task != "mnli" for split in ("train", "validation")}
    | {
        ("mnli", "train"),
        ("mnli", "validation_matched"),
        ("mnli", "validation_mismatched"),
        ("ax", "test"),
    }
)


@lru_cache
def generate(config: str, split: str) -> tuple[SampleExample, ...]:
    """The examples of one split, shuffled; no sentence (pair) occurs twice.

    Raises:
        KeyError: the suite has no such split (see SPLITS).
    """
    if (config, split) not in SPLITS:
        raise KeyError(f"the sample suite has no {config}/{split}")
    rng = random.Random(f"{VERSION} {config} {split}")
    make = MAKERS["mnli" if config == "ax" else config]
    wanted = (
        TRAIN_ROWS[config] if split == "train" else AX_ROWS if config == "ax" else DEVELOPMENT_ROWS
    )
    rows: list[SampleExample] = []
    seen: set[tuple[str, str | None]] = set()
    for _ in range(100 * wanted):
        group = make(rng, "train" if split == "train" else "validation")
        texts = {(row.first, row.second) for row in group}
        if len(rows) + len(group) > wanted:
            rng.shuffle(rows)
            return tuple(rows)
        if len(texts) == len(group) and not texts & seen:
            seen |= texts
            rows.extend(group)
    raise AssertionError(f"{config}: the vocabulary is too small for {wanted} different rows")


@lru_cache
def corpus() -> tuple[str, ...]:
    """Unlabelled lines over the whole vocabulary, CORPUS_TOKENS words; none holds a development sentence."""
    held_back = {
        text
        for config, split in SPLITS
        if split != "train"
        for row in generate(config, split)
        for text in (row.first, row.second)
        if text
    }
    rng = random.Random(f"{VERSION} corpus")
    makers = [MAKERS[name] for name in sorted(MAKERS)]
    lines: list[str] = []
    words = 0
    while words < CORPUS_TOKENS:
        row = rng.choice(rng.choice(makers)(rng, "corpus"))
        if row.first not in held_back and row.second not in held_back:
            lines.append(row.first if row.second is None else f"{row.first} {row.second}")
            words += len(lines[-1].split())
    return tuple(lines)


def write(folder: Path) -> None:
    """Write the examples of all splits, and the unlabelled lines, as Parquet files."""
    rows = [
        (config, split, row.first, row.second, float(row.label))
        for config, split in sorted(SPLITS)
        for row in generate(config, split)
    ]
    names = ["config", "split", "first", "second", "label"]
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    pq.write_table(pa.table(columns), folder / EXAMPLES, compression="zstd")
    pq.write_table(pa.table({"text": corpus()}), folder / CORPUS, compression="zstd")


if __name__ == "__main__":
    write(FOLDER)
