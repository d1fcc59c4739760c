"""Rules that make further training sentences out of given ones: pure text and chance, no model.

``masked`` (Jiao et al. 2020, algorithm 1): each word of letters but function words is replaced with probability 0.4 by one
of at most 15 candidates, which a masked language model or the nearest word vectors give (bench/make/augmentation.py);
labels are copied.
``rules`` (Tang et al. 2019, section 3.3): words are hidden or replaced by others of their class, sometimes only an
n-gram is kept; labels come from the tuned teacher.

Of both sentences of a pair each is drawn anew in every round. (The authors' code of ``masked`` leaves the first at its last variant while
it changes the second; that of ``rules`` changes one or both.) No tagger is bundled: classes of words are coarse ones, by
function word, number, sign and ending. Everything is drawn from one seed; of the authors' codes only that of ``rules`` for
single sentences sets one. N-grams are the paper's: in the code as released they are off.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.data.table_files import Split
from bench.data.word_vectors import head_of
from bench.errors import InputError

KINDS = ("masked", "rules")
P_REPLACED, CANDIDATES = 0.4, 15
P_MASKED, P_OF_CLASS, NGRAM, LONGEST_NGRAM = 0.1, 0.1, 0.25, 5
MASK = "[MASK]"
"""What hides a word, unless the teacher's tokenizer has another word for it."""
FUNCTION_WORDS = frozenset(
    """
    a an the this that these those i me my mine you your yours he him his she her hers it its we us our ours they them
    their theirs who whom whose which what where when why how and or but nor so yet if because although while until
    unless since than as of in on at by for with about against between into through during before after above below to
    from up down out off over under again then once here there all any both each few more most other some such no not
    only own same too very can will just should would could may might must shall do does did is am are was were be been
    being have has had having
    """.split()  # noqa: SIM905 (a list of a hundred lines says no more)
)

Candidates = Callable[[Sequence[Sequence[str]]], list[dict[int, list[str]]]]
"""Sentences as words -> for each the candidates of each place that may be replaced."""


@dataclass(frozen=True)
class Augmentation:
    """How many variants of every training example, by which rules."""

    kind: str
    times: int
    seed: int = 0
    vectors: Path | None = None
    """Word vectors that give the candidates of words of several pieces; without them the teacher's own embeddings do."""

    def checked(self) -> Augmentation:
        """Raises InputError naming the option."""
        if self.vectors is not None:
            if self.kind != "masked":
                raise InputError(
                    "--word-vectors goes with --augment masked: only its rules ask for the nearest words"
                )
            head_of(self.vectors)
        if self.kind not in KINDS:
            raise InputError(f"--augment {self.kind}: choose one of {', '.join(KINDS)}")
        if self.times < 1:
            raise InputError(f"--augment-times {self.times}: should be at least 1")
        return self


def words_of(text: str) -> list[str]:
    """Letters and digits together, every other sign alone."""
    return re.findall(r"\w+|[^\w\s]", text)


def replaceable(word: str) -> bool:
    """Of letters alone, and no function word."""
    return word.isalpha() and word.lower() not in FUNCTION_WORDS


def word_class(word: str) -> str:
    """A coarse part of speech; function words are each a class of their own."""
    lower = word.lower()
    if not word.isalpha():
        return "number" if any(c.isdigit() for c in word) else f"sign {word}"
    if lower in FUNCTION_WORDS:
        return f"the word {lower}"
    ending = next(
        (
            e
            for e in ("ly", "ing", "ed", "ion", "er", "s")
            if lower.endswith(e) and len(lower) > len(e) + 2
        ),
        "",
    )
    return f"-{ending}"


def by_candidates(
    words: Sequence[str], candidates: Mapping[int, Sequence[str]], rng: np.random.Generator
) -> list[str]:
    """One variant: each place with candidates is replaced with probability 0.4."""
    return [
        str(rng.choice(candidates[place]))
        if candidates.get(place) and rng.random() < P_REPLACED
        else word
        for place, word in enumerate(words)
    ]


def by_chance(
    words: Sequence[str],
    classes: Mapping[str, tuple[list[str], np.ndarray]],
    rng: np.random.Generator,
    mask: str = MASK,
) -> list[str]:
    """One variant by ``rules``; never one in which every word was replaced."""
    variant, changed = [], 0
    for word in words:
        chance = rng.random()
        if chance < P_MASKED:
            variant.append(mask)
            changed += 1
        elif chance < P_MASKED + P_OF_CLASS:
            members, shares = classes[word_class(word)]
            variant.append(members[int(rng.choice(len(members), p=shares))])
            changed += 1
        else:
            variant.append(word)
    if changed == len(words):
        return list(words)
    if rng.random() < NGRAM:
        length = int(rng.integers(1, LONGEST_NGRAM + 1))
        start = int(rng.integers(max(1, len(variant) - length + 1)))
        variant = variant[start : start + length]
    return variant


def classes_of(sentences: Sequence[Sequence[str]]) -> dict[str, tuple[list[str], np.ndarray]]:
    """Class -> its words in the training examples and how often each comes."""
    counts: dict[str, Counter[str]] = {}
    for word in (word for words in sentences for word in words):
        counts.setdefault(word_class(word), Counter())[word] += 1
    return {
        name: (
            sorted(frequencies),
            np.array([frequencies[word] for word in sorted(frequencies)]) / frequencies.total(),
        )
        for name, frequencies in counts.items()
    }


def augmented(
    split: Split, augmentation: Augmentation, candidates: Candidates | None = None, mask: str = MASK
) -> tuple[Split, np.ndarray]:
    """The examples and their variants, each variant of an example once; and for each the example that it was made of.

    A variant has its origin's label. Examples keep their order, each followed by its variants; ids are counted anew. ``mask`` stands for
    a hidden word.
    """
    sides = [split.first] if split.second is None else [split.first, split.second]
    words = [[words_of(text) for text in side] for side in sides]
    rng = np.random.default_rng([augmentation.seed, KINDS.index(augmentation.kind)])
    if augmentation.kind == "masked":
        assert candidates is not None
        known = [candidates(side) for side in words]
        draw = lambda side, example: by_candidates(words[side][example], known[side][example], rng)  # noqa: E731
    else:
        classes = classes_of([sentence for side in words for sentence in side])
        draw = lambda side, example: by_chance(words[side][example], classes, rng, mask)  # noqa: E731
    texts: list[tuple[str, ...]] = []
    origins: list[int] = []
    for example, original in enumerate(zip(*sides, strict=True)):
        seen = {tuple(" ".join(side[example]) for side in words)}
        own = [original]
        for _ in range(augmentation.times):
            variant = tuple(" ".join(draw(side, example)) for side in range(len(sides)))
            if variant not in seen:
                seen.add(variant)
                own.append(variant)
        texts += own
        origins += [example] * len(own)
    origins_N = np.array(origins)
    second = None if split.second is None else [text[1] for text in texts]
    labels = None if split.labels is None else split.labels[origins_N]
    return Split([text[0] for text in texts], second, labels, list(range(len(texts)))), origins_N
