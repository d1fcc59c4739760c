"""Rules that make further training sentences out of others: pure text and chance, no model.

``masked`` (Jiao et al. 2020, algorithm 1): each word of letters but function words is replaced with
probability 0.4 by one of at most 15 candidates, which a masked language model or the nearest word
vectors give (bench/make/augmentation.py); labels are copied.
``rules`` (Tang et al. 2019, section 3.3): words are hidden or replaced by others of their class,
sometimes only an n-gram is kept; labels come from the tuned teacher.

Both sentences of a pair are drawn anew in every round. (The authors' code of ``masked`` leaves the
first at its last variant while it changes the second; that of ``rules`` changes one or both.) No
tagger is bundled: classes of words are coarse ones, by function word, number, sign and ending.
Everything is drawn from one seed; of the authors' codes only that of ``rules`` for single sentences
sets one. N-grams are the paper's: in the code as released they are off.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from bench.data.table_files import Split
from bench.request.choices import AUGMENTATIONS

P_REPLACED = 0.4
CANDIDATES = 15
P_MASKED = 0.1
P_OF_CLASS = 0.1
NGRAM = 0.25
LONGEST_NGRAM = 5
MASK = "[MASK]"
"""The word that hides another one, unless the teacher's tokenizer has another word for it."""
FUNCTION_WORDS = frozenset(
    """
    a an the this that these those i me my mine you your yours he him his she her hers it its we us
    our ours they them their theirs who whom whose which what where when why how and or but nor so
    yet if because although while until unless since than as of in on at by for with about against
    between into through during before after above below to from up down out off over under again
    then once here there all any both each few more most other some such no not only own same too
    very can will just should would could may might must shall do does did is am are was were be
    been being have has had having
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
    """Word vectors that give the candidates of words of several pieces; without them the teacher's
    own embeddings do."""


def words_of(text: str) -> list[str]:
    """Letters and digits together, every other sign alone."""
    return re.findall(r"\w+|[^\w\s]", text)


def replaceable(word: str) -> bool:
    """Whether a word is of letters alone, and no function word."""
    return word.isalpha() and word.lower() not in FUNCTION_WORDS


def word_class(word: str) -> str:
    """A coarse part of speech; function words are each a class of their own."""
    lower = word.lower()
    if not word.isalpha():
        return "number" if any(c.isdigit() for c in word) else f"sign {word}"
    if lower in FUNCTION_WORDS:
        return f"the word {lower}"
    for ending in ("ly", "ing", "ed", "ion", "er", "s"):
        if lower.endswith(ending) and len(lower) > len(ending) + 2:
            return f"-{ending}"
    return "-"


def by_candidates(
    words: Sequence[str], candidates: Mapping[int, Sequence[str]], rng: np.random.Generator
) -> list[str]:
    """One variant: each place with candidates is replaced with probability 0.4."""
    variant = []
    for index, word in enumerate(words):
        if candidates.get(index) and rng.random() < P_REPLACED:
            word = str(rng.choice(candidates[index]))
        variant.append(word)
    return variant


def by_chance(
    words: Sequence[str],
    classes: Mapping[str, tuple[list[str], np.ndarray]],
    rng: np.random.Generator,
    mask: str = MASK,
) -> list[str]:
    """One variant by ``rules``; never one in which every word was replaced."""
    # each word stays, is hidden, or becomes another one of its class
    variant = []
    changed = 0
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

    # sometimes an n-gram alone
    if rng.random() < NGRAM:
        length = int(rng.integers(1, LONGEST_NGRAM + 1))
        start = int(rng.integers(max(1, len(variant) - length + 1)))
        variant = variant[start : start + length]
    return variant


def classes_of(sentences: Sequence[Sequence[str]]) -> dict[str, tuple[list[str], np.ndarray]]:
    """Class -> its words in the training examples and how often each comes."""
    counts: dict[str, Counter[str]] = {}
    for words in sentences:
        for word in words:
            counts.setdefault(word_class(word), Counter())[word] += 1
    classes = {}
    for name, frequencies in counts.items():
        members = sorted(frequencies)
        shares = np.array([frequencies[word] for word in members]) / frequencies.total()
        classes[name] = (members, shares)
    return classes


def augmented(
    split: Split, augmentation: Augmentation, candidates: Candidates | None = None, mask: str = MASK
) -> tuple[Split, np.ndarray]:
    """The examples and their variants, and for each the number of the example it was made of.

    A variant has its origin's label; each variant of an example is there once. Examples keep their
    order, each followed by its variants; ids are counted anew.

    Args:
        candidates: for ``masked``, gives the words that may replace others.
        mask: stands for a hidden word.
    """
    sides = [split.first] if split.second is None else [split.first, split.second]
    words = [_sentences(side) for side in sides]
    rng = np.random.default_rng([augmentation.seed, AUGMENTATIONS.index(augmentation.kind)])
    is_masked = augmentation.kind == "masked"
    if is_masked:
        assert candidates is not None
        known = [candidates(side) for side in words]
    else:
        classes = classes_of(list(chain(*words)))

    # a variant of one sentence
    def draw(side: int, example: int) -> str:
        sentence = words[side][example]
        if is_masked:
            return " ".join(by_candidates(sentence, known[side][example], rng))
        return " ".join(by_chance(sentence, classes, rng, mask))

    # each example with its variants; it may have other blanks than its words put together
    texts: list[tuple[str, ...]] = []
    origins: list[int] = []
    for example, original in enumerate(zip(*sides, strict=True)):
        in_words = tuple(" ".join(side[example]) for side in words)
        drawn = [in_words]
        for _ in range(augmentation.times):
            drawn.append(tuple(draw(side, example) for side in range(len(sides))))
        variants = list(dict.fromkeys(drawn))[1:]
        texts += [original, *variants]
        origins += [example] * (1 + len(variants))

    origins_N = np.array(origins)
    first = [text[0] for text in texts]
    second = None if split.second is None else [text[1] for text in texts]
    labels = None if split.labels is None else split.labels[origins_N]
    return Split(first, second, labels, list(range(len(texts)))), origins_N


def _sentences(texts: Sequence[str]) -> list[list[str]]:
    return [words_of(text) for text in texts]
