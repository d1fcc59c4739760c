"""Files as engineers bring them, generated: tickets of unequal classes, prices, stars of pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import tiny
import torch
from transformers import BertModel

SAID_BY = (
    "cat", "dog", "bird", "fish", "house", "tree", "river", "he", "she", "it", "they", "we",
)  # fmt: skip
"""Word that says the class of a ticket."""
TICKETS_OF_CLASS = (150, 125, 100, 100, 75, 75, 75, 50, 30, 20, 15, 15)
"""830 tickets, of which the two rarest classes have 1.8 % each."""
WRONG = 0.04
"""Share of tickets with the label of another one."""
FILLING = ("the", "a", "runs", "sleeps", "sings", "in", "on", "and", "is", "was", "not", "to", "of")
WORTH = {
    "red": 900.0,
    "blue": -700.0,
    "big": 2600.0,
    "small": -900.0,
    "old": -500.0,
    "young": 400.0,
}
"""Word of a text -> what it adds to the price."""


def _texts(chance: np.random.Generator, words: list[list[str]]) -> list[str]:
    """These words in some order, among words that say nothing."""
    texts = []
    for own in words:
        mixed = [*own, *chance.choice(FILLING, 4)]
        chance.shuffle(mixed)
        texts.append(" ".join(mixed))
    return texts


def write_tickets(file: Path) -> Path:
    """A CSV file of tickets, their classes in words, in random order."""
    chance = np.random.default_rng(0)
    codes = chance.permutation(np.repeat(np.arange(12), TICKETS_OF_CLASS))
    texts = _texts(chance, [[SAID_BY[code]] * 3 for code in codes])
    is_wrong = chance.random(len(codes)) < WRONG
    codes = np.where(is_wrong, chance.permutation(codes), codes)
    pandas.DataFrame({"text": texts, "label": [f"c{code:02}" for code in codes]}).to_csv(
        file, index=False
    )
    return file


def write_prices(file: Path) -> Path:
    """A CSV file of offers with prices from 2,474 to 10,681."""
    chance = np.random.default_rng(1)
    words = [list(chance.choice(list(WORTH), 3)) for _ in range(600)]
    value = np.array([sum(WORTH[word] for word in own) for own in words])
    value += chance.normal(0, 100, len(words))
    share = (value - value.min()) / np.ptp(value)
    prices = np.round(2474 + share * (10681 - 2474), 2)
    pandas.DataFrame({"text": _texts(chance, words), "label": prices}).to_csv(file, index=False)
    return file


def write_stars(file: Path, most: float) -> Path:
    """A CSV file of pairs with a score from 0 to ``most``: how many words the two have in common."""
    chance = np.random.default_rng(2)
    rows = []
    for _ in range(600):
        first = chance.choice(SAID_BY, 3, replace=False)
        kept = chance.integers(0, 4)
        second = [*first[:kept], *chance.choice(FILLING, 3 - kept)]
        score = most * round((kept + chance.uniform(0, 0.2)) / 3.2, 4)
        rows.append((" ".join(first), " ".join(second), round(score, 6)))
    frame = pandas.DataFrame(rows, columns=["sentence1", "sentence2", "label"])
    frame.to_csv(file, index=False)
    return file


def save_quick_teacher(folder: Path) -> Path:
    """A tiny checkpoint whose words are far apart, so that it learns within a few hundred steps."""
    tiny.save_teacher(folder)
    model = BertModel.from_pretrained(folder)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight.mul_(50)
        for parameter in model.encoder.parameters():
            if parameter.ndim == 2:
                parameter.mul_(5)
    model.save_pretrained(folder)
    return folder
