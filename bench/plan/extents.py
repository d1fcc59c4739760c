"""How large batches, examples and texts are: tokens, sums over sequences, and bytes, estimated from some of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.data.sources import Split
    from bench.plan.artefacts import Text
    from bench.plan.tasks import TaskPlan


INT64 = 8
TOKENISING_BYTES = 240
"""Of each token: what a process has more after texts were encoded, measured with 2,031,986 tokens of 50,000 pairs of
sentences. Most of it is free again inside the process; the C library does not give it back to the system."""


TOKENS_A_WORD = 1.3
"""Of English text, by BERT's vocabulary."""


ARRAY_BYTES = 128
"""Of a small numpy array, without its numbers."""


STRING_BYTES = 50
"""Of a Python string, besides its letters."""


MARKERS, SHORTEST_PIECE = 3, 4.0
"""Tokens of a document besides its words, [CLS] and [SEP] among them, and of the shortest piece of text; chosen by hand."""


SAMPLED_EXAMPLES = 256
"""Examples whose lengths are taken for all: as many as the plan encodes for its mean."""


DEVIATIONS = 3.0
"""By how many standard deviations the largest batch is above the mean one."""


TENSORS_PER_READ_TENSOR = 3
"""For each tensor that a term reads it makes three: the difference, its square and the gradient."""


@dataclass(frozen=True)
class Extent:
    """A large batch: ``squares`` are the attention scores of one head, the sum of squared lengths with their padding."""

    sequences: int
    tokens: float
    squares: float


def extent(lengths: Sequence[float], batch_size: int, most: int, fill: int = 0) -> Extent:
    """A large batch of sequences with such lengths.

    Args:
        lengths: tokens of some sequences.
        most: tokens that a sequence is cut to.
        fill: tokens that every sequence is filled up to with [PAD].
    """
    from methods.packed import TOLERATED_PADDING

    known = [min(most, max(fill, length)) for length in lengths]
    squares = [length**2 for length in known]
    longest = max(known)
    tokens = min(batch_size * longest, _of_many(known, batch_size))
    padded = _of_many(squares, batch_size) + (TOLERATED_PADDING if min(known) < longest else 0)
    return Extent(batch_size, tokens, min(batch_size * longest**2, padded))


def _of_many(values: Sequence[float], count: int) -> float:
    """A large sum of so many values that are drawn from these."""
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return count * mean + DEVIATIONS * math.sqrt(count) * deviation


def lengths_of(task: TaskPlan) -> list[float]:
    """Tokens of some training examples: their words, in the plan's proportion of tokens to words."""
    some = task.train.limited(SAMPLED_EXAMPLES)
    words = [len(text.split()) for text in some.first]
    if some.second is not None:
        words = [count + len(text.split()) for count, text in zip(words, some.second, strict=True)]
    per_word = task.mean_tokens * len(words) / max(1, sum(words))
    return [max(1.0, count * per_word) for count in words]


def batch_extent(task: TaskPlan, fill: int = 0) -> Extent:
    """Of the batches that students are trained on."""
    return _training_extent(task, task.recipe.batch_size, fill)


def part_extent(task: TaskPlan, fill: int = 0) -> Extent:
    """What of such a batch goes through the models at a time: a micro-batch, where they are asked for."""
    recipe = task.recipe
    return _training_extent(task, min(recipe.micro_batch or recipe.batch_size, recipe.batch_size), fill)


def _training_extent(task: TaskPlan, examples: int, fill: int) -> Extent:
    return extent(lengths_of(task), min(examples, training_rows(task)), task.recipe.max_length, fill)


def training_rows(task: TaskPlan) -> int:
    """Training rows of one epoch, with the augmented ones; at most, because duplicates are dropped."""
    return len(task.train) * (1 + task.augmentation.times if task.augmentation else 1)


def scored_batch(task: TaskPlan) -> Extent:
    """The largest batch of predictions: sequences of similar length, TOKENS_A_BATCH tokens at most."""
    from bench.data.encoding import TOKENS_A_BATCH

    longest = min(task.recipe.max_length, max(lengths_of(task)))
    rows = max((len(split) for split in task.evaluation.values()), default=0)
    tokens = min(TOKENS_A_BATCH, rows * longest)
    return Extent(round(tokens / longest), tokens, tokens * longest)


def data_bytes(task: TaskPlan) -> int:
    """The texts of one task and their tokens, all splits."""
    rows = training_rows(task) + sum(map(len, task.evaluation.values()))
    texts = [task.train, *task.evaluation.values()]
    per_row = 2 * ARRAY_BYTES + TOKENISING_BYTES * task.mean_tokens + max(map(_bytes_a_row, texts))
    return round(rows * per_row)


def _bytes_a_row(split: Split) -> float:
    """Of an average row's strings."""
    some = split.limited(SAMPLED_EXAMPLES)
    texts = [*some.first, *(some.second or ())]
    return sum(STRING_BYTES + len(text) for text in texts) / max(1, len(some))


def _lengths_of_text(text: Text) -> list[float]:
    """Tokens of some pieces of the corpus: documents are cut at the recipe's length."""
    documents, most = text.corpus.documents, text.recipe.max_length
    some = documents[:: max(1, len(documents) // SAMPLED_EXAMPLES)]
    found: list[float] = []
    for document in some:
        tokens = TOKENS_A_WORD * len(document.split()) + MARKERS
        found += [float(most)] * int(tokens // most) + [max(SHORTEST_PIECE, tokens % most)]
    return found


def text_bytes(text: Text) -> int:
    """The corpus and its pieces, two arrays each."""
    lengths = _lengths_of_text(text)
    pieces = text.budget / (sum(lengths) / len(lengths))
    texts = sum(STRING_BYTES + len(document) for document in text.corpus.documents)
    return round(text.budget * 2 * INT64 + pieces * 2 * ARRAY_BYTES + texts)


def text_batch_extent(text: Text) -> Extent:
    return extent(_lengths_of_text(text), text.recipe.batch_size, text.recipe.max_length)
